"""Measures what the outline adds to the CPU of a captured page: with it and without, page by page in turns, A B A B.

Pages are the smallest of the shared corpus where PAGESTATE_SHARED names it, else the example site. Both sides share one
browser; each has a process of its own for merge and serializers, one of which leaves the outline out. The batches are
committed on both sides, so that writing the outline's columns and rows counts too.

    python tests/bench/outline_share.py --pages 40 --repeats 2
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from bench import Meter, corpus

from scheduler.plan import plan
from schemas.batch import PlannedPage
from schemas.identifiers import attempt_id
from schemas.records import PageRecord
from schemas.settings import CrawlSettings
from schemas.urls import url_key
from workers import process
from workers.browser.find import find_browser
from workers.browser.supervisor import Supervisor
from workers.page import PageCapturer
from workers.permission import Robots
from workers.store import FolderStore, commit_batch, open_crawl

SIDES = ("with", "without")


def leave_out() -> None:
    """Makes this process serialize no outline."""
    process._outline = lambda *_: ({}, [], frozenset())


async def run(urls: list[str], repeats: int, folder: Path) -> None:
    settings = CrawlSettings()
    spawn = multiprocessing.get_context("spawn")
    pools = {
        "with": ProcessPoolExecutor(1, mp_context=spawn),
        "without": ProcessPoolExecutor(1, mp_context=spawn, initializer=leave_out),
    }
    supervisor = Supervisor(find_browser(os.environ.get("PAGESTATE_BROWSER", "")), settings)
    facts = await supervisor.facts()
    robots = Robots("remote", settings.budgets.permission, facts.user_agent)
    capturers = {side: PageCapturer(settings, supervisor, robots, lambda p=pools[side]: p) for side in SIDES}
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
    for pool in pools.values():
        pool.shutdown()
    await supervisor.close()
    count = len(urls) * repeats
    cpu = {side: sum(meter.cpu[side]) / count * 1000 for side in SIDES}
    more = cpu["with"] / cpu["without"] - 1
    print(
        f"the outline, {len(urls)} pages, {repeats} repeats: CPU ms/page {cpu['with']:.1f} with, {cpu['without']:.1f}"
        f" without: {more:+.1%}; its stage alone {own / count:.1f} ms, {own / count / cpu['without']:.1%}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()
    shared = os.environ.get("PAGESTATE_SHARED")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pagestate-bench-")))
        if shared:
            urls = stack.enter_context(corpus(Path(shared), arguments.pages))
        else:
            from scheduler.example.server import serve_example

            print("PAGESTATE_SHARED is not set: measuring on the example site.")
            urls = list(stack.enter_context(serve_example()).urls)
        asyncio.run(run(urls, arguments.repeats, folder))


if __name__ == "__main__":
    main()
