"""Measures what the outline adds to the CPU of a captured page: with it and without, page by page in turns, A B A B.

Pages are the smallest of the shared corpus where PAGESTATE_SHARED names it, else the example site. Both sides share one
browser; each has a process of its own for merge and serializers, one of which leaves the outline out. The batches are
committed on both sides, so that writing the outline's columns and rows counts too.

    python tests/bench/outline_share.py --pages 40 --repeats 2
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import Meter, over_pages

from scheduler.plan import plan
from schemas.batch import PlannedPage
from schemas.identifiers import attempt_id
from schemas.records import PageRecord
from schemas.settings import CrawlSettings
from schemas.urls import url_key
from workers import process
from workers.browser.find import find_browser
from workers.browser.supervisor import Supervisor
from workers.fetching import Fetcher
from workers.page import PageCapturer
from workers.permission import Robots
from workers.pool import ProcessPool
from workers.store import FolderStore, commit_batch, open_crawl

SIDES = ("with", "without")


class PoolWithoutOutline(ProcessPool):
    """A pool whose processes serialize no outline."""

    async def run(self, seconds: float, work: Callable[..., Any], *arguments: object) -> Any:
        assert work is process.process_page
        return await super().run(seconds, without_outline, *arguments)


def without_outline(*arguments: Any) -> process.Processed:
    """What the pipeline does with a page, but for the outline; for a process that does nothing else."""
    process._outline = lambda *_: ({}, [], frozenset())
    return process.process_page(*arguments)


async def run(urls: list[str], repeats: int, folder: Path) -> None:
    # as in bench.py: full batches
    settings = CrawlSettings(lanes=1)
    pools = {"with": ProcessPool(1), "without": PoolWithoutOutline(1)}
    supervisor = Supervisor(find_browser(os.environ.get("PAGESTATE_BROWSER", "")), settings)
    facts = await supervisor.facts()
    fetcher = Fetcher(facts.user_agent)
    robots = Robots("remote", settings.budgets.permission, fetcher)
    capturers = {side: PageCapturer(settings, supervisor, robots, pools[side]) for side in SIDES}
    stores = {side: FolderStore.for_run(folder / side) for side in SIDES}
    for store in stores.values():
        open_crawl(store, "bench", settings, now=datetime.now(UTC))
    pages = [PlannedPage(url_key(url), url) for url in urls]
    meter = Meter()
    own = 0.0
    for repeat in range(repeats + 1):
        if repeat == 1:
            # the first pass warms caches and processes
            meter, own = Meter(), 0.0
        for batch in plan("bench", repeat, pages, settings):
            records: dict[str, list[PageRecord]] = {side: [] for side in SIDES}
            for number, planned in enumerate(batch.pages):
                for side in SIDES if number % 2 else SIDES[::-1]:
                    record = await meter.measure(side, lambda s=side, b=batch, p=planned: capturers[s].capture(b, p))
                    assert isinstance(record, PageRecord)
                    assert ("outline" in record.listing) == (side == "with" and record.outcome != "unsupported_content")
                    records[side].append(record)
                    own += sum(s.cpu_ms or 0.0 for s in record.stages if s.stage == "outline")
            for side in SIDES:
                attempt = attempt_id(os.urandom(16))
                await meter.measure(
                    side,
                    lambda s=side, b=batch, r=records, a=attempt: asyncio.to_thread(
                        commit_batch, stores[s], b, a, r[s], now=datetime.now(UTC)
                    ),
                )
    await robots.close()
    await fetcher.close()
    for pool in pools.values():
        pool.close()
    await supervisor.close()
    count = len(urls) * repeats
    cpu = {side: sum(meter.cpu[side]) / count * 1000 for side in SIDES}
    more = cpu["with"] / cpu["without"] - 1
    print(
        f"the outline, {len(urls)} pages, {repeats} repeats: CPU ms/page {cpu['with']:.1f} with, {cpu['without']:.1f}"
        f" without: {more:+.1%}; its stage alone {own / count:.1f} ms, {own / count / cpu['without']:.1%}"
    )


if __name__ == "__main__":
    over_pages(__doc__, run)
