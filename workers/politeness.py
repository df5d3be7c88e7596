"""The host gate keeps a run polite: a bounded number of pages of one host in flight, and a delay between navigations.

Hosts of this machine are limited by the run's concurrency alone, unless the policy or their robots.txt says how they
are visited. Every URL of a host is in one lane and one batch of a lane runs at a time, so a gate in the one process
that runs the batch is enough; what another process did before, it takes to have happened just now.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from schemas.policy import Policy
from schemas.settings import RunSettings
from schemas.urls import host_of, is_loopback


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a host is visited: pages in flight, and the time between two starts."""

    concurrency: int
    delay: timedelta


def pace_of(url_key: str, run: RunSettings, policy: Policy, crawl_delay: timedelta) -> Pace | None:
    """The pace of a URL's host; None where only the run's own concurrency limits it.

    The policy's numbers come before the run's; a longer delay that robots.txt asks for comes before both.
    """
    site = policy.site_of(url_key)
    own_delay = site.delay if site is not None else None
    own_concurrency = site.concurrency if site is not None else None
    if is_loopback(url_key):
        if own_delay is None and own_concurrency is None and not crawl_delay:
            return None
        return Pace(own_concurrency or run.concurrency, max(own_delay or timedelta(0), crawl_delay))
    delay = run.host_delay if own_delay is None else own_delay
    return Pace(own_concurrency or run.host_concurrency, max(delay, crawl_delay))


class Turn:
    """A page's right to navigate, once its host's delay is over."""

    __slots__ = ("_delay", "_gate", "_host")

    def __init__(self, gate: HostGate, host: str, delay: float) -> None:
        self._gate = gate
        self._host = host
        self._delay = delay

    async def come(self) -> None:
        """Returns when the navigation may begin, and counts it: a browser slow to start moves the next one too.

        May be awaited again for another try.
        """
        if self._delay:
            await self._gate.navigates(self._host, self._delay)


class HostGate:
    """One gate for all hosts of a run. `clock` counts seconds and never goes back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._free_at: dict[str, float] = {}
        """When the next page of a host may start."""
        self._quiet_until: dict[str, float] = {}
        """When the next navigation to a host may begin, by those that did begin."""

    @asynccontextmanager
    async def entered(
        self, url_key: str, pace: Pace | None, until: float = math.inf, since: float = -math.inf
    ) -> AsyncIterator[Turn | None]:
        """Waits for a slot of the URL's host and for its delay to be over; None, at once, where that would be after
        `until`: such a page is not started and owes the host no delay.

        since   when another process may have visited the host last, by this one's clock
        """
        if pace is None:
            yield Turn(self, "", 0)
            return
        host, delay = host_of(url_key), pace.delay.total_seconds()
        async with self._slots.setdefault(host, asyncio.Semaphore(pace.concurrency)):
            now = self._clock()
            start = max(now, self._free_at.get(host, now), since + delay)
            if start > until:
                yield None
                return
            self._free_at[host] = start + delay
            if start > now:
                await asyncio.sleep(start - now)
            yield Turn(self, host, delay)

    async def navigates(self, host: str, delay: float) -> None:
        """Returns when the delay since the last navigation to a host is over; another one begins then."""
        now = self._clock()
        begin = max(now, self._quiet_until.get(host, now))
        self._quiet_until[host] = begin + delay
        if begin > now:
            await asyncio.sleep(begin - now)
        # a busy machine wakes late
        following = self._clock() + delay
        self._quiet_until[host] = max(self._quiet_until[host], following)
        self._free_at[host] = max(self._free_at.get(host, following), following)
