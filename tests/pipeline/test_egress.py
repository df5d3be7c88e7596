"""The guard before a real browser: whatever a page does, it reaches nothing that is closed."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from schemas.errors import PageFailed
from schemas.policy import Policy
from schemas.settings import Budgets, CrawlSettings, RunSettings
from workers.browser.supervisor import Supervisor
from workers.egress.guard import Guard
from workers.egress.rules import EgressRules

pytestmark = pytest.mark.browser

OPEN = RunSettings(policy=Policy(allow=("127.0.0.1/32",)))
"""What is tested is served at 127.0.0.1; every other address of this machine is closed."""


class Target:
    """A closed address: it notes every connection, whatever it is for."""

    def __init__(self, host: str, kind: int = socket.SOCK_STREAM) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.visits: list[object] = []
        self._socket = socket.socket(family, kind)
        self._socket.bind((host, 0))
        self.port = self._socket.getsockname()[1]
        if kind == socket.SOCK_STREAM:
            self._socket.listen(64)
        threading.Thread(target=self._note, args=(kind,), daemon=True).start()

    def _note(self, kind: int) -> None:
        while True:
            try:
                if kind == socket.SOCK_STREAM:
                    connection, peer = self._socket.accept()
                    connection.close()
                else:
                    _, peer = self._socket.recvfrom(4096)
            except OSError:
                return
            self.visits.append(peer)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR) if self._socket.type == socket.SOCK_STREAM else None
        self._socket.close()


@pytest.fixture
def target() -> Iterator[Target]:
    made = Target("127.0.0.66")
    yield made
    made.close()


EVERY_WAY = """<!doctype html><title>start</title>
<link rel=stylesheet href="//{0}/style"><link rel=icon href="//{0}/icon">
<link rel=preload as=image href="//{0}/preload">
<link rel=preconnect href="//{0}"><link rel=prefetch href="//{0}/prefetch"><script src="//{0}/script"></script>
<style>@import "//{0}/import"; p {{ background: url(//{0}/background) }}
@font-face {{ font-family: f; src: url(//{0}/f) }}
body {{ font-family: f }}</style>
<p>text</p><img src="//{0}/image"><img src="/redirect"><iframe src="//{0}/frame"></iframe>
<iframe src="/redirect"></iframe><video src="//{0}/video" preload=auto></video><object data="//{0}/object"></object>
<embed src="//{0}/embed"><form id=f action="//{0}/form" target=i method=post></form><iframe name=i></iframe>
<script>
const done = (name) => (error) => {{ document.title += ' ' + name }};
f.submit();
fetch('//{0}/fetch', {{mode: 'no-cors'}}).then(done('FETCHED'), done('fetch'));
fetch('/redirect', {{mode: 'no-cors'}}).then(done('FETCHED'), done('redirected-fetch'));
const x = new XMLHttpRequest(); x.onload = done('FETCHED'); x.onerror = done('xhr');
x.open('GET', '//{0}/xhr'); x.send();
const w = new WebSocket('ws://{0}/socket'); w.onopen = done('OPENED'); w.onerror = done('socket');
const e = new EventSource('//{0}/events'); e.onopen = done('OPENED');
e.onerror = () => {{ e.close(); done('events')() }};
navigator.sendBeacon('//{0}/beacon', 'x');
new Worker('/worker.js').onmessage = (m) => done(m.data)();
const s = new Worker(URL.createObjectURL(new Blob([`importScripts('//{0}/imported')`])));
s.onerror = done('import');
try {{ new SharedWorker('/worker.js') }} catch (error) {{ done('noshared')() }}
import('//{0}/module').then(done('IMPORTED'), done('module'));
</script>"""
WORKER = """const tell = (text) => self.postMessage ? postMessage(text) : 0;
fetch('http://{0}/worker', {{mode: 'no-cors'}}).then(() => tell('WORKED'), () => tell('worker'));
const w = new WebSocket('ws://{0}/worker'); w.onopen = () => tell('OPENED'); w.onerror = () => tell('worker-socket');"""


def test_no_way_of_a_page_reaches_a_closed_address(crawled, site, target):
    """Subresources, redirects, frames, forms, sockets, workers and scripts; what is open goes on (pain 56)."""
    closed = f"127.0.0.66:{target.port}"
    site.page("/redirect", "", status=302, headers={"Location": f"http://{closed}/redirected"})
    site.page("/worker.js", WORKER.format(closed), content_type="text/javascript")
    url = site.page("/page", EVERY_WAY.format(closed))
    row = crawled([url], CrawlSettings(budgets=Budgets()), OPEN, guarded=True).rows()[url]
    assert row["outcome"] == "ok"
    assert target.visits == []
    assert {"fetch", "redirected-fetch", "xhr", "socket", "worker", "module"} <= set(row["title"].split())
    assert not {"FETCHED", "OPENED", "WORKED", "IMPORTED"} & set(row["title"].split())
    assert "text" in row["listing"]


def test_no_main_document_comes_from_a_closed_address(crawled, site, target, open_site):
    """By address, by its other spellings, by name, by a redirect, by IPv6; and nobody else is asked for permission."""
    port = target.port
    spelt = ["127.0.0.66", "[::ffff:127.0.0.66]", "2130706498", "0x7f.0.0.0x42", "0177.0.0.0102", "[::ffff:7f00:42]"]
    closed = {"169.254.169.254": "metadata", "10.255.255.1": "private", "224.0.0.1": "multicast"}
    closed |= {"[fe80::1]": "link-local", "[fd00:ec2::254]": "metadata"}
    urls = [f"http://{host}:{port}/" for host in spelt] + [f"http://{host}/" for host in closed]
    urls.append(site.page("/leads", "", status=302, headers={"Location": f"http://127.0.0.66:{port}/"}))
    rows = crawled(urls, run=OPEN, guarded=True).rows()
    assert {row["outcome"] for row in rows.values()} == {"private_address"}
    expected = {f"{host.strip('[]')}, which is {kind}" for host, kind in closed.items()}
    expected |= {"127.0.0.66, which is loopback", "::ffff:7f00:42, which is loopback"}
    assert {row["outcome_detail"] for row in rows.values()} == expected
    assert not any(row["retryable"] for row in rows.values())
    assert target.visits == []


def test_loopback_is_closed_unless_it_is_opened(crawled, site):
    url = site.page("/page", "<p>text</p>")
    assert crawled([url], guarded=True).outcomes() == {url: "private_address"}
    assert site.hits == []


def test_loopback_is_open_with_allow_private(crawled, site):
    url = site.page("/page", "<p>text</p>")
    assert crawled([url], run=RunSettings(allow_private=True), guarded=True).outcomes() == {url: "ok"}


def test_a_name_that_does_not_resolve_is_a_dns_error(crawled):
    rows = crawled(["http://nobody.invalid/"]).rows()
    (row,) = rows.values()
    assert (row["outcome"], row["outcome_detail"], row["retryable"]) == ("dns_error", "ERR_NAME_NOT_RESOLVED", True)


@pytest.fixture
async def guarded(browser_path: Path):
    """Opens a page behind a guard of the test's own; all is ended after the test."""
    opened: list[tuple[Guard, Supervisor]] = []

    async def open_page(url: str, rules: EgressRules, resolve=None, before=None):
        guard = await Guard.start(rules, resolve=resolve)
        supervisor = Supervisor(browser_path, CrawlSettings(), proxy=guard.proxy)
        opened.append((guard, supervisor))
        session = await supervisor.page_session(CrawlSettings().profiles[0]).__aenter__()
        if before is not None:
            await before(guard)
        await session.navigate(url, Budgets())
        return guard, session

    yield open_page
    for guard, supervisor in opened:
        await supervisor.close()
        await guard.close()


async def evaluate(session, script: str) -> object:
    answer = await session.channel.ask(
        "Runtime.evaluate", {"expression": script, "awaitPromise": True, "returnByValue": True}, session.session_id
    )
    return answer["result"].get("value")


ONE = EgressRules.of(OPEN)


async def test_a_name_that_is_rebound_after_the_page_came_is_closed(guarded, site, open_site):
    """The page's own origin becomes a closed address: its script asks it again and reaches nobody."""
    inside = open_site("127.0.0.66")
    port = site.origin.rpartition(":")[2]
    bindings = ["127.0.0.1"]

    async def resolve(host: str, port: int) -> list[str]:
        return [bindings[-1]]

    def last_answer(handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(b"<p>text</p>")

    site.answer("/page", last_answer)
    guard, session = await guarded(f"http://rebind.test:{port}/page", ONE, resolve)
    bindings.append("127.0.0.66")
    told = await evaluate(session, f"fetch('http://rebind.test:{port}/again').then(() => 'reached', () => 'refused')")
    assert told == "refused"
    failure = guard.failure(f"http://rebind.test:{port}/")
    assert failure is not None
    assert failure.detail == "rebind.test is 127.0.0.66, which is loopback"
    assert inside.hits == []
    assert "/again" not in site.hits


WEBRTC = """new Promise((resolve) => {
  const c = new RTCPeerConnection({iceServers: [{urls: 'stun:127.0.0.66:%d'}]});
  const seen = [];
  c.onicecandidate = (e) => { if (e.candidate) seen.push(e.candidate.candidate) };
  c.onicegatheringstatechange = () => { if (c.iceGatheringState === 'complete') resolve(seen.join(' ')) };
  c.createDataChannel('x');
  c.createOffer().then((o) => c.setLocalDescription(o));
  setTimeout(() => resolve('late ' + seen.join(' ')), 5000);
})"""


async def test_webrtc_sends_nothing_past_the_guard(guarded, site):
    """Neither to a STUN server, nor does it tell the page an address of this machine."""
    stun = Target("127.0.0.66", socket.SOCK_DGRAM)
    _, session = await guarded(site.page("/", "<p>text</p>"), ONE)
    told = await evaluate(session, WEBRTC % stun.port)
    stun.close()
    assert stun.visits == []
    assert "candidate" not in str(told)


async def test_own_ports_are_closed_to_pages_that_may_reach_private_addresses(guarded, site):
    """The browser's debugging port above all: who reaches it, drives the browser."""
    url = site.page("/", "<p>text</p>")
    guard, session = await guarded(url, replace(ONE, allow_private=True))
    port = int((session.channel._spool_folder / "profile" / "DevToolsActivePort").read_text().split()[0])
    for closed in (port, guard.port):
        script = f"fetch('http://127.0.0.1:{closed}/json', {{mode: 'no-cors'}}).then(() => 'reached', () => 'refused')"
        assert await evaluate(session, script) == "refused"
        failure = guard.failure(f"http://127.0.0.1:{closed}/")
        assert failure is not None
        assert "closed to pages" in failure.detail
    assert await evaluate(session, f"fetch('{url}').then(() => 'reached', () => 'refused')") == "reached"


async def test_without_its_guard_a_browser_reaches_nothing(guarded, site):
    """A closed door stays closed when the guard is gone."""
    url = site.page("/", "<p>text</p>")

    async def gone(guard: Guard) -> None:
        await guard.close()

    with pytest.raises(PageFailed) as failed:
        await guarded(url, replace(ONE, allow_private=True), before=gone)
    assert failed.value.outcome == "connection_error"
    assert site.hits == []


async def test_a_guard_that_fails_opens_nothing(guarded, site):
    """An error inside it is no permission."""

    async def resolve(host: str, port: int) -> list[str]:
        raise RuntimeError("a defect")

    loop = asyncio.get_running_loop()
    defects: list[dict[str, object]] = []
    loop.set_exception_handler(lambda _, context: defects.append(context))
    with pytest.raises(PageFailed):
        await guarded(f"http://name.test:{site.origin.rpartition(':')[2]}/", replace(ONE, allow_private=True), resolve)
    assert site.hits == []
