"""What the real browser-use says about payloads that we took is what we say, byte for byte."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from scheduler.example.server import ExampleSite
from schemas.capture import Capture, Payload
from schemas.settings import CrawlSettings, ListingSettings

FUZZ_PAGES = int(os.environ.get("PAGESTATE_FUZZ_PAGES", "30"))
CORPUS_PAGES = 12
"""The smallest of the real pages; `make differential ARGS=--corpus` compares all of them."""
SECONDS = 300.0

Compare = Callable[..., None]


@pytest.fixture
def same(harness: ModuleType, oracle: Path, browser_path: Path, tmp_path: Path) -> Compare:
    """Captures pages as a user would, and holds every one of them against browser-use."""

    def compare(urls: Sequence[str], *arguments: str) -> None:
        store = tmp_path / "store"
        harness.crawl(list(urls), store, "--browser", str(browser_path), *arguments)
        verdicts = harness.compare_store("pages", store, oracle, SECONDS, ListingSettings(), {})
        assert len(verdicts) == len(set(urls))
        assert [v for v in verdicts if v.failure or v.difference] == []

    return compare


@pytest.mark.browser
@pytest.mark.shared
def test_the_example_site(same: Compare, example_site: ExampleSite) -> None:
    same(example_site.urls)


@pytest.mark.browser
@pytest.mark.shared
def test_the_example_site_with_frames_in_processes_of_their_own(same: Compare, example_site: ExampleSite) -> None:
    same([url for url in example_site.urls if "frames" in url], "--site-per-process")


@pytest.mark.browser
@pytest.mark.shared
@pytest.mark.parametrize("site_per_process", [False, True])
def test_the_same_tab_seen_by_both(
    harness: ModuleType, same_tab: ModuleType, oracle: Path, browser_path: Path, site_per_process: bool
) -> None:
    # Given pages in tabs that both attach to, so that each asks the browser itself
    settings = dataclasses.replace(CrawlSettings(), site_per_process=site_per_process)
    with harness.folder_site(oracle / "corpus" / "own" / "browser_use") as origin:
        names = [name for name in harness.own_pages(oracle) if not name.startswith(("heavy", "overlap", "deep145"))]
        # When both have looked
        urls = {name: f"{origin}/{name}" for name in names}
        verdicts = asyncio.run(same_tab.compare_tabs(urls, browser_path, settings))
    # Then they say the same
    assert len(verdicts) == len(names)
    assert [v for v in verdicts if v.failure or v.difference] == []


@pytest.mark.browser
@pytest.mark.shared
def test_the_own_pages(same: Compare, harness: ModuleType, oracle: Path) -> None:
    folder = oracle / "corpus" / "own" / "browser_use"
    with harness.folder_site(folder) as origin:
        names = [name for name in harness.own_pages(oracle) if not name.startswith(("heavy", "overlap"))]
        same([f"{origin}/{name}" for name in names], "--site-per-process")


@pytest.mark.browser
@pytest.mark.shared
@pytest.mark.parametrize("arguments", [(), ("--site-per-process",)])
def test_objects_and_embeds_that_show_documents(
    same: Compare, harness: ModuleType, oracle: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    names = harness.write_embedded_pages(tmp_path / "pages")
    with harness.folder_site(tmp_path / "pages") as origin:
        same([f"{origin}/{name}" for name in names], *arguments)


@pytest.mark.browser
@pytest.mark.shared
def test_fuzz_pages(same: Compare, harness: ModuleType, oracle: Path, tmp_path: Path) -> None:
    names = harness.write_fuzz_pages(oracle, FUZZ_PAGES, tmp_path / "pages")
    with harness.folder_site(tmp_path / "pages") as origin:
        same([f"{origin}/{name}" for name in names], "--site-per-process")


@pytest.mark.browser
@pytest.mark.shared
def test_real_pages(same: Compare, harness: ModuleType, oracle: Path) -> None:
    with harness.corpus_site(oracle) as urls:
        same(list(urls.values())[:CORPUS_PAGES], "--site-per-process")


OPTIONS = {
    "attributes": ListingSettings(include_attributes=("href", "id", "placeholder")),
    "paint order off": ListingSettings(paint_order_filtering=False),
    "bounding boxes off": ListingSettings(bbox_filtering=False),
    "one document": ListingSettings(max_iframes=1),
    "no level": ListingSettings(max_iframe_depth=0),
    "one level": ListingSettings(max_iframe_depth=1),
    "no slack": ListingSettings(viewport_threshold=0),
    "everything": ListingSettings(viewport_threshold=None),
    "truncated": ListingSettings(max_chars=100),
}


@pytest.fixture
def recorded(harness: ModuleType) -> dict[str, Capture]:
    """The recordings of small pages, as captures."""
    import importlib.util

    tests = Path(__file__).parents[1]
    spec = importlib.util.spec_from_file_location("recording_adapter", tests / "serialize" / "recording.py")
    assert spec is not None
    assert spec.loader is not None
    adapter = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(adapter)
    data = tests / "data" / "browser_use"
    names = sorted(p.name.removesuffix(".raw.json.gz") for p in data.glob("*.raw.json.gz"))
    return {name: adapter.load(name, data)[0] for name in names}


def answered(
    harness: ModuleType, oracle: Path, folder: Path, jobs: dict[str, tuple[Capture, Capture | None, ListingSettings]]
) -> list[Any]:
    """The verdicts about captures, each with a previous one and settings of its own."""
    for name, (capture, previous, settings) in jobs.items():
        before = None if previous is None else harness.raw_of(previous)
        raw = harness.raw_of(capture, settings.max_chars)
        harness.write_job(folder / f"{name}.job.json.gz", raw, before, dataclasses.asdict(settings))
    harness.ask(folder, oracle, SECONDS)
    verdicts = []
    for name, (capture, previous, settings) in jobs.items():
        said = json.loads((folder / f"{name}.said.json").read_text())
        verdicts.append(harness.compared(name, capture, said, settings, previous=previous))
    return verdicts


@pytest.mark.shared
def test_every_option_does_what_it_does_there(
    harness: ModuleType, oracle: Path, recorded: dict[str, Capture], tmp_path: Path
) -> None:
    pages = ("overlay.html", "xorigin.html", "oopif_xorigin.html", "iframes.html", "nested.html", "scroll.html")
    jobs = {
        f"{name}, {option}": (recorded[name], None, settings) for name in pages for option, settings in OPTIONS.items()
    }
    verdicts = answered(harness, oracle, tmp_path, jobs)
    assert [v for v in verdicts if v.failure or v.difference] == []


@pytest.mark.shared
def test_what_is_new_since_the_previous_listing_has_the_same_stars(
    harness: ModuleType, oracle: Path, recorded: dict[str, Capture], tmp_path: Path
) -> None:
    # Given each page as it was before: without every third of its elements that print
    jobs = {name: (capture, without_some(capture), ListingSettings()) for name, capture in recorded.items()}
    # When it is listed again, then both sides star the same elements
    verdicts = answered(harness, oracle, tmp_path, jobs)
    assert [v for v in verdicts if v.failure or v.difference] == []


def without_some(capture: Capture) -> Capture:
    """The capture with every third element of the document excluded from any listing."""

    def thinned(payload: Payload) -> Payload:
        if payload.kind != "dom_document":
            return payload
        document = json.loads(bytes(payload.data))
        stack, number = [document["root"]], 0
        while stack:
            node = stack.pop()
            number += node["nodeType"] == 1
            if node["nodeType"] == 1 and number % 3 == 0 and node["nodeName"] not in ("HTML", "BODY"):
                node["attributes"] = [*node.get("attributes", []), "data-browser-use-exclude", "true"]
            content = node.get("contentDocument")
            stack += [*(node.get("children") or ()), *(node.get("shadowRoots") or ()), *([content] if content else ())]
        return Payload(payload.kind, json.dumps(document).encode(), payload.target)

    return Capture(tuple(thinned(p) for p in capture.payloads))


def test_a_difference_is_told_with_its_line_and_the_history_of_its_node(
    harness: ModuleType, recorded: dict[str, Capture]
) -> None:
    # Given an answer that differs from ours in one character of one line
    from workers.merge import merge
    from workers.serialize.listing import serialize_listing

    capture = recorded["forms.html"]
    listing = serialize_listing(merge(capture))
    index = listing.selector_map.index[3]
    said = {"text": listing.text.replace(f"[{index}]<", f"[{index}]< ", 1), "elements": [], "eval": ""}
    said |= {"statistics": {}, "page_state": ""}
    # Then the verdict names the line, both sides, and how our element came to its number
    verdict = harness.compared("forms.html", capture, said, ListingSettings())
    assert verdict.difference.what == "listing"
    assert f"[{index}]< " in verdict.difference.theirs
    assert f"is [{index}], by the rule" in verdict.history[0]


ELEMENT_FIELDS = ("index", "node", "tag", "xpath", "target", "role", "name", "bounds", "absolute", "attributes")


@pytest.mark.parametrize("place", range(len(ELEMENT_FIELDS)), ids=ELEMENT_FIELDS)
def test_every_field_of_an_element_is_compared(harness: ModuleType, recorded: dict[str, Capture], place: int) -> None:
    # Given an answer that is ours but for one field of one element
    from workers.merge import merge
    from workers.serialize.listing import serialize_listing

    capture = recorded["forms.html"]
    tree = merge(capture)
    listing = serialize_listing(tree)
    elements = harness.elements_of(listing.selector_map, tree)
    assert {len(element) for element in elements} == {len(ELEMENT_FIELDS)}
    elements[2][place] = "other"
    said = {"text": listing.text, "elements": elements, "eval": "", "statistics": {}, "page_state": ""}
    # Then the verdict names that element
    difference = harness.compared("forms.html", capture, said, ListingSettings()).difference
    assert (difference.what, difference.place) == ("elements", 2)
    assert "other" in difference.theirs


def test_the_table_counts_what_is_the_same(harness: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    verdicts = [
        harness.Verdict("own/a", 5),
        harness.Verdict("own/b", 7, failure="it died"),
        harness.Verdict("fuzz/c", 1, harness.Difference("listing", 4, "x", "y")),
    ]
    assert harness.print_report(verdicts) == 1
    out = capsys.readouterr().out
    assert out.splitlines()[1].split() == ["own", "2", "1", "0", "1", "12"]
    assert "own/b: browser-use has no answer: it died" in out
    assert "fuzz/c differs in the listing, 4:" in out
