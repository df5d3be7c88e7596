"""The local engine is the default: one process owns one browser; no broker, no S3.

It runs at most one batch of a lane at a time, as every engine does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from schemas.batch import Batch
from schemas.settings import CrawlSettings, RunSettings
from workers.batch import BatchDone, BatchRunner, Execution, PageDone
from workers.engine import Engine
from workers.store.objects import ObjectStore


async def run_local(
    store: ObjectStore,
    settings: CrawlSettings,
    run: RunSettings,
    browser: Path,
    lanes: Mapping[int, Iterable[Batch]],
    stop: asyncio.Event,
    page_done: Callable[[PageDone], None],
    batch_done: Callable[[BatchDone], None],
) -> None:
    """Runs all batches, each lane's in their order; returns when they are done or, after `stop`, when the pages in
    flight are.

    Raises BrowserMissing, DiskFull, StoreError.
    """
    async with (
        Engine(run, browser, stop) as engine,
        engine.runner(store, settings, page_done) as runner,
    ):
        await _run_lanes(runner, run, lanes, stop, batch_done)


async def _run_lanes(
    runner: BatchRunner,
    run: RunSettings,
    lanes: Mapping[int, Iterable[Batch]],
    stop: asyncio.Event,
    batch_done: Callable[[BatchDone], None],
) -> None:
    """Lanes side by side, no more than there are page slots: a batch in flight holds its records in memory."""
    waiting = [lanes[lane] for lane in sorted(lanes)]

    async def lane_after_lane() -> None:
        while waiting and not stop.is_set():
            batches, number = iter(waiting.pop(0)), 0
            # read from the plan as they are needed
            while (batch := await asyncio.to_thread(next, batches, None)) is not None:
                if stop.is_set():
                    return
                # an earlier run or round has had its own gate
                follows = number == 0 and bool(batch.round or batch.sequence)
                number += 1
                batch_done(await runner.capture_batch(batch, Execution.alone(follows=follows)))

    async with asyncio.TaskGroup() as group:
        for _ in range(run.concurrency):
            group.create_task(lane_after_lane())
