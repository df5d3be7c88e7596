"""Policy, credentials and rights signals, in a real browser and through the whole pipeline."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from schemas.settings import CrawlSettings, RunSettings, ScreenshotSettings
from schemas.tables import TABLE_NAMES
from workers.policy_file import read_policy

pytestmark = pytest.mark.browser

ASKED = CrawlSettings(robots="always")


@pytest.fixture
def run_of(tmp_path: Path) -> Callable[[str], RunSettings]:
    """The settings of a run under a policy."""

    def make(text: str) -> RunSettings:
        (tmp_path / "policy.toml").write_text(text)
        return RunSettings(policy=read_policy(str(tmp_path / "policy.toml")))

    return make


def permitted(*sites, more: str = "") -> str:
    hosts = json.dumps([site.origin.removeprefix("http://") for site in sites])
    return f'[[sites]]\nhosts = {hosts}\nbasis = "a test\'s own"\n{more}\n'


def test_what_the_policy_does_not_name_is_never_asked_for_anything(crawled, open_site, run_of):
    own, other = open_site(), open_site("127.0.0.2")
    urls = [own.page("/a", "<p>text</p>"), other.page("/b", "<p>text</p>")]
    done = crawled(urls, ASKED, run_of(permitted(own)))
    rows = done.rows()
    assert [rows[url]["outcome"] for url in urls] == ["ok", "policy_denied"]
    assert other.hits == []
    assert [(rows[url]["policy_basis"], rows[url]["robots_verdict"]) for url in urls] == [
        ("a test's own", "allowed"),
        (None, "not_asked"),
    ]
    assert other.origin.removeprefix("http://") in rows[urls[1]]["outcome_detail"]
    assert {len(row["policy_sha256"]) for row in rows.values()} == {64}


def test_a_redirect_is_asked_about_before_it_is_followed(crawled, open_site, run_of):
    """To a host whose robots.txt refuses, to one the policy does not name, and to one that both permit (pain 56)."""
    start, closed, unnamed, fine = (open_site(f"127.0.0.{n}") for n in (1, 2, 3, 4))
    closed.page("/robots.txt", "User-agent: *\nDisallow: /x\n", content_type="text/plain")
    fine.page("/robots.txt", "User-agent: *\nAllow: /x\n", content_type="text/plain")
    to = {name: site.page("/x", "<p>text</p>") for name, site in (("c", closed), ("u", unnamed), ("f", fine))}
    urls = {name: start.page(f"/{name}", "", status=302, headers={"Location": target}) for name, target in to.items()}
    done = crawled(list(urls.values()), ASKED, run_of(permitted(start, closed, fine)))
    rows = done.rows()
    assert {name: rows[url]["outcome"] for name, url in urls.items()} == {
        "c": "robots_denied",
        "u": "policy_denied",
        "f": "ok",
    }
    assert rows[urls["c"]]["robots_rule"] == f"Disallow: /x in {closed.origin}/robots.txt"
    assert rows[urls["f"]]["robots_rule"] == f"Allow: /x in {fine.origin}/robots.txt"
    assert (closed.hits, unnamed.hits) == (["/robots.txt"], [])


def test_a_script_that_leads_to_a_refused_host_leaves_the_page_as_it_is(crawled, open_site, run_of):
    start, other = open_site(), open_site("127.0.0.2")
    other.page("/x", "<p>elsewhere</p>")
    ways = {
        "script": f"<p>stays</p><script>location.href = '{other.origin}/x'</script>",
        "refresh": f'<meta http-equiv=refresh content="0;url={other.origin}/x"><p>stays</p>',
    }
    urls = [start.page(f"/{name}", body) for name, body in ways.items()]
    rows = crawled(urls, ASKED, run_of(permitted(start))).rows()
    assert {url: row["outcome"] for url, row in rows.items()} == dict.fromkeys(urls, "ok")
    assert all("stays" in row["listing"] and row["final_url"] == url for url, row in rows.items())
    assert other.hits == []


ODD = ("file:///etc/passwd", "chrome://version", "view-source:about:blank", "javascript:'gone'", "data:text/html,gone")


def test_documents_that_are_no_web_pages_are_never_opened(crawled, site):
    """Neither by a script nor by a redirect."""
    scripted = [
        site.page(f"/s{n}", f"<p>stays</p><script>setTimeout(() => {{ location.href = {json.dumps(url)} }})</script>")
        for n, url in enumerate(ODD)
        if not url.startswith("javascript:")
    ]
    redirected = [site.page(f"/r{n}", "", status=302, headers={"Location": url}) for n, url in enumerate(ODD)]
    rows = crawled([*scripted, *redirected]).rows()
    assert {url: (rows[url]["outcome"], rows[url]["final_url"]) for url in scripted} == {
        url: ("ok", url) for url in scripted
    }
    assert {rows[url]["outcome"] for url in redirected} <= {"protocol_error", "empty"}
    assert all("gone" not in (row["listing"] or "") and "root:" not in (row["listing"] or "") for row in rows.values())


SECRETS = {"header": "Bearer h3ader-secret", "cookie": "c00kie-secret", "stored": "st0red-secret"}
ECHO = """<title>{0}</title><p id=p>{0}</p><p id=q></p>
<script>q.textContent = 'stored ' + localStorage.getItem('token') + ' cookie ' + document.cookie</script>"""


class Recorder:
    """Notes the credentials that each request brings along, and repeats them in its page."""

    def __init__(self, site) -> None:
        self.site = site
        self.seen: dict[str, tuple[str, str]] = {}

    def page(self, path: str, body: str = "", status: int = 200, location: str = "") -> str:
        def answer(handler: BaseHTTPRequestHandler) -> None:
            told = (handler.headers.get("Authorization", ""), handler.headers.get("Cookie", ""))
            self.seen[path] = told
            data = (ECHO.format(told) + body).encode()
            handler.send_response(status)
            if location:
                handler.send_header("Location", location)
            handler.send_header("Content-Type", "text/html")
            handler.send_header("Content-Length", str(len(data)))
            handler.end_headers()
            handler.wfile.write(data)

        return self.site.answer(path, answer)


def test_credentials_go_to_their_site_alone_and_are_stored_nowhere(
    crawled, open_site, run_of, tmp_path, monkeypatch, caplog
):
    """Not along a redirect, not to an image, a frame or a fetch of another host, and into no file of the store, even
    where the page repeats them."""
    own, other = Recorder(open_site()), Recorder(open_site("127.0.0.2"))
    elsewhere = {name: other.page(f"/{name}") for name in ("image", "frame", "fetch", "redirected", "page")}
    own.page("/sub")
    page = own.page(
        "/page",
        f"<img src={elsewhere['image']}><img src=/sub><iframe src={elsewhere['frame']}></iframe>"
        f"<script>fetch('{elsewhere['fetch']}', {{mode: 'no-cors'}})</script>",
    )
    leads_away = own.page("/away", status=302, location=elsewhere["redirected"])
    monkeypatch.setenv("PAGESTATE_TEST_HEADER", SECRETS["header"])
    state = {
        "cookies": [{"name": "sid", "value": SECRETS["cookie"], "domain": "127.0.0.1", "path": "/"}],
        "origins": [{"origin": own.site.origin, "localStorage": [{"name": "token", "value": SECRETS["stored"]}]}],
    }
    (tmp_path / "state.json").write_text(json.dumps(state))
    more = 'headers.Authorization = { env = "PAGESTATE_TEST_HEADER" }\nstorage_state = { file = "state.json" }'
    run = run_of(permitted(own.site, more=more) + permitted(other.site))
    done = crawled([page, leads_away, elsewhere["page"]], run=run)
    assert set(done.outcomes().values()) == {"ok"}

    both = (SECRETS["header"], f"sid={SECRETS['cookie']}")
    assert own.seen == {"/page": both, "/sub": both, "/away": both}
    assert other.seen == {f"/{name}": ("", "") for name in elsewhere}

    row = done.rows()[page]
    mask = "\u2022" * 8
    assert f"stored {mask} cookie sid={mask}" in row["listing"]
    assert mask in row["title"]
    assert row["secrets_masked"] > 0
    assert done.rows()[elsewhere["page"]]["secrets_masked"] == 0
    parts = [part.encode() for secret in SECRETS.values() for part in secret.split() if part != "Bearer"]
    for name in TABLE_NAMES:
        for stored in done.table(name):
            data = stored.pop("data", None)
            text = repr(stored).encode()
            if data is not None:
                text += pa.Codec("zstd").decompress(data, stored["raw_bytes"], asbytes=True)
            assert not [part for part in parts if part in text], name
    for file in done.store.folder.rglob("*"):
        assert not file.is_file() or not [part for part in parts if part in file.read_bytes()], file
    assert not [part for part in parts if part in caplog.text.encode()]


def test_what_a_failed_page_says_of_its_way_holds_no_credential(crawled, open_site, run_of, monkeypatch):
    """Its answer has a type or a file name that repeats the header, and details name those, in stages too."""
    site = open_site()
    monkeypatch.setenv("PAGESTATE_TEST_HEADER", "h3ader-secret")
    urls = [
        site.page("/type", "x", content_type="image/h3ader-secret"),
        site.page("/file", "x", headers={"Content-Disposition": "attachment; filename=h3ader-secret.zip"}),
    ]
    run = run_of(permitted(site, more='headers.X-Token = { env = "PAGESTATE_TEST_HEADER" }'))
    done = crawled(urls, run=run)
    assert set(done.outcomes().values()) <= {"unsupported_content", "download"}
    assert [row for row in done.table("stage_metrics") if "\u2022" * 8 in (row["detail"] or "")]
    for name in TABLE_NAMES:
        assert "h3ader-secret" not in repr(done.table(name)), name


def test_a_credential_that_a_page_shows_cannot_be_read_in_its_picture(crawled, open_site, run_of, monkeypatch):
    """Two sites that show two secrets of one width, also in capitals, have the same picture, to the last pixel."""
    urls, policy = [], ""
    for number, secret in ((1, "first-secret"), (2, "other-secret")):
        site = open_site(f"127.0.0.{number}")
        monkeypatch.setenv(f"PAGESTATE_TEST_{number}", secret)
        policy += permitted(site, more=f'headers.X-Token = {{ env = "PAGESTATE_TEST_{number}" }}')

        def answer(handler: BaseHTTPRequestHandler) -> None:
            told = handler.headers.get("X-Token", "")
            page = (
                f"<style>* {{font: 16px monospace}}</style><p>token {told}</p><p><input value='{told}'></p>"
                f"<p style='text-transform: uppercase'>{told}</p>"
            )
            handler.send_response(200)
            handler.send_header("Content-Type", "text/html")
            handler.end_headers()
            handler.wfile.write(page.encode())

        urls.append(site.answer("/page", answer))
    done = crawled(urls, CrawlSettings(screenshot=ScreenshotSettings("viewport", "png")), run_of(policy))
    one, other = done.table("screenshots")
    assert done.rows()[urls[0]]["secrets_masked"] > 0
    assert one["covered"] == other["covered"] >= 3
    assert one["image"] == other["image"]


def test_what_a_page_says_about_its_use_is_in_its_row(crawled, site):
    site.page("/robots.txt", "User-agent: *\nContent-Signal: search=yes, ai-train=no\n", content_type="text/plain")
    url = site.page(
        "/page",
        "<meta name=Robots content='noai, noimageai'><meta name=tdm-policy content=https://l.test/p>"
        "<link rel=license href=/licence><a rel='nofollow license' href=https://l.test/by>by</a>"
        "<iframe srcdoc='<meta name=robots content=noindex><a rel=license href=/other>x</a>'></iframe>",
        headers={"X-Robots-Tag": "noarchive", "TDM-Reservation": "1"},
    )
    row = crawled([url], ASKED).rows()[url]
    told = {
        "x_robots_tag": ["noarchive"],
        "meta_robots": ["robots: noai, noimageai"],
        "robots_directives": ["noai", "noarchive", "noimageai"],
        "tdm_reservation": "1",
        "tdm_policy": "https://l.test/p",
        "content_signal": "search=yes, ai-train=no",
        "licence_links": [f"{site.origin}/licence", "https://l.test/by"],
    }
    assert {name: row[name] for name in told} == told


def test_a_crawl_delay_is_kept_between_pages(crawled, site):
    site.page("/robots.txt", "User-agent: *\nCrawl-delay: 1\n", content_type="text/plain")
    times: list[float] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        times.append(time.monotonic())
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.send_header("Content-Length", "11")
        handler.end_headers()
        handler.wfile.write(b"<p>text</p>")

    urls = [site.answer(f"/{n}", answer) for n in range(3)]
    done = crawled(urls, ASKED)
    assert set(done.outcomes().values()) == {"ok"}
    assert {row["crawl_delay_seconds"] for row in done.rows().values()} == {1.0}
    # a page takes a little longer or shorter from its start to the server, but not half the delay
    assert all(later - earlier > 0.5 for earlier, later in pairwise(times))
