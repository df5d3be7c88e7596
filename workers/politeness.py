"""The host gate keeps a run polite: a bounded number of pages of one host in flight, and a delay between their starts.

Hosts of this machine are limited by the run's concurrency alone, unless the policy or their robots.txt says how they
are visited. Every URL of a host is in one lane and one batch of a lane runs at a time, so a gate in the one process
that runs the batch is enough: a batch pays what it owes to its hosts before its marker lets the next one begin, and one
that was another's before begins as if that one had just been there.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterable
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


class HostGate:
    """One gate for all hosts of a run. `clock` counts seconds and never goes back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._free_at: dict[str, float] = {}

    @asynccontextmanager
    async def entered(self, url_key: str, pace: Pace | None, until: float = math.inf) -> AsyncIterator[bool]:
        """Waits for a slot of the URL's host and for its delay to be over; False, at once, where that would be after
        `until`: such a page is not started and owes the host no delay."""
        if pace is None:
            yield True
            return
        host = host_of(url_key)
        async with self._slots.setdefault(host, asyncio.Semaphore(pace.concurrency)):
            now = self._clock()
            start = max(now, self._free_at.get(host, now))
            if start > until:
                yield False
                return
            self._free_at[host] = start + pace.delay.total_seconds()
            if start > now:
                await asyncio.sleep(start - now)
            yield True

    def hold(self, url_key: str, pace: Pace | None, since: float) -> None:
        """Takes a URL's host as visited at `since`, by somebody whom this gate does not know."""
        if pace is not None:
            host, free_at = host_of(url_key), since + pace.delay.total_seconds()
            self._free_at[host] = max(free_at, self._free_at.get(host, free_at))

    def owed(self, url_keys: Iterable[str]) -> float:
        """How long it takes, in seconds, until the hosts of some URLs may be visited again."""
        now = self._clock()
        return max((self._free_at.get(host, now) - now for host in set(map(host_of, url_keys))), default=0.0)
