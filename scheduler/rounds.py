"""A round's plan is stored before its first fetch; what is left of it is a set difference: batches minus markers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from scheduler.plan import plan
from schemas.batch import Batch, PlannedPage
from schemas.errors import StoreDamaged, StoreError
from schemas.outcomes import RETRYABLE_OUTCOMES, Outcome
from schemas.settings import CrawlSettings
from workers.store import (
    ObjectStore,
    committed_batch_ids,
    markers,
    planned_pages,
    planned_rounds,
    read_plan,
    read_table,
    store_plan,
    tries_of,
)

DEFERRED: Final[frozenset[Outcome]] = frozenset({"deferred"})
"""What a later round takes up when nothing else is asked for: pages that no round has started."""
CHALLENGE_RETRIES: Final = 1
"""A page that showed a challenge twice is not asked a third time, whatever the retries."""


def plan_round(
    store: ObjectStore, crawl: str, round_number: int, pages: Iterable[PlannedPage], settings: CrawlSettings
) -> list[Batch]:
    """Plan the pages that a round does not hold yet, store that, and give the whole round, by lane and sequence.

    May be repeated after a crash at any point: the same pages add nothing a second time.
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


def next_round(
    store: ObjectStore,
    crawl: str,
    round_number: int,
    settings: CrawlSettings,
    retries: int = 0,
    links: Iterable[PlannedPage] = (),
) -> list[Batch]:
    """Plan round r+1 from what round r committed, and from links that were found there; empty if nothing is left to do.

    Pages that were not started come again. Those that failed for a time do until they were tried `retries` times again;
    those that showed a challenge once. Raises StoreError while a batch of round r is not committed.
    """
    pages = _taken_up(store, round_number, settings, retries)
    return plan_round(store, crawl, round_number + 1, [*pages, *links], settings)


def check_is_committed(store: ObjectStore, round_number: int) -> None:
    """Raises StoreError while a batch of a round is not committed."""
    left = sum(map(len, remaining(store, round_number).values()))
    if left:
        raise StoreError(
            f"Round {round_number} in {store.where} has {left} batches that are not committed;"
            " run the crawl again to finish it before the next round is planned."
        )


def _taken_up(store: ObjectStore, round_number: int, settings: CrawlSettings, retries: int) -> list[PlannedPage]:
    """What a round left that may end otherwise in the next one."""
    check_is_committed(store, round_number)
    outcomes = RETRYABLE_OUTCOMES if retries else DEFERRED
    # The markers know how their URLs ended, so files without such a row are not opened.
    of = [marker for marker in markers(store, round_number) if not set(outcomes).isdisjoint(marker.outcomes)]
    wanted = pc.field("outcome").isin(sorted(outcomes)) & pc.field("retryable")
    rows = read_table(store, "listings", ["url_key", "seed", "profile", "outcome"], wanted, of=of).to_pylist()
    planned = _planned(store, round_number, {str(row["url_key"]) for row in rows})
    lacking: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    failed: set[str] = set()
    for row in rows:
        key, outcome = str(row["url_key"]), row["outcome"]
        if outcome not in DEFERRED:
            if planned[key].tries >= (min(retries, CHALLENGE_RETRIES) if outcome == "challenge" else retries):
                continue
            failed.add(key)
        lacking[key, str(row["seed"])].add(str(row["profile"]))
    everything = {profile.name for profile in settings.profiles}
    return [
        PlannedPage(
            key,
            seed,
            () if names == everything else tuple(sorted(names)),
            planned[key].depth,
            planned[key].tries + (key in failed),
        )
        for (key, seed), names in lacking.items()
    ]


def _planned(store: ObjectStore, round_number: int, keys: Collection[str]) -> dict[str, PlannedPage]:
    """Some pages of a round as they were planned, without the plan being in memory as a whole."""
    found: dict[str, PlannedPage] = {}
    wanted = pa.array(keys, pa.large_string())
    for table in planned_pages(store, round_number, ["url_key", "seed", "depth", "tries"]) if keys else ():
        for row in table.filter(pc.is_in(table["url_key"], wanted)).to_pylist():
            tries = tries_of(row["tries"], round_number)
            found[row["url_key"]] = PlannedPage(row["url_key"], row["seed"], depth=row["depth"] or 0, tries=tries)
    return found


def remaining(store: ObjectStore, round_number: int) -> dict[int, list[Batch]]:
    """The batches of a round that are not committed, by lane, in the order of their sequence."""
    committed = committed_batch_ids(store, round_number)
    lanes: defaultdict[int, list[Batch]] = defaultdict(list)
    for batch in read_plan(store, round_number):
        if batch.batch_id not in committed:
            lanes[batch.lane].append(batch)
    return dict(lanes)


def _in_order(batches: Iterable[Batch]) -> list[Batch]:
    return sorted(batches, key=lambda batch: (batch.lane, batch.sequence))
