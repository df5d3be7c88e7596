"""A round's plan lies in the store as Parquet, where whoever carries a batch out reads it.

A plan comes in parts, sorted by lane, sequence and position. The name of a part says which lanes it holds and its row
groups are small, so that a lane is read from a plan of any size without the rest of it.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas import identifiers
from schemas.batch import Batch, PlannedPage
from schemas.errors import StoreDamaged, StoreError
from schemas.tables import PLAN
from schemas.urls import host_of
from workers.store.layout import PLANS, earlier_plan_path, plan_of_round, plan_path
from workers.store.objects import ObjectStore
from workers.store.parquet import RowGroups, write_parquet

_Item = TypeVar("_Item")
_PART = re.compile(r"plan/round=(\d+)/part-(?:(\d+)-(\d+)-)?([0-9a-f]+)\.parquet")
"""The parts of earlier versions are not named by their lanes."""
ROW_GROUP_PAGES: Final = 2_500
"""What is read for one batch, a hundred times what it needs; smaller ones would make the footer larger than that."""
MOST_LANES: Final = 65536
_EVERYTHING: Final = tuple(PLAN.names)
_PLACE: Final = ("lane", "sequence", "batch_id")


def planned_rounds(store: ObjectStore) -> list[int]:
    """The rounds that have a plan, in order."""
    return sorted({int(found.group(1)) for path in store.list(PLANS) if (found := _PART.fullmatch(path))})


def store_plan(store: ObjectStore, round_number: int, batches: Sequence[Batch]) -> None:
    """Store batches as one file, named by what is in it and created only if absent; nothing for no batches."""
    if not batches:
        return
    batches = sorted(batches, key=_order)
    digest = _digest(batch.batch_id for batch in batches)
    path = plan_path(round_number, batches[0].lane, batches[-1].lane, digest)
    if store.size_of(path) is not None:
        return
    local = store.scratch() / f"plan-{round_number}-{digest}.parquet"
    try:
        write_parquet(_table(batches), local, ROW_GROUP_PAGES)
        store.put_if_absent(path, local.read_bytes())
    finally:
        local.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class PlannedColumns:
    """Batches as columns, in no order: where each is, and what it holds."""

    lane: np.ndarray[Any, np.dtype[np.int32]]
    sequence: np.ndarray[Any, np.dtype[np.int32]]
    batch_id: np.ndarray[Any, np.dtype[np.bytes_]]
    """In hex, 32 bytes each."""
    pages: np.ndarray[Any, np.dtype[np.int32]]
    """Pages that are to be captured under every profile of the crawl."""
    named_looks: np.ndarray[Any, np.dtype[np.int32]]
    """Looks at the other pages, which name the profiles that they lack."""

    def __len__(self) -> int:
        return len(self.lane)

    def looks(self, profiles: int) -> int:
        """What there is to capture, in a crawl of so many profiles."""
        return int(self.pages.sum(dtype=np.int64)) * profiles + int(self.named_looks.sum(dtype=np.int64))

    def take(self, which: np.ndarray[Any, Any]) -> PlannedColumns:
        """Some of the batches: a mask, or their numbers."""
        return PlannedColumns(
            self.lane[which], self.sequence[which], self.batch_id[which], self.pages[which], self.named_looks[which]
        )

    @classmethod
    def joined(cls, parts: Sequence[PlannedColumns]) -> PlannedColumns:
        """All batches of several parts."""
        none = [np.empty(0, kind) for kind in (np.int32, np.int32, "S32", np.int32, np.int32)]
        columns = [(part.lane, part.sequence, part.batch_id, part.pages, part.named_looks) for part in parts]
        return cls(*(np.concatenate(column) for column in zip(none, *columns, strict=True)))


class StoredPlan:
    """The plan of a round, read as far as it is needed; a part's footer is read once. Threads may share it."""

    def __init__(self, store: ObjectStore, round_number: int) -> None:
        self._store = store
        self.round = round_number
        self._parts: dict[str, _Part] = {}
        self.refresh()

    def refresh(self) -> bool:
        """Look for parts that were added meanwhile; True if there are some."""
        known = len(self._parts)
        for path in self._store.list(plan_of_round(self.round)):
            found = _PART.fullmatch(path)
            if found and path not in self._parts:
                lanes = (int(found.group(2) or 0), int(found.group(3) or MOST_LANES))
                self._parts[path] = _Part(self._store, path, *lanes)
        return len(self._parts) > known

    def __bool__(self) -> bool:
        return bool(self._parts)

    def __iter__(self) -> Iterator[Batch]:
        return self.batches()

    def columns(self) -> PlannedColumns:
        """All batches, without their pages. Raises StoreDamaged for a part that is not what its name says."""
        found = PlannedColumns.joined([part.columns(self.round) for part in self._parts.values()])
        if len(self._parts) < 2:
            return found
        return found.take(np.unique(found.batch_id, return_index=True)[1])

    def batches(self) -> Iterator[Batch]:
        """All batches by lane and sequence; of each part that holds the lane only a row group is in memory.

        Raises StoreDamaged for a batch that is not what was planned.
        """
        return _once(self._merged())

    def _merged(self) -> Iterator[Batch]:
        waiting = sorted(self._parts.values(), key=lambda part: part.first_lane, reverse=True)
        open_parts: list[tuple[tuple[int, int, str], int, Batch, Iterator[Batch]]] = []

        def push(batches: Iterator[Batch]) -> None:
            batch = next(batches, None)
            if batch is not None:
                heapq.heappush(open_parts, (_order(batch), id(batches), batch, batches))

        while waiting or open_parts:
            while waiting and (not open_parts or waiting[-1].first_lane <= open_parts[0][0][0]):
                push(waiting.pop().batches())
            if open_parts:
                *_, batch, rest = heapq.heappop(open_parts)
                yield batch
                push(rest)

    def batches_of_lane(self, lane: int) -> Iterator[Batch]:
        """The batches of a lane in the order of their sequence. Raises StoreDamaged as `batches` does."""
        wanted = pc.field("lane") == lane
        return _once(heapq.merge(*(part.batches(wanted) for part in self._of(lane)), key=_order))

    def places_after(self, lane: int, sequence: int) -> Iterator[tuple[int, str]]:
        """Sequence and id of the batches of a lane that come after one, in their order."""
        wanted = (pc.field("lane") == lane) & (pc.field("sequence") > sequence)
        return _once(heapq.merge(*(part.places(wanted) for part in self._of(lane))))

    def batch(self, lane: int, sequence: int, batch_id: str) -> Batch:
        """One batch. Raises StoreError where the plan does not hold it, StoreDamaged where it is another one."""
        wanted = (pc.field("lane") == lane) & (pc.field("sequence") == sequence) & (pc.field("batch_id") == batch_id)
        for _ in range(2):
            for part in self._of(lane):
                for batch in part.batches(wanted):
                    return batch
            if not self.refresh():
                break
        raise StoreError(
            f"The plan of round {self.round} in {self._store.where} holds no batch {batch_id} at {sequence} of lane"
            f" {lane}; send only batches of a stored plan."
        )

    def pages(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """The rows of the plan, part by part."""
        for part in self._parts.values():
            yield pa.concat_tables(part.tables(columns))

    def most_tries(self) -> int:
        """How often the page has failed that has failed most often."""
        found = {tries for table in self.pages(["tries"]) for tries in table["tries"].unique().to_pylist()}
        return max((tries_of(tries, self.round) for tries in found), default=0)

    def _of(self, lane: int) -> list[_Part]:
        return [part for part in self._parts.values() if part.first_lane <= lane <= part.last_lane]


def read_plan(store: ObjectStore, round_number: int) -> list[Batch]:
    """The batches of a round, by lane and sequence: for small plans. Raises StoreDamaged where one is another's."""
    plan = StoredPlan(store, round_number)
    plan.columns()
    return list(plan.batches())


class _Part:
    """One file of a plan."""

    def __init__(self, store: ObjectStore, path: str, first_lane: int, last_lane: int) -> None:
        self._store = store
        self._path = path
        self._file: RowGroups | None = None
        self.first_lane = first_lane
        self.last_lane = last_lane

    def tables(self, columns: Sequence[str], wanted: pc.Expression | None = None) -> Iterator[pa.Table]:
        if self._file is None:
            self._file = RowGroups(self._path, PLAN, filesystem=self._store.arrow(), where=self._store.where)
        return self._file.tables(columns, wanted)

    def columns(self, round_number: int) -> PlannedColumns:
        """Its batches, which its name was made of."""
        found = PlannedColumns.joined(list(_columns(self.tables([*_PLACE, "profiles"]))))
        digest = _digest(found.batch_id.astype("U"))
        lanes = (int(found.lane.min()), int(found.lane.max())) if len(found) else (0, 0)
        if self._path not in (plan_path(round_number, *lanes, digest), earlier_plan_path(round_number, digest)):
            raise StoreDamaged(
                f"The file {self._path} in {self._store.where} does not hold the batches that it was made of;"
                " restore the plan from a copy."
            )
        return found

    def places(self, wanted: pc.Expression) -> Iterator[tuple[int, str]]:
        """Sequence and id of some batches."""
        last: tuple[int, str] | None = None
        for table in self.tables(_PLACE, wanted):
            columns = (table[name].to_pylist() for name in ("sequence", "batch_id"))
            for place in zip(*columns, strict=True):
                if place != last:
                    last = place
                    yield place

    def batches(self, wanted: pc.Expression | None = None) -> Iterator[Batch]:
        """Some batches, which a border of two row groups may divide."""
        rows: list[tuple[Any, ...]] = []
        for table in self.tables(_EVERYTHING, wanted):
            for row in zip(*(table[name].to_pylist() for name in _EVERYTHING), strict=True):
                if rows and row[_BATCH_ID] != rows[-1][_BATCH_ID]:
                    yield _planned(rows, self._store.where)
                    rows = []
                rows.append(row)
        if rows:
            yield _planned(rows, self._store.where)


_BATCH_ID: Final = _EVERYTHING.index("batch_id")


def _order(batch: Batch) -> tuple[int, int, str]:
    return batch.lane, batch.sequence, batch.batch_id


def planned_pages(store: ObjectStore, round_number: int, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of a round's plan, part by part: a large plan is never in memory as a whole."""
    return StoredPlan(store, round_number).pages(columns)


def tries_of(stored: int | None, round_number: int) -> int:
    """How often a page has failed; in a plan that does not say so it may have been in every round before."""
    return round_number if stored is None else stored


def _once(items: Iterable[_Item]) -> Iterator[_Item]:
    """Two schedulers that planned at the same time may have stored a batch in a part each."""
    return (item for item, _ in groupby(items))


def _digest(batch_ids: Iterable[str]) -> str:
    """What a part of a plan is named by: its batches, in their order."""
    return blake2b("".join(batch_ids).encode("ascii"), digest_size=16).hexdigest()


def _columns(tables: Iterator[pa.Table]) -> Iterator[PlannedColumns]:
    """The batches that begin in each of the tables; pages are counted for the batch that they belong to.

    The rows of a batch that a border divides are two batches here, so the second is added to the first.
    """
    held: PlannedColumns | None = None
    for table in tables:
        if not table.num_rows:
            continue
        ids = table["batch_id"].to_numpy().astype("S32")
        starts = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
        lists = pc.list_value_length(table["profiles"]).fill_null(0).to_numpy()  # null in plans of version 1
        found = PlannedColumns(
            lane=table["lane"].to_numpy()[starts],
            sequence=table["sequence"].to_numpy()[starts],
            batch_id=ids[starts],
            pages=np.add.reduceat((lists == 0).astype(np.int32), starts),
            named_looks=np.add.reduceat(lists.astype(np.int32), starts),
        )
        if held is not None:
            if held.batch_id[-1] == found.batch_id[0]:
                found.pages[0] += held.pages[-1]
                found.named_looks[0] += held.named_looks[-1]
                held = held.take(np.arange(len(held) - 1))
            yield held
        held = found
    if held is not None:
        yield held


def _planned(rows: Sequence[tuple[Any, ...]], where: str) -> Batch:
    columns = dict(zip(_EVERYTHING, zip(*sorted(rows, key=_position), strict=True), strict=True))
    pages = zip(*(columns[name] for name in ("url_key", "seed", "profiles", "depth", "tries")), strict=True)
    batch = Batch(
        crawl=columns["crawl"][0],
        round=columns["round"][0],
        lane=columns["lane"][0],
        sequence=columns["sequence"][0],
        batch_id=columns["batch_id"][0],
        pages=tuple(
            PlannedPage(key, seed, tuple(profiles or ()), depth or 0, tries_of(tries, columns["round"][0]))
            for key, seed, profiles, depth, tries in pages
        ),
    )
    keys = [page.url_key for page in batch.pages]
    if batch.batch_id != identifiers.batch_id(batch.crawl, batch.round, batch.lane, batch.sequence, keys):
        raise StoreDamaged(f"Batch {batch.batch_id} of the plan in {where} is not whole; restore the plan from a copy.")
    return batch


def _position(row: tuple[Any, ...]) -> int:
    position: int = row[_EVERYTHING.index("position")]
    return position


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
