"""Round r+1 takes up what round r did not settle; rows are read some batches at a time: no memory holds them all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Final

import pyarrow.compute as pc

from scheduler.rounds import remaining
from scheduler.seed_plan import seeds_for_plan
from schemas.batch import PlannedPage
from schemas.errors import StoreError
from schemas.outcomes import Outcome
from schemas.settings import CrawlSettings
from workers.store import ObjectStore, StoredPlan, each_marker, read_table

DEFERRED: Final[frozenset[Outcome]] = frozenset({"deferred"})
"""What a later round takes up when nothing else is asked for: pages that no round has started."""
_AT_ONCE: Final = 256
"""Batches whose rows are read together."""


def next_round(
    store: ObjectStore,
    crawl: str,
    round_number: int,
    settings: CrawlSettings,
    outcomes: Collection[Outcome] = DEFERRED,
) -> bool:
    """Plan round r+1 from the retryable rows that round r committed with one of the outcomes; False for no such round.

    Raises StoreError while a batch of round r is not committed.
    """
    left = sum(map(len, remaining(store, round_number).values()))
    if left:
        raise StoreError(
            f"Round {round_number} in {store.where} has {left} batches that are not committed;"
            " run the crawl again to finish it before the next round is planned."
        )
    with seeds_for_plan(_taken_up(store, round_number, settings, outcomes)) as plan:
        plan(store, crawl, round_number + 1, settings)
    return bool(StoredPlan(store, round_number + 1))


def _taken_up(
    store: ObjectStore, round_number: int, settings: CrawlSettings, outcomes: Collection[Outcome]
) -> Iterator[PlannedPage]:
    wanted = pc.field("outcome").isin(sorted(outcomes)) & pc.field("retryable")
    everything = {profile.name for profile in settings.profiles}
    # the markers know how their URLs ended, so files without such a row are not opened
    of = (marker for marker in each_marker(store, round_number) if not set(outcomes).isdisjoint(marker.outcomes))
    while some := list(islice(of, _AT_ONCE)):
        rows = read_table(store, "listings", ["url_key", "seed", "profile"], wanted, of=some).to_pylist()
        # all looks at a page are in one batch
        lacking: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for row in rows:
            lacking[str(row["url_key"]), str(row["seed"])].add(str(row["profile"]))
        for (key, seed), names in lacking.items():
            yield PlannedPage(key, seed, () if names == everything else tuple(sorted(names)))
