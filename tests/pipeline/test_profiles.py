"""Each URL is captured under every profile: one row of each, with what that way of looking shows."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest

from scheduler.cli import main
from schemas.profiles import DESKTOP, MOBILE
from schemas.settings import CrawlSettings, RunSettings

pytestmark = pytest.mark.browser

PAGE = """<!doctype html><meta name=viewport content="width=device-width">
<style>button { position: absolute; left: 10px; top: 20px; width: 100px; height: 30px }
.wide { display: none } @media (min-width: 600px) { .wide { display: block } .narrow { display: none } }</style>
<button>press</button><p style="margin-top: 80px"><b class=wide>WIDE</b><b class=narrow>NARROW</b> <i id=o></i></p>
<script>o.textContent = [devicePixelRatio, 'ontouchstart' in window, navigator.maxTouchPoints > 0,
  matchMedia('(pointer: coarse)').matches, /Mobile/.test(navigator.userAgent), innerWidth].join(' ')</script>"""


def test_one_row_for_each_url_and_profile(crawled, site, listings_made_again, capsys):
    agents: dict[str, str] = {}

    def answer(handler) -> None:
        agents.setdefault(handler.headers["User-Agent"], handler.path)
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.send_header("Content-Length", str(len(PAGE)))
        handler.end_headers()
        handler.wfile.write(PAGE.encode())

    urls = [site.answer(f"/{n}", answer) for n in range(2)]
    done = crawled(urls, CrawlSettings(profiles=(DESKTOP, MOBILE)))
    rows = {(row["url_key"], row["profile"]): row for row in done.table("listings")}
    assert rows.keys() == {(url, name) for url in urls for name in ("desktop", "mobile")}
    assert {row["outcome"] for row in rows.values()} == {"ok"}
    assert len({row["page_id"] for row in rows.values()}) == 4

    desktop, mobile = rows[urls[0], "desktop"], rows[urls[0], "mobile"]
    assert "WIDE" in desktop["listing"]
    assert "1 false false false false 1280" in desktop["listing"]
    assert "NARROW" in mobile["listing"]
    assert "3 true true true true 412" in mobile["listing"]
    seen = (mobile["viewport_width"], mobile["viewport_height"], mobile["scale"])
    assert seen == (412, 915, 3.0)
    assert set(agents) == {desktop["user_agent"], mobile["user_agent"]}
    assert all("pagestate/" in agent for agent in agents)

    # an element's place is in CSS pixels, whatever the scale
    buttons = [element for element in done.table("selector_maps") if element["tag"] == "button"]
    places = {(e["profile"], e["x"], e["y"], e["width"], e["height"]) for e in buttons}
    assert places == {("desktop", 10.0, 20.0, 100.0, 30.0), ("mobile", 10.0, 20.0, 100.0, 30.0)}
    assert listings_made_again(done.store.folder) == 4
    assert sorted((page.url_key, page.profile) for page in done.pages) == sorted(rows)

    told = {name: shown(urls[0], done.store.folder, capsys, name) for name in ("desktop", "mobile", None)}
    assert "WIDE" in told["desktop"]
    assert "NARROW" in told["mobile"]
    assert told[None] == told["desktop"]
    assert main(["show", urls[0], "--store", str(done.store.folder), "--profile", "tablet"]) == 2
    assert "has no profile tablet; it has desktop, mobile." in capsys.readouterr().err


def shown(url: str, folder: Path, capsys, profile: str | None) -> str:
    assert main(["show", url, "--store", str(folder), *(["--profile", profile] if profile else [])]) == 0
    return capsys.readouterr().out


def test_what_was_deferred_under_one_profile_comes_again_under_that_one_alone(crawled, site):
    """A page that takes the whole deadline under its first profile does not keep the second from its turn."""

    def slow(handler) -> None:
        time.sleep(0.5)
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.send_header("Content-Length", "11")
        handler.end_headers()
        handler.wfile.write(b"<p>text</p>")

    url = site.answer("/page", slow)
    settings = CrawlSettings(profiles=(DESKTOP, MOBILE), batch_deadline=timedelta(seconds=0.2))
    done = crawled([url], settings, RunSettings(concurrency=1, processes=1))
    told = sorted((row["round"], row["profile"], row["outcome"]) for row in done.table("listings"))
    assert told == [(0, "desktop", "ok"), (0, "mobile", "deferred"), (1, "mobile", "ok")]
    assert site.hits.count("/page") == 2
