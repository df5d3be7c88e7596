"""Permission by robots.txt, RFC 9309: on servers of the test's own, and on the shared corpus server's robots hosts."""

from __future__ import annotations

import asyncio
import gzip
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from workers.fetching import Fetcher
from workers.permission import MAX_ROBOTS_BYTES, Robots
from workers.store import FolderStore

BUDGET = timedelta(seconds=2)


@pytest_asyncio.fixture
async def robots() -> AsyncIterator[Robots]:
    fetcher = Fetcher("pagestate-test")
    asked = Robots("always", BUDGET, fetcher)
    yield asked
    await asked.close()
    await fetcher.close()


OWN: dict[str, tuple[dict[str, object], dict[str, str]]] = {
    "rules": (
        {"body": "User-agent: *\nDisallow: /a\nAllow: /a/public\n"},
        {"/a": "denied", "/a/public": "allowed", "/b": "allowed"},
    ),
    "our own group counts": (
        {"body": "User-agent: *\nDisallow: /\n\nUser-agent: PageState\nDisallow: /x\n"},
        {"/": "allowed", "/x": "denied"},
    ),
    "byte order mark and carriage returns": (
        {"body": b"\xef\xbb\xbf# hello\rUser-agent: *\rDisallow: /secret\r"},
        {"/secret": "denied", "/": "allowed"},
    ),
    "an error page": ({"body": "<html><h1>Oops</h1></html>", "content_type": "text/html"}, {"/": "allowed"}),
    "nothing": ({"body": ""}, {"/": "allowed"}),
    "not found": ({"body": "x", "status": 404}, {"/": "allowed"}),
    "too many requests": ({"body": "x", "status": 429}, {"/": "allowed"}),
    "server error": ({"body": "User-agent: *\nAllow: /", "status": 500}, {"/": "unreachable"}),
    "endless redirect": ({"body": "", "status": 302, "headers": {"Location": "/robots.txt"}}, {"/": "allowed"}),
    "redirect to a file": (
        {"body": "", "status": 302, "headers": {"Location": "file:///etc/passwd"}},
        {"/": "unreachable"},
    ),
    "huge": (
        {"body": b"User-agent: *\nDisallow: /head\n" + b"# filler\n" * (MAX_ROBOTS_BYTES // 4) + b"Disallow: /tail\n"},
        {"/head": "denied", "/tail": "allowed"},
    ),
    "corrupt compression": (
        {"body": b"\x1f\x8bnonsense", "headers": {"Content-Encoding": "gzip"}},
        {"/": "unreachable"},
    ),
    "binary": ({"body": bytes(range(256)) + b"\nUser-agent: *\nDisallow: /bin\n"}, {"/bin": "denied", "/": "allowed"}),
}


@pytest.mark.parametrize("variant", OWN)
async def test_what_a_robots_file_permits(robots, site, variant):
    """A host that cannot be asked refuses; one that has no rules permits; the reason is kept (pain 53)."""
    answer, expected = OWN[variant]
    site.page("/robots.txt", **{"content_type": "text/plain"} | answer)
    told = {path: await robots.permission(site.origin + path) for path in expected}
    assert {path: permission.verdict for path, permission in told.items()} == expected
    assert all(site.origin in permission.reason for permission in told.values())
    assert all(permission.granted is (permission.verdict == "allowed") for permission in told.values())
    assert site.hits.count("/robots.txt") <= 6, "asked once, redirects aside"


async def test_a_host_that_does_not_answer_is_waited_for_once(robots, site):
    """Pages of one host share one answer, and a silent host holds none of them beyond the budget."""
    site.hang("/robots.txt")
    begun = time.monotonic()
    told = await asyncio.gather(*(robots.permission(f"{site.origin}/{n}") for n in range(5)))
    assert {permission.verdict for permission in told} == {"unreachable"}
    assert "within 2 s" in told[0].reason
    assert time.monotonic() - begun < 20
    assert site.hits == ["/robots.txt"]


async def test_a_body_that_never_ends_is_bounded_too(robots, site):
    def drip(handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/plain")
        handler.end_headers()
        handler.wfile.write(b"User-agent: *\n")
        handler.wfile.flush()
        site.closing.wait()

    site.answer("/robots.txt", drip)
    assert (await robots.permission(site.origin)).verdict == "unreachable"


async def test_a_redirect_to_another_host_binds_the_first(robots, open_site):
    one, other = open_site(), open_site("127.0.0.2")
    target = other.page("/robots.txt", "User-agent: *\nDisallow: /\n", content_type="text/plain")
    one.page("/robots.txt", "", status=301, headers={"Location": target})
    assert (await robots.permission(one.origin + "/")).verdict == "denied"


async def test_a_page_that_gives_up_leaves_the_answer_to_its_neighbours(robots, site):
    site.page("/robots.txt", "User-agent: *\nDisallow: /x\n", content_type="text/plain")
    one = asyncio.ensure_future(robots.permission(site.origin + "/x"))
    await asyncio.sleep(0)
    one.cancel()
    assert (await robots.permission(site.origin + "/x")).verdict == "denied"


async def test_this_machines_own_hosts_are_not_asked_by_default(site):
    fetcher = Fetcher("pagestate-test")
    robots = Robots("remote", BUDGET, fetcher)
    told = await robots.permission(site.origin + "/")
    await robots.close()
    await fetcher.close()
    assert (told.verdict, told.granted, site.hits) == ("not_asked", True, [])


@pytest.fixture(scope="module")
def corpus_port(shared: Path) -> Iterator[int]:
    """The shared corpus server on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, shared / "corpus/serve.py", shared / "corpus/pages", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for _ in range(300):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/faults/ok", timeout=5).close()
            break
        except OSError:
            time.sleep(0.1)
    yield port
    server.kill()
    server.wait()


SHARED_HOSTS: dict[int, dict[str, str]] = {
    21: {"/": "allowed"},
    22: {"/": "denied"},
    23: {"/": "unreachable"},
    24: {"/": "unreachable"},
    25: {"/private": "denied", "/": "allowed"},
    26: {"/head": "denied", "/": "allowed"},
    27: {"/": "allowed"},
    28: {"/": "unreachable"},
    29: {"/": "allowed"},
    30: {"/secret": "denied", "/": "allowed"},
    31: {"/a/public": "allowed", "/a": "denied", "/x.pdf": "denied", "/x.pdf?y": "allowed"},
    32: {"/": "allowed"},
    33: {"/": "allowed"},
    34: {"/": "allowed"},
    35: {"/": "unreachable"},
    36: {"/": "denied"},
    37: {"/": "allowed"},
    38: {"/bin": "denied", "/": "allowed"},
}
"""Verdicts by the last number of the host's address; the shared folder's table of faults gives the reasons."""


@pytest.mark.shared
@pytest.mark.parametrize("host", SHARED_HOSTS)
async def test_the_shared_robots_hosts(robots, corpus_port, host):
    """Every variant of robots.txt that the corpus knows is judged as its table says (pain 53)."""
    expected = SHARED_HOSTS[host]
    origin = f"http://127.0.0.{host}:{corpus_port}"
    assert {path: (await robots.permission(origin + path)).verdict for path in expected} == expected


RULES = """User-agent: *
Disallow: /
Content-Signal: ai-train=yes

User-agent: other
User-agent: PageState   # us
Crawl-delay: 7.5
Disallow: /a
Allow: /a/public
Disallow: /*.pdf$
Content-Signal: search=yes, ai-train=no
Sitemap: /s.xml
"""


async def test_the_rule_that_decided_is_told(robots, site):
    """The parser keeps it to itself; should its inside change, this fails."""
    url = site.page("/robots.txt", RULES, content_type="text/plain")
    expected = {
        "/a/x": "Disallow: /a",
        "/a/public/x": "Allow: /a/public",
        "/x.pdf": "Disallow: /*.pdf$",
        "/b": "no rule",
    }
    told = {path: await robots.permission(site.origin + path) for path in expected}
    assert {path: permission.reason for path, permission in told.items()} == {
        path: f"{rule} in {url}" for path, rule in expected.items()
    }
    assert {permission.crawl_delay for permission in told.values()} == {timedelta(seconds=7.5)}
    assert {permission.content_signal for permission in told.values()} == {"search=yes, ai-train=no"}


async def test_another_agent_has_its_own_group(site):
    site.page("/robots.txt", RULES, content_type="text/plain")
    fetcher = Fetcher("examplebot/1")
    robots = Robots("always", BUDGET, fetcher, agent="examplebot")
    told = await robots.permission(site.origin + "/b")
    await robots.close()
    await fetcher.close()
    assert (told.verdict, told.content_signal, told.crawl_delay) == ("denied", "ai-train=yes", timedelta(0))


async def test_a_delay_that_nobody_waits_for_is_a_refusal(robots, site):
    site.page("/robots.txt", "User-agent: *\nCrawl-delay: 86400\n", content_type="text/plain")
    told = await robots.permission(site.origin + "/")
    assert (told.verdict, told.crawl_delay) == ("denied", timedelta(0))
    assert "Crawl-delay: 86400" in told.reason


async def test_a_compressed_bomb_is_cut_while_it_is_unpacked(robots, site):
    body = gzip.compress(b"User-agent: *\nDisallow: /head\n" + b"#" * 100_000_000)
    site.page("/robots.txt", body, content_type="text/plain", headers={"Content-Encoding": "gzip"})
    told = [(await robots.permission(site.origin + path)).verdict for path in ("/head", "/")]
    assert told == ["denied", "allowed"]


class Days:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
async def asked(tmp_path):
    """Makes one more process's Robots on the same store; all are closed after the test."""
    store, days = FolderStore.for_run(tmp_path / "store"), Days()
    fetcher = Fetcher("pagestate-test")
    made: list[Robots] = []

    def make() -> Robots:
        made.append(Robots("always", BUDGET, fetcher, store=store, now=days))
        return made[-1]

    make.days, make.store = days, store
    yield make
    for robots in made:
        await robots.close()
    await fetcher.close()


async def test_an_answer_is_shared_through_the_store_for_a_day(asked, site):
    site.page("/robots.txt", "User-agent: *\nDisallow: /x\n", content_type="text/plain")
    one, other = asked(), asked()
    for robots in (one, other, one):
        assert (await robots.permission(site.origin + "/x")).verdict == "denied"
    assert site.hits.count("/robots.txt") == 1
    site.page("/robots.txt", "User-agent: *\nAllow: /\n", content_type="text/plain")
    asked.days.now += timedelta(hours=23, minutes=59)
    assert (await asked().permission(site.origin + "/x")).verdict == "denied"
    asked.days.now += timedelta(minutes=1)
    for robots in (one, other, asked()):
        assert (await robots.permission(site.origin + "/x")).verdict == "allowed"
    assert site.hits.count("/robots.txt") == 2
    assert len(list(asked.store.list("robots/"))) == 1, "what is over is taken away"


async def test_a_host_that_could_not_be_asked_is_asked_again_soon_and_is_not_kept(asked, site):
    """Only answers are kept: a server's bad minute must not shut it for a day."""
    site.page("/robots.txt", "", status=503)
    robots = asked()
    assert (await robots.permission(site.origin + "/")).verdict == "unreachable"
    site.page("/robots.txt", "", status=404)
    assert (await robots.permission(site.origin + "/")).verdict == "unreachable"
    asked.days.now += timedelta(minutes=10)
    assert (await robots.permission(site.origin + "/")).verdict == "allowed"
    assert (await asked().permission(site.origin + "/")).verdict == "allowed"
    assert site.hits.count("/robots.txt") == 2


async def test_a_damaged_answer_in_the_store_is_asked_for_again(asked, site, caplog):
    site.page("/robots.txt", "User-agent: *\nDisallow: /x\n", content_type="text/plain")
    await asked().permission(site.origin + "/x")
    (path,) = asked.store.list("robots/")
    (asked.store.folder / path).write_bytes(b"{")
    assert (await asked().permission(site.origin + "/x")).verdict == "denied"
    assert site.hits.count("/robots.txt") == 2
    assert "cannot be used" in caplog.text
