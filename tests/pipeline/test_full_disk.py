"""A disk that fills up while a page is captured ends the run in a sentence; the page is not blamed and comes again."""

from __future__ import annotations

import resource
from http.server import BaseHTTPRequestHandler

import pytest

from schemas.errors import DiskFull, PagestateError
from workers.browser.spool import SPOOL_ABOVE_BYTES

pytestmark = pytest.mark.browser


def test_a_payload_that_cannot_be_spooled_ends_the_run_and_not_the_page(crawled, site, tmp_path):
    # Given a page whose payloads are spooled, and a disk without room from when it is asked for: the browser, which
    # runs by then, and the store's small files are not concerned
    body = b"<button>one</button>" * 20_000
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if site.hits.count("/large") == 1:
            resource.setrlimit(resource.RLIMIT_FSIZE, (SPOOL_ABOVE_BYTES // 2, before[1]))
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    url = site.answer("/large", answer)
    # When it is crawled
    try:
        with pytest.raises(ExceptionGroup) as ended:
            crawled([url])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    # Then the run ends with what is to be done, and nothing is committed
    (error,) = leaves(ended.value)
    assert isinstance(error, DiskFull)
    assert "make room there, or point TMPDIR to another disk" in str(error)
    assert not list(tmp_path.rglob("commits/*/*.json"))
    assert not list(tmp_path.rglob("data/**/*.parquet"))
    # and with room the same crawl has the page
    assert crawled([url]).outcomes() == {url: "ok"}


def leaves(error: BaseException) -> list[PagestateError]:
    """The errors of ours in a group of groups."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in leaves(inner)]
    assert isinstance(error, PagestateError), error
    return [error]
