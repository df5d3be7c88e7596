"""The example site answers on loopback, each page as the crawl expects it, and nothing beside its own files."""

from __future__ import annotations

import http.client
import re
import socket
import time
from html.parser import HTMLParser
from itertools import pairwise
from urllib.error import HTTPError
from urllib.parse import urljoin, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from scheduler.example.server import DELAYS_S, PREFERRED_PORTS, SEED_PATHS, ExampleSite, serve_example

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
OPTIONAL_END = {"option"}
urlopen = build_opener(ProxyHandler({})).open  # a proxy of this machine is not asked for loopback


class Markup(HTMLParser):
    """The tags of a page: what it links to, how deep it goes and which end tags stand wrong."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.starts: list[str] = []
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.fields: list[dict[str, str | None]] = []
        self.wrong_ends: list[str] = []
        self.depth = 0
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.starts.append(tag)
        given = dict(attrs)
        self.addresses += [v for k, v in attrs if k in ("href", "src") and v]
        self.ids += [v for k, v in attrs if k == "id" and v]
        if tag == "input":
            self.fields.append(given)
        if tag not in VOID | OPTIONAL_END:
            self.open.append(tag)
            self.depth = max(self.depth, len(self.open))

    def handle_endtag(self, tag: str) -> None:
        if tag in OPTIONAL_END:
            return
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            self.wrong_ends.append(tag)


def text_of(url: str) -> str:
    try:
        with urlopen(url, timeout=10) as answer:
            body: bytes = answer.read()
    except HTTPError as error:
        with error:
            body = error.read()
    return body.decode()


@pytest.fixture(scope="module")
def pages(example_site: ExampleSite) -> dict[str, str]:
    return {path: text_of(example_site.origin + path) for path in SEED_PATHS}


def test_the_seeds_are_twelve_different_pages_of_the_site(example_site: ExampleSite) -> None:
    assert len(example_site.urls) == len(set(example_site.urls)) == 12
    assert all(url.startswith(example_site.origin + "/") for url in example_site.urls)
    assert urlsplit(example_site.origin).hostname == "127.0.0.1"


@pytest.mark.parametrize("path", SEED_PATHS)
def test_every_page_is_whole_html(path: str, pages: dict[str, str]) -> None:
    html = pages[path]
    markup = Markup(html)
    assert html.startswith("<!doctype html>\n<html lang=")
    assert markup.open == []
    assert markup.wrong_ends == []
    assert len(markup.ids) == len(set(markup.ids))
    assert markup.starts.count("h1") == 1 or path == "/app.html"


def test_every_address_on_the_site_leads_to_a_file_or_is_the_one_that_is_missing(
    example_site: ExampleSite, pages: dict[str, str]
) -> None:
    targets = {
        urljoin(url, address).partition("#")[0]
        for url, html in zip(example_site.urls, pages.values(), strict=True)
        for address in Markup(html).addresses
        if not address.startswith("data:")
    }
    missing = []
    for target in sorted(targets):
        assert urlsplit(target).hostname in ("127.0.0.1", "localhost")
        if urlsplit(target).path in DELAYS_S:
            continue
        try:
            urlopen(target, timeout=10).close()
        except HTTPError as error:
            error.close()
            missing.append((urlsplit(target).path, error.code))
    assert missing == [("/no-such-page.html", 404)]


def test_the_index_links_to_every_other_seed(pages: dict[str, str]) -> None:
    assert set(SEED_PATHS) <= set(Markup(pages["/"]).addresses)


def test_the_form_has_a_password_with_a_value(pages: dict[str, str]) -> None:
    fields = Markup(pages["/form.html"]).fields
    assert [f["value"] for f in fields if f.get("type") == "password"] == ["salt-marsh-lantern-42"]
    assert {"checkbox", "radio", "date", "range", "file", "hidden"} <= {f.get("type") for f in fields}


def test_the_table_has_sixty_rows_under_its_header(pages: dict[str, str]) -> None:
    assert Markup(pages["/table.html"]).starts.count("tr") == 1 + 60


def test_the_deep_page_is_deep_in_its_markup_but_not_deeper_than_a_parser_allows(pages: dict[str, str]) -> None:
    assert 400 <= Markup(pages["/deep.html"]).depth < 512


def test_the_foreign_frame_is_of_another_site_and_knows_the_way_back(
    example_site: ExampleSite, pages: dict[str, str]
) -> None:
    (foreign,) = (a for a in Markup(pages["/frames.html"]).addresses if "abroad" in a)
    assert urlsplit(foreign).hostname == "localhost"
    html = text_of(foreign)
    assert "Weather from abroad" in html
    assert f"{example_site.origin}/" in Markup(html).addresses
    assert "__OTHER_ORIGIN__" not in html + pages["/frames.html"]


def test_the_foreign_frame_answers_on_every_address_of_localhost(pages: dict[str, str]) -> None:
    (foreign,) = (a for a in Markup(pages["/frames.html"]).addresses if "abroad" in a)
    port = urlsplit(foreign).port
    assert port is not None
    for family, _, _, _, address in socket.getaddrinfo("localhost", port, type=socket.SOCK_STREAM):
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.settimeout(5)
            probe.connect(address)


def test_the_right_to_left_page_says_so(pages: dict[str, str]) -> None:
    assert '<html lang="ar" dir="rtl">' in pages["/rtl.html"]
    assert re.search("[\u0590-\u05ff]", pages["/rtl.html"])


def test_the_missing_page_is_html_with_status_404(example_site: ExampleSite) -> None:
    with pytest.raises(HTTPError) as raised:
        urlopen(f"{example_site.origin}/no-such-page.html", timeout=10)
    with raised.value as error:
        assert error.code == 404
        assert error.headers.get_content_type() == "text/html"
        assert "Nothing here" in error.read().decode()


def test_the_slow_page_takes_its_time(example_site: ExampleSite) -> None:
    begun = time.monotonic()
    assert "slow ferry" in text_of(f"{example_site.origin}/slow.html")
    assert time.monotonic() - begun >= DELAYS_S["/slow.html"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html"),
        ("/style.css", "text/css"),
        ("/app.js", "text/javascript"),
        ("/lamp.svg", "image/svg+xml"),
        ("/robots.txt", "text/plain"),
    ],
)
def test_files_say_their_type_and_are_not_kept(example_site: ExampleSite, path: str, kind: str) -> None:
    with urlopen(f"{example_site.origin}{path}?any=query", timeout=10) as answer:
        assert answer.headers.get_content_type() == kind
        assert answer.headers["Cache-Control"] == "no-store"


def test_head_answers_without_a_body(example_site: ExampleSite) -> None:
    with urlopen(Request(f"{example_site.origin}/article.html", method="HEAD"), timeout=10) as answer:
        assert int(answer.headers["Content-Length"]) > 1000
        assert answer.read() == b""


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_other_methods_are_refused(example_site: ExampleSite, method: str) -> None:
    with pytest.raises(HTTPError) as raised:
        urlopen(Request(f"{example_site.origin}/", method=method), timeout=10)
    with raised.value as error:
        assert error.code == 501


@pytest.mark.parametrize(
    "path", ["/../server.py", "/..%2fserver.py", "//etc/passwd", "/frames/../../server.py", "/./style.css", "/frames"]
)
def test_no_path_leads_out_of_the_pages(example_site: ExampleSite, path: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(example_site.origin).netloc, timeout=10)
    connection.putrequest("GET", path, skip_accept_encoding=True)
    connection.endheaders()
    with connection.getresponse() as answer:
        body = answer.read().decode()
    connection.close()
    assert answer.status == 404
    assert "Nothing here" in body


def test_nothing_is_written_about_requests(example_site: ExampleSite, capfd: pytest.CaptureFixture[str]) -> None:
    text_of(f"{example_site.origin}/no-such-page.html")
    assert capfd.readouterr() == ("", "")


def test_a_taken_port_is_replaced_by_a_free_one() -> None:
    with serve_example(ports=(0, 0)) as first:
        taken = urlsplit(first.origin).port
        assert taken is not None
        with serve_example(ports=(taken, 0)) as second:
            assert second.origin != first.origin
            assert text_of(second.urls[0]) == text_of(first.urls[0])


def test_the_same_port_is_had_again_so_that_a_store_can_be_resumed() -> None:
    with serve_example(ports=(0, 0)) as first:
        port = urlsplit(first.origin).port
        text_of(first.urls[0])
    assert port is not None
    with serve_example(ports=(port, 0)) as second:
        assert second.urls == first.urls


def test_preferred_ports_are_two_neighbours_outside_the_range_handed_out_for_connections() -> None:
    assert all(b - a == 1 for a, b in pairwise(PREFERRED_PORTS))
    assert max(PREFERRED_PORTS) < 32768


def test_close_frees_the_ports_and_ends_slow_answers_at_once() -> None:
    site = serve_example(ports=(0, 0))
    address = urlsplit(site.origin)
    slow = http.client.HTTPConnection(address.netloc, timeout=10)
    slow.request("GET", "/slow/picture.svg")
    begun = time.monotonic()
    site.close()
    site.close()
    with pytest.raises(ConnectionError):
        slow.getresponse()
    slow.close()
    assert time.monotonic() - begun < 2
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", address.port or 0), timeout=5).close()
