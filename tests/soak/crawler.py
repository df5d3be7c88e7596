"""One process of the soak: a crawl with the local engine, which writes down the memory of its processes page by page.

    python tests/soak/crawler.py STORE SEEDS SAMPLES

SAMPLES gets one line a page: pages so far, resident bytes of this process and its pool, those of the browser's driver.
"""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TextIO

import psutil

from scheduler.local import run_local
from scheduler.rounds import plan_round, remaining
from schemas.batch import PlannedPage
from schemas.settings import Budgets, CrawlSettings, RunSettings
from schemas.urls import url_key
from workers.browser.find import find_browser
from workers.engine import EngineLoop
from workers.store import FolderStore, open_crawl

CRAWL = "soak"
SETTINGS = CrawlSettings(
    # short ones, because every fifth page is a fault, and many faults take all the time they are given
    budgets=Budgets(
        navigate=timedelta(seconds=5),
        load=timedelta(seconds=2),
        settle=timedelta(seconds=1),
        page=timedelta(seconds=8),
        close=timedelta(seconds=2),
    )
)
RUN = RunSettings(concurrency=4, allow_private=True)


class Memory:
    """The resident memory of this process and its descendants, the browser's own apart."""

    def __init__(self, samples: TextIO) -> None:
        self._samples = samples
        self._me = psutil.Process()
        self._pages = 0

    def sample(self, _: object) -> None:
        """Writes one line."""
        self._pages += 1
        python = driver = 0
        for process in [self._me, *self._me.children(), *self._forked()]:
            try:
                name, resident = process.name(), process.memory_info().rss
            except psutil.Error:
                continue
            if name.startswith("node"):
                driver += resident
            else:
                python += resident
        self._samples.write(f"{self._pages} {python} {driver}\n")
        self._samples.flush()

    def _forked(self) -> list[psutil.Process]:
        """The processes below our children that are ours too; whatever is below the driver is the browser's."""
        found: list[psutil.Process] = []
        for child in self._me.children():
            try:
                if not child.name().startswith("node"):
                    found += [each for each in child.children() if not each.name().startswith("chrom")]
            except psutil.Error:
                continue
        return found


async def crawl(store: FolderStore, browser: Path, memory: Memory) -> None:
    """All that is left of the crawl."""
    await run_local(store, SETTINGS, RUN, browser, remaining(store, 0), asyncio.Event(), memory.sample, lambda _: None)


def main() -> None:
    where, seeds, samples = (Path(argument) for argument in sys.argv[1:])
    store = FolderStore.for_run(where)
    open_crawl(store, CRAWL, SETTINGS, now=datetime.now(UTC))
    urls = seeds.read_text("utf-8").split()
    plan_round(store, CRAWL, 0, [PlannedPage(url_key(url), url) for url in urls], SETTINGS)
    with samples.open("a", encoding="utf-8") as file, asyncio.Runner(loop_factory=EngineLoop) as runner:
        runner.run(crawl(store, find_browser(os.environ.get("PAGESTATE_BROWSER", "")), Memory(file)))


if __name__ == "__main__":
    main()
