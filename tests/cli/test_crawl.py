"""`crawl`, `show` and `status` as a user meets them, in a real browser."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from scheduler.cli.summary import duckdb_lines
from workers.store import FolderStore, latest_listings, markers, read_table, verify_markers

pytestmark = pytest.mark.browser


def rows(store: Path, *columns: str) -> dict[str, dict[str, object]]:
    """The last row of every page, by URL key."""
    found = latest_listings(FolderStore.for_reading(store), ["url_key", *columns]).to_pylist()
    return {str(row["url_key"]): row for row in found}


def attempts(store: Path) -> dict[str, str]:
    return {marker.batch_id: marker.attempt for marker in markers(FolderStore.for_reading(store))}


@pytest.fixture
def small_site(site):
    """Three pages, one of which is hostile to terminals."""
    site.page("/a", "<title>A</title><a href=/b>To b</a><button>Press</button>")
    site.page("/b", "<title>B</title><p>text</p>")
    site.page(
        "/evil", "<title>\x1b]0;owned\x07</title><a href=/ aria-label='\x1b[31mred\x1b[0m'>\x1b[2Jgone\x9b31m</a>"
    )
    return site


def test_a_crawl_ends_with_a_summary_and_goes_on_where_it_left_off(run, small_site, browser_path, tmp_path):
    """When a finished crawl is run again, nothing is captured twice; new seeds are added alone (pains 35, 52)."""
    store, seeds = tmp_path / "store", tmp_path / "seeds.txt"
    one, other = small_site.origin + "/a", small_site.origin + "/b"
    seeds.write_text(f"{one}\n{one}#part\n{one.upper().replace('/A', '/a')}\nnonsense\n")

    first = run("crawl", seeds, "--store", store, browser=browser_path)
    assert first.code == 0, first.err
    assert "1 lines are no seeds and were left out" in first.err
    assert f"pagestate: {seeds}:4: nonsense is no seed" in first.err
    assert "pagestate: round 0: 1 pages to capture" in first.err
    assert "pagestate: 1/1 pages" in first.err
    assert "\x1b" not in first.err, "no bar where there is no terminal"
    assert small_site.hits.count("/a") == 1, "two seeds of one key are one page"
    made = attempts(store)

    again = run("crawl", seeds, "--store", store, "--json", browser=browser_path)
    assert again.code == 0, again.err
    summary = json.loads(again.out)
    assert (summary["crawl"], summary["stopped"], summary["pages"]) == ("crawl", False, 1)
    assert summary["outcomes"] == {"ok": 1}
    assert attempts(store) == made
    assert small_site.hits.count("/a") == 1

    more = run("crawl", seeds, other, "--store", store, browser=browser_path)
    assert more.code == 0, more.err
    assert (small_site.hits.count("/a"), small_site.hits.count("/b")) == (1, 1)
    assert made.items() < attempts(store).items()
    assert set(rows(store)) == {one, other}
    assert not list(verify_markers(FolderStore.for_reading(store), hashes=True))


def test_what_a_crawl_made_is_shown(run, ask, small_site, browser_path, tmp_path, listings_made_again):
    """Every form of show and status prints, and its JSON parses; the printed DuckDB lines read the store."""
    store, url = tmp_path / "st'ore", small_site.origin + "/a"
    missing = small_site.origin + "/none"
    ran = run("crawl", url, missing, "--store", store, "--crawl", "mine", browser=browser_path)
    assert ran.code == 0, ran.err
    assert ran.out.startswith("Crawl mine")
    assert duckdb_lines(str(store)) in ran.out

    with duckdb.connect() as connection:
        read = connection.execute(duckdb_lines(str(store))).fetchall()
    assert sorted(row[:2] for row in read) == [(url, "ok"), (missing, "http_error")]

    listing = ask("show", url + "#fragment", "--store", store)
    assert (listing.code, listing.out) == (0, str(rows(store, "listing")[url]["listing"]) + "\n")
    assert "<button" in listing.out
    page = json.loads(ask("show", url, "--store", store, "--json").out)
    assert (page["url_key"], page["outcome"], page["crawl"], page["listing"] + "\n") == (url, "ok", "mine", listing.out)
    by_id = ask("show", page["page_id"], "--store", store)
    assert by_id.out == listing.out

    elements = ask("show", url, "--store", store, "--form", "elements")
    assert "Press" in elements.out
    told = [
        json.loads(line) for line in ask("show", url, "--store", store, "--form", "elements", "--json").out.splitlines()
    ]
    assert [row["tag"] for row in told] == ["a", "button"]
    outline = ask("show", url, "--store", store, "--form", "outline")
    assert outline.out.startswith("[0-")
    told = [
        json.loads(line) for line in ask("show", url, "--store", store, "--form", "outline", "--json").out.splitlines()
    ]
    assert len(told) == len(outline.out.splitlines())
    assert [row["xpath"] for row in told if row["role"] == "button"] == ["/html[1]/body[1]/button[1]"]
    agree = ask("agree", url, "--store", store)
    assert agree.out == f"{url}: 100% of 2 elements\n"
    (told,) = [json.loads(line) for line in ask("agree", url, "--store", store, "--json").out.splitlines()]
    assert (told["agreement"], told["elements"], page["agreement"]) == (1.0, 2, 1.0)
    stages = ask("show", url, "--store", store, "--form", "stages")
    assert "layout_snapshot" in stages.out
    told = [
        json.loads(line) for line in ask("show", url, "--store", store, "--form", "stages", "--json").out.splitlines()
    ]
    assert {
        "permission",
        "context",
        "navigate",
        "settle",
        "layout_snapshot",
        "dom_document",
        "ax_tree",
        "merge",
        "listing",
        "outline",
    } <= {row["stage"] for row in told}

    status = ask("status", "--store", store)
    assert status.out.startswith("Crawl mine")
    (line,) = [json.loads(line) for line in ask("status", "--store", store, "--json").out.splitlines()]
    wanted = {
        "crawl": "mine", "round": 0, "committed": 2, "waiting": 0, "waiting_batches": 0,
        "lanes": 1, "lanes_left": 0, "stalled_lanes": [], "seconds_left": None,
        "outcomes": {"http_error": 1, "ok": 1},
    }  # fmt: skip
    assert {name: line[name] for name in wanted} == wanted
    assert line["last_commit"].endswith("+00:00")
    assert listings_made_again(store) == 2


def test_a_page_without_a_listing_says_so(run, ask, site, browser_path, tmp_path):
    """Also the words of a hostile server are printed without control characters."""
    url = site.page("/", b"\x89PNG", content_type="image/x-\x1b[31mred")
    ran = run("crawl", url, "--store", tmp_path / "store", browser=browser_path)
    assert ran.code == 0, ran.err
    row = rows(tmp_path / "store", "outcome")[url]
    shown = ask("show", url, "--store", tmp_path / "store")
    assert (shown.code, shown.out) == (0, "")
    assert f"has no listing: {row['outcome']}" in shown.err
    for text in (ran.out, ran.err, shown.err):
        assert "\x1b" not in text


def test_no_page_reaches_the_terminal_with_its_control_characters(run, ask, small_site, browser_path, tmp_path):
    """Text of a page can neither recolour the terminal nor move its cursor; the stored listing keeps it."""
    store, url = tmp_path / "store", small_site.origin + "/evil"
    ran = run("crawl", url, "--store", store, browser=browser_path)
    assert ran.code == 0, ran.err
    assert "\x1b[2Jgone" in str(rows(store, "listing")[url]["listing"])
    said = [ran.out, ran.err]
    for form in ("listing", "elements", "outline", "stages"):
        for extra in ([], ["--json"]):
            shown = ask("show", url, "--store", store, "--form", form, *extra)
            assert shown.code == 0
            said += [shown.out, shown.err]
    assert "\ufffd[2Jgone\ufffd31m" in said[2]
    for text in said:
        assert not {c for c in text if c < " " and c != "\n" and c != "\t"}
        assert not {c for c in text if "\x7f" <= c <= "\x9f"}


def test_seeds_from_standard_input(run, small_site, browser_path, tmp_path):
    ran = run(
        "crawl", "-", "--store", tmp_path / "store", browser=browser_path, stdin=f"{small_site.origin}/b\n".encode()
    )
    assert ran.code == 0, ran.err
    assert set(rows(tmp_path / "store")) == {small_site.origin + "/b"}


def test_captures_can_be_left_out(run, small_site, browser_path, tmp_path):
    store = tmp_path / "store"
    ran = run("crawl", small_site.origin + "/a", "--store", store, "--no-captures", browser=browser_path)
    assert ran.code == 0, ran.err
    assert read_table(FolderStore.for_reading(store), "captures").num_rows == 0
    assert rows(store, "outcome")[small_site.origin + "/a"]["outcome"] == "ok"


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["crawl", "--help"], ["show", "-h"], ["status", "-h"]]
)
def test_help_is_there(run, arguments):
    ran = run(*arguments)
    assert (ran.code, ran.err) == (0, "")
    assert "Example: pagestate" in ran.out or "version" in ran.out
