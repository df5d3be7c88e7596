"""The Celery engine's side of a round: keeps a bounded number of lanes going on workers, and watches their markers.

A worker sends its lane's next batch itself. So the scheduler sends a lane's first batch, learns from markers how far
the lane is, and sends again only where a lane stands still: nothing waits at the broker, and nobody renews the claim.
It may be killed at any time and started elsewhere, or be there twice; all that it knows is in the store.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from scheduler.rounds import LaneLeft
from schemas.delivery import BatchReference
from schemas.errors import BrokerError, StoreUnavailable
from workers.batch import BatchDone
from workers.claims import claim_version
from workers.store import ObjectStore, read_marker

_LOG = logging.getLogger("pagestate.fleet")

WINDOW = 64
"""Lanes in flight, each with one message at the broker or in a worker's hand, however large the crawl."""


class Sender(Protocol):
    """What the scheduler asks of a broker; both raise BrokerError."""

    def send(self, reference: BatchReference, *, urgent: bool = False) -> None:
        """Sends a batch, `urgent` before those of other priorities."""

    def waiting(self) -> int:
        """Messages that no worker has in hand."""


@dataclass(frozen=True, slots=True)
class FleetTimes:
    """How often markers are looked at, and how long a lane stands still before its batch is sent again."""

    poll: timedelta = timedelta(seconds=2)
    stall: timedelta = timedelta(seconds=45)
    """Longer than a claim takes to lapse: a batch whose claim is renewed is not sent again."""
    longest_wait: timedelta = timedelta(minutes=10)
    """A lane that stands still for so long while others are served is sent as urgent, after twice as long again."""


@dataclass(slots=True)
class _Lane:
    """A lane in flight: its first batch that is not committed, and those after it; `moved` when it last did, `since`
    when it was last looked at for that; `urged` how often it was sent as urgent meanwhile."""

    first: BatchReference | None
    rest: Iterator[BatchReference]
    since: float
    moved: float
    urged: int = 0
    sent: bool = False
    seen: tuple[int, str] | None = None


async def run_fleet(
    store: ObjectStore,
    sender: Sender,
    lanes: Mapping[int, LaneLeft],
    stop: asyncio.Event,
    batch_done: Callable[[BatchDone], None],
    times: FleetTimes,
    window: int = WINDOW,
) -> None:
    """Returns when all batches are committed or, after `stop`, at once: workers then go on with the lanes in flight.

    A broker or a store that goes away meanwhile is waited for. Raises StoreError for what waiting does not mend.
    """
    waiting = sorted(lanes.values(), key=lambda left: (len(left), -left.lane))  # the longest lane first, from the end
    active: list[_Lane] = []
    away = False
    while (waiting or active) and not stop.is_set():
        while waiting and len(active) < window:
            now, references = time.monotonic(), waiting.pop().references(store.where)
            active.append(_Lane(next(references, None), references, now, now))
        try:
            for lane in active:
                await asyncio.to_thread(_look_after, store, sender, lane, batch_done, times)
        except (BrokerError, StoreUnavailable) as error:
            if not away:
                _LOG.warning("%s Waiting for it; workers finish what they have.", error)
            away = True
        else:
            away = False
        active = [lane for lane in active if lane.first is not None]
        if active:
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), times.poll.total_seconds())


def _advance(store: ObjectStore, lane: _Lane, batch_done: Callable[[BatchDone], None]) -> bool:
    """Take off the batches that are committed; True if the lane moved, or somebody is at work on it."""
    moved = False
    while lane.first is not None:
        marker = read_marker(store, lane.first.round, lane.first.batch_id)
        if marker is None:
            break
        batch_done(BatchDone(marker.batch_id, "won", dict(marker.outcomes)))  # type: ignore[arg-type]  # of the closed set
        lane.first, lane.seen = next(lane.rest, None), None
        moved = True
    if lane.first is not None:
        version = claim_version(store, lane.first, lane.seen)
        moved = moved or version != lane.seen
        lane.seen = version
    if moved:
        lane.since = lane.moved = time.monotonic()
        lane.urged = 0
    return moved


def _look_after(
    store: ObjectStore, sender: Sender, lane: _Lane, batch_done: Callable[[BatchDone], None], times: FleetTimes
) -> None:
    """Sends a lane's first batch that is not committed where nobody is at work on the lane."""
    moved = _advance(store, lane, batch_done)
    if lane.first is None:
        return
    stalled = not moved and time.monotonic() - lane.since >= times.stall.total_seconds()
    if stalled:
        lane.since = time.monotonic()
    # crawls of a higher priority may keep workers for ever, and the message may be lost while theirs are not
    overdue = time.monotonic() - lane.moved >= times.longest_wait.total_seconds() * 2**lane.urged
    if not lane.sent or overdue or (stalled and sender.waiting() == 0):
        # a send that fails is made up for when the broker is back
        lane.sent = False
        sender.send(lane.first, urgent=overdue)
        lane.sent = True
        lane.urged += overdue
