"""A round's plan lies in the store as Parquet, where whoever carries a batch out reads it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from schemas import identifiers
from schemas.batch import Batch, PlannedPage
from schemas.errors import StoreDamaged, StoreError
from schemas.tables import PLAN
from schemas.urls import host_of
from workers.store.layout import PLANS, plan_of_round, plan_path
from workers.store.objects import ObjectStore
from workers.store.parquet import read_parquet, write_parquet

_PART = re.compile(r"plan/round=(\d+)/part-[0-9a-f]+\.parquet")


def planned_rounds(store: ObjectStore) -> list[int]:
    """The rounds that have a plan, in order."""
    return sorted({int(found.group(1)) for path in store.list(PLANS) if (found := _PART.fullmatch(path))})


def store_plan(store: ObjectStore, round_number: int, batches: Sequence[Batch]) -> None:
    """Store batches as one file, named by what is in it and created only if absent; nothing for no batches."""
    if not batches:
        return
    digest = _digest(batch.batch_id for batch in batches)
    path = plan_path(round_number, digest)
    if store.size_of(path) is not None:
        return
    local = store.scratch() / f"plan-{round_number}-{digest}.parquet"
    try:
        write_parquet(_table(batches), local)
        store.put_if_absent(path, local.read_bytes())
    finally:
        local.unlink(missing_ok=True)


def read_plan(store: ObjectStore, round_number: int) -> list[Batch]:
    """The batches of a round, by lane and sequence. Raises StoreDamaged where they are not what was planned."""
    batches: list[Batch] = []
    for path in _parts(store, round_number):
        of_part = _read(store, [path], None)
        if path != plan_path(round_number, _digest(batch.batch_id for batch in of_part)):
            raise StoreDamaged(
                f"The file {path} in {store.where} does not hold the batches that it was made of;"
                " restore the plan from a copy."
            )
        batches += of_part
    return sorted(batches, key=lambda batch: (batch.lane, batch.sequence, batch.batch_id))


def planned_batch(store: ObjectStore, round_number: int, batch_id: str) -> Batch:
    """One batch of a round.

    Raises StoreError where the plan does not hold it, StoreDamaged where it is not what was planned.
    """
    found = _read(store, _parts(store, round_number), pc.field("batch_id") == batch_id)
    if not found:
        raise StoreError(
            f"The plan of round {round_number} in {store.where} holds no batch {batch_id};"
            " send only batches of a stored plan."
        )
    return found[0]


def batches_of_lane(store: ObjectStore, round_number: int, lane: int) -> list[tuple[int, str]]:
    """Sequence and id of each batch of a lane, in the order in which they are carried out."""
    columns = ["sequence", "batch_id"]
    table = read_parquet(
        _parts(store, round_number),
        PLAN,
        filesystem=store.arrow(),
        where=store.where,
        columns=columns,
        filter=pc.field("lane") == lane,
    )
    return sorted(set(zip(*(table[name].to_pylist() for name in columns), strict=True)))


def planned_pages(store: ObjectStore, round_number: int, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of a round's plan, part by part: a large plan is never in memory as a whole."""
    for path in _parts(store, round_number):
        yield read_parquet([path], PLAN, filesystem=store.arrow(), where=store.where, columns=columns)


def tries_of(stored: int | None, round_number: int) -> int:
    """How often a page has failed; in a plan that does not say so it may have been in every round before."""
    return round_number if stored is None else stored


def _parts(store: ObjectStore, round_number: int) -> list[str]:
    return [path for path in store.list(plan_of_round(round_number)) if _PART.fullmatch(path)]


def _digest(batch_ids: Iterable[str]) -> str:
    """What a part of a plan is named by: its batches, in their order."""
    return blake2b("".join(batch_ids).encode("ascii"), digest_size=16).hexdigest()


def _read(store: ObjectStore, parts: Sequence[str], wanted: pc.Expression | None) -> list[Batch]:
    table = read_parquet(parts, PLAN, filesystem=store.arrow(), where=store.where, filter=wanted)
    order = [("lane", "ascending"), ("sequence", "ascending"), ("batch_id", "ascending"), ("position", "ascending")]
    columns: dict[str, list[Any]] = table.sort_by(order).to_pydict()  # type: ignore[arg-type]
    batches: list[Batch] = []
    start = 0
    ids = columns["batch_id"]
    for end in range(1, len(ids) + 1):
        if end == len(ids) or ids[end] != ids[start]:
            batches.append(_planned(columns, start, end, store.where))
            start = end
    return batches


def _planned(columns: dict[str, list[Any]], start: int, end: int, where: str) -> Batch:
    batch = Batch(
        crawl=columns["crawl"][start],
        round=columns["round"][start],
        lane=columns["lane"][start],
        sequence=columns["sequence"][start],
        batch_id=columns["batch_id"][start],
        pages=tuple(
            PlannedPage(
                columns["url_key"][row],
                columns["seed"][row],
                tuple(columns["profiles"][row] or ()),
                columns["depth"][row] or 0,
                tries_of(columns["tries"][row], columns["round"][row]),
            )
            for row in range(start, end)
        ),
    )
    keys = [page.url_key for page in batch.pages]
    if batch.batch_id != identifiers.batch_id(batch.crawl, batch.round, batch.lane, batch.sequence, keys):
        raise StoreDamaged(f"Batch {batch.batch_id} of the plan in {where} is not whole; restore the plan from a copy.")
    return batch


def _table(batches: Sequence[Batch]) -> pa.Table:
    pages = [(batch, position, page) for batch in batches for position, page in enumerate(batch.pages)]
    columns: list[list[Any]] = [
        [batch.crawl for batch, _, _ in pages],
        [batch.round for batch, _, _ in pages],
        [batch.lane for batch, _, _ in pages],
        [batch.sequence for batch, _, _ in pages],
        [batch.batch_id for batch, _, _ in pages],
        [position for _, position, _ in pages],
        [host_of(page.url_key) for _, _, page in pages],
        [page.url_key for _, _, page in pages],
        [page.seed for _, _, page in pages],
        [list(page.profiles) for _, _, page in pages],
        [page.depth for _, _, page in pages],
        [page.tries for _, _, page in pages],
    ]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, PLAN, strict=True)]
    return pa.Table.from_arrays(arrays, schema=PLAN)
