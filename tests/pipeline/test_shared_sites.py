"""The shared folder's own pages and its fault site, through the whole pipeline."""

from __future__ import annotations

import functools
import http.server
import json
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from schemas.outcomes import OUTCOMES, Outcome
from schemas.settings import Budgets, CrawlSettings

pytestmark = [pytest.mark.browser, pytest.mark.shared]

SMALL = Budgets(
    navigate=timedelta(seconds=6),
    load=timedelta(seconds=1),
    settle=timedelta(seconds=1),
    payload=timedelta(seconds=2),
    needed=timedelta(seconds=8),
    close=timedelta(seconds=2),
)
PAGE_SECONDS = 60.0
"""Far above the budgets' sum, for machines that do something else, too; far below anything that hangs."""

OUTCOMES_MET: dict[str, Outcome] = {
    **dict.fromkeys(
        ("ok", "never-finish", "never-finish-subresource", "never-idle", "drip", "redirect-19", "redirect-cross"), "ok"
    ),
    **dict.fromkeys(("js-redirect", "meta-refresh-loop", "no-type", "wrong-type-html-as-text", "charset-lie"), "ok"),
    **dict.fromkeys(("charset-utf16", "charset-sjis", "wrong-type-png-as-html", "alert", "beforeunload"), "ok"),
    **dict.fromkeys(("print", "popups", "download-iframe", "json", "basic-auth-sub", "service-worker"), "ok"),
    **dict.fromkeys(("crash-links", "csp-strict", "hostile-globals", "nested-shadow-500", "surrogates"), "ok"),
    **dict.fromkeys(("nul-bytes", "control-chars", "attr-bomb", "mutate-forever", "infinite-scroll"), "ok"),
    **dict.fromkeys(("iframe-recursive", "websocket-eventsource", "history-flood", "document-write"), "ok"),
    **dict.fromkeys(("fullscreen-overlay", "hidden-text", "giant-layout", "permission-prompts", "long-url"), "ok"),
    **dict.fromkeys(("cookies-flood", "early-hints", "vary-ua"), "ok"),
    **dict.fromkeys(("redirect-loop", "redirect-20"), "redirect_loop"),
    **dict.fromkeys(("redirect-file", "redirect-bad-location", "bad-headers", "many-headers"), "protocol_error"),
    **dict.fromkeys(("status-500", "status-502", "status-503", "status-503-long", "status-429"), "http_error"),
    **dict.fromkeys(("status-429-long", "status-404", "status-410", "status-403", "status-451"), "http_error"),
    **dict.fromkeys(("status-500-empty", "flaky"), "http_error"),
    **dict.fromkeys(("status-204", "empty"), "empty"),
    **dict.fromkeys(("empty-reply", "reset"), "connection_error"),
    **dict.fromkeys(("octet", "download"), "download"),
    **dict.fromkeys(("image", "wrong-type-html-as-png"), "unsupported_content"),
    **dict.fromkeys(("js-infinite", "promise-flood"), "capture_timeout"),
    "hang-headers": "navigation_timeout",
    "basic-auth": "auth_required",
}
"""Where the pipeline does already what the table of faults expects; the others are only held to one outcome in time."""

LATE: frozenset[Outcome] = frozenset({"navigation_timeout", "capture_timeout", "browser_crash"})
MOST_LATE = 4
"""Faults are captured four at a time under small budgets: on a busy machine a few of them come too late."""

EATS_MEMORY_OR_TIME = frozenset({"gzip-bomb", "oom", "oom-string", "huge-50mb", "text-bomb", "webgl-canvas-heavy"})


@pytest.fixture(scope="module")
def own_pages(shared: Path) -> Iterator[list[str]]:
    """URLs of the small pages that were written for one feature each."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    folder = shared / "corpus/own"
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield [f"http://127.0.0.1:{server.server_port}/{p.relative_to(folder)}" for p in sorted(folder.rglob("*.html"))]
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def faults(shared: Path) -> Iterator[dict[str, str]]:
    """URL of every fault, by its name."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, shared / "corpus/serve.py", shared / "corpus/pages", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    listed: list[dict[str, str]] = []
    for _ in range(300):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/faults/list.json", timeout=5) as answer:
                listed = json.load(answer)
            break
        except OSError:
            time.sleep(0.1)
    names = (entry["path"].partition("?")[0].removeprefix("/faults/") for entry in listed)
    yield {name: f"http://127.0.0.10:{port}/faults/{name}" for name in names if name not in EATS_MEMORY_OR_TIME}
    server.kill()
    server.wait()


def test_own_pages_are_captured(crawled, own_pages, listings_made_again):
    """Each of the small pages is one row with a listing that can be made again."""
    done = crawled(own_pages)
    # 3000 visible levels crash the layout of Chromium 156, alone as well
    crashing = {url for url in own_pages if url.endswith("/09_deep3000.html")}
    outcomes = done.outcomes()
    assert {url: outcome for url, outcome in outcomes.items() if url not in crashing} == dict.fromkeys(
        set(own_pages) - crashing, "ok"
    )
    assert {outcomes[url] for url in crashing} <= {"ok", "renderer_crash"}
    assert listings_made_again(done.store.folder) >= len(own_pages) - len(crashing)


def test_every_fault_ends_in_exactly_one_outcome(crawled, faults, listings_made_again):
    """Whatever a page does, its URL ends in one row, in time, and its neighbours are captured (pains 11, 12, 48)."""
    assert len(faults) > 80
    done = crawled(list(faults.values()), CrawlSettings(budgets=SMALL))
    rows = done.rows()
    report = {name: (rows[url]["outcome"], rows[url]["outcome_detail"]) for name, url in faults.items()}
    print(json.dumps(report, indent=1))
    assert sorted(row["url_key"] for row in done.table("listings")) == sorted(faults.values())
    told = {name: rows[url]["outcome"] for name, url in faults.items()}
    assert set(told.values()) <= set(OUTCOMES)
    late = {
        name: rows[url]["duration_ms"] for name, url in faults.items() if rows[url]["duration_ms"] > PAGE_SECONDS * 1000
    }
    assert not late
    other = {name: told[name] for name, outcome in OUTCOMES_MET.items() if told[name] != outcome}
    assert set(other.values()) <= LATE, other
    assert len(other) <= MOST_LATE, other
    listings_made_again(done.store.folder)
