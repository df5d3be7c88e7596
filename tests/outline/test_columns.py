"""A page's outline becomes columns and rows; what goes wrong with it costs nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType

from schemas.capture import Capture
from schemas.settings import Caps, CrawlSettings, OutlineSettings
from schemas.tables import table_schema
from workers.capture.taken import Taken
from workers.process import Processed, process_page
from workers.serialize.outline import serialize_outline
from workers.serialize.outline_columns import outline_map_rows

OWN = Path(__file__).parents[1] / "data" / "stagehand"


def process(capture: Capture, settings: CrawlSettings | None = None) -> Processed:
    taken = [Taken(p.kind, bytes(p.data), p.target, p.frame_id) for p in capture.payloads]
    return process_page(taken, settings or CrawlSettings(store_captures=False))


def page(pages: ModuleType) -> Capture:
    root = pages.document(
        pages.Node("BUTTON", role="button", ax_name="Press"), pages.Node("A", role="link", ax_name="two\nlines")
    )
    root.role, root.ax_name = "RootWebArea", "x"
    return pages.capture(root)  # type: ignore[no-any-return]


def test_the_rows_are_the_lines(pages: ModuleType) -> None:
    made = process(page(pages))
    assert made.error is None
    assert made.listing["outline"] == "[0-1] RootWebArea: x\n[0-4] button: Press\n[0-5] link: two\nlines"
    assert [row["encoded_id"] for row in made.outline_map] == ["0-1", "0-4", "0-5"]
    assert made.outline_map[2]["name"] == "two\nlines"
    assert made.outline_map[1]["xpath"] == "/html[1]/body[1]/button[1]"
    assert made.listing["agreement"] == 1.0
    assert made.listing["agreement_elements"] == 2
    assert set(made.outline_map[0]) | {"position"} <= set(table_schema("outline_maps").names)
    assert set(made.listing) <= set(table_schema("listings").names)
    assert [stage.stage for stage in made.stages] == ["merge", "listing", "outline"]
    assert made.stages[2].nodes == 3


def test_without_a_layout_snapshot_there_is_an_outline_all_the_same(pages: ModuleType) -> None:
    capture = page(pages)
    made = process(Capture(tuple(p for p in capture.payloads if p.kind != "layout_snapshot")))
    assert "listing" not in made.listing
    assert made.listing["outline"] == process(capture).listing["outline"]
    assert "agreement" not in made.listing
    assert not made.is_empty
    assert made.selector_map == []


def test_a_payload_that_makes_no_sense_to_the_outline_costs_the_outline_alone(pages: ModuleType) -> None:
    capture = page(pages)
    made = process(Capture((*capture.payloads, pages.payload("frame_tree", {"frameTree": []}))))
    assert made.error is None
    assert made.listing["listing"]
    assert "outline" not in made.listing
    assert [(stage.stage, stage.outcome) for stage in made.stages][2:] == [("outline", "error")]
    assert "frame_tree" in (made.stages[2].detail or "")


def test_what_an_outline_does_without_is_said(exchange: ModuleType, pages: ModuleType) -> None:
    short = replace(CrawlSettings(store_captures=False), outline=OutlineSettings(max_xpath_chars=20))
    made = process(page(pages), short)
    assert "xpath_truncated" in made.degradations
    assert [row["xpath_truncated"] for row in made.outline_map] == [False, True, True]
    assert made.outline_map[1]["xpath"] == "/html[1]/body[1]"
    capped = process(page(pages), CrawlSettings(store_captures=False, caps=Caps(attribute_chars=20)))
    assert capped.outline_map == made.outline_map
    assert "xpath_truncated" in capped.degradations
    capture, _ = exchange.load("04_xorigin.spp", OWN)
    lost = Capture(tuple(p for p in capture.payloads if p.target != 1 or p.kind == "frame_tree"))
    assert outline_map_rows(serialize_outline(lost))[1] == {"frame_lost"}
    assert outline_map_rows(serialize_outline(capture))[1] == frozenset()
    main = [p for p in page(pages).payloads if p.kind != "frame_tree"]
    gone = {"frame": {"id": "TOP"}, "childFrames": [{"frame": {"id": "GONE", "parentId": "TOP"}}]}
    outline = serialize_outline(Capture((*main, pages.payload("frame_tree", {"frameTree": gone}))))
    assert [frame.status for frame in outline.frames] == ["ok", "owner_missing"]
    assert outline_map_rows(outline)[1] == {"frame_lost"}
