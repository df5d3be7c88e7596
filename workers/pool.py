"""The pool merges pages in processes of their own, one page at a time in each: a process that dies names its page.

An executor with several processes takes every job that is under way down with one of them, and cannot say whose it was.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from workers.browser.channel import forget

_Result = TypeVar("_Result")

TRIES = 2
"""A process may also be killed for what others did (by the kernel, when memory is short), so that its page is done once
more; a page that takes two processes down is to blame."""


START_PATIENCE_SECONDS = 60.0
"""A process that has not loaded its libraries by then will not."""


class ProcessPool:
    """So many processes, each with one job at a time; one that died or was late is replaced."""

    def __init__(self, processes: int) -> None:
        self._free = asyncio.Semaphore(processes)
        self._idle = [_Process() for _ in range(processes)]
        self._closed = False

    async def run(self, seconds: float, work: Callable[..., _Result], *arguments: object) -> _Result:
        """The result of a job.

        Raises TimeoutError after so many seconds of work, and BrokenProcessPool where the job took its process down
        twice. The neighbours are not touched by either.
        """
        async with self._free:
            for left in reversed(range(TRIES)):
                one = self._idle.pop()
                try:
                    # a process that is still loading its libraries takes nothing off the page's budget
                    ready = asyncio.wrap_future(one.ready)
                    # where nobody waits any more, a process that is ended while it loads is nothing to complain of
                    ready.add_done_callback(forget)
                    await asyncio.wait_for(asyncio.shield(ready), START_PATIENCE_SECONDS)
                    async with asyncio.timeout(seconds):
                        return await asyncio.get_running_loop().run_in_executor(one.executor, work, *arguments)
                except BrokenProcessPool:
                    one = self._replaced(one)
                    if not left:
                        raise
                except BaseException as error:
                    if isinstance(error, TimeoutError | asyncio.CancelledError):
                        # nobody waits for it any more, and it would keep the process from the next page
                        one = self._replaced(one)
                    raise
                finally:
                    self._idle.append(one)
        raise AssertionError("the last try returns or raises")

    def _replaced(self, one: _Process) -> _Process:
        one.kill()
        return one if self._closed else _Process()

    def close(self) -> None:
        """Ends the processes; jobs under way end with them."""
        self._closed = True
        for one in self._idle:
            one.executor.shutdown(wait=False, cancel_futures=True)


class _Process:
    """An executor with one process, which ignores Ctrl-C and ends when its parent does, however it ends."""

    def __init__(self) -> None:
        self.executor = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=_initialize)
        # inherited by the process: a Ctrl-C before it can ignore it must not end it in the middle of an import
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            # it loads its libraries while the browser starts, not when the first page waits for them
            self.ready = self.executor.submit(_warm_up)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def kill(self) -> None:
        """Ends the process, whatever it is doing."""
        for process in list((self.executor._processes or {}).values()):
            process.kill()
        self.executor.shutdown(wait=False, cancel_futures=True)


def _warm_up() -> None:
    """Makes a process import what it will need."""
    import workers.process  # noqa: F401  # for its libraries


def _initialize() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, name="parent-watch", daemon=True).start()


def _end_with_parent() -> None:
    """Ends this process when its parent is gone: a pool's queue never tells (its writing end is open here too)."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
