"""How a crawl stands, from plan, markers and claims alone: any machine that reads the store can tell."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from schemas.marker import Marker
from schemas.settings import CrawlSettings
from workers.store import ObjectStore, markers, planned_rounds, read_plan

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
    known = markers(store)
    return [_of_round(store, settings, number, known, now) for number in planned_rounds(store)]


def _of_round(
    store: ObjectStore, settings: CrawlSettings, number: int, known: list[Marker], now: datetime
) -> RoundStanding:
    own = {marker.batch_id: marker for marker in known if marker.round == number}
    batches = read_plan(store, number)
    pages = sum(len(page.looks(settings.profiles)) for batch in batches for page in batch.pages)
    left = [batch for batch in batches if batch.batch_id not in own]
    outcomes: Counter[str] = Counter()
    last: dict[int, datetime] = {}
    recent = 0
    begun = now
    for marker in own.values():
        outcomes.update(marker.outcomes)
        at = datetime.fromisoformat(marker.committed_at)
        last[marker.lane] = max(last.get(marker.lane, at), at)
        if now - at <= RATE_WINDOW:
            recent += sum(marker.outcomes.values())
            begun = min(begun, at)
    # in the first minutes the window is as long as the crawl
    seconds = max((now - begun).total_seconds(), 1.0)
    rate = recent / seconds
    newest = max(last.values(), default=None)
    lanes_left = {batch.lane for batch in left}
    stalled: tuple[int, ...] = ()
    if newest is not None and now - newest < STALLED_AFTER:
        stalled = tuple(sorted(lane for lane in lanes_left if lane in last and now - last[lane] >= STALLED_AFTER))
    waiting = pages - sum(outcomes.values())
    return RoundStanding(
        round=number,
        pages=pages,
        committed=sum(outcomes.values()),
        waiting_batches=len(left),
        lanes=len({batch.lane for batch in batches}),
        lanes_left=len(lanes_left),
        stalled_lanes=stalled,
        outcomes=dict(sorted(outcomes.items())),
        pages_per_second=rate,
        seconds_left=waiting / rate if rate and waiting else None,
        last_commit=newest,
    )
