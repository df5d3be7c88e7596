"""A capturer of pages whose raw connection to its real browser leads through a proxy that faults single answers."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from scheduler.plan import plan
from schemas.batch import PlannedPage
from schemas.records import PageRecord
from schemas.settings import Budgets, CrawlSettings
from schemas.urls import url_key
from workers.browser import launch
from workers.browser.supervisor import Supervisor
from workers.fetching import Fetcher
from workers.page import PageCapturer
from workers.permission import Robots
from workers.pool import ProcessPool

BUDGETS = Budgets(
    context=timedelta(seconds=8),
    navigate=timedelta(seconds=10),
    load=timedelta(seconds=5),
    settle=timedelta(seconds=4),
    payload=timedelta(seconds=3),
    retry=timedelta(seconds=2),
    needed=timedelta(seconds=6),
    page=timedelta(seconds=25),
    close=timedelta(seconds=2),
)
"""Short, for what never comes, and far above what a small page takes."""
ENDPOINT = launch.endpoint
IDLE_FOLDER = {"artifacts", "profile", "owner.json", "owner.lock"}


@dataclass
class Ladder:
    """One capturer with one browser behind one proxy."""

    proxy: Any
    settings: CrawlSettings
    supervisor: Supervisor
    capturer: PageCapturer

    async def capture(self, url: str) -> PageRecord:
        """One page, all the way."""
        page = PlannedPage(url_key(url), url)
        (batch,) = plan("ladder", 0, [page], self.settings)
        async with asyncio.timeout(90):
            return await self.capturer.capture(batch, page)

    def asked(self, method: str) -> list[dict[str, Any]]:
        """The parameters of every such command since the rules were cleared."""
        return [command.get("params", {}) for command in self.proxy.asked if command["method"] == method]

    def left_behind(self) -> tuple[set[str], int]:
        """What lies in the browser's folder and should not, and how many replies are still awaited."""
        launched = self.supervisor._launched
        assert launched is not None
        names = {path.name for path in launched.folder.iterdir()} if launched.folder.exists() else set()
        return names - IDLE_FOLDER, len(launched.channel._waiting)


@pytest.fixture(scope="session")
def proxies() -> ModuleType:
    """The module of the proxy: tests are no package (import mode importlib)."""
    name = "pagestate_tests_proxy"
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("proxy.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def budgets() -> Budgets:
    return BUDGETS


OpenProxy = Callable[[], AbstractAsyncContextManager[Any]]
OpenLadder = Callable[[CrawlSettings], AbstractAsyncContextManager[Ladder]]


@pytest.fixture(scope="session")
def open_proxy(proxies: ModuleType) -> OpenProxy:
    """Opens a proxy that every browser's raw connection leads through, as long as it is open."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        proxy = await proxies.Proxy.start()

        async def proxied(profile_folder: Path) -> str:
            return str(proxy.through(await ENDPOINT(profile_folder)))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(launch, "endpoint", proxied)
            try:
                yield proxy
            finally:
                await proxy.close()

    return opened


@pytest.fixture(scope="session")
def open_ladder(browser_path: Path, open_proxy: OpenProxy) -> OpenLadder:
    """Opens a capturer of some settings."""

    @asynccontextmanager
    async def opened(settings: CrawlSettings) -> AsyncIterator[Ladder]:
        supervisor = Supervisor(browser_path, settings)
        fetcher = Fetcher("ladder")
        robots = Robots("remote", settings.budgets.permission, fetcher)
        pool = ProcessPool(1)
        async with open_proxy() as proxy:
            try:
                yield Ladder(proxy, settings, supervisor, PageCapturer(settings, supervisor, robots, pool))
            finally:
                pool.close()
                await supervisor.close()
                await robots.close()
                await fetcher.close()

    return opened
