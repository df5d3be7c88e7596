"""The ladder, rung by rung: a real page in a real browser whose answers are faulted one by one, all the way to its row.

The rungs are those of the plan: what is not needed degrades and says so, nothing goes for a neighbour's failure, and
the next page knows nothing of it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from schemas.records import PageRecord
from schemas.settings import CrawlSettings
from workers.serialize.outline import serialize_outline
from workers.store.payloads import decode_capture

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def opened(open_ladder, budgets) -> AsyncIterator[Any]:
    async with open_ladder(CrawlSettings(budgets=budgets, max_reply_bytes=4 * 1024 * 1024)) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def ladder(opened, site) -> AsyncIterator[Any]:
    """The capturer; after the test it captures the next page as always, and nothing of the faulted one is left."""
    opened.proxy.clear()
    yield opened
    opened.proxy.clear()
    record = await opened.capture(site.page("/next", "<title>Next</title><h1>Next page</h1><button>Go on</button>"))
    assert (record.outcome, record.listing["degradations"], stages(record)) == ("ok", [], WHOLE)
    assert "Next page" in record.listing["listing"]
    assert "button: Go on" in record.listing["outline"]
    assert opened.left_behind() == (set(), 0)


CAPTURED = ("permission", "context", "navigate", "settle", "listeners", "layout_snapshot", "dom_document", "ax_tree")
WHOLE = dict.fromkeys((*CAPTURED, "merge", "listing", "outline"), "ok")
FRAMES = 4


def stages(record: PageRecord) -> dict[str, str]:
    return {stage.stage: stage.outcome for stage in record.stages}


def detail(record: PageRecord, name: str) -> str | None:
    return next(stage.detail for stage in record.stages if stage.stage == name)


def statuses(record: PageRecord) -> list[str]:
    """How much of each frame the stored payloads hold, sorted."""
    return sorted(frame.status for frame in serialize_outline(decode_capture(record.captures, record.url_key)).frames)


def kinds(record: PageRecord) -> list[str]:
    return [row["kind"] for row in record.captures]


def five_frames(site: Any) -> str:
    """A page of five frames, with a button in each."""
    frames = "".join(f"<iframe src=/in{n}></iframe>" for n in range(1, FRAMES + 1))
    for n in range(1, FRAMES + 1):
        site.page(f"/in{n}", f"<p>frame {n}</p><button>press {n}</button>")
    return site.page("/", f"<!doctype html><title>Five</title><h1>Five frames</h1><button>press 0</button>{frames}")


def buttons(text: str | None) -> list[str]:
    """Which of the page's buttons a listing or an outline shows."""
    return re.findall(r"press \d", text or "")


ALL = [f"press {n}" for n in range(FRAMES + 1)]


async def test_through_the_proxy_a_page_is_whole(ladder, site):
    record = await ladder.capture(five_frames(site))
    assert (record.outcome, record.listing["degradations"], stages(record)) == ("ok", [], WHOLE)
    assert buttons(record.listing["outline"]) == ALL
    assert sorted(buttons(record.listing["listing"])) == ALL
    assert kinds(record).count("ax_tree") == FRAMES + 1


@pytest.mark.parametrize("how", ["late", "never", "failed", "cut", "senseless"])
async def test_without_accessibility_trees_a_page_keeps_everything_else(ladder, proxies, site, how):
    """Trees that are late, lost, refused or cut off cost themselves alone (pains 19, 21)."""
    fault = {
        "late": proxies.delay(4),
        "never": proxies.drop,
        "failed": proxies.error("Internal error"),
        "cut": proxies.truncate(),
        "senseless": proxies.replace(None),
    }[how]
    ladder.proxy.fault("Accessibility.getFullAXTree", fault)
    record = await ladder.capture(five_frames(site))
    late = how in ("late", "never")
    assert record.outcome == "ok"
    assert record.listing["degradations"] == ["ax_timeout" if late else "ax_failed"]
    ended = {"merge": "fallback"} if how == "senseless" else {"ax_tree": "timeout" if late else "error"}
    assert stages(record) == WHOLE | ended
    assert sorted(buttons(record.listing["listing"])) == ALL


async def test_one_failing_tree_of_five_costs_its_frame_only(ladder, proxies, site):
    """Given a tree that is refused, then the four others are there (pain 19)."""
    rule = ladder.proxy.fault("Accessibility.getFullAXTree", proxies.error("Internal error"), after=2, times=1)
    record = await ladder.capture(five_frames(site))
    assert rule.hits == 1
    assert (record.outcome, record.listing["degradations"]) == ("ok", ["ax_partial"])
    assert stages(record) == WHOLE | {"ax_tree": "fallback"}
    assert detail(record, "ax_tree") == "4 of 5 frames, 0 late, 1 failed"
    assert kinds(record).count("ax_tree") == FRAMES
    assert buttons(record.listing["outline"]) == [*ALL[:2], *ALL[3:]]
    assert sorted(buttons(record.listing["listing"])) == ALL
    assert statuses(record) == ["ax_missing", "ok", "ok", "ok", "ok"]


async def test_one_late_tree_of_five_costs_its_frame_only(ladder, proxies, site):
    """What came in time is kept, and the late answer lands nowhere (pain 21)."""
    ladder.proxy.fault("Accessibility.getFullAXTree", proxies.delay(4), after=4, times=1)
    record = await ladder.capture(five_frames(site))
    assert (record.outcome, record.listing["degradations"]) == ("ok", ["ax_partial"])
    assert detail(record, "ax_tree") == "4 of 5 frames, 1 late, 0 failed"
    assert buttons(record.listing["outline"]) == ALL[:4]


@pytest.mark.parametrize("method", ["DOMSnapshot.captureSnapshot", "DOM.getDocument", "Accessibility.getFullAXTree"])
async def test_a_frame_that_is_detached_in_the_middle_costs_itself_only(ladder, proxies, site, method):
    """Whichever tree it goes between, the other four frames are whole (pains 18, 19)."""
    url = five_frames(site)
    remove = proxies.run_script("document.querySelectorAll('iframe')[2].remove()")
    rule = ladder.proxy.fault(method, remove, times=1, at_once=False)
    record = await ladder.capture(url)
    assert rule.hits == 1
    assert record.outcome == "ok"
    assert set(record.listing["degradations"]) <= {"ax_partial", "frame_lost"}
    assert record.listing["degradations"], "and it is said"
    assert {*ALL[:3], ALL[4]} == set(buttons(record.listing["outline"]))
    assert {*ALL[:3], ALL[4]} <= set(buttons(record.listing["listing"]))


TOO_DEEP = "Failed to convert response to JSON: CBOR: stack limit exceeded at position 19568"
"""The words of Chromium 156."""


@pytest.mark.parametrize("rungs", [1, 3, 7])
async def test_a_document_that_fails_on_depth_comes_by_the_ladder(ladder, proxies, site, rungs):
    """However far down the ladder, its cut-off nodes are filled in and nothing is missing (pain 22)."""
    ladder.proxy.fault("DOM.getDocument", proxies.error(TOO_DEEP), times=rungs)
    record = await ladder.capture(five_frames(site))
    depth = [-1, 128, 64, 32, 16, 8, 4, 2, 1][rungs]
    assert [params["depth"] for params in ladder.asked("DOM.getDocument")][-1] == depth
    assert (record.outcome, record.listing["degradations"]) == ("ok", [])
    assert stages(record) == WHOLE | {"dom_document": "fallback"}
    assert record.listing["document_depth"] == depth
    assert kinds(record).count("dom_subtree") == record.listing["hydrated_nodes"]
    assert (record.listing["hydrated_nodes"] > 0) is (depth < 8)
    assert buttons(record.listing["outline"]) == ALL
    assert sorted(buttons(record.listing["listing"])) == ALL


async def test_a_subtree_that_fails_on_depth_comes_by_the_ladder_too(ladder, proxies, site):
    ladder.proxy.fault("DOM.getDocument", proxies.error(TOO_DEEP), times=8)
    ladder.proxy.fault("DOM.describeNode", proxies.error(TOO_DEEP), times=6)
    record = await ladder.capture(five_frames(site))
    assert (record.outcome, record.listing["degradations"]) == ("ok", [])
    assert buttons(record.listing["outline"]) == ALL


@pytest.mark.parametrize("how", ["failed", "too deep", "never"])
async def test_a_subtree_that_never_comes_costs_its_branch_only(ladder, proxies, site, how):
    """Without one branch of a document too deep for one reply the rest is there, and says so (pain 22)."""
    fault = {"failed": proxies.error("Internal error"), "too deep": proxies.error(TOO_DEEP), "never": proxies.drop}[how]
    url = site.page("/", "<!doctype html><title>T</title><div><p><button>deep</button></p></div><button>flat</button>")
    ladder.proxy.fault("DOM.getDocument", proxies.error(TOO_DEEP), times=6)
    rule = ladder.proxy.fault("DOM.describeNode", fault)
    record = await ladder.capture(url)
    assert rule.hits
    assert (record.outcome, record.listing["degradations"]) == ("ok", ["depth_limited"])
    assert "flat" in record.listing["listing"]
    assert "button: flat" in record.listing["outline"]
    assert "deep" not in record.listing["listing"]


async def test_a_document_that_fails_at_every_depth_ends_the_page(ladder, proxies, site):
    """Nothing can be made without it, so that the page is for a later round."""
    ladder.proxy.fault("DOM.getDocument", proxies.error(TOO_DEEP))
    record = await ladder.capture(five_frames(site))
    assert [params["depth"] for params in ladder.asked("DOM.getDocument")] == [-1, 128, 64, 32, 16, 8, 4, 2, 1]
    assert (record.outcome, record.listing["retryable"]) == ("capture_timeout", True)
    assert stages(record)["dom_document"] == "error"
    assert "too deep even at depth 1" in record.listing["outcome_detail"]


@pytest.mark.parametrize("how", ["failed", "cut"])
async def test_a_snapshot_that_fails_once_is_asked_for_again(ladder, proxies, site, how):
    fault = {"failed": proxies.error("Internal error"), "cut": proxies.truncate()}[how]
    rule = ladder.proxy.fault("DOMSnapshot.captureSnapshot", fault, times=1)
    record = await ladder.capture(five_frames(site))
    assert rule.hits == 1
    assert (record.outcome, record.listing["degradations"]) == ("ok", [])
    assert stages(record) == WHOLE | {"layout_snapshot": "fallback"}
    assert detail(record, "layout_snapshot") == "second try"
    assert buttons(record.listing["outline"]) == ALL
    assert sorted(buttons(record.listing["listing"])) == ALL


@pytest.mark.parametrize("how", ["failed", "cut", "never", "once, then never", "too large", "senseless"])
async def test_without_a_snapshot_the_outline_is_there(ladder, proxies, site, how):
    """The listing is absent with its reason; nothing else goes with it."""
    snapshot = "DOMSnapshot.captureSnapshot"
    if how == "once, then never":
        ladder.proxy.fault(snapshot, proxies.error("Internal error"), times=1)
    fault = {
        "failed": proxies.error("Internal error"),
        "cut": proxies.truncate(),
        "never": proxies.drop,
        "once, then never": proxies.drop,
        "too large": proxies.enlarge(ladder.settings.max_reply_bytes + 1),
        "senseless": proxies.replace({"documents": 5}),
    }[how]
    ladder.proxy.fault(snapshot, fault)
    record = await ladder.capture(five_frames(site))
    assert len(ladder.asked(snapshot)) == (1 if how in ("never", "too large", "senseless") else 2)
    assert (record.outcome, record.listing["degradations"]) == ("ok", ["snapshot_failed"])
    assert record.listing.get("listing") is None
    assert record.listing["outcome_detail"].startswith("no listing: ")
    ended = {"layout_snapshot": "timeout" if "never" in how else "error"}
    expected = WHOLE | ({"merge": "fallback"} if how == "senseless" else ended)
    del expected["listing"]
    assert stages(record) == expected
    assert "layout_snapshot" not in kinds(record)
    assert buttons(record.listing["outline"]) == ALL


async def test_a_page_that_answers_no_needed_tree_ends_within_its_budgets(ladder, proxies, site):
    """Both trees are lost: the page is for a later round, and is not waited for twice (pain 12)."""
    for method in ("DOMSnapshot.captureSnapshot", "DOM.getDocument"):
        ladder.proxy.fault(method, proxies.drop)
    record = await ladder.capture(five_frames(site))
    assert (record.outcome, record.listing["retryable"]) == ("capture_timeout", True)
    assert record.listing["duration_ms"] / 1000 < ladder.settings.budgets.page.total_seconds()


EXTRAS = {
    "Page.getFrameTree": ("frame_lost", "frame_tree"),
    "Runtime.evaluate": ("listeners_skipped", "listeners"),
    "DOMDebugger.getEventListeners": ("listeners_skipped", "listeners"),
    "Page.getLayoutMetrics": ("snapshot_truncated", "layout_metrics"),
    "Target.setAutoAttach": ("frame_lost", ""),
}


WAYS = [
    *((method, how) for method in EXTRAS for how in ("failed", "cut", "never", "too large")),
    *((method, "senseless") for method in ("Page.getFrameTree", "Runtime.evaluate", "DOMDebugger.getEventListeners")),
]


def is_an_extra(command: dict[str, Any]) -> bool:
    """Neither the look that tells when a page has settled, nor the watch over a page's workers."""
    parameters = command["params"]
    if command["method"] == "Target.setAutoAttach":
        return any(kind["type"] == "iframe" for kind in parameters["filter"])
    return parameters.get("expression") in (None, "document")


@pytest.mark.parametrize(("method", "how"), WAYS)
async def test_an_extra_costs_itself_alone(ladder, proxies, site, method, how):
    """Whatever the browser does not answer besides the two needed trees, the page is captured without it."""
    fault = {
        "failed": proxies.error("Internal error"),
        "cut": proxies.truncate(),
        "never": proxies.drop,
        "too large": proxies.enlarge(ladder.settings.max_reply_bytes + 1),
        "senseless": proxies.replace({"listeners": 5}),
    }[how]
    rule = ladder.proxy.fault(method, fault, when=is_an_extra)
    record = await ladder.capture(five_frames(site))
    assert rule.hits == 1
    degradation, kind = EXTRAS[method]
    assert record.outcome == "ok"
    assert degradation in record.listing["degradations"]
    assert set(record.listing["degradations"]) <= {degradation, "ax_partial"}
    assert kind not in kinds(record)
    assert "press 0" in record.listing["outline"]
    assert sorted(buttons(record.listing["listing"])) == ALL


@pytest.mark.parametrize(
    "method",
    [
        "Page.getFrameTree",
        "DOMDebugger.getEventListeners",
        "DOMSnapshot.captureSnapshot",
        "DOM.getDocument",
        "Page.getLayoutMetrics",
        "Accessibility.getFullAXTree",
        "DOM.describeNode",
    ],
)
async def test_a_renderer_that_dies_between_two_calls_is_said_at_once(ladder, proxies, site, method):
    """Wherever it dies, no budget is waited for, and the browser goes on (pain 10)."""
    if method == "DOM.describeNode":
        ladder.proxy.fault("DOM.getDocument", proxies.error(TOO_DEEP), times=8)
    rule = ladder.proxy.fault(method, proxies.crash, times=1, at_once=False)
    launches = ladder.supervisor.launches
    record = await ladder.capture(five_frames(site))
    assert rule.hits == 1
    assert (record.outcome, record.listing["retryable"]) == ("renderer_crash", True)
    assert not {"timeout"} & set(stages(record).values()), "no budget was waited for"
    assert ladder.supervisor.launches == launches
