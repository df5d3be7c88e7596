"""The watchdog is a thread beside the event loop: it kills a browser whose page is overdue, and ends a wedged process.

Deadlines inside the loop hold only while the loop runs. It counts its own ticks, not a clock: a process that was
stopped for a while is not wedged.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count

WEDGED_EXIT_CODE = 70
"""EX_SOFTWARE of sysexits.h; whoever started the process starts another, and the broker delivers its batches again."""


class Watchdog:
    """One for an engine. `kill` kills the engine's browsers, from this thread; `end` ends the process."""

    def __init__(
        self,
        wedged_after: timedelta,
        kill: Callable[[], None],
        end: Callable[[int], object] = os._exit,
        tick: timedelta = timedelta(seconds=1),
    ) -> None:
        self._limit = max(1, round(wedged_after / tick))
        self._kill = kill
        self._end = end
        self._tick_seconds = tick.total_seconds()
        self._ticks = 0
        self._beaten_at = 0
        self._over = threading.Event()
        self._pages: dict[int, int] = {}
        self._numbers = count()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def start(self) -> None:
        """Begins to watch the running loop."""
        self._loop = asyncio.get_running_loop()
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        """Ends the watch."""
        self._over.set()

    @contextmanager
    def page(self, seconds: float) -> Iterator[None]:
        """A page that must be over by then, close and all; else the browsers are killed, and it ends with them."""
        number = next(self._numbers)
        with self._lock:
            self._pages[number] = self._ticks + 1 + int(seconds / self._tick_seconds)
        try:
            yield
        finally:
            with self._lock:
                self._pages.pop(number, None)

    def _beat(self) -> None:
        self._beaten_at = self._ticks
        if not self._over.is_set() and self._loop is not None:
            self._loop.call_later(self._tick_seconds, self._beat)

    def _watch(self) -> None:
        while not self._over.wait(self._tick_seconds):
            self._ticks += 1
            if self._ticks - self._beaten_at > self._limit:
                seconds = self._limit * self._tick_seconds
                sys.stderr.write(
                    f"The event loop has stood still for {seconds:g} s; the process ends with code {WEDGED_EXIT_CODE},"
                    " and what it had in flight is done again.\n"
                )
                sys.stderr.flush()
                self._kill()
                self._end(WEDGED_EXIT_CODE)
                return
            if self._overdue():
                self._kill()

    def _overdue(self) -> bool:
        with self._lock:
            late = [number for number, until in self._pages.items() if self._ticks > until]
            for number in late:
                # told once; what follows from it takes a moment
                del self._pages[number]
        return bool(late)
