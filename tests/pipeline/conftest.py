"""What the tests of the whole way share: a crawl by the local engine, round after round, as the command runs it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from scheduler.local import run_local
from scheduler.next_round import next_round
from scheduler.rounds import plan_round, remaining
from schemas.batch import PlannedPage
from schemas.settings import CrawlSettings, RunSettings
from schemas.urls import url_key
from workers.batch import BatchDone, PageDone
from workers.engine import EngineLoop
from workers.store import FolderStore, latest_listings, open_crawl, read_table

CRAWL_SECONDS = 300.0
MAX_ROUNDS = 10


@dataclass
class Crawled:
    """A finished crawl."""

    store: FolderStore
    settings: CrawlSettings
    pages: list[PageDone] = field(default_factory=list)
    batches: list[BatchDone] = field(default_factory=list)
    rounds: int = 0

    def rows(self) -> dict[str, dict[str, Any]]:
        """The last row of every page, by URL key."""
        return {row["url_key"]: row for row in latest_listings(self.store).to_pylist()}

    def outcomes(self) -> dict[str, str]:
        return {url: row["outcome"] for url, row in self.rows().items()}

    def table(self, name: Any) -> list[dict[str, Any]]:
        return read_table(self.store, name).to_pylist(maps_as_pydicts="strict")


def crawl(
    folder: Path,
    browser: Path,
    urls: Sequence[str],
    settings: CrawlSettings | None = None,
    run: RunSettings | None = None,
    guarded: bool = False,
) -> Crawled:
    """Captures the URLs into a store in this process, until no round is left.

    The tests' sites are on this machine, which the guard keeps closed unless it is what is tested (`guarded`).
    """
    settings = settings or CrawlSettings()
    run = run or RunSettings()
    run = run if guarded else replace(run, allow_private=True)
    done = Crawled(FolderStore.for_run(folder), settings)
    open_crawl(done.store, "test", settings, now=datetime.now(UTC))
    plan_round(done.store, "test", 0, [PlannedPage(url_key(url), url) for url in urls], settings)

    async def rounds() -> None:
        async with asyncio.timeout(CRAWL_SECONDS):
            for number in range(MAX_ROUNDS):
                lanes = remaining(done.store, number)
                await run_local(
                    done.store,
                    settings,
                    run,
                    browser,
                    lanes,
                    asyncio.Event(),
                    done.pages.append,
                    done.batches.append,
                )
                done.rounds = number + 1
                assert not remaining(done.store, number)
                if not next_round(done.store, "test", number, settings):
                    return

    with asyncio.Runner(loop_factory=EngineLoop) as runner:
        runner.run(rounds())
    return done


@pytest.fixture
def crawled(tmp_path: Path, browser_path: Path) -> Callable[..., Crawled]:
    """Crawls URLs into a store of the test's own."""

    def now(
        urls: Sequence[str],
        settings: CrawlSettings | None = None,
        run: RunSettings | None = None,
        guarded: bool = False,
    ) -> Crawled:
        return crawl(tmp_path / "store", browser_path, urls, settings, run, guarded)

    return now


@pytest.fixture(scope="session")
def example_crawl(tmp_path_factory: pytest.TempPathFactory, browser_path: Path, example_site: Any) -> Crawled:
    """The example site, captured once for all tests that read it."""
    return crawl(tmp_path_factory.mktemp("example") / "store", browser_path, example_site.urls)
