"""The local engine is the default: one process owns one browser; no broker, no S3.

It runs at most one batch of a lane at a time, as every engine does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from schemas.batch import Batch
from schemas.settings import CrawlSettings, RunSettings
from workers.batch import BatchDone, BatchRunner, PageDone
from workers.browser.supervisor import Supervisor
from workers.page import PageCapturer
from workers.permission import Robots
from workers.politeness import HostGate
from workers.process import process_pool
from workers.store.objects import ObjectStore


class EngineLoop(asyncio.SelectorEventLoop):
    """An event loop whose child processes are in sessions of their own.

    Otherwise a Ctrl-C on a terminal would also reach Playwright's driver, which takes the browser down while the pages
    in flight are still being finished.
    """

    async def subprocess_exec(self, *args: Any, **kwargs: Any) -> Any:
        kwargs.setdefault("start_new_session", True)
        return await super().subprocess_exec(*args, **kwargs)


class _Pool:
    """The process pool, replaced when one of its processes died."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._pool = process_pool(processes)

    def __call__(self) -> ProcessPoolExecutor:
        if getattr(self._pool, "_broken", False):
            self._pool.shutdown(wait=False)
            self._pool = process_pool(self._processes)
        return self._pool

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


async def run_local(
    store: ObjectStore,
    settings: CrawlSettings,
    run: RunSettings,
    browser: Path,
    lanes: Mapping[int, Sequence[Batch]],
    stop: asyncio.Event,
    page_done: Callable[[PageDone], None],
    batch_done: Callable[[BatchDone], None],
) -> None:
    """Runs all batches, each lane's in their order; returns when they are done or, after `stop`, when the pages in
    flight are.

    Raises BrowserMissing, StoreError.
    """
    supervisor = Supervisor(browser, settings)
    pool = _Pool(run.processes)
    try:
        facts = await supervisor.facts()
        robots = Robots(settings.robots, settings.budgets.permission, settings.profile.user_agent or facts.user_agent)
        try:
            runner = BatchRunner(
                store=store,
                settings=settings,
                run=run,
                capturer=PageCapturer(settings, supervisor, robots, pool),
                gate=HostGate(run.host_concurrency, run.host_delay, time.monotonic),
                slots=asyncio.Semaphore(run.concurrency),
                stop=stop,
                told=page_done,
            )
            await _run_lanes(runner, run, lanes, stop, batch_done)
        finally:
            await robots.close()
    finally:
        pool.close()
        await supervisor.close()


async def _run_lanes(
    runner: BatchRunner,
    run: RunSettings,
    lanes: Mapping[int, Sequence[Batch]],
    stop: asyncio.Event,
    batch_done: Callable[[BatchDone], None],
) -> None:
    """Lanes side by side, no more than there are page slots: a batch in flight holds its records in memory."""
    waiting = [list(lanes[lane]) for lane in sorted(lanes)]

    async def lane_after_lane() -> None:
        while waiting and not stop.is_set():
            for batch in waiting.pop(0):
                if stop.is_set():
                    return
                batch_done(await runner.capture_batch(batch))

    async with asyncio.TaskGroup() as group:
        for _ in range(run.concurrency):
            group.create_task(lane_after_lane())
