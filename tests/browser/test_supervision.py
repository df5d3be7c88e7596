"""The supervisor replaces what is worn, ends what does not end, and leaves no process and no folder behind."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from schemas.errors import BrowserLost, PageFailed
from schemas.settings import DESKTOP, BrowserLimits, Budgets, CrawlSettings
from workers.browser.orphans import PREFIX
from workers.browser.processes import resident_bytes
from workers.browser.supervisor import Supervisor

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

SETTINGS = CrawlSettings(budgets=Budgets(close=timedelta(seconds=1), context=timedelta(seconds=10)))
PATIENCE_SECONDS = 30.0


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


async def visit(supervisor: Supervisor, url: str) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS), supervisor.page_session(DESKTOP) as session:
        await session.navigate(url, SETTINGS.budgets)
        await session.settle(SETTINGS.budgets)


async def crash(supervisor: Supervisor) -> None:
    """A page whose renderer dies."""

    async def shown() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS), supervisor.page_session(DESKTOP) as session:
            session.channel.send("Page.crash", None, session.session_id)
            raise await session.gone

    with pytest.raises(PageFailed, match="renderer_crash"):
        await shown()


async def gone(process: psutil.Process) -> bool:
    """Whether a process goes within patience, its zombie too."""
    for _ in range(int(PATIENCE_SECONDS * 20)):
        if not process.is_running():
            return True
        await asyncio.sleep(0.05)
    return False


WORN = {
    "pages": BrowserLimits(pages=1),
    "age": BrowserLimits(age=timedelta(0)),
    "memory": BrowserLimits(memory_mib=1),
    "crashes": BrowserLimits(crash_score=1.0),
}


@pytest.mark.parametrize("reason", WORN)
async def test_a_worn_browser_is_replaced_with_its_driver(browser_path, site, monkeypatch, reason, tmp_path):
    """By pages, age, memory and crashes; the driver goes too, and the page is captured by the new one (pains 6, 7)."""
    monkeypatch.setattr("workers.browser.supervisor.MEASURE_AFTER_SECONDS", 0.0)
    supervisor = Supervisor(browser_path, SETTINGS, WORN[reason])
    url = site.page("/", "<p>text</p>")
    try:
        if reason == "crashes":
            await crash(supervisor)
        else:
            await visit(supervisor, url)
        old = supervisor._launched
        assert old is not None
        assert old.driver is not None
        await visit(supervisor, url)
        assert (supervisor.launches, supervisor.recycled) == (2, [reason])
        assert await gone(old.process)
        assert await gone(old.driver)
        assert len(list(tmp_path.glob(f"{PREFIX}*"))) == 1
    finally:
        await supervisor.close()


async def test_a_fresh_browser_is_kept(browser_path, site):
    supervisor = Supervisor(browser_path, SETTINGS)
    try:
        for _ in range(3):
            await visit(supervisor, site.page("/", "<p>text</p>"))
        assert (supervisor.launches, supervisor.recycled, supervisor.leaked) == (1, [], 0)
    finally:
        await supervisor.close()


async def test_a_dead_driver_is_replaced_and_its_browser_ended(browser_path, site):
    """A driver that died stays dead; the next page gets another, and a browser of its own (pain 8)."""
    supervisor = Supervisor(browser_path, SETTINGS)
    try:
        await visit(supervisor, site.page("/", "<p>text</p>"))
        old = supervisor._launched
        assert old is not None
        assert old.driver is not None
        old.driver.kill()
        assert await gone(old.driver)
        await visit(supervisor, site.page("/", "<p>text</p>"))
        assert supervisor.launches == 2
        assert await gone(old.process), "the browser that the dead driver left behind is ended, and reaped by us"
    finally:
        await supervisor.close()


async def test_a_driver_that_is_killed_leaves_no_folder(browser_path, site, tmp_path, monkeypatch):
    """What Playwright itself puts into the temporary folder goes with its browser's folder (pain 32)."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    supervisor = Supervisor(browser_path, SETTINGS)
    try:
        await visit(supervisor, site.page("/", "<p>text</p>"))
        launched = supervisor._launched
        assert launched is not None
        assert launched.driver is not None
        assert list(tmp_path.iterdir()) == [launched.folder]
        launched.driver.kill()
        assert await gone(launched.driver)
    finally:
        await supervisor.close()
    assert list(tmp_path.iterdir()) == []


async def test_a_driver_that_dies_under_a_page_is_a_lost_browser(browser_path, site):
    supervisor = Supervisor(browser_path, SETTINGS)
    hanging = site.hang("/hang")

    async def killed_under_way() -> None:
        async with supervisor.page_session(DESKTOP) as session:
            going = asyncio.ensure_future(session.navigate(hanging, SETTINGS.budgets))
            for _ in range(int(PATIENCE_SECONDS * 50)):
                if "/hang" in site.hits:
                    break
                await asyncio.sleep(0.02)
            launched = supervisor._launched
            assert launched is not None
            assert launched.driver is not None
            launched.driver.kill()
            await going

    try:
        with pytest.raises(BrowserLost):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await killed_under_way()
    finally:
        await supervisor.close()


async def test_a_context_that_never_closes_frees_its_slot(browser_path, site):
    """The page's slot is free after the close budget, the leak is counted and wears the browser (pains 9, 11)."""
    supervisor = Supervisor(browser_path, SETTINGS, BrowserLimits(crash_score=1.0))
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            async with supervisor.page_session(DESKTOP) as session:
                await session.navigate(site.page("/", "<p>text</p>"), SETTINGS.budgets)
                launched = supervisor._launched
                assert launched is not None
                assert launched.driver is not None
                launched.driver.suspend()
            assert supervisor.leaked == 1
            await visit(supervisor, site.page("/", "<p>text</p>"))
        assert supervisor.recycled == ["crashes"]
        assert await gone(launched.process)
        assert await gone(launched.driver)
    finally:
        await supervisor.close()


async def test_closing_ends_a_browser_that_does_not_answer(browser_path, site):
    """browser.close never returns; TERM, then KILL of the whole group do (pains 3, 13)."""
    supervisor = Supervisor(browser_path, SETTINGS)
    await visit(supervisor, site.page("/", "<p>text</p>"))
    launched = supervisor._launched
    assert launched is not None
    processes = [launched.process, *launched.process.children(recursive=True)]
    try:
        for process in processes:
            with suppress(psutil.NoSuchProcess):  # the renderer of the page that was closed may only now have ended
                process.suspend()
    finally:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await supervisor.close()
    for process in processes:
        assert await gone(process)


async def test_a_page_process_has_a_memory_limit(browser_path, site):
    """What a page allocates beyond it fails in the page; the machine and the next page do not notice."""
    supervisor = Supervisor(browser_path, SETTINGS, BrowserLimits(renderer_memory_mib=512))
    bomb = "const kept = []; let failed = ''; try { for (;;) kept.push(new Uint8Array(1 << 26).fill(1)) }"
    url = site.page("/", f"<script>{bomb} catch (e) {{ failed = e.name }} document.title = failed</script>")
    try:
        async with asyncio.timeout(PATIENCE_SECONDS), supervisor.page_session(DESKTOP) as session:
            await session.navigate(url, SETTINGS.budgets)
            await session.settle(replace(SETTINGS.budgets, settle=timedelta(seconds=10)))
            launched = supervisor._launched
            assert launched is not None
            assert launched.group is not None
            assert resident_bytes(launched.group) < 2 * 1024**3
        assert session.visit.title == "RangeError"
        await visit(supervisor, site.page("/next", "<p>text</p>"))
        assert supervisor.launches == 1
    finally:
        await supervisor.close()


async def test_an_idle_browser_shows_first_that_it_answers(browser_path, site, monkeypatch):
    """A driver that stands still is found before a page is asked of it (pains 8, 58)."""
    monkeypatch.setattr("workers.browser.supervisor.PROBE_AFTER_SECONDS", 0.0)
    settings = replace(SETTINGS, budgets=replace(SETTINGS.budgets, context=timedelta(seconds=5)))
    supervisor = Supervisor(browser_path, settings)
    try:
        await visit(supervisor, site.page("/", "<p>text</p>"))
        old = supervisor._launched
        assert old is not None
        assert old.driver is not None
        old.driver.suspend()
        async with asyncio.timeout(2 * PATIENCE_SECONDS):
            await visit(supervisor, site.page("/", "<p>text</p>"))
        assert supervisor.recycled == ["no answer: TimeoutError"]
    finally:
        await supervisor.close()


async def test_a_browser_does_not_live_in_shared_memory(browser_path):
    """/dev/shm has 64 MB in a container, which is too little for it (pain 31)."""
    supervisor = Supervisor(browser_path, SETTINGS)
    try:
        await supervisor.facts()
        launched = supervisor._launched
        assert launched is not None
        assert "--disable-dev-shm-usage" in launched.process.cmdline()
    finally:
        await supervisor.close()
