"""The shared folder's own pages, through the whole pipeline; its fault site is run by tests/faults."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.shared]


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
