"""Round r+1 takes up what round r did not settle; rows are read some batches at a time: no memory holds them all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final

import pyarrow.compute as pc

from scheduler.rounds import check_is_committed
from scheduler.seed_plan import seeds_for_plan
from schemas.batch import PlannedPage
from schemas.outcomes import RETRYABLE_OUTCOMES, Outcome
from schemas.settings import CrawlSettings
from workers.store import ObjectStore, StoredPlan, each_marker, read_marker, read_table

DEFERRED: Final[frozenset[Outcome]] = frozenset({"deferred"})
"""What a later round takes up when nothing else is asked for: pages that no round has started."""
CHALLENGE_RETRIES: Final = 1
"""A page that showed a challenge twice is not asked a third time, whatever the retries."""
_AT_ONCE: Final = 256
"""Batches whose rows are read together."""


def next_round(
    store: ObjectStore,
    crawl: str,
    round_number: int,
    settings: CrawlSettings,
    retries: int = 0,
    links: Iterable[PlannedPage] = (),
) -> StoredPlan:
    """Plan round r+1 from what round r committed, and from links that were found there; empty if nothing is left to do.

    Pages that were not started come again. Those that failed for a time do until they were tried `retries` times again;
    those that showed a challenge once. Raises StoreError while a batch of round r is not committed.
    """
    check_is_committed(store, round_number)
    pages = _taken_up(store, round_number, settings, retries)
    with seeds_for_plan(chain(pages, links)) as plan:
        plan(store, crawl, round_number + 1, settings)
    return StoredPlan(store, round_number + 1)


def _taken_up(store: ObjectStore, round_number: int, settings: CrawlSettings, retries: int) -> Iterator[PlannedPage]:
    """What a round left that may end otherwise in the next one."""
    outcomes = RETRYABLE_OUTCOMES if retries else DEFERRED
    # the markers know how their URLs ended, so files without such a row are not opened
    wanted = {
        marker.batch_id for marker in each_marker(store, round_number) if not outcomes.isdisjoint(marker.outcomes)
    }
    if not wanted:
        return
    rows_wanted = pc.field("outcome").isin(sorted(outcomes)) & pc.field("retryable")
    everything = {profile.name for profile in settings.profiles}
    batches = (batch for batch in StoredPlan(store, round_number).batches() if batch.batch_id in wanted)
    while some := list(islice(batches, _AT_ONCE)):
        planned = {page.url_key: page for batch in some for page in batch.pages}
        of = [marker for batch in some if (marker := read_marker(store, round_number, batch.batch_id)) is not None]
        columns = ["url_key", "seed", "profile", "outcome"]
        # all looks at a page are in one batch
        lacking: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        failed: set[str] = set()
        for row in read_table(store, "listings", columns, rows_wanted, of=of).to_pylist():
            key, outcome = str(row["url_key"]), row["outcome"]
            if outcome not in DEFERRED:
                if planned[key].tries >= (min(retries, CHALLENGE_RETRIES) if outcome == "challenge" else retries):
                    continue
                failed.add(key)
            lacking[key, str(row["seed"])].add(str(row["profile"]))
        for (key, seed), names in lacking.items():
            profiles = () if names == everything else tuple(sorted(names))
            yield PlannedPage(key, seed, profiles, planned[key].depth, planned[key].tries + (key in failed))
