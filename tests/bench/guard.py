"""Measures what the egress guard costs a page: CPU of all processes, each page with and without it, in turn in one run.

.venv/bin/python tests/bench/guard.py --pages 40 --repeats 2
"""

from __future__ import annotations

import os
import random
from pathlib import Path

from bench import Meter, over_pages

from schemas.batch import Batch, PlannedPage
from schemas.settings import CrawlSettings, RunSettings
from schemas.urls import url_key
from workers.browser.find import find_browser
from workers.browser.supervisor import Supervisor
from workers.egress.guard import Guard
from workers.egress.rules import EgressRules
from workers.fetching import Fetcher
from workers.page import PageCapturer
from workers.permission import Robots
from workers.pool import ProcessPool

TARGET = 1.10
"""At most so much of the CPU without it."""


async def measure(urls: list[str], repeats: int, _: Path) -> None:
    settings = CrawlSettings()
    executable = find_browser(os.environ.get("PAGESTATE_BROWSER", ""))
    guard = await Guard.start(EgressRules.of(RunSettings(allow_private=True)))
    fetcher = Fetcher("pagestate-bench", guard)
    robots = Robots("remote", settings.budgets.permission, fetcher)
    pool = ProcessPool(2)
    supervisors = {
        "without": Supervisor(executable, settings),
        "with": Supervisor(executable, settings, proxy=guard.proxy),
    }
    capturers = {name: PageCapturer(settings, one, robots, pool) for name, one in supervisors.items()}
    meter = Meter()
    draw = random.Random(7)
    for repeat in range(repeats + 1):
        if repeat == 1:
            meter = Meter()  # the first pass warmed caches and started the processes of the pool
        for url in urls:
            page = PlannedPage(url_key(url), url)
            batch = Batch("bench", repeat, 0, 0, "", (page,))
            for name in draw.sample(sorted(capturers), 2):
                await meter.measure(name, lambda one=capturers[name], b=batch, p=page: one.capture(b, p))
    count = len(urls) * repeats
    for name in ("without", "with"):
        cpu, wall = (sum(each[name]) / count * 1000 for each in (meter.cpu, meter.wall))
        print(f"{name:8} the guard {cpu:10.1f} CPU ms/page {wall:10.1f} wall ms/page")
    ratio = sum(meter.cpu["with"]) / sum(meter.cpu["without"])
    halves = [sum(meter.cpu["with"][n::2]) / sum(meter.cpu["without"][n::2]) for n in (0, 1)]
    kept = "kept" if ratio <= TARGET else "not kept"
    print(f"ratio in CPU: {ratio:.3f} (every other page: {halves[0]:.3f}, {halves[1]:.3f}); target {TARGET}: {kept}")
    print(f"{guard.connections / (count + len(urls)):.1f} connections a page")
    await robots.close()
    await fetcher.close()
    pool.close()
    for supervisor in supervisors.values():
        await supervisor.close()
    await guard.close()


if __name__ == "__main__":
    over_pages(__doc__, measure)
