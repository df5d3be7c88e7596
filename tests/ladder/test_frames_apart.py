"""Frames in processes of their own, which go, or do not answer, in the middle of a capture."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from schemas.records import PageRecord
from schemas.settings import CrawlSettings

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

PAGE = "<!doctype html><title>T</title><h1>Heading</h1><button>Press</button>"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def opened(open_ladder, budgets) -> AsyncIterator[Any]:
    """A capturer whose browser shows frames of other sites in processes of their own."""
    async with open_ladder(CrawlSettings(budgets=budgets, site_per_process=True)) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def ladder(opened, site, open_site) -> AsyncIterator[Any]:
    """The capturer; after the test the next page is whole, its frame too, and nothing of the faulted one is left."""
    opened.proxy.clear()
    yield opened
    opened.proxy.clear()
    record = await opened.capture(framed(site, open_site))
    assert (record.outcome, record.listing["degradations"]) == ("ok", [])
    assert "inside" in record.listing["listing"]
    assert "button: inside" in record.listing["outline"]
    assert opened.left_behind() == (set(), 0)
    assert opened.supervisor.launches == 1


def stages(record: PageRecord) -> dict[str, str]:
    return {stage.stage: stage.outcome for stage in record.stages}


def framed(site: Any, open_site: Any) -> str:
    other = open_site("127.0.0.2")
    inside = other.page("/in", "<button>inside</button>")
    return str(site.page("/", f"{PAGE}<iframe src={inside}></iframe><p>after</p>"))


def page_session(ladder: Any) -> str:
    """The raw session of the page itself, which alone is told of the network."""
    return str(next(command["sessionId"] for command in ladder.proxy.asked if command["method"] == "Network.enable"))


def in_frame(ladder: Any) -> Callable[[dict[str, Any]], bool]:
    """Whether a command is for the frame, not for the page."""
    return lambda command: command["sessionId"] != page_session(ladder)


async def test_a_frame_of_another_process_that_answers_no_snapshot_keeps_its_outline(ladder, proxies, site, open_site):
    ladder.proxy.fault("DOMSnapshot.captureSnapshot", proxies.error("Internal error"), when=in_frame(ladder))
    record = await ladder.capture(framed(site, open_site))
    assert (record.outcome, record.listing["degradations"]) == ("ok", ["snapshot_failed"])
    assert "Press" in record.listing["listing"]
    assert "button: inside" in record.listing["outline"]


@pytest.mark.parametrize("how", ["detached", "crashed"])
@pytest.mark.parametrize(
    "method", ["Page.createIsolatedWorld", "Page.getFrameTree", "DOMSnapshot.captureSnapshot", "DOM.getDocument"]
)
async def test_a_frame_of_another_process_that_goes_in_the_middle_costs_itself_only(
    ladder, proxies, site, open_site, method, how
):
    """The page and its other frames are whole, and nothing waits for the answers that never come (pains 18, 20)."""

    async def detach(exchange: Any) -> None:
        remove = {"expression": "document.querySelector('iframe').remove()"}
        await exchange.line.ask("Runtime.evaluate", remove, page_session(ladder))

    fault = proxies.first(detach) if how == "detached" else proxies.crash
    rule = ladder.proxy.fault(method, fault, times=1, when=in_frame(ladder), at_once=False)
    record = await ladder.capture(framed(site, open_site))
    assert rule.hits == 1
    assert (record.outcome, record.listing["degradations"]) == ("ok", ["frame_lost"])
    assert "Press" in record.listing["listing"]
    assert "inside" not in record.listing["listing"]
    assert "button: Press" in record.listing["outline"]
    assert "timeout" not in stages(record).values()
