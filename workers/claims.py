"""A claim is the right to carry a lane's batch out: created once, renewed by rewriting, and free when it stands still.

Clocks of different machines are never compared. Who wants a claim that another holds watches it: one and the same
version for the whole `lapse`, by the watcher's own clock, means that its holder is gone. A holder that could not renew
for `lost` starts nothing any more; that is well below `lapse`, so two executions of a lane never overlap.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta

from schemas.batch import Batch
from schemas.delivery import BatchReference
from schemas.errors import StoreDamaged, StoreError
from workers.store.layout import claim_path
from workers.store.objects import ObjectStore


@dataclass(frozen=True, slots=True)
class ClaimTimes:
    """How often a claim is renewed, when its holder stops for want of renewal, when a watcher takes it over."""

    renew: timedelta = timedelta(seconds=10)
    lost: timedelta = timedelta(seconds=20)
    lapse: timedelta = timedelta(seconds=30)

    @classmethod
    def of(cls, lapse: timedelta) -> ClaimTimes:
        """Times in the usual proportion."""
        return cls(lapse / 3, lapse * 2 / 3, lapse)

    def __post_init__(self) -> None:
        if not self.renew < self.lost < self.lapse:
            raise ValueError("a claim is renewed before it is lost, and lost before it lapses")


@dataclass(frozen=True, slots=True)
class _Found:
    number: int
    tag: str
    released: bool


class Claim:
    """A held claim; `number` is how many executions of the batch claimed it before."""

    __slots__ = ("_attempt", "_renewals", "_renewed", "_store", "_tag", "_times", "lost", "number", "path")

    def __init__(self, store: ObjectStore, path: str, number: int, attempt: str, tag: str, times: ClaimTimes) -> None:
        self._store = store
        self._attempt = attempt
        self._tag = tag
        self._times = times
        self._renewals = 0
        self._renewed = _seconds()
        self.path = path
        self.number = number
        self.lost = asyncio.Event()
        """Set for ever once the claim may be another's: no further navigation."""

    @property
    def is_lost(self) -> bool:
        """Whether the claim may be another's. True from the first moment after a process stood still for too long."""
        if not self.lost.is_set() and _seconds() - self._renewed >= self._times.lost.total_seconds():
            self.lost.set()
        return self.lost.is_set()

    async def keep(self) -> None:
        """Renew until the claim is lost; run beside the work. A store that does not answer is asked again."""
        while True:
            await asyncio.sleep(self._times.renew.total_seconds())
            if self.is_lost:
                return
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(self._times.lost.total_seconds() - (_seconds() - self._renewed)):
                    await self._renew()
            if self.is_lost:
                return

    async def release(self) -> None:
        """Say that nobody needs to wait; where the store does not answer, the claim lapses instead."""
        with suppress(StoreError):
            await self._write(released=True)

    async def _renew(self) -> None:
        begun = _seconds()
        tag = await self._write(released=False)
        if tag is None:
            self.lost.set()
            return
        self._tag, self._renewed = tag, begun

    async def _write(self, *, released: bool) -> str | None:
        self._renewals += 1
        data = _encoded(self._attempt, self._renewals, released)
        return await asyncio.to_thread(self._store.put_if_match, self.path, data, self._tag)


@asynccontextmanager
async def claimed(store: ObjectStore, batch: Batch, attempt: str, times: ClaimTimes) -> AsyncIterator[Claim | None]:
    """Holds the claim of a batch, renewing it; None where another execution holds it and lives.

    Waits up to `times.lapse` for a claim whose holder may be gone. Raises StoreError.
    """
    claim = await _acquired(store, batch, attempt, times)
    if claim is None:
        yield None
        return
    keeping = asyncio.create_task(claim.keep())
    try:
        yield claim
    finally:
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping
        if not claim.is_lost:
            await claim.release()


def claim_version(
    store: ObjectStore, batch: Batch | BatchReference, before: tuple[int, str] | None = None
) -> tuple[int, str] | None:
    """What changes with every renewal of a batch's claim, and was `before`; None where nobody ever claimed it."""
    found = _latest(store, batch, before[0] if before else 0)
    return None if found is None else (found.number, found.tag)


async def _acquired(store: ObjectStore, batch: Batch, attempt: str, times: ClaimTimes) -> Claim | None:
    found = await asyncio.to_thread(_latest, store, batch)
    if found is not None and not await _is_free(store, batch, found, times):
        return None
    number = 0 if found is None else found.number + 1
    path = claim_path(batch.round, batch.lane, batch.sequence, number)
    if not await asyncio.to_thread(store.put_if_absent, path, _encoded(attempt, 0, False)):
        return None  # another one was faster, so it lives
    made = await asyncio.to_thread(store.read_tagged, path)
    if made is None:
        raise StoreDamaged(
            f"The claim {path} in {store.where} is gone again; let nothing else change the store, and run again."
        )
    return Claim(store, path, number, attempt, made[1], times)


async def _is_free(store: ObjectStore, batch: Batch, found: _Found, times: ClaimTimes) -> bool:
    """True once the claim was released, or stood still for the whole lapse; False as soon as it moves."""
    begun = time.monotonic()
    while not found.released:
        left = times.lapse.total_seconds() - (time.monotonic() - begun)
        if left <= 0:
            return True
        await asyncio.sleep(min(left, times.renew.total_seconds() / 2))
        now = await asyncio.to_thread(_latest, store, batch, found.number)
        if now is None or now.number != found.number:
            return False
        if now.released:
            return True
        if now.tag != found.tag:
            return False
    return True


def _latest(store: ObjectStore, batch: Batch | BatchReference, known: int = 0) -> _Found | None:
    """The last claim of a lane's batch, which is there up to the number `known`, unless that is 0.

    They are numbered without a gap, and most batches have one at most: asking for the next number is cheaper than a
    listing, which would show the claims of the lane's other batches too.
    """
    read: tuple[bytes, str] | None = None
    path, number = "", known - 1
    while True:
        beyond = claim_path(batch.round, batch.lane, batch.sequence, number + 1)
        following = store.read_tagged(beyond)
        if following is None:
            break
        read, path, number = following, beyond, number + 1
    if read is None:
        return None
    try:
        released = json.loads(read[0])["released"] is True
    except (ValueError, TypeError, KeyError) as error:
        raise StoreDamaged(
            f"The claim {path} in {store.where} is not what a worker wrote; delete it and run again."
        ) from error
    return _Found(number, read[1], released)


def _seconds() -> float:
    """A clock that never goes back, and goes on while the machine sleeps where the system has one that does."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def _encoded(attempt: str, renewals: int, released: bool) -> bytes:
    return json.dumps({"attempt": attempt, "renewals": renewals, "released": released}).encode()
