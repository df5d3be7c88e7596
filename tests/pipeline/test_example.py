"""The whole way on the example site: every URL is one row, and the listings can be made again from what is stored."""

from __future__ import annotations

import re
from collections import Counter
from importlib.metadata import version

import pytest

from scheduler.verify import verify
from schemas.capture import PAYLOAD_KINDS
from schemas.identifiers import page_id
from schemas.version import PAGESTATE_VERSION, SCHEMA_VERSION
from workers.serialize import listing as listing_serializer
from workers.store import markers, verify_markers

pytestmark = pytest.mark.browser


def test_every_url_is_one_row_with_one_outcome(example_crawl, example_site):
    """Every URL ends in exactly one terminal state, in the rows and in the markers (pain 48)."""
    listings = example_crawl.table("listings")
    assert sorted(row["url_key"] for row in listings) == sorted(example_site.urls)
    expected = {url: "http_error" if "no-such-page" in url else "ok" for url in example_site.urls}
    assert example_crawl.outcomes() == expected
    assert sum((Counter(marker.outcomes) for marker in markers(example_crawl.store)), Counter()) == Counter(
        expected.values()
    )
    assert {(page.url_key, page.outcome) for page in example_crawl.pages} == set(expected.items())
    assert [batch.result for batch in example_crawl.batches] == ["won"] * len(example_crawl.batches)
    assert not list(verify_markers(example_crawl.store, hashes=True))
    assert example_crawl.rounds == 1


def test_listings_are_made_again_from_stored_captures_byte_for_byte(example_crawl, example_site, listings_made_again):
    """What is stored is enough: no browser is needed to make any listing again, and it is the same."""
    assert listings_made_again(example_crawl.store.folder) == len(example_site.urls)


def test_every_version_that_shaped_a_row_is_in_it(example_crawl, browser_path):
    for url, row in example_crawl.rows().items():
        assert row["pagestate_version"] == PAGESTATE_VERSION
        assert row["schema_version"] == SCHEMA_VERSION
        assert (row["serializer"], row["serializer_version"]) == (listing_serializer.NAME, listing_serializer.VERSION)
        assert row["playwright_version"] == version("playwright")
        assert re.fullmatch(r"\d+(\.\d+){3}", row["browser_version"])
        assert row["settings_hash"] == example_crawl.settings.hash()
        assert row["user_agent"].endswith(f" pagestate/{PAGESTATE_VERSION}")
        assert (row["profile"], row["viewport_width"], row["viewport_height"], row["scale"]) == (
            "desktop",
            1280,
            1100,
            1,
        )
        assert (row["locale"], row["time_zone"], row["robots_verdict"]) == ("en-US", "UTC", "not_asked")
        assert row["page_id"] == page_id("test", 0, url, "desktop")
        assert row["settle_reason"] in ("quiet", "quiet_cap")
        assert row["final_url"] == url


def test_the_selector_map_is_what_the_listing_points_into(example_crawl):
    elements = example_crawl.table("selector_maps")
    for url, row in example_crawl.rows().items():
        printed = [
            int(number) for number in re.findall(r"^\s*(?:\|[A-Z]+\|)?\*?\[(\d+)\]<", row["listing"], re.MULTILINE)
        ]
        of_page = [e for e in elements if e["page_id"] == row["page_id"]]
        assert printed, url
        assert set(printed) <= {e["index"] for e in of_page}, url
        assert all(e["xpath"] and e["interactive_reason"] for e in of_page)


def test_every_stage_is_one_row(example_crawl):
    stages = example_crawl.table("stage_metrics")
    expected = {
        "permission", "context", "navigate", "settle", "listeners", "layout_snapshot", "dom_document", "ax_tree",
        "merge", "listing", "outline",
    }  # fmt: skip
    for url, row in example_crawl.rows().items():
        of_page = [stage for stage in stages if stage["page_id"] == row["page_id"]]
        assert Counter(stage["stage"] for stage in of_page) == Counter(expected), url
        assert {stage["outcome"] for stage in of_page} == {"ok"} or "deep" in url
        assert all(stage["duration_ms"] >= 0 and stage["started_ms"] >= 0 for stage in of_page)
        assert {stage["stage"] for stage in of_page if stage["bytes"]} >= {"layout_snapshot", "dom_document", "ax_tree"}


def test_captures_hold_every_kind_in_the_order_asked(example_crawl):
    captures = example_crawl.table("captures")
    seen: set[str] = set()
    for url, row in example_crawl.rows().items():
        of_page = sorted((c for c in captures if c["page_id"] == row["page_id"]), key=lambda c: c["position"])
        kinds = [c["kind"] for c in of_page]
        seen |= set(kinds)
        order = [kind for kind in dict.fromkeys(kinds) if kind != "dom_subtree"]
        assert order == [
            "frame_tree", "listeners", "layout_snapshot", "dom_document", "layout_metrics", "ax_tree", "targets",
        ], url  # fmt: skip
        frames = 4 if "frames" in url else 1
        assert kinds.count("ax_tree") == frames or "frames" in url
        assert row["payload_bytes"] == sum(c["raw_bytes"] for c in of_page)
    assert seen == set(PAYLOAD_KINDS)


def test_what_was_stored_passes_verify_pages_with_secrets_included(example_crawl):
    assert any(row["secrets_masked"] for row in example_crawl.rows().values())
    assert verify(example_crawl.store).problems == []


def test_the_deep_page_comes_by_the_ladder_whole(example_crawl, example_site):
    """Nesting beyond the browser's reply limit costs neither the page nor a part of it (pains 22, 23)."""
    row = next(row for url, row in example_crawl.rows().items() if url.endswith("/deep.html"))
    assert row["document_depth"] != -1
    assert row["hydrated_nodes"] > 0
    assert "depth_limited" not in row["degradations"]
