"""A round's plan is stored before its first fetch; what is left of it is a set difference: batches minus markers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from scheduler.plan import plan
from schemas.batch import Batch, PlannedPage
from schemas.errors import StoreDamaged, StoreError
from schemas.identifiers import batch_id
from schemas.outcomes import Outcome
from schemas.settings import CrawlSettings
from schemas.tables import PLAN
from schemas.urls import host_of
from workers.store import ObjectStore, committed_batch_ids, markers, read_parquet, read_table, write_parquet
from workers.store.layout import PLANS, plan_of_round, plan_path

DEFERRED: Final[frozenset[Outcome]] = frozenset({"deferred"})
"""What a later round takes up when nothing else is asked for: pages that no round has started."""

_PART = re.compile(r"plan/round=(\d+)/part-[0-9a-f]+\.parquet")


def plan_round(
    store: ObjectStore, crawl: str, round_number: int, pages: Iterable[PlannedPage], settings: CrawlSettings
) -> list[Batch]:
    """Plan the pages that a round does not hold yet, store that, and give the whole round, by lane and sequence.

    May be repeated after a crash at any point: the same pages add nothing a second time.
    """
    existing = read_plan(store, round_number)
    added = plan(crawl, round_number, pages, settings, existing)
    store_plan(store, round_number, added)
    return _in_order([*existing, *added])


def next_round(
    store: ObjectStore,
    crawl: str,
    round_number: int,
    settings: CrawlSettings,
    outcomes: Collection[Outcome] = DEFERRED,
) -> list[Batch]:
    """Plan round r+1 from the retryable rows that round r committed with one of the outcomes; empty if there are none.

    Raises StoreError while a batch of round r is not committed.
    """
    left = sum(map(len, remaining(store, round_number).values()))
    if left:
        raise StoreError(
            f"Round {round_number} in {store.where} has {left} batches that are not committed;"
            " run the crawl again to finish it before the next round is planned."
        )
    # The markers know how their URLs ended, so files without such a row are not opened.
    of = [marker for marker in markers(store, round_number) if not set(outcomes).isdisjoint(marker.outcomes)]
    wanted = pc.field("outcome").isin(sorted(outcomes)) & pc.field("retryable")
    rows = read_table(store, "listings", ["url_key", "seed"], wanted, of=of).to_pylist()
    pages = [PlannedPage(str(row["url_key"]), str(row["seed"])) for row in rows]
    return plan_round(store, crawl, round_number + 1, pages, settings)


def rounds(store: ObjectStore) -> list[int]:
    """The rounds that have a plan, in order."""
    return sorted({int(found.group(1)) for path in store.list(PLANS) if (found := _PART.fullmatch(path))})


def remaining(store: ObjectStore, round_number: int) -> dict[int, list[Batch]]:
    """The batches of a round that are not committed, by lane, in the order of their sequence."""
    committed = committed_batch_ids(store, round_number)
    lanes: defaultdict[int, list[Batch]] = defaultdict(list)
    for batch in read_plan(store, round_number):
        if batch.batch_id not in committed:
            lanes[batch.lane].append(batch)
    return dict(lanes)


def store_plan(store: ObjectStore, round_number: int, batches: Sequence[Batch]) -> None:
    """Store batches as one file, named by what is in it and created only if absent; nothing for no batches."""
    if not batches:
        return
    digest = blake2b("".join(batch.batch_id for batch in batches).encode("ascii"), digest_size=16).hexdigest()
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
    paths = [path for path in store.list(plan_of_round(round_number)) if _PART.fullmatch(path)]
    table = read_parquet(paths, PLAN, filesystem=store.arrow(), where=store.where)
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
        pages=tuple(map(PlannedPage, columns["url_key"][start:end], columns["seed"][start:end])),
    )
    keys = [page.url_key for page in batch.pages]
    if batch.batch_id != batch_id(batch.crawl, batch.round, batch.lane, batch.sequence, keys):
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
    ]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, PLAN, strict=True)]
    return pa.Table.from_arrays(arrays, schema=PLAN)


def _in_order(batches: Iterable[Batch]) -> list[Batch]:
    return sorted(batches, key=lambda batch: (batch.lane, batch.sequence))
