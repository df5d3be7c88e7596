"""A round's plan is stored before its first fetch; what is left of it is a set difference: batches minus markers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from scheduler.plan import plan
from schemas.batch import Batch, PlannedPage
from schemas.delivery import BatchReference
from schemas.errors import StoreDamaged, StoreError
from schemas.settings import CrawlSettings
from workers.store import (
    ObjectStore,
    PlannedColumns,
    StoredPlan,
    committed_batch_ids,
    planned_rounds,
    read_plan,
    store_plan,
)


def plan_round(
    store: ObjectStore, crawl: str, round_number: int, pages: Iterable[PlannedPage], settings: CrawlSettings
) -> list[Batch]:
    """Plan the pages that a round does not hold yet, store that, and give the whole round, by lane and sequence.

    All of it is in memory; `scheduler.seed_plan` has the other way. May be repeated after a crash at any point: the
    same pages add nothing a second time.
    """
    check_plan_is_there(store, round_number)
    existing = read_plan(store, round_number)
    added = plan(crawl, round_number, pages, settings, existing)
    store_plan(store, round_number, added)
    return _in_order([*existing, *added])


def check_plan_is_there(store: ObjectStore, round_number: int) -> None:
    """Raises StoreDamaged where a round has commits but no plan: it would be planned, and captured, a second time."""
    if round_number not in planned_rounds(store) and committed_batch_ids(store, round_number):
        raise StoreDamaged(
            f"The store {store.where} has commits of round {round_number} but not its plan; restore the plan from a"
            " copy or choose another --store."
        )


def check_is_committed(store: ObjectStore, round_number: int) -> None:
    """Raises StoreError while a batch of a round is not committed."""
    left = sum(map(len, remaining(store, round_number).values()))
    if left:
        raise StoreError(
            f"Round {round_number} in {store.where} has {left} batches that are not committed;"
            " run the crawl again to finish it before the next round is planned."
        )


@dataclass(frozen=True, slots=True)
class LaneLeft:
    """The batches of a lane that are not committed, in the order of their sequence.

    In memory are their places and ids. Iterating reads the batches from the plan, a row group at a time.
    """

    lane: int
    plan: StoredPlan
    columns: PlannedColumns

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[Batch]:
        left = set(self.columns.batch_id.tolist())
        return (batch for batch in self.plan.batches_of_lane(self.lane) if batch.batch_id.encode() in left)

    def looks(self, profiles: int) -> int:
        """What there is to capture, in a crawl of so many profiles."""
        return self.columns.looks(profiles)

    def references(self, place: str) -> Iterator[BatchReference]:
        """What messages name the batches by; `place` is the store's."""
        for sequence, batch_id in zip(self.columns.sequence.tolist(), self.columns.batch_id.tolist(), strict=True):
            yield BatchReference(place, self.plan.round, self.lane, sequence, batch_id.decode())


def remaining(store: ObjectStore, round_number: int) -> dict[int, LaneLeft]:
    """The batches of a round that are not committed, by lane; no more than some 60 bytes of each are in memory.

    Raises StoreDamaged for a part of the plan that is not what its name says.
    """
    stored = StoredPlan(store, round_number)
    columns = stored.columns()
    committed = np.array(sorted(committed_batch_ids(store, round_number)), dtype="S32")
    columns = columns.take(~np.isin(columns.batch_id, committed))
    columns = columns.take(np.lexsort((columns.batch_id, columns.sequence, columns.lane)))
    lanes, starts = np.unique(columns.lane, return_index=True)
    borders = [*starts.tolist(), len(columns)]
    return {
        lane: LaneLeft(lane, stored, columns.take(np.arange(*borders[number : number + 2])))
        for number, lane in enumerate(lanes.tolist())
    }


def _in_order(batches: Iterable[Batch]) -> list[Batch]:
    return sorted(batches, key=lambda batch: (batch.lane, batch.sequence))
