"""A page session in a real browser: whatever a page does, it ends settled, refused or failed, with a reason."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from schemas.errors import PageFailed
from schemas.settings import DESKTOP, Budgets, Caps, CrawlSettings
from workers.browser.session import PageSession
from workers.browser.supervisor import Supervisor
from workers.browser.unasked import LAST_DIALOG

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

BUDGETS = Budgets(load=timedelta(seconds=10), settle=timedelta(seconds=3))
CAPS = Caps(
    document_bytes=200_000, response_bytes=400_000, requests=20, client_redirects=2, dialogs=2, popups=2, elements=500
)
PATIENCE_SECONDS = 30.0


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def supervisor(browser_path: Path) -> AsyncIterator[Supervisor]:
    made = Supervisor(browser_path, CrawlSettings(budgets=BUDGETS, caps=CAPS))
    yield made
    await made.close()


async def visited(supervisor: Supervisor, url: str, budgets: Budgets = BUDGETS) -> PageSession:
    """The session of a page that has settled, closed again."""
    async with asyncio.timeout(PATIENCE_SECONDS), supervisor.page_session(DESKTOP) as session:
        await session.navigate(url, budgets)
        await session.settle(budgets)
    return session


async def failed(supervisor: Supervisor, url: str, budgets: Budgets = BUDGETS) -> tuple[PageFailed, PageSession]:
    """How a page failed, and its session."""
    async with asyncio.timeout(PATIENCE_SECONDS), supervisor.page_session(DESKTOP) as session:
        try:
            await session.navigate(url, budgets)
            await session.settle(budgets)
        except PageFailed as failure:
            return failure, session
    raise AssertionError(f"the page was captured: {session.visit}")


async def said(session: PageSession, script: str) -> object:
    """What a script in the page's own world says."""
    answer = await session.channel.ask(
        "Runtime.evaluate", {"expression": script, "awaitPromise": True, "returnByValue": True}, session.session_id
    )
    return answer["result"].get("value")


def broken(body: bytes, length: int | None = None, encoding: str = "") -> Callable[..., None]:
    """Answers with a body that breaks off, or is not what its header says."""

    def answer(handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.send_header("Content-Length", str(length or len(body)))
        if encoding:
            handler.send_header("Content-Encoding", encoding)
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(body)

    return answer


async def test_a_body_that_breaks_off_is_captured_and_said(supervisor, site):
    """The load event never comes, and is not waited for: the network tells that the body is not whole."""
    url = site.answer("/", broken(b"<title>half</title><p>text", length=5000))
    session = await visited(supervisor, url, replace(BUDGETS, load=timedelta(seconds=PATIENCE_SECONDS)))
    assert (session.visit.title, session.visit.settle_reason) == ("half", "document_failed")
    assert session.visit.degradations == {"body_incomplete"}


async def test_a_body_that_never_ends_is_captured_and_said(supervisor, site):
    def drip(handler) -> None:
        broken(b"<title>half</title><p>text", length=5000)(handler)
        site.closing.wait()

    session = await visited(supervisor, site.answer("/", drip), replace(BUDGETS, load=timedelta(seconds=0.5)))
    assert (session.visit.title, session.visit.settle_reason) == ("half", "load_cap")
    assert session.visit.degradations == {"body_incomplete", "unsettled"}


async def test_a_body_that_cannot_be_decoded_is_no_empty_page(supervisor, site):
    """Chromium commits an empty document and only the network tells; it is an error, with the browser's code."""
    failure, session = await failed(supervisor, site.answer("/", broken(b"<p>plain</p>", encoding="gzip")))
    assert (failure.outcome, failure.detail) == ("protocol_error", "ERR_CONTENT_DECODING_FAILED")
    assert session.visit.status == 200


@pytest.mark.parametrize("packed", [False, True], ids=["announced", "inflated"])
async def test_a_document_that_is_too_large_is_refused(supervisor, site, packed):
    """By the length it announces, and by its decoded bytes however few came over the wire (pain 33)."""
    body = b"<p>text</p><!--" + b" " * 3_000_000
    answer = broken(gzip.compress(body), encoding="gzip") if packed else broken(body)
    failure, _ = await failed(supervisor, site.answer("/", answer))
    assert failure.outcome == "too_large"
    assert ("decoded" in failure.detail) is packed
    # and the browser goes on
    assert (await visited(supervisor, site.page("/next", "<title>next</title>"))).visit.title == "next"


async def test_a_document_with_too_many_elements_is_refused(supervisor, site):
    failure, _ = await failed(supervisor, site.page("/", "<p>x</p>" * 600))
    assert (failure.outcome, failure.detail) == ("too_large", "603 elements; at most 500 are taken")


async def test_a_flood_of_requests_is_capped(supervisor, site):
    """Requests beyond the cap are refused by the browser, and the page is taken as it is."""
    for n in range(60):
        site.page(f"/{n}", b"", content_type="text/css")
    url = site.page("/", "<script>for (let i = 0; i < 60; i++) setTimeout(() => fetch('/' + i), i * 10)</script>")
    session = await visited(supervisor, url, replace(BUDGETS, quiet=timedelta(seconds=1.2)))
    assert session.visit.settle_reason == "requests_cap"
    assert session.visit.degradations == {"unsettled"}
    assert session.visit.requests > CAPS.requests
    assert len(site.hits) < 55, "most of what came after the cap was never asked for"


@pytest.mark.parametrize("depth", [1, 2])
async def test_a_flood_of_a_worker_s_requests_is_capped(supervisor, site, depth):
    """Given a worker, or one that a worker made, then what it asks for counts as what its page asks for."""
    for n in range(60):
        site.page(f"/{n}", b"", content_type="text/css")
    flood = "(async () => { for (let i = 0; i < 60; i++) { await new Promise((r) => setTimeout(r, 20));"
    site.page("/w1.js", flood + " await fetch('/' + i) } })()", content_type="text/javascript")
    site.page("/w2.js", "new Worker('/w1.js')", content_type="text/javascript")
    url = site.page("/", f"<p>text</p><script>new Worker('/w{depth}.js')</script>")
    session = await visited(supervisor, url, replace(BUDGETS, quiet=timedelta(seconds=2.5)))
    assert session.visit.settle_reason == "requests_cap"
    assert len(site.hits) < 55, "most of what came after the cap was never asked for"


async def test_a_flood_of_sockets_is_capped(supervisor, site):
    """WebSockets count as requests, though the browser tells of them by other events."""
    script = f"for (let i = 0; i < {CAPS.requests + 5}; i++) new WebSocket('ws://' + location.host + '/' + i)"
    session = await visited(supervisor, site.page("/", f"<p>text</p><script>{script}</script>"))
    assert session.visit.settle_reason == "requests_cap"


async def test_a_flood_of_bytes_is_capped(supervisor, site):
    site.page("/big", b"x" * 150_000, content_type="text/css")
    script = "(async () => { for (let i = 0; i < 9; i++) await fetch('/big?' + i).then((r) => r.text()) })()"
    session = await visited(
        supervisor, site.page("/", f"<script>{script}</script>"), replace(BUDGETS, quiet=timedelta(seconds=1))
    )
    assert session.visit.settle_reason == "bytes_cap"
    assert session.visit.response_bytes < 9 * 150_000


async def test_a_refresh_without_end_is_followed_so_far_and_then_held(supervisor, site):
    """A page that replaces itself for ever ends with one whole document, and the next one is refused (pain 17)."""
    url = site.page("/", "<title>again</title><meta http-equiv=refresh content=0><p>text</p>")
    patient = replace(BUDGETS, settle=timedelta(seconds=PATIENCE_SECONDS))
    async with asyncio.timeout(2 * PATIENCE_SECONDS), supervisor.page_session(DESKTOP) as session:
        await session.navigate(url, patient)
        await session.settle(patient)
        asked = len(site.hits)
        assert await said(session, "document.querySelector('p').textContent") == "text"
        session.check_stayed()
        assert len(site.hits) == asked
    visit = session.visit
    assert (visit.title, visit.settle_reason, visit.client_redirects) == ("again", "redirects_cap", 2)
    assert visit.degradations == {"unsettled"}


async def test_client_redirects_are_counted_apart(supervisor, site):
    site.page("/3", "<title>end</title>")
    site.page("/2", "<script>location.replace('/3')</script>")
    url = site.page("/1", b"", status=302, headers={"Location": "/2"})
    visit = (await visited(supervisor, url)).visit
    assert (visit.redirects, visit.client_redirects, visit.title) == ([url], 1, "end")
    assert visit.settle_reason == "quiet"


async def test_a_page_that_waits_for_another_is_captured_as_it_is(supervisor, site):
    """While a navigation hangs the renderer answers nothing; so the navigation is stopped."""
    site.hang("/hang")
    url = site.page("/", "<title>here</title><script>onload = () => setTimeout(() => location = '/hang')</script>")
    async with asyncio.timeout(PATIENCE_SECONDS), supervisor.page_session(DESKTOP) as session:
        await session.navigate(url, BUDGETS)
        await session.settle(BUDGETS)
        assert await said(session, "document.title") == "here"
    assert (session.visit.title, session.visit.final_url) == ("here", url)


async def test_a_page_that_goes_to_nothing_is_closed(supervisor, site):
    url = site.page("/", "<p>text</p><script>onload = () => setTimeout(() => location = 'about:blank', 10)</script>")
    failure, _ = await failed(supervisor, url)
    assert (failure.outcome, failure.detail) == ("page_closed", "the page went to about:blank")


async def test_a_script_that_blocks_a_half_document_is_left_alone(supervisor, site):
    """What comes after the script was never parsed, so that there is no page yet to be saved."""
    url = site.page("/", "<p>text</p><script>for (;;);</script><p>more</p>")
    session = await visited(supervisor, url, replace(BUDGETS, load=timedelta(seconds=0.5)))
    assert (session.visit.settle_reason, session.visit.elements) == ("blocked", None)


async def test_dialogs_beyond_the_cap_are_said(supervisor, site):
    url = site.page("/", "<script>for (let i = 0; i < 4; i++) alert(i); document.title = 'after'</script>")
    visit = (await visited(supervisor, url)).visit
    assert (visit.dialogs, visit.title, visit.degradations) == (4, "after", {"dialogs_capped"})


async def test_dialogs_without_end_close_the_page(supervisor, site):
    """Nothing else stops a script that does nothing but open dialogs (pain 14)."""
    failure, session = await failed(supervisor, site.page("/", "<p>text</p><script>while (true) alert()</script>"))
    assert failure.outcome == "page_closed"
    assert session.visit.dialogs > LAST_DIALOG * CAPS.dialogs
    assert "dialogs_capped" in session.visit.degradations


async def test_popups_are_refused_and_counted(supervisor, site):
    """Beyond the cap the script that opens them is ended (pain 29)."""
    site.page("/popup", "<title>popup</title>")
    url = site.page("/", "<title>opener</title><script>for (let i = 0; i < 30; i++) open('/popup')</script>")
    async with asyncio.timeout(PATIENCE_SECONDS), supervisor.page_session(DESKTOP) as session:
        await session.navigate(url, BUDGETS)
        await session.settle(BUDGETS)
        targets = await session.channel.ask("Target.getTargets")
        assert not [t for t in targets["targetInfos"] if t["url"].endswith("/popup")]
    assert session.visit.popups > CAPS.popups
    assert (session.visit.title, session.visit.degradations) == ("opener", {"popups_capped"})


DOWNLOADS = {
    "attachment": ({"Content-Disposition": 'attachment; filename="report.zip"'}, "report.zip (application/zip)"),
    "pdf": ({}, "application/pdf"),
}


@pytest.mark.parametrize("kind", DOWNLOADS)
async def test_downloads_are_refused_and_described(supervisor, site, kind, tmp_path):
    """Name and type; a PDF is a download whether or not the browser has a viewer for it (pain 27)."""
    headers, described = DOWNLOADS[kind]
    kinds = {"attachment": "application/zip", "pdf": "application/pdf"}
    url = site.page("/x", b"%PDF-1.4", content_type=kinds[kind], headers=headers)
    failure, session = await failed(supervisor, url)
    assert failure.outcome == "download"
    assert described in failure.detail
    assert (session.visit.status, session.visit.content_type) == (200, kinds[kind])


async def test_a_download_of_a_frame_costs_nothing(supervisor, site):
    site.page(
        "/x", b"12", content_type="application/zip", headers={"Content-Disposition": "attachment; filename=a.zip"}
    )
    visit = (await visited(supervisor, site.page("/", "<title>page</title><iframe src=/x></iframe>"))).visit
    assert (visit.title, visit.downloads, visit.files) == ("page", 1, ["a.zip (application/zip)"])


async def test_a_download_of_a_link_has_no_type_of_its_page(supervisor, site):
    """Its request is not the page's, so that its type is not known; that of the page would be wrong."""
    site.page("/x", b"12", content_type="application/zip")
    url = site.page("/", "<title>page</title><a id=a href=/x download=a.zip>x</a><script>a.click()</script>")
    visit = (await visited(supervisor, url, replace(BUDGETS, quiet=timedelta(seconds=1)))).visit
    assert (visit.downloads, visit.files) == (1, ["a.zip (type unknown)"])


async def test_permissions_are_denied(supervisor, site):
    names = ["geolocation", "notifications", "camera", "clipboard-read", "midi"]
    script = f"Promise.all({names}.map((name) => navigator.permissions.query({{name}}).then((r) => r.state)))"
    async with asyncio.timeout(PATIENCE_SECONDS), supervisor.page_session(DESKTOP) as session:
        await session.navigate(site.page("/", "<p>text</p>"), BUDGETS)
        assert await said(session, script) == ["denied"] * len(names)


async def test_service_workers_are_refused_without_a_trace_in_the_page(supervisor, site):
    """Counted, ended, and no answer of one is ever shown; the page's own world is as the browser made it (pain 30)."""
    worker = "onfetch = (e) => e.respondWith(new Response('<title>from the worker</title>'))"
    site.page("/sw.js", worker, content_type="text/javascript")
    register = "navigator.serviceWorker.register('/sw.js').catch(() => 0)"
    url = site.page("/", f"<title>from the site</title><script>{register}</script>")
    async with asyncio.timeout(PATIENCE_SECONDS), supervisor.page_session(DESKTOP) as session:
        await session.navigate(url, BUDGETS)
        await session.settle(BUDGETS)
        assert (
            await said(session, "navigator.serviceWorker.register.toString()")
            == "function register() { [native code] }"
        )
        for _ in range(int(PATIENCE_SECONDS * 20)):
            if session.visit.service_workers:
                break
            await asyncio.sleep(0.05)
        fetched = await said(session, "fetch('/').then((answer) => answer.text())")
    assert session.visit.service_workers >= 1
    assert "from the site" in str(fetched)
    assert session.visit.title == "from the site"


async def test_the_browsers_own_view_of_xml_is_no_page(supervisor, site):
    plain = site.page("/plain", "<feed><entry>one</entry></feed>", content_type="application/xml")
    failure, _ = await failed(supervisor, plain)
    assert (failure.outcome, failure.detail) == ("unsupported_content", "application/xml")
    xhtml = "<html xmlns='http://www.w3.org/1999/xhtml'><head><title>page</title></head><body>text</body></html>"
    session = await visited(supervisor, site.page("/x", xhtml, content_type="application/xhtml+xml"))
    assert session.visit.title == "page"


async def test_leaving_a_page_runs_nothing_of_it(supervisor, site):
    """Neither beforeunload nor a question whether to stay (pain 13)."""
    script = "onbeforeunload = (e) => { fetch('/left', {keepalive: true}); e.preventDefault(); return 'stay' }"
    await visited(supervisor, site.page("/", f"<p>text</p><script>{script}</script>"))
    await visited(supervisor, site.page("/next", "<p>text</p>"))
    assert "/left" not in site.hits


async def test_names_in_the_page_do_not_stand_in_for_the_documents_own(supervisor, site):
    """An element named `title` takes the place of `document.title`, in every world."""
    named = "".join(f"<img name={name}>" for name in ("title", "querySelectorAll", "documentElement", "contentType"))
    visit = (await visited(supervisor, site.page("/", f"<title>real</title>{named}<form name=body></form>"))).visit
    assert (visit.title, visit.elements, visit.settle_reason) == ("real", 9, "quiet")


CHALLENGES = {
    "cf-mitigated: challenge": (403, {"cf-mitigated": "challenge"}, "<title>Just a moment...</title>"),
    "x-amzn-waf-action: captcha": (405, {"x-amzn-waf-action": "captcha"}, "<p>Human?</p>"),
    "document: cloudflare": (503, {}, "<form id=challenge-form></form>"),
    "document: human": (403, {}, "<div id=px-captcha></div>"),
}


@pytest.mark.parametrize("signal", CHALLENGES)
async def test_a_challenge_is_told_by_its_signal(supervisor, site, signal):
    """Labelled with what it was told by, and nothing of it is answered (pain 36)."""
    status, headers, body = CHALLENGES[signal]
    session = await visited(supervisor, site.page("/", body, status=status, headers=headers))
    assert session.visit.challenge == signal
    assert site.hits.count("/") == 1


async def test_an_ordinary_page_with_a_captcha_is_no_challenge(supervisor, site):
    body = '<p>Write to us</p><iframe src="/recaptcha/frame"></iframe><div id=px-captcha></div>'
    assert (await visited(supervisor, site.page("/", body))).visit.challenge is None


async def test_what_is_still_under_way_is_named(supervisor, site):
    """A page captured too soon is told by what it waited for, not by its diagnostics being clean (pain 16)."""
    hanging = site.hang("/hang")
    url = site.page("/", "<p>text</p><img src=/hang>")
    visit = (await visited(supervisor, url, replace(BUDGETS, load=timedelta(seconds=1)))).visit
    assert (visit.pending, visit.settle_reason, visit.degradations) == ([hanging], "load_cap", {"unsettled"})
