"""The supervisor owns one real browser: pages come and go, a killed browser is replaced, nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from schemas.errors import BrowserLost, BrowserMissing, PageFailed
from schemas.settings import DESKTOP, Budgets, CrawlSettings
from workers.browser.supervisor import Supervisor

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

SETTINGS = CrawlSettings()
PATIENCE_SECONDS = 30.0


@pytest_asyncio.fixture(loop_scope="module")
async def supervisor(browser_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Supervisor]:
    """A supervisor whose temporary folders lie in this test's own folder."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = Supervisor(browser_path, SETTINGS)
    yield made
    await made.close()


def folders(tmp_path: Path) -> list[Path]:
    return sorted(tmp_path.glob("pagestate-browser-*"))


def children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


async def gone(processes: set[psutil.Process]) -> set[psutil.Process]:
    """The processes that are still there, zombies too, after a while of patience."""
    left = processes
    for _ in range(int(PATIENCE_SECONDS * 10)):
        left = {process for process in left if process.is_running()}
        if not left:
            break
        await asyncio.sleep(0.1)
    return left


async def asked_for(site, path: str) -> bool:
    """Whether a page has been asked for, after a while of patience."""
    for _ in range(int(PATIENCE_SECONDS * 50)):
        if path in site.hits:
            break
        await asyncio.sleep(0.02)
    return path in site.hits


async def browser_pid(supervisor: Supervisor) -> int:
    """The pid of the browser's main process, as the browser itself tells it."""
    async with supervisor.page_session(DESKTOP) as session:
        about = await session.channel.ask("SystemInfo.getProcessInfo")
    pid = next(process["id"] for process in about["processInfo"] if process["type"] == "browser")
    assert psutil.Process(pid) in children(), "only a process of our own may be killed"
    return pid


async def test_a_session_opens_navigates_and_closes(supervisor, site):
    url = site.page("/", "<title>Hello</title><p>text</p>")
    async with supervisor.page_session(DESKTOP) as session:
        await session.navigate(url, SETTINGS.budgets)
        await session.settle(SETTINGS.budgets)
        visit = session.visit
        targets = await session.channel.ask("Target.getTargets")
        assert session.target_id in {target["targetId"] for target in targets["targetInfos"]}
    assert (visit.status, visit.content_type, visit.final_url) == (200, "text/html", url)
    assert (visit.title, visit.settle_reason, visit.redirects) == ("Hello", "quiet", [])
    assert visit.elements == 5
    async with supervisor.page_session(DESKTOP) as session:
        targets = await session.channel.ask("Target.getTargets")
        pages = [target["url"] for target in targets["targetInfos"] if target["type"] == "page"]
        assert url not in pages, "the page of the closed session is gone"
    assert supervisor.launches == 1


async def test_a_page_looks_through_its_profile(supervisor, site):
    """The profile decides what a page sees, and its user agent says who we are."""
    url = site.page("/", "<p>text</p>")
    script = (
        "[innerWidth, innerHeight, devicePixelRatio, navigator.language,"
        " Intl.DateTimeFormat().resolvedOptions().timeZone, navigator.userAgent, navigator.maxTouchPoints]"
    )
    profile = replace(DESKTOP, name="small", viewport_width=400, viewport_height=300, scale=2.0, locale="de-DE")
    for given, start in ((DESKTOP, [1280, 1100, 1, "en-US", "UTC"]), (profile, [400, 300, 2, "de-DE", "UTC"])):
        async with supervisor.page_session(given) as session:
            await session.navigate(url, SETTINGS.budgets)
            answer = await session.channel.ask(
                "Runtime.evaluate", {"expression": script, "returnByValue": True}, session.session_id
            )
        seen = answer["result"]["value"]
        assert seen[:5] == start
        assert seen[5] == (await supervisor.facts()).user_agent
        assert " pagestate/" in seen[5]
        assert seen[6] == 0


async def test_contexts_share_nothing(supervisor, site):
    """Given a page that sets a cookie and storage, then the next page of the same host knows of neither (pain 6)."""
    url = site.page(
        "/",
        "<script>document.title = document.cookie + '|' + localStorage.length;"
        "document.cookie = 'a=b'; localStorage.x = 1</script>",
    )
    for _ in range(2):
        async with supervisor.page_session(DESKTOP) as session:
            await session.navigate(url, SETTINGS.budgets)
            await session.settle(SETTINGS.budgets)
        assert session.visit.title == "|0"


async def test_sessions_opened_at_once_are_each_their_own(supervisor, site):
    """Given pages that open popups meanwhile, then no session is attached to another one's page (pain 29)."""
    urls = [site.page(f"/{n}", f"<title>page {n}</title><script>open('/popup')</script>") for n in range(6)]
    site.page("/popup", "<title>popup</title>")

    async def title(url: str) -> tuple[str | None, int]:
        async with supervisor.page_session(DESKTOP) as session:
            await session.navigate(url, SETTINGS.budgets)
            await session.settle(SETTINGS.budgets)
            return session.visit.title, session.visit.popups

    told = await asyncio.gather(*map(title, urls))
    assert [name for name, _ in told] == [f"page {n}" for n in range(6)]
    async with supervisor.page_session(DESKTOP) as session:
        targets = await session.channel.ask("Target.getTargets")
        pages = [t for t in targets["targetInfos"] if t["type"] == "page" and t["url"].startswith(site.origin)]
        assert pages == []


async def test_a_killed_browser_is_lost_for_its_page_and_new_for_the_next(supervisor, site, tmp_path):
    """A browser that dies costs the pages in flight only; the next page gets a new one (pains 8, 10)."""
    pid = await browser_pid(supervisor)
    hanging, url = site.hang("/hang"), site.page("/", "<p>text</p>")
    (old,) = folders(tmp_path)

    async def visit() -> None:
        async with supervisor.page_session(DESKTOP) as session:
            going = asyncio.ensure_future(session.navigate(hanging, SETTINGS.budgets))
            assert await asked_for(site, "/hang")
            os.kill(pid, signal.SIGKILL)
            await going

    with pytest.raises(BrowserLost):
        async with asyncio.timeout(PATIENCE_SECONDS):
            await visit()
    async with asyncio.timeout(PATIENCE_SECONDS), supervisor.page_session(DESKTOP) as session:
        await session.navigate(url, SETTINGS.budgets)
    assert session.visit.status == 200
    assert supervisor.launches == 2
    assert old not in folders(tmp_path), "the folder of the dead browser is removed"
    assert len(folders(tmp_path)) == 1


async def test_a_browser_killed_between_pages_is_replaced_unseen(supervisor, site):
    pid = await browser_pid(supervisor)
    process = psutil.Process(pid)
    os.kill(pid, signal.SIGKILL)
    assert not await gone({process})
    await asyncio.sleep(0.2)
    url = site.page("/", "<p>text</p>")
    async with supervisor.page_session(DESKTOP) as session:
        await session.navigate(url, SETTINGS.budgets)
    assert supervisor.launches == 2


async def test_closing_leaves_no_process_and_no_folder(browser_path, tmp_path, monkeypatch):
    """Three launches leave no process, no zombie and no profile folder (pains 1, 5, 32)."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = children()
    started: set[psutil.Process] = set()
    for _ in range(3):
        supervisor = Supervisor(browser_path, SETTINGS)
        async with supervisor.page_session(DESKTOP):
            started |= children() - before
            assert len(folders(tmp_path)) == 1
        await supervisor.close()
        assert folders(tmp_path) == []
    assert started, "the browser's processes are descendants of this one"
    assert not await gone(started)


async def test_a_supervisor_that_was_never_used_closes(browser_path):
    supervisor = Supervisor(browser_path, SETTINGS)
    await supervisor.close()
    assert supervisor.launches == 0


async def test_a_program_that_is_no_browser_is_said_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    fake = tmp_path / "fake"
    fake.write_text("#!/bin/sh\necho no browser here >&2\nexit 3\n")
    fake.chmod(0o755)
    before = children()
    supervisor = Supervisor(fake, SETTINGS)
    with pytest.raises(BrowserMissing, match="could not be started") as missing:
        await supervisor.facts()
    assert "\n" not in str(missing.value)
    await supervisor.close()
    assert folders(tmp_path) == []
    assert not await gone(children() - before)


async def test_a_browser_that_stands_still_is_replaced(browser_path, tmp_path, monkeypatch, site):
    """A stopped browser answers nothing; a page that it does not make is made by a new one (pains 9, 12)."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    budgets = Budgets(context=timedelta(seconds=5), close=timedelta(seconds=1))
    supervisor = Supervisor(browser_path, replace(SETTINGS, budgets=budgets))
    url = site.page("/", "<p>text</p>")
    try:
        process = psutil.Process(await browser_pid(supervisor))
        process.suspend()
        async with asyncio.timeout(PATIENCE_SECONDS * 2), supervisor.page_session(DESKTOP) as session:
            await session.navigate(url, SETTINGS.budgets)
        assert supervisor.launches >= 2
        assert not await gone({process})
        assert len(folders(tmp_path)) == 1
    finally:
        with suppress(psutil.NoSuchProcess):
            process.kill()
        await supervisor.close()
    assert folders(tmp_path) == []


async def test_a_browser_given_up_lets_its_pages_finish(supervisor, site, tmp_path):
    """Given a browser that made no page in time, then its open session goes on, and it ends with that session."""
    url = site.page("/", "<p>text</p>")
    async with supervisor.page_session(DESKTOP) as old:
        supervisor._launched.broken = "made no page"
        async with supervisor.page_session(DESKTOP) as new:
            await new.navigate(url, SETTINGS.budgets)
            await old.navigate(url, SETTINGS.budgets)
            assert old.channel is not new.channel
            assert len(folders(tmp_path)) == 2
    assert old.channel.is_lost
    assert not new.channel.is_lost
    assert (supervisor.launches, len(folders(tmp_path))) == (2, 1)


def closed_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


FAILURES: dict[str, Callable[..., str]] = {
    "download": lambda site: site.page("/", b"\x00\x01", content_type="application/octet-stream"),
    "unsupported_content": lambda site: site.page("/", b"\x89PNG", content_type="image/png"),
    "empty": lambda site: site.page("/", b"", status=204),
    "redirect_loop": lambda site: site.page("/", b"", status=302, headers={"Location": "/"}),
    "navigation_timeout": lambda site: site.hang("/"),
    "connection_error": lambda site: f"http://127.0.0.1:{closed_port()}/",
    "policy_denied": lambda site: "http://127.0.0.1:9/",
    "protocol_error": lambda site: site.page("/", b"", status=302, headers={"Location": "file:///etc/passwd"}),
}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def one_supervisor(browser_path: Path) -> AsyncIterator[Supervisor]:
    made = Supervisor(browser_path, SETTINGS)
    yield made
    await made.close()


@pytest.mark.parametrize("outcome", FAILURES)
async def test_a_navigation_that_gives_no_document_says_how(one_supervisor, site, outcome):
    """Downloads, refusals and timeouts are outcomes, not exceptions of a library (pains 27, 28)."""
    url = FAILURES[outcome](site)
    budgets = replace(SETTINGS.budgets, navigate=timedelta(seconds=2))
    with pytest.raises(PageFailed) as failed:
        async with one_supervisor.page_session(DESKTOP) as session:
            await session.navigate(url, budgets)
    assert failed.value.outcome == outcome


@pytest.mark.parametrize("status", [401, 404, 500])
async def test_a_refusal_with_an_empty_body_keeps_its_status(one_supervisor, site, status):
    """No prompt, no exception and no page of the browser's own: the status tells the outcome (pain 28)."""
    headers = {"WWW-Authenticate": 'Basic realm="r"'} if status == 401 else {}
    url = site.page("/", b"", status=status, headers=headers)
    async with asyncio.timeout(PATIENCE_SECONDS), one_supervisor.page_session(DESKTOP) as session:
        await session.navigate(url, SETTINGS.budgets)
        await session.settle(SETTINGS.budgets)
    assert (session.visit.status, session.visit.final_url, session.visit.elements) == (status, url, 3)


async def test_dialogs_are_dismissed_and_counted(one_supervisor, site):
    """alert, confirm and prompt neither block the page nor its closing (pains 13, 14)."""
    url = site.page(
        "/",
        "<script>onbeforeunload = (e) => { e.preventDefault(); return 'stay' };"
        "alert(1); confirm(2); document.title = prompt(3, 'x') + ' after'</script>",
    )
    async with asyncio.timeout(PATIENCE_SECONDS), one_supervisor.page_session(DESKTOP) as session:
        await session.navigate(url, SETTINGS.budgets)
        await session.settle(SETTINGS.budgets)
    assert (session.visit.dialogs, session.visit.title) == (3, "null after")


async def test_redirects_are_kept_in_order(one_supervisor, site):
    first = site.page("/1", b"", status=301, headers={"Location": "/2"})
    second = site.page("/2", b"", status=307, headers={"Location": "/3"})
    last = site.page("/3", "<p>text</p>")
    async with one_supervisor.page_session(DESKTOP) as session:
        await session.navigate(first, SETTINGS.budgets)
    assert (session.visit.redirects, session.visit.final_url) == ([first, second], last)


SETTLES = {
    "quiet": "<p>text</p><script>setInterval(() => fetch('/poll'), 50)</script>",
    "quiet_cap": "<p id=p></p><script>setInterval(() => p.textContent += 'x', 20)</script>",
    "load_cap": "<p>text</p><img src=/hang>",
    "blocked": "<p>text</p><script>onload = () => setTimeout(() => { for (;;); }, 1)</script>",
}


@pytest.mark.parametrize("reason", SETTLES)
async def test_a_page_settles_for_a_recorded_reason(one_supervisor, site, reason):
    """Network idleness is never waited for, and why the wait ended is recorded (pains 15, 16)."""
    site.hang("/hang")
    url = site.page("/", SETTLES[reason])
    budgets = replace(SETTINGS.budgets, load=timedelta(seconds=1.5), settle=timedelta(seconds=1.5))
    async with asyncio.timeout(PATIENCE_SECONDS), one_supervisor.page_session(DESKTOP) as session:
        await session.navigate(url, budgets)
        await session.settle(budgets)
    assert session.visit.settle_reason == reason
    assert session.visit.elements == 5, "the script that blocks the thread of a whole document is ended"


async def test_replaced_documents_are_followed_to_the_last(one_supervisor, site):
    """A page that replaces its document is followed, and settles on the last one (pain 17)."""
    for n in range(4):
        nxt = f"<script>location.replace('/{n + 1}')</script>" if n < 3 else ""
        site.page(f"/{n}", f"<title>{n}</title>{nxt}")
    async with asyncio.timeout(PATIENCE_SECONDS), one_supervisor.page_session(DESKTOP) as session:
        await session.navigate(site.origin + "/0", SETTINGS.budgets)
        await session.settle(SETTINGS.budgets)
    assert (session.visit.final_url, session.visit.title) == (site.origin + "/3", "3")


async def test_a_page_that_reloads_for_ever_is_taken_as_it_is(one_supervisor, site):
    url = site.page("/", "<title>again</title><script>location.replace('/?' + Math.random())</script>")
    budgets = replace(SETTINGS.budgets, load=timedelta(seconds=2))
    async with asyncio.timeout(PATIENCE_SECONDS), one_supervisor.page_session(DESKTOP) as session:
        await session.navigate(url, budgets)
        await session.settle(budgets)
    assert session.visit.settle_reason in ("load_cap", "quiet_cap")
