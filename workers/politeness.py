"""The host gate keeps a run polite: a bounded number of pages of one host in flight, and a delay between their starts.

Hosts of this machine are limited by the run's concurrency alone. Every URL of a host is in one lane and one batch of
a lane runs at a time, so a gate in the one process that runs the batch is enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

from schemas.urls import host_of, is_loopback


class HostGate:
    """One gate for all hosts of a run. `clock` counts seconds and never goes back."""

    def __init__(self, host_concurrency: int, host_delay: timedelta, clock: Callable[[], float]) -> None:
        self._host_concurrency = host_concurrency
        self._delay_seconds = host_delay.total_seconds()
        self._clock = clock
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._free_at: dict[str, float] = {}

    @asynccontextmanager
    async def entered(self, url_key: str) -> AsyncIterator[None]:
        """Waits for a slot of the URL's host and for its delay to be over."""
        if is_loopback(url_key):
            yield
            return
        host = host_of(url_key)
        async with self._slots.setdefault(host, asyncio.Semaphore(self._host_concurrency)):
            now = self._clock()
            start = max(now, self._free_at.get(host, now))
            self._free_at[host] = start + self._delay_seconds
            if start > now:
                await asyncio.sleep(start - now)
            yield
