"""Every way a page can end, as its row tells it: outcome, whether it may be tried again, what it did without."""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import Any

import pytest

from schemas.settings import Budgets, Caps, CrawlSettings

pytestmark = pytest.mark.browser


def closed_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def pages(site: Any) -> dict[str, tuple[str, bool]]:
    """URL -> outcome, retryable."""
    blank = "<p>text</p><script>onload = () => setTimeout(() => location = 'about:blank', 5)</script>"
    page, text = site.page, "<p>text</p>"
    return {
        page("/ok", text): ("ok", False),
        page("/404", text, status=404): ("http_error", False),
        page("/429", text, status=429): ("http_error", True),
        page("/500", text, status=500): ("http_error", True),
        page("/401", text, status=401, headers={"WWW-Authenticate": 'Basic realm="r"'}): ("auth_required", False),
        page("/204", b"", status=204): ("empty", False),
        page("/nothing", b""): ("empty", False),
        page("/zip", b"12", content_type="application/zip"): ("download", False),
        page("/png", b"\x89PNG", content_type="image/png"): ("unsupported_content", False),
        page("/loop", b"", status=302, headers={"Location": "/loop"}): ("redirect_loop", False),
        page("/file", b"", status=302, headers={"Location": "file:///etc/passwd"}): ("protocol_error", True),
        page("/large", b" " * 2_000_000): ("too_large", False),
        page("/blank", blank): ("page_closed", False),
        page("/block", text, status=403, headers={"cf-mitigated": "challenge"}): ("challenge", True),
        site.hang("/hang"): ("navigation_timeout", True),
        f"http://127.0.0.1:{closed_port()}/": ("connection_error", True),
        "http://127.0.0.1:9/": ("policy_denied", False),
        page("/gone", b"", status=302, headers={"Location": "http://nowhere.invalid/"}): ("dns_error", True),
        site.origin.replace("http", "https") + "/tls": ("tls_error", False),
    }


def test_every_page_ends_in_its_outcome(crawled, site):
    """A page that fails is a row like any other, with who said so (pains 27, 28, 48, 57)."""
    expected = pages(site)
    budgets = Budgets(navigate=timedelta(seconds=4))
    # the challenge comes last but one of its host: what comes after it waits
    done = crawled(list(expected), CrawlSettings(budgets=budgets, caps=Caps(document_bytes=1_000_000), batch_size=40))
    rows = {row["url_key"]: row for row in done.table("listings") if row["outcome"] != "deferred"}
    told = {url: (row["outcome"], row["retryable"]) for url, row in rows.items()}
    assert told == expected
    for row in rows.values():
        captured = row["outcome"] in ("ok", "http_error", "auth_required", "empty", "challenge")
        assert row["listing"] is None or captured
        assert row["outcome_detail"] or row["outcome"] in ("ok", "http_error", "auth_required", "empty")


def test_texts_and_attributes_of_rows_are_capped(crawled, site):
    """The row says so, and the whole of it is in the capture (pain 55)."""
    url = site.page("/", f"<a href=/{'q' * 5000} title=short>link</a><p>{'long text ' * 2000}</p>")
    done = crawled([url], CrawlSettings(caps=Caps(text_chars=3000, attribute_chars=1000)))
    row = done.rows()[url]
    assert row["degradations"] == ["attributes_truncated", "text_truncated"]
    assert len(row["listing"]) == len(row["outline"]) == 3000
    (element,) = done.table("selector_maps")
    attributes = dict(element["attributes"])
    assert (len(attributes["href"]), attributes["title"]) == (1000, "short")
    payloads = [c for c in done.table("captures") if c["kind"] == "layout_snapshot"]
    assert payloads


def test_a_body_that_breaks_off_is_in_its_row(crawled, site):
    def half(handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.send_header("Content-Length", "5000")
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(b"<p>the first half</p>")

    url = site.answer("/", half)
    row = crawled([url]).rows()[url]
    assert (row["outcome"], row["degradations"], row["retryable"]) == ("ok", ["body_incomplete"], False)
    assert "the first half" in row["listing"]
