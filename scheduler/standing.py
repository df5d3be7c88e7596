"""How a crawl stands, from plan, markers and claims alone: any machine that reads the store can tell."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np

from schemas.settings import CrawlSettings
from workers.store import ObjectStore, StoredPlan, each_marker, planned_rounds

RATE_WINDOW = timedelta(minutes=5)
"""The rate is that of the batches committed so shortly before."""
STALLED_AFTER = timedelta(minutes=15)
"""A lane with batches left that has committed none for so long, while others have, stands still."""


@dataclass(frozen=True, slots=True)
class RoundStanding:
    """One round: pages are looks, one for each profile of a URL."""

    round: int
    pages: int
    committed: int
    waiting_batches: int
    lanes: int
    lanes_left: int
    stalled_lanes: tuple[int, ...]
    outcomes: dict[str, int] = field(default_factory=dict)
    pages_per_second: float = 0.0
    seconds_left: float | None = None
    last_commit: datetime | None = None


def standing(store: ObjectStore, settings: CrawlSettings, now: datetime) -> list[RoundStanding]:
    """Every planned round of a store. Raises StoreError."""
    return [_of_round(store, settings, number, now) for number in planned_rounds(store)]


def _of_round(store: ObjectStore, settings: CrawlSettings, number: int, now: datetime) -> RoundStanding:
    planned = StoredPlan(store, number).columns()
    committed: list[bytes] = []
    outcomes: Counter[str] = Counter()
    last: dict[int, datetime] = {}
    recent = 0
    begun = now
    for marker in each_marker(store, number):
        committed.append(marker.batch_id.encode())
        outcomes.update(marker.outcomes)
        at = datetime.fromisoformat(marker.committed_at)
        last[marker.lane] = max(last.get(marker.lane, at), at)
        if now - at <= RATE_WINDOW:
            recent += sum(marker.outcomes.values())
            begun = min(begun, at)
    left = planned.take(~np.isin(planned.batch_id, np.array(committed, dtype="S32")))
    # in the first minutes the window is as long as the crawl
    seconds = max((now - begun).total_seconds(), 1.0)
    rate = recent / seconds
    newest = max(last.values(), default=None)
    lanes_left: set[int] = set(np.unique(left.lane).tolist())
    stalled: tuple[int, ...] = ()
    if newest is not None and now - newest < STALLED_AFTER:
        stalled = tuple(sorted(lane for lane in lanes_left if lane in last and now - last[lane] >= STALLED_AFTER))
    pages = planned.looks(len(settings.profiles))
    waiting = pages - sum(outcomes.values())
    return RoundStanding(
        round=number,
        pages=pages,
        committed=sum(outcomes.values()),
        waiting_batches=len(left),
        lanes=len(np.unique(planned.lane)),
        lanes_left=len(lanes_left),
        stalled_lanes=stalled,
        outcomes=dict(sorted(outcomes.items())),
        pages_per_second=rate,
        seconds_left=waiting / rate if rate and waiting else None,
        last_commit=newest,
    )
