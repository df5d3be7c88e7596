"""The Celery engine's side of a round: keeps a bounded number of lanes going on workers, and watches their markers.

A worker sends its lane's next batch itself. So the scheduler sends a lane's first batch, learns from markers how far
the lane is, and sends again only where a lane stands still: nothing waits at the broker, and nobody renews the claim.
It may be killed at any time and started elsewhere, or be there twice; all that it knows is in the store.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from schemas.batch import Batch
from schemas.delivery import BatchReference
from workers.batch import BatchDone
from workers.claims import claim_version
from workers.store import ObjectStore, read_marker

WINDOW = 64
"""Lanes in flight, each with one message at the broker or in a worker's hand, however large the crawl."""


class Sender(Protocol):
    """What the scheduler asks of a broker; both raise BrokerError."""

    def send(self, reference: BatchReference) -> None:
        """Sends a batch."""

    def waiting(self) -> int:
        """Messages that no worker has in hand."""


@dataclass(frozen=True, slots=True)
class FleetTimes:
    """How often markers are looked at, and how long a lane stands still before its batch is sent again."""

    poll: timedelta = timedelta(seconds=2)
    stall: timedelta = timedelta(seconds=45)
    """Longer than a claim takes to lapse: a batch whose claim is renewed is not sent again."""


@dataclass(slots=True)
class _Lane:
    """A lane in flight: the batches left, the first of them under way; `since` it last moved."""

    batches: list[Batch]
    since: float
    seen: str | None = field(default=None)


async def run_fleet(
    store: ObjectStore,
    sender: Sender,
    lanes: Mapping[int, Sequence[Batch]],
    stop: asyncio.Event,
    batch_done: Callable[[BatchDone], None],
    times: FleetTimes,
    window: int = WINDOW,
) -> None:
    """Returns when all batches are committed or, after `stop`, at once: workers then go on with the lanes in flight.

    Raises StoreError, BrokerError.
    """
    waiting = [list(lanes[lane]) for lane in sorted(lanes, key=lambda lane: (-len(lanes[lane]), lane))]
    waiting.reverse()  # the longest lane first, from the end
    active: list[_Lane] = []
    while (waiting or active) and not stop.is_set():
        while waiting and len(active) < window:
            lane = _Lane(waiting.pop(), time.monotonic())
            await _send(store, sender, lane)
            active.append(lane)
        for lane in active:
            if await asyncio.to_thread(_advance, store, lane, batch_done):
                continue
            if time.monotonic() - lane.since >= times.stall.total_seconds():
                lane.since = time.monotonic()
                if await asyncio.to_thread(sender.waiting) == 0:
                    await _send(store, sender, lane)
        active = [lane for lane in active if lane.batches]
        if active:
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), times.poll.total_seconds())


def _advance(store: ObjectStore, lane: _Lane, batch_done: Callable[[BatchDone], None]) -> bool:
    """Take off the batches that are committed; True if the lane moved, or somebody is at work on it."""
    moved = False
    while lane.batches:
        marker = read_marker(store, lane.batches[0].round, lane.batches[0].batch_id)
        if marker is None:
            break
        batch_done(BatchDone(marker.batch_id, "won", dict(marker.outcomes)))  # type: ignore[arg-type]  # of the closed set
        lane.batches.pop(0)
        moved = True
    if lane.batches:
        version = claim_version(store, lane.batches[0])
        moved = moved or version != lane.seen
        lane.seen = version
    if moved:
        lane.since = time.monotonic()
    return moved


async def _send(store: ObjectStore, sender: Sender, lane: _Lane) -> None:
    first = lane.batches[0]
    await asyncio.to_thread(sender.send, BatchReference(store.where, first.round, first.batch_id))
