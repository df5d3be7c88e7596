"""Taking the payloads of real pages in a real browser: all of them, in their order, each under its budget."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from schemas.capture import Capture, Payload
from schemas.errors import CommandFailed, PageFailed
from schemas.settings import DESKTOP, Budgets, CrawlSettings
from workers.browser.session import PageSession
from workers.browser.spool import buffer_of
from workers.browser.supervisor import Supervisor
from workers.capture import take as taking_of
from workers.capture.taken import Taking
from workers.capture.target import MAX_ELEMENTS_FOR_LISTENERS
from workers.merge import merge
from workers.serialize.outline import serialize_outline
from workers.serialize.outline_options import OutlineOptions

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

SETTINGS = CrawlSettings()
PATIENCE_SECONDS = 60.0


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def supervisor(browser_path: Path) -> AsyncIterator[Supervisor]:
    made = Supervisor(browser_path, SETTINGS)
    yield made
    await made.close()


@dataclass(frozen=True)
class Took:
    """A taking, with its payloads in memory."""

    taking: Taking
    capture: Capture
    elements: int | None
    error: PageFailed | None

    def kinds(self) -> list[str]:
        return [payload.kind for payload in self.capture.payloads]

    def stages(self) -> dict[str, str]:
        return {stage.stage: stage.outcome for stage in self.taking.stages}

    def payload(self, kind: Any) -> Any:
        return json.loads(bytes(next(self.capture.of(kind)).data))


Before = Callable[[PageSession], Awaitable[None]]


async def take(
    supervisor: Supervisor, url: str, budgets: Budgets = SETTINGS.budgets, before: Before | None = None
) -> Took:
    """Takes a page; `before` is called once it has settled."""
    taking, error = Taking(), None
    async with asyncio.timeout(PATIENCE_SECONDS), supervisor.page_session(DESKTOP) as session:
        await session.navigate(url, budgets)
        await session.settle(budgets)
        if before is not None:
            await before(session)
        try:
            await taking_of.take(session, replace(SETTINGS, budgets=budgets), time.perf_counter(), taking)
        except PageFailed as failed:
            error = failed
        capture = Capture(
            tuple(Payload(t.kind, bytes(buffer_of(t.data)), t.target, t.frame_id) for t in taking.payloads)
        )
        taking.discard()
    return Took(taking, capture, session.visit.elements, error)


def elements(took: Took) -> int:
    """The number of element nodes in the merged page tree."""
    tree = merge(took.capture)
    return int((tree.kind == 1).sum())


async def test_payloads_come_in_the_order_that_was_asked_for(supervisor, site):
    url = site.page("/", "<title>T</title><p>text</p><iframe src=/in></iframe>")
    site.page("/in", "<button>inside</button>")
    took = await take(supervisor, url)
    assert took.kinds() == [
        "frame_tree", "listeners", "layout_snapshot", "dom_document", "layout_metrics", "ax_tree", "ax_tree", "targets",
    ]  # fmt: skip
    frames = took.payload("frame_tree")["frameTree"]
    ids = [frames["frame"]["id"], frames["childFrames"][0]["frame"]["id"]]
    assert [payload.frame_id for payload in took.capture.of("ax_tree")] == ids
    assert took.payload("targets")["title"] == "T"
    assert took.payload("targets")["url"] == url
    assert set(took.stages().values()) == {"ok"}
    assert took.taking.degradations == set()
    assert took.taking.document_depth == -1


def nested(depth: int) -> str:
    """A page whose script nests so many elements; the parser itself stops at 512.

    They have no layout: from about 3000 levels on, Chromium 156 crashes in its own layout of them, alone as well.
    """
    return (
        "<!doctype html><title>deep</title><body hidden><script>let at = document.body;"
        f"for (let n = 0; n < {depth}; n++) at = at.appendChild(document.createElement('div'));"
        "at.textContent = 'the bottom'</script>"
    )


@pytest.mark.parametrize("depth", [100, 140, 144, 145, 146, 300, 600, 5000])
async def test_a_deep_page_is_taken_whole(supervisor, site, depth):
    """A document too deep for one reply is asked for in pieces, and the pieces are the whole page (pains 22, 23)."""
    url = site.page("/", nested(depth))
    took = await take(supervisor, url)
    assert took.error is None
    assert took.elements == depth + 5
    assert elements(took) == depth + 5
    assert "depth_limited" not in took.taking.degradations
    laddered = took.taking.document_depth != -1
    assert ("dom_subtree" in took.kinds()) is laddered is (took.stages()["dom_document"] == "fallback")
    assert laddered or depth < 146
    assert depth < 150 or laddered
    (stage,) = (stage for stage in took.taking.stages if stage.stage == "dom_document")
    assert (stage.depth, stage.hydrated_nodes) == (128 if laddered else -1, took.kinds().count("dom_subtree"))
    outline = serialize_outline(took.capture, OutlineOptions(max_xpath_chars=None))
    assert outline.text.startswith("[0-")
    assert sum(path.endswith("/div[1]") for path in outline.xpath_map.values()) == depth
    assert b"the bottom" in b"".join(bytes(payload.data) for payload in took.capture.payloads if "dom_" in payload.kind)


@pytest.mark.parametrize("visible", [146, 147, 600, 2000, 3000])
@pytest.mark.parametrize("how", ["parsed", "by script"])
async def test_a_deep_page_with_boxes_ends_in_an_outline_or_in_its_renderers_death(supervisor, site, visible, how):
    """Chromium 156 itself dies of the layout of 3,000 boxes in each other; its parser stops at 512."""
    deep = "<div>" * visible + "the bottom" if how == "parsed" else nested(visible).replace("<body hidden>", "<body>")
    url = site.page("/", deep)
    failed: PageFailed | None = None
    try:
        took = await take(supervisor, url)
        failed = took.error
    except PageFailed as error:
        failed = error
    if failed is not None:
        assert (visible, how, failed.outcome) == (3000, "by script", "renderer_crash")
        return
    outline = serialize_outline(took.capture)
    assert outline.frames[0].status == "ok"
    assert "the bottom" in outline.text
    assert outline.hydrated == took.taking.subtrees


async def test_an_error_in_other_words_is_worth_one_rung(supervisor, site):
    """Another browser may say it in other words: a shallower document is tried, once, before the page is given up."""
    url = site.page("/", nested(200))

    def otherwise(session: PageSession, broken: int) -> None:
        original = session.channel.post

        def post(method: str, params: dict[str, Any] | None = None, session_id: str = "") -> Any:
            if method == "DOM.getDocument":
                asked.append(params["depth"] if params else None)
                if len(asked) <= broken:
                    params = {"depth": "words of another browser"}
            return original(method, params, session_id)

        session.channel.post = post  # type: ignore[method-assign]
        restore.append(lambda: setattr(session.channel, "post", original))

    for broken in (1, 2):
        asked: list[Any] = []
        restore: list[Callable[[], None]] = []

        async def before(session: PageSession, broken: int = broken) -> None:
            otherwise(session, broken)

        try:
            took = await take(supervisor, url, before=before)
        finally:
            for undo in restore:
                undo()
        assert asked == [-1, 128]
        (stage,) = (stage for stage in took.taking.stages if stage.stage == "dom_document")
        if broken == 1:
            assert took.error is None
            assert (stage.outcome, stage.depth) == ("fallback", 128)
        else:
            assert took.error is not None
            assert took.error.outcome == "capture_timeout"
            assert stage.outcome == "error"


async def test_deep_branches_and_deep_shadow_trees_are_taken_whole(supervisor, site):
    """Several branches, one of them through shadow roots, each beyond the limit."""
    url = site.page(
        "/",
        "<!doctype html><body><script>for (const branch of [1, 2, 3]) { let at = document.body;"
        "for (let n = 0; n < 200; n++) at = at.appendChild(document.createElement('p')); }"
        "let at = document.body; for (let n = 0; n < 100; n++)"
        "at = at.appendChild(document.createElement('div')).attachShadow({mode: n % 2 ? 'open' : 'closed'})</script>",
    )
    took = await take(supervisor, url)
    assert took.taking.document_depth != -1
    assert elements(took) == 4 + 3 * 200 + 100


async def test_a_late_accessibility_tree_does_not_cost_the_page(supervisor, site):
    """An extra that misses its budget is left out, and said (pain 21)."""
    url = site.page("/", "".join(f"<p><a href=/{n}>link</a></p>" for n in range(4000)))
    took = await take(supervisor, url, replace(SETTINGS.budgets, payload=timedelta(milliseconds=1)))
    assert took.error is None
    assert took.taking.degradations >= {"ax_timeout"}
    assert {"layout_snapshot", "dom_document"} <= set(took.kinds())
    assert "ax_tree" not in took.kinds()
    assert took.stages()["ax_tree"] == "timeout"
    assert elements(took) == 4000 * 2 + 3


async def test_a_needed_tree_that_does_not_come_ends_the_page(supervisor, site):
    """A thread that never yields costs its page a bounded time, and the next page none (pains 9, 14)."""
    url = site.page("/", "<p>text</p><script>onload = () => setTimeout(() => { for (;;); }, 300)</script>")
    short = replace(SETTINGS.budgets, settle=timedelta(seconds=0.5), needed=timedelta(seconds=1.5))

    async def wait(session: PageSession) -> None:
        await asyncio.sleep(0.6)

    took = await take(supervisor, url, short, wait)
    assert took.error is not None
    assert took.error.outcome == "capture_timeout"
    assert (await take(supervisor, site.page("/next", "<p>text</p>"))).error is None


@pytest.mark.parametrize("over", [0, 1])
async def test_listeners_are_looked_for_up_to_a_number_of_elements(supervisor, site, over):
    """browser-use's limit: the page that has more elements is not asked, and that is no degradation."""
    count = MAX_ELEMENTS_FOR_LISTENERS - 5 + over
    url = site.page(
        "/",
        "<!doctype html><title>t</title><body><script>document.body.append("
        f"...Array.from({{length: {count}}}, () => document.createElement('i')))</script>",
    )
    took = await take(supervisor, url)
    assert took.elements == MAX_ELEMENTS_FOR_LISTENERS + over
    assert took.stages()["listeners"] == ("skipped" if over else "ok")
    assert ("listeners" in took.kinds()) is not bool(over)
    assert "listeners_skipped" not in took.taking.degradations


async def test_listeners_are_found_wherever_they_sit(supervisor, site):
    """Given a page that hides its `document` and its listeners, then they are found all the same."""
    url = site.page(
        "/",
        "<!doctype html><body><p id=p>text</p><script>p.addEventListener('click', () => 0);"
        "window.getEventListeners = () => ({}); Object.prototype.backendNodeId = 1;"
        "EventTarget.prototype.addEventListener = () => 0</script>",
    )
    took = await take(supervisor, url)
    listeners = took.payload("listeners")
    assert listeners["element_count"] == took.elements
    assert [entry["type"] for entry in listeners["listeners"]] == ["click"]
    tree = merge(took.capture)
    assert int(tree.has_listener.sum()) == 1


async def test_a_frame_that_vanishes_costs_its_own_part_only(supervisor, site):
    """A frame that is gone when its tree is asked for leaves the others' trees as they came (pains 18, 19)."""
    url = site.page("/", "<p>text</p><iframe src=/in></iframe><iframe src=/in></iframe>")
    site.page("/in", "<button>inside</button>")

    async def remove_between(session: PageSession) -> None:
        original = session.channel.post

        def post(method: str, params: dict[str, Any] | None = None, session_id: str = "") -> Any:
            if method == "Accessibility.getFullAXTree" and params and params["frameId"] != session.target_id:
                params = {"frameId": "GONE"} if not vanished else params
                vanished.append(method)
            return original(method, params, session_id)

        vanished: list[str] = []
        session.channel.post = post  # type: ignore[method-assign]
        restore.append(lambda: setattr(session.channel, "post", original))

    restore: list[Callable[[], None]] = []
    try:
        took = await take(supervisor, url, before=remove_between)
    finally:
        for undo in restore:
            undo()
    assert took.error is None
    assert took.taking.degradations == {"ax_partial"}
    assert took.kinds().count("ax_tree") == 2
    assert took.stages()["ax_tree"] == "fallback"
    outline = serialize_outline(took.capture)
    assert sorted(frame.status for frame in outline.frames) == ["ax_missing", "ok", "ok"]
    assert outline.rows.role.count("button") == 1


async def test_a_root_frame_of_another_id_is_asked_for_without_one(supervisor, site):
    """Where the browser does not know the frame's id any more, its root frame is the one that is meant."""
    url = site.page("/", "<button>here</button>")

    async def forget(session: PageSession) -> None:
        original = session.channel.post

        def post(method: str, params: dict[str, Any] | None = None, session_id: str = "") -> Any:
            if method == "Accessibility.getFullAXTree":
                asked.append(bool(params))
                params = {"frameId": "GONE"} if params else params
            return original(method, params, session_id)

        session.channel.post = post  # type: ignore[method-assign]
        restore.append(lambda: setattr(session.channel, "post", original))

    asked: list[bool] = []
    restore: list[Callable[[], None]] = []
    try:
        took = await take(supervisor, url, before=forget)
    finally:
        for undo in restore:
            undo()
    assert asked == [True, False]
    assert took.stages()["ax_tree"] == "ok"
    assert "button: here" in serialize_outline(took.capture).text


async def test_frames_that_come_and_go_all_the_time_leave_a_whole_page(supervisor, site):
    """Frames that are replaced while the page is taken cost at most their own trees (pains 18, 19)."""
    url = site.page(
        "/",
        "<p>text</p><div id=d></div><script>setInterval(() => {"
        "d.replaceChildren(...[1, 2, 3].map(() => Object.assign(document.createElement('iframe'), {src: '/in'})))"
        "}, 5)</script>",
    )
    site.page("/in", "<button>inside</button>")
    took = await take(supervisor, url, replace(SETTINGS.budgets, settle=timedelta(seconds=1)))
    assert took.error is None
    assert took.taking.degradations <= {"listeners_skipped", "ax_partial", "ax_timeout", "ax_failed"}
    assert elements(took) >= 5


async def crash(session: PageSession) -> None:
    """Takes the page's renderer down, as a page that runs out of memory does."""
    dying = session.channel.post("Page.crash", session=session.session_id)
    await asyncio.wait({session.gone}, timeout=PATIENCE_SECONDS)
    dying.cancel()
    with suppress(asyncio.CancelledError, CommandFailed):
        await dying


async def test_a_renderer_that_died_is_said_and_the_browser_goes_on(supervisor, site):
    """A crash is an outcome of its page, at once; browser and next page are fine (pain 10)."""
    url = site.page("/", "<p>text</p>")
    begun = time.monotonic()
    took = await take(supervisor, url, before=crash)
    assert took.error is not None
    assert took.error.outcome == "renderer_crash"
    assert time.monotonic() - begun < SETTINGS.budgets.needed.total_seconds() / 2, "no budget was waited for"
    assert (await take(supervisor, url)).error is None
    assert supervisor.launches == 1


async def test_a_page_that_closed_is_said(supervisor, site):
    url = site.page("/", "<p>text</p>")

    async def close(session: PageSession) -> None:
        await session.channel.ask("Target.closeTarget", {"targetId": session.target_id})

    took = await take(supervisor, url, before=close)
    assert took.error is not None
    assert took.error.outcome == "page_closed"


async def test_no_file_of_a_payload_is_left(supervisor, site, tmp_path):
    """Spooled payloads go with their page, whether it was taken or not (pain 32)."""
    big = site.page("/", "".join(f"<p title={'x' * 200}><a href=/{n}>link {n}</a></p>" for n in range(6000)))
    took = await take(supervisor, big)
    assert supervisor._launched is not None
    folder = supervisor._launched.folder
    assert max(len(payload.data) for payload in took.capture.payloads) > 2 * 1024 * 1024
    hurried = await take(supervisor, big, replace(SETTINGS.budgets, needed=timedelta(milliseconds=5)))
    assert hurried.error is not None
    assert hurried.error.outcome == "capture_timeout"
    await take(supervisor, site.page("/last", "<p>text</p>"))
    assert {path.name for path in folder.iterdir()} == {"profile", "owner.json", "owner.lock"}


async def test_pages_taken_at_the_same_time_do_not_mix(supervisor, site):
    urls = [site.page(f"/{n}", f"<title>{n}</title>" + f"<p>page {n}</p>" * 50) for n in range(4)]
    took = await asyncio.gather(*(take(supervisor, url) for url in urls))
    for number, one in enumerate(took):
        values = Counter(value for value in merge(one.capture).values if value.startswith("page "))
        assert values == {f"page {number}": 50}


def failing(method: str) -> Before:
    """The browser fails this command from now on."""

    async def before(session: PageSession) -> None:
        post = session.channel.post

        def refuse(asked: str, *arguments: Any) -> Any:
            if asked != method:
                return post(asked, *arguments)
            failed = asyncio.get_running_loop().create_future()
            failed.set_exception(CommandFailed(method, -32000, "it fails"))
            return failed

        session.channel.post = refuse  # type: ignore[method-assign]  # of this session's browser, till the test ends

    return before


@pytest.mark.parametrize(
    ("method", "degradation", "lost"),
    [
        ("DOMSnapshot.captureSnapshot", "snapshot_failed", "layout_snapshot"),
        ("Page.getLayoutMetrics", "snapshot_truncated", "layout_metrics"),
        ("Accessibility.getFullAXTree", "ax_failed", "ax_tree"),
        ("Target.setAutoAttach", "frame_lost", ""),
    ],
)
async def test_a_payload_that_always_fails_costs_itself_alone(browser_path, site, method, degradation, lost):
    """Nothing is thrown away because a neighbour failed (pains 19, 21)."""
    supervisor = Supervisor(browser_path, SETTINGS)
    try:
        took = await take(supervisor, site.page("/", "<p>text</p>"), before=failing(method))
    finally:
        await supervisor.close()
    assert took.error is None
    assert took.taking.degradations == {degradation}
    wanted = {"frame_tree", "listeners", "layout_snapshot", "dom_document", "layout_metrics", "ax_tree", "targets"}
    assert set(took.kinds()) == wanted - {lost}
