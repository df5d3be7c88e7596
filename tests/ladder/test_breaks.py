"""What no rung can catch: a socket that closes in a reply, a browser that does not answer, replies of 300 MB.

Such a page ends in its outcome within its budgets, with nothing left of it, and the next page is captured as always: by
the same browser, or by one in its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from scheduler.local import run_local
from scheduler.rounds import plan_round, remaining
from schemas.batch import PlannedPage
from schemas.records import PageRecord
from schemas.settings import CrawlSettings, RunSettings
from schemas.urls import url_key
from workers.store import FolderStore, latest_listings, open_crawl

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

PAGE = "<!doctype html><title>T</title><h1>Heading</h1><button>Press</button>"
MIB = 1024 * 1024
BIG = 300 * MIB


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def opened(open_ladder, budgets) -> AsyncIterator[Any]:
    async with open_ladder(CrawlSettings(budgets=budgets)) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def ladder(opened, site) -> AsyncIterator[Any]:
    """The capturer; after the test the next page is whole, and nothing of the faulted one is left."""
    await opened.supervisor.facts()
    opened.proxy.clear()
    before = opened.supervisor._launched
    yield opened
    await next_is_whole(opened, site)
    if opened.supervisor._launched is not before:
        assert not before.folder.exists()
        assert not before.process.is_running()


async def next_is_whole(ladder: Any, site: Any) -> None:
    ladder.proxy.clear()
    record = await ladder.capture(site.page("/next", PAGE))
    assert (record.outcome, record.listing["degradations"]) == ("ok", [])
    assert "Press" in record.listing["listing"]
    assert "button: Press" in record.listing["outline"]
    assert ladder.left_behind() == (set(), 0)


def stages(record: PageRecord) -> dict[str, str]:
    return {stage.stage: stage.outcome for stage in record.stages}


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    "method",
    [
        "Network.enable",
        "Fetch.enable",
        "Runtime.evaluate",
        "Page.getFrameTree",
        "DOMSnapshot.captureSnapshot",
        "Accessibility.getFullAXTree",
    ],
)
async def test_a_socket_that_closes_in_a_reply_costs_its_page_only(ladder, proxies, site, method, share):
    """The page is for a later round, at once, and the next one gets another browser (pains 8, 25)."""
    rule = ladder.proxy.fault(method, proxies.break_off(share), times=1)
    launches = ladder.supervisor.launches
    record = await ladder.capture(site.page("/", PAGE))
    assert rule.hits == 1
    assert (record.outcome, record.listing["retryable"]) == ("browser_crash", True)
    assert "timeout" not in stages(record).values(), "no budget was waited for"
    await ladder.supervisor.facts()
    assert ladder.supervisor.launches == launches + 1


@pytest.mark.parametrize("how", ["break_off", "drop"])
async def test_a_browser_that_makes_no_page_is_replaced_before_the_page_knows(ladder, proxies, site, how):
    """Nothing has been navigated yet, so that the page loses nothing (pains 8, 9)."""
    fault = {"break_off": proxies.break_off(), "drop": proxies.drop}[how]
    ladder.proxy.fault("Target.attachToTarget", fault, times=1)
    launches = ladder.supervisor.launches
    record = await ladder.capture(site.page("/", PAGE))
    assert (record.outcome, record.listing["degradations"]) == ("ok", [])
    assert ladder.supervisor.launches == launches + 1


@pytest.mark.parametrize(
    "method", ["Network.enable", "Page.enable", "Target.setAutoAttach", "Browser.grantPermissions"]
)
async def test_a_session_that_does_not_start_ends_its_browser(ladder, proxies, site, method):
    """No step waits for ever, not even those before the first (pain 12)."""
    ladder.proxy.fault(method, proxies.drop, times=1)
    launches = ladder.supervisor.launches
    record = await ladder.capture(site.page("/", PAGE))
    assert (record.outcome, record.listing["retryable"]) == ("browser_crash", True)
    assert "started no session within" in record.listing["outcome_detail"]
    await ladder.supervisor.facts()
    assert ladder.supervisor.launches == launches + 1


async def test_a_door_that_cannot_be_kept_lets_no_page_through(ladder, proxies, site):
    """Without the answer that documents are stopped nothing is fetched (pain 12)."""
    ladder.proxy.fault("Fetch.enable", proxies.drop, times=1)
    record = await ladder.capture(site.page("/closed", PAGE))
    assert (record.outcome, record.listing["retryable"]) == ("navigation_timeout", True)
    assert "/closed" not in site.hits


@pytest.mark.parametrize("how", ["failed", "cut", "never", "senseless"])
@pytest.mark.parametrize("method", ["Page.createIsolatedWorld", "Runtime.evaluate"])
async def test_a_page_that_cannot_be_looked_into_is_captured_unsettled(ladder, proxies, site, method, how):
    """The look is for settling alone; what it does not tell is said to be missing (pain 16)."""
    fault = {
        "failed": proxies.error("Internal error"),
        "cut": proxies.truncate(),
        "never": proxies.drop,
        "senseless": proxies.replace({}),
    }[how]
    ladder.proxy.fault(method, fault, when=lambda command: command["params"].get("expression") != "document")
    record = await ladder.capture(site.page("/", PAGE))
    assert (record.outcome, record.listing["degradations"]) == ("ok", ["listeners_skipped", "unsettled"])
    assert record.listing["settle_reason"] == "blocked"
    assert "Press" in record.listing["listing"]
    assert "button: Press" in record.listing["outline"]


async def test_a_reply_of_300_mb_is_taken_where_the_cap_allows_it(open_ladder, proxies, site):
    """It goes through a file, so that the loop and this process's memory do not pay for it (pain 25)."""
    async with open_ladder(CrawlSettings()) as ladder:
        ladder.proxy.fault("DOMSnapshot.captureSnapshot", proxies.enlarge(BIG))
        record = await ladder.capture(site.page("/", PAGE))
        assert (record.outcome, record.listing["degradations"]) == ("ok", [])
        assert record.listing["payload_bytes"] > BIG
        assert "Press" in record.listing["listing"]
        await next_is_whole(ladder, site)
        assert ladder.supervisor.launches == 1


@pytest.mark.parametrize(
    ("method", "outcome", "degradations"),
    [
        ("DOM.getDocument", "too_large", []),
        ("DOMSnapshot.captureSnapshot", "ok", ["snapshot_failed"]),
        ("Accessibility.getFullAXTree", "ok", ["ax_failed"]),
    ],
)
async def test_a_reply_of_300_mb_over_the_cap_costs_its_payload(
    open_ladder, proxies, site, method, outcome, degradations
):
    """It is read and refused for itself, and the browser goes on (pain 25)."""
    async with open_ladder(CrawlSettings(max_reply_bytes=200 * MIB)) as ladder:
        ladder.proxy.fault(method, proxies.enlarge(BIG))
        record = await ladder.capture(site.page("/", PAGE))
        assert (record.outcome, record.listing["degradations"]) == (outcome, degradations)
        await next_is_whole(ladder, site)
        assert ladder.supervisor.launches == 1


async def test_a_reply_of_300_mb_far_over_the_cap_ends_the_browser(open_ladder, proxies, site):
    """It is not even read; the page is for a later round and the next one gets another browser (pain 25)."""
    async with open_ladder(CrawlSettings(max_reply_bytes=100 * MIB)) as ladder:
        ladder.proxy.fault("DOMSnapshot.captureSnapshot", proxies.enlarge(BIG))
        record = await ladder.capture(site.page("/", PAGE))
        assert (record.outcome, record.listing["retryable"]) == ("browser_crash", True)
        await next_is_whole(ladder, site)
        assert ladder.supervisor.launches == 2


async def test_a_crawl_goes_on_after_every_fault(open_proxy, proxies, browser_path, site, tmp_path, budgets):
    """One page in three loses something else; each has one outcome, and the pages between them are whole."""
    settings = CrawlSettings(budgets=budgets)
    faults = {
        "/snapshot": ("DOMSnapshot.captureSnapshot", proxies.error("Internal error"), ("ok", ["snapshot_failed"])),
        "/trees": ("Accessibility.getFullAXTree", proxies.drop, ("ok", ["ax_timeout"])),
        "/document": ("DOM.getDocument", proxies.drop, ("capture_timeout", [])),
        "/socket": ("DOM.getDocument", proxies.break_off(), ("browser_crash", [])),
    }
    urls = {path: site.page(path, PAGE) for path in faults}
    between = [site.page(f"/between{n}", PAGE) for n in range(len(faults) + 1)]
    planned = [url for pair in zip(between, [*urls.values(), ""], strict=True) for url in pair if url]
    store = FolderStore.for_run(tmp_path / "store")
    open_crawl(store, "ladder", settings, now=datetime.now(UTC))
    plan_round(store, "ladder", 0, [PlannedPage(url_key(url), url) for url in planned], settings)
    async with open_proxy() as proxy:
        for path, (method, fault, _) in faults.items():
            proxy.fault(method, fault, when=lambda command, path=path: site.hits[-1] == path)
        await run_local(
            store,
            settings,
            RunSettings(concurrency=1, processes=1, allow_private=True),
            browser_path,
            remaining(store, 0),
            asyncio.Event(),
            lambda page: None,
            lambda batch: None,
        )
    rows = {row["url_key"]: row for row in latest_listings(store).to_pylist()}
    told = {url: (row["outcome"], row["degradations"]) for url, row in rows.items()}
    expected = {urls[path]: ended for path, (_, _, ended) in faults.items()}
    assert told == expected | dict.fromkeys(between, ("ok", []))
