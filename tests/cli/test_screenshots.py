"""Pictures on the command line: asked for by crawl, written to a file by show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.mark.browser
def test_a_picture_is_captured_and_shown(run, ask, browser_path, site, tmp_path):
    url, store = site.page("/", "<a href=/x>link</a>"), tmp_path / "store"
    done = run("crawl", url, "--store", store, "--screenshot", "full", "--screenshot-boxes", browser=browser_path)
    assert done.code == 0, done.err
    told = json.loads(ask("show", url, "--store", store, "--form", "screenshot", "--json").out)
    assert (told["area"], told["format"], told["boxes"], "image" in told) == ("full", "webp", 1, False)
    assert ask("show", url, "--store", store, "--form", "screenshot", "-o", tmp_path / "page.webp").code == 0
    assert len((tmp_path / "page.webp").read_bytes()) == told["bytes"]
    assert ask("verify", "--store", store).code == 0
    nowhere = ask("show", url, "--store", store, "--form", "screenshot", "-o", tmp_path / "none" / "page.webp")
    assert nowhere.code == 2
    assert "cannot be written" in nowhere.err
    # without pictures the settings are others
    again = run("crawl", url, "--store", store, browser=browser_path)
    assert again.code == 2
    assert 'screenshot.area: stored "full", given nothing' in again.err


@pytest.mark.browser
def test_a_page_without_a_picture_is_said_so(run, ask, browser_path, site, tmp_path):
    url, store = site.page("/", "text"), tmp_path / "store"
    assert run("crawl", url, "--store", store, browser=browser_path).code == 0
    told = ask("show", url, "--store", store, "--form", "screenshot", "-o", tmp_path / "page.webp")
    assert told.code == 2
    assert f"holds no picture of {url} (ok); capture the page with --screenshot" in told.err
    assert not (tmp_path / "page.webp").exists()


def test_options_that_describe_a_picture_ask_for_one(ask, tmp_path: Path):
    for option in (["--screenshot-boxes"], ["--screenshot-max-width", "100"], ["--screenshot-format", "png"]):
        told = ask("crawl", "http://127.0.0.1/", "--store", tmp_path / "store", *option)
        assert told.code == 2
        assert f"The option {option[0]} describes a picture that nobody takes" in told.err
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("more", [["--form", "screenshot"], ["-o", "page.webp"]])
def test_a_picture_needs_a_file_and_a_file_a_picture(ask, tmp_path: Path, more):
    told = ask("show", "http://127.0.0.1/", "--store", tmp_path, *more)
    assert told.code == 2
    assert "give it a file with -o" in told.err
