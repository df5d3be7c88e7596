"""Measures what a page costs, against bare Playwright, page by page in turn in one run; only the ratio counts.

(a) bare Playwright: fresh context, goto, close.
(b) this pipeline, committed in full batches of the default size, as a crawl of many pages is: all pages in one lane.

The figure is CPU-seconds of all processes, browsers and drivers included. Pages are the smallest of the shared corpus
where PAGESTATE_SHARED names it, else the example site.

    make bench ARGS="--pages 40 --repeats 3"
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from playwright.async_api import Browser, async_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "oracle"))

from sites import corpus_site

from scheduler.plan import plan
from schemas.batch import PlannedPage
from schemas.identifiers import attempt_id
from schemas.records import PageRecord
from schemas.settings import DESKTOP, CrawlSettings
from schemas.urls import url_key
from workers.browser.find import find_browser
from workers.browser.supervisor import Supervisor
from workers.fetching import Fetcher
from workers.page import PageCapturer
from workers.permission import Robots
from workers.pool import ProcessPool
from workers.store import FolderStore, commit_batch, open_crawl

QUIET_SECONDS = 0.15
"""Renderers end a little after their page is closed; their CPU belongs to that page."""


def cpu_seconds() -> float:
    """CPU of this process and all below it, those that ended and were waited for included."""
    me = psutil.Process()
    total = 0.0
    for process in [me, *me.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


class Meter:
    """Sums CPU and wall of each kind of step, page by page."""

    def __init__(self) -> None:
        self.cpu: defaultdict[str, list[float]] = defaultdict(list)
        self.wall: defaultdict[str, list[float]] = defaultdict(list)

    async def measure(self, kind: str, step: Callable[[], Awaitable[object]]) -> object:
        cpu, wall = cpu_seconds(), time.perf_counter()
        result = await step()
        self.wall[kind].append(time.perf_counter() - wall)
        await asyncio.sleep(QUIET_SECONDS)
        self.cpu[kind].append(cpu_seconds() - cpu)
        return result


async def bare(browser: Browser, url: str, user_agent: str) -> None:
    """What (a) does with a page."""
    context = await browser.new_context(
        viewport={"width": DESKTOP.viewport_width, "height": DESKTOP.viewport_height},
        device_scale_factor=DESKTOP.scale,
        locale=DESKTOP.locale,
        timezone_id=DESKTOP.time_zone,
        user_agent=user_agent,
    )
    page = await context.new_page()
    await page.goto(url)
    await context.close()


async def run(urls: list[str], repeats: int, folder: Path) -> Meter:
    # every page of the corpus has a host of its own, and so few hosts would leave nearly every lane's batch empty
    settings = CrawlSettings(lanes=1)
    executable = find_browser(os.environ.get("PAGESTATE_BROWSER", ""))
    store = FolderStore.for_run(folder / "store")
    open_crawl(store, "bench", settings, now=datetime.now(UTC))
    pool = ProcessPool(2)
    supervisor = Supervisor(executable, settings)
    facts = await supervisor.facts()
    fetcher = Fetcher(facts.user_agent)
    robots = Robots("remote", settings.budgets.permission, fetcher)
    capturer = PageCapturer(settings, supervisor, robots, pool)
    meter = Meter()
    stages: defaultdict[str, list[float]] = defaultdict(list)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, chromium_sandbox=os.geteuid() != 0)
        pages = [PlannedPage(url_key(url), url) for url in urls]
        for repeat in range(repeats + 1):
            if repeat == 1:
                # the first pass warms caches and starts the processes of the pool
                meter, stages = Meter(), defaultdict(list)
            for batch in plan("bench", repeat, pages, settings):
                records: list[PageRecord] = []
                for planned in batch.pages:
                    await meter.measure("bare", lambda url=planned.url_key: bare(browser, url, facts.user_agent))
                    record = await meter.measure("page", lambda b=batch, p=planned: capturer.capture(b, p))
                    assert isinstance(record, PageRecord)
                    records.append(record)
                    for stage in record.stages:
                        stages[stage.stage].append(stage.duration_ms)
                attempt = attempt_id(os.urandom(16))
                await meter.measure(
                    "commit",
                    lambda b=batch, r=records, a=attempt: asyncio.to_thread(
                        commit_batch, store, b, a, r, now=datetime.now(UTC)
                    ),
                )
        await browser.close()
    await robots.close()
    await fetcher.close()
    pool.close()
    await supervisor.close()
    print_report(meter, stages, len(urls), repeats)
    return meter


def print_report(meter: Meter, stages: dict[str, list[float]], pages: int, repeats: int) -> None:
    count = pages * repeats
    bare_cpu, page_cpu, commit_cpu = (sum(meter.cpu[kind]) for kind in ("bare", "page", "commit"))
    own = page_cpu + commit_cpu
    print(f"{pages} pages, {repeats} repeats, page by page in turn")
    print(f"{'':28}{'CPU ms/page':>12}{'wall ms/page':>14}")
    for name, kinds in (
        ("(a) bare Playwright", ["bare"]),
        ("(b) this pipeline, committed", ["page", "commit"]),
        ("    of it writing, commit", ["commit"]),
    ):
        cpu = sum(sum(meter.cpu[kind]) for kind in kinds)
        wall = sum(sum(meter.wall[kind]) for kind in kinds)
        print(f"{name:28}{cpu / count * 1000:12.1f}{wall / count * 1000:14.1f}")
    print("wall by stage, median ms: " + ", ".join(f"{n} {statistics.median(v):.1f}" for n, v in stages.items()))
    halves = [(sum(meter.cpu["page"][i::2]) + commit_cpu / 2) / max(sum(meter.cpu["bare"][i::2]), 1e-9) for i in (0, 1)]
    print(f"ratio (b)/(a) in CPU: {own / bare_cpu:.2f}   (every other page: {halves[0]:.2f}, {halves[1]:.2f})")


def over_pages(about: str, measure: Callable[[list[str], int, Path], Coroutine[Any, Any, object]]) -> None:
    """The command line of a bench: the smallest pages of the shared corpus, or the example site, `--repeats` times."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--pages", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()
    shared = os.environ.get("PAGESTATE_SHARED")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pagestate-bench-")))
        if shared:
            urls = list(stack.enter_context(corpus_site(Path(shared))).values())[: arguments.pages]
        else:
            from scheduler.example.server import serve_example

            print("PAGESTATE_SHARED is not set: measuring on the example site.")
            urls = list(stack.enter_context(serve_example()).urls)
        asyncio.run(measure(urls, arguments.repeats, folder))


if __name__ == "__main__":
    over_pages(__doc__, run)
