"""Caps are given by name on the command line and are settings of the crawl."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from schemas.settings import Caps


@pytest.mark.browser
def test_caps_reach_the_page_and_the_store(run, browser_path, site, tmp_path):
    url, store = site.page("/", f"<p>{'text ' * 1000}</p>"), tmp_path / "store"
    given = ["--cap", "text_chars=50", "--cap", "text_chars=100", "--cap", "dialogs=0"]
    done = run("crawl", url, "--store", store, *given, browser=browser_path)
    assert done.code == 0, done.err
    assert "text_truncated 1" in done.out
    stored = json.loads((store / "crawl.json").read_text())["settings"]["caps"]
    assert (stored["text_chars"], stored["dialogs"], stored["requests"]) == (100, 0, Caps().requests)


def test_a_cap_that_there_is_not_is_refused_with_those_that_there_are(ask, tmp_path):
    told = ask("crawl", "http://127.0.0.1/", "--store", tmp_path / "store", "--cap", "request=5")
    assert told.code == 2
    assert "There is no cap named request; known are " in told.err
    assert all(f.name in told.err for f in fields(Caps))
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    "text", ["requests", "requests=", "requests=many", "requests=-1", "requests=1.5", "x=" + "9" * 30]
)
def test_a_cap_without_a_number_is_refused(ask, tmp_path, text):
    told = ask("crawl", "http://127.0.0.1/", "--store", tmp_path / "store", "--cap", text)
    assert told.code == 2
    assert "is not NAME=VALUE" in told.err


def test_a_cap_that_no_page_can_hold_to_is_refused(ask, tmp_path):
    told = ask("crawl", "http://127.0.0.1/", "--store", tmp_path / "store", "--cap", "requests=0")
    assert told.code == 2
    assert "caps.requests is 0" in told.err
