"""At browser-use's limits and one beyond, the listing is what browser-use shows, or would show if it did not fail."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from schemas.settings import ListingSettings
from workers.merge import merge
from workers.serialize.eval_listing import serialize_eval_listing
from workers.serialize.listing import serialize_listing
from workers.store import FolderStore, latest_listings, load_capture, selector_map_of

pytestmark = pytest.mark.browser
BUTTON = "<button />"
BUSY = {"unsettled"}
"""What a slow machine adds."""


@pytest.fixture(scope="module")
def store(harness: ModuleType, browser_path: Path, tmp_path_factory: pytest.TempPathFactory) -> FolderStore:
    """All pages at the limits, captured with frames in processes of their own."""
    folder = tmp_path_factory.mktemp("limits") / "store"
    with harness.limit_site() as urls:
        patient = ("--budget-load", "120", "--budget-settle", "30", "--budget-payload", "60", "--budget-needed", "300")
        harness.crawl(list(urls.values()), folder, "--site-per-process", "--browser", str(browser_path), *patient)
    return FolderStore.for_reading(str(folder))


@pytest.fixture(scope="module")
def rows(store: FolderStore) -> dict[str, dict[str, Any]]:
    """The rows of `listings` by page."""
    found = latest_listings(store).to_pylist()
    return {row["url_key"].rpartition("/")[2]: row for row in found}


def shape(listing: str) -> list[str]:
    """The lines without their numbers, which Chromium gives."""
    lines = (line.partition("]") if "[" in line else (line, "", "") for line in listing.split("\n"))
    return [f"{head.partition('[')[0]}[]{tail}" if mark else head for head, mark, tail in lines]


@pytest.mark.parametrize(("depth", "filled_in"), [(144, False), (145, True), (600, True), (5000, True)])
def test_nested_elements(rows: dict[str, dict[str, Any]], store: FolderStore, depth: int, filled_in: bool) -> None:
    # Given elements nested as deep as browser-use can, and deeper, where it loses the page
    row = rows[f"deep{depth}"]
    # Then the page is whole, and nothing but long XPaths is said to be missing
    assert row["outcome"] == "ok"
    assert set(row["degradations"]) <= BUSY | {"xpath_truncated"}  # of the outline, by its own setting
    assert (row["document_depth"] != -1) == filled_in
    assert shape(row["listing"]) == [f"[]{BUTTON}", "\tDeep down"]
    (element,) = selector_map_of(store, row["page_id"])
    assert element["xpath"] == "html/body" + "/div" * depth + "/button"
    # html, body, the script is none, the button and its text
    assert row["total_elements"] == depth + 4
    tree = merge(load_capture(store, row["page_id"]))
    assert serialize_listing(tree).text == row["listing"]
    assert serialize_eval_listing(tree).endswith(f"[i_{element['index']}] <button>Deep down")


def test_a_hundred_elements_that_listen_are_numbered_and_one_more_are_not(rows: dict[str, dict[str, Any]]) -> None:
    assert shape(rows["listeners100"]["listing"]) == ["[]<div />", "\ttext"] * 100 + [f"[]{BUTTON}", "\tNative"]
    assert shape(rows["listeners101"]["listing"]) == ["text"] * 101 + [f"[]{BUTTON}", "\tNative"]


def test_ten_thousand_elements_are_asked_for_listeners_and_one_more_are_not(rows: dict[str, dict[str, Any]]) -> None:
    assert shape(rows["elements10000"]["listing"]) == ["[]<div id=live />", "\tListens"]
    assert shape(rows["elements10001"]["listing"]) == ["Listens"]
    assert rows["elements10001"]["nodes"] == rows["elements10000"]["nodes"] + 1


def numbered(count: int) -> list[str]:
    frame = "|scroll element|<iframe /> (scroll)"
    return [line for i in range(count) for line in (frame, f"\t[]{BUTTON}", *([f"\t\t{i}"] if i > 9 else []))]


def test_a_hundred_documents_of_one_process_are_listed(rows: dict[str, dict[str, Any]]) -> None:
    # the page itself is one of the hundred; texts of one character do not print
    frame = "|scroll element|<iframe /> (scroll)"
    assert shape(rows["frames101"]["listing"]) == [*numbered(99), frame, frame]


def test_a_hundred_frames_of_other_processes_are_listed(rows: dict[str, dict[str, Any]]) -> None:
    """Frames of other processes are captured, up to a number that is said (pain 20)."""
    assert set(rows["remote101"]["degradations"]) - BUSY == {"frames_capped"}
    assert shape(rows["remote101"]["listing"]) == [*numbered(100), "|scroll element|<iframe /> (scroll)"]


def test_frames_are_listed_five_processes_deep(rows: dict[str, dict[str, Any]]) -> None:
    """A chain of frames ends, however long it goes on (pain 24)."""
    wanted = []
    for level in range(6):
        tabs = "\t" * level
        wanted += [f"{tabs}Level {level}", f"{tabs}[]{BUTTON}", f"{tabs}\tGo {level}"]
        wanted.append(f"{tabs}|scroll element[]<iframe /> (scroll)")
    assert shape(rows["chain"]["listing"]) == wanted
    assert set(rows["chain"]["degradations"]) - BUSY == {"frames_capped"}


@pytest.mark.shared
def test_browser_use_says_the_same_of_all_of_them(
    harness: ModuleType, oracle: Path, store: FolderStore, rows: dict[str, dict[str, Any]]
) -> None:
    # Deep documents are handed over whole: its own builder has no limit, only the call by which it asks for them has
    folder = Path(store.where)
    verdicts = harness.compare_store("limits", folder, oracle, 300.0, ListingSettings(), {})
    assert len(verdicts) == len(rows)
    assert [v for v in verdicts if v.failure or v.difference] == []
