"""What the real Stagehand 3.7.3 made of recorded exchanges with a browser is what we make of them, byte for byte."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from schemas.capture import Capture
from workers.serialize.outline import Outline, serialize_outline
from workers.serialize.outline_options import OutlineOptions
from workers.serialize.outline_selectors import SelectorError

OWN = Path(__file__).parents[1] / "data" / "stagehand"
SUFFIX = ".json.gz"

FAULTY = {
    "01_text.recreuse": "nine dead frames, each with the main document once more",
    "01_text.rfocmiss": "an unknown selector yields the whole page",
    "03_iframes.recnp": "shadow roots and frames not asked for, which a capture always does",
    "03_iframes.rfocnest": "a focus in a nested frame maps the main document",
    "05_shadow.rfoc3": "a focus on an element that only wraps others yields the whole page",
    "05_shadow.rign2": "a button in a declared closed shadow root is not found",
}
"""The recordings that hold a fault of Stagehand's, which an outline repeats only if told to."""


def shared_folder() -> Path | None:
    root = os.environ.get("PAGESTATE_SHARED")
    return Path(root) / "oracle" / "recordings" / "stagehand" if root else None


def names(folder: Path | None) -> list[str]:
    return sorted(p.name.removesuffix(SUFFIX) for p in folder.glob(f"*{SUFFIX}")) if folder else ["none"]


def options(exchange: ModuleType, said: dict[str, Any], **more: Any) -> OutlineOptions:
    given = said["options"]
    return OutlineOptions(
        include_frames=given.get("includeIframes", True),
        focus=given.get("focusSelector"),
        ignore=tuple(given.get("ignoreSelectors") or ()),
        ordinals=exchange.ordinals_of(said),
        **more,
    )


def same(outline: Outline, said: dict[str, Any]) -> None:
    assert outline.text == said["combinedTree"]
    assert list(outline.xpath_map.items()) == list(said["combinedXpathMap"].items())
    assert list(outline.url_map.items()) == list(said["combinedUrlMap"].items())


def check(exchange: ModuleType, name: str, folder: Path) -> None:
    capture, said = exchange.load(name, folder)
    faults = {"original_faults": True, "owners": exchange.owners_of(said)}
    outline = serialize_outline(capture, options(exchange, said, **faults))
    same(outline, said)
    rows_print_the_text(outline)
    if name not in FAULTY:
        same(serialize_outline(capture, options(exchange, said)), said)


def rows_print_the_text(outline: Outline) -> None:
    """On an honest page the rows say what the text says."""
    rows = outline.rows
    lines = [
        "  " * rows.depth[i]
        + f"[{rows.id[i]}] {rows.role[i]}"
        + (f": {rows.name[i]}" if rows.name[i] is not None else "")
        + " [selected]" * rows.selected[i]
        + " [checked]" * rows.checked[i]
        for i in range(len(rows))
    ]
    flat = [line for name in lines for line in name.split("\n")]
    assert [line.strip() for line in flat] == [line.strip() for line in outline.text.split("\n")]


@pytest.mark.parametrize("name", names(OWN))
def test_own_recordings_are_the_same(exchange: ModuleType, name: str) -> None:
    check(exchange, name, OWN)


@pytest.mark.shared
@pytest.mark.parametrize("name", names(shared_folder()))
def test_shared_recordings_are_the_same(exchange: ModuleType, shared: Path, name: str) -> None:
    check(exchange, name, shared / "oracle" / "recordings" / "stagehand")


@pytest.mark.shared
def test_a_dead_frame_is_left_out_and_says_so(exchange: ModuleType, shared: Path) -> None:
    folder = shared / "oracle" / "recordings" / "stagehand"
    capture, said = exchange.load("01_text.recreuse", folder)
    outline = serialize_outline(capture, options(exchange, said))
    assert outline.text == said["combinedTree"]
    assert {key.partition("-")[0] for key in outline.xpath_map} == {"9"}
    assert [frame.status for frame in outline.frames] == ["ok"] + ["owner_missing"] * 9


@pytest.mark.shared
def test_a_focus_in_a_nested_frame_maps_that_frame(exchange: ModuleType, shared: Path) -> None:
    folder = shared / "oracle" / "recordings" / "stagehand"
    capture, said = exchange.load("03_iframes.rfocnest", folder)
    outline = serialize_outline(capture, options(exchange, said))
    assert outline.text == said["combinedTree"] == "[7-42] button: Leaf btn"
    assert outline.xpath_map["7-42"] == said["options"]["focusSelector"].removeprefix("xpath=")
    assert outline.xpath(0) == (outline.xpath_map["7-42"], False)


@pytest.mark.shared
@pytest.mark.parametrize("name", ["01_text.rfocmiss", "05_shadow.rfoc3"])
def test_a_focus_never_yields_the_whole_page(exchange: ModuleType, shared: Path, name: str) -> None:
    capture, said = exchange.load(name, shared / "oracle" / "recordings" / "stagehand")
    if name.startswith("01"):
        with pytest.raises(SelectorError, match="#nope") as caught:
            serialize_outline(capture, options(exchange, said))
        assert caught.value.problem == "no_match"
    else:
        outline = serialize_outline(capture, options(exchange, said))
        assert outline.rows.role[0] == "button"
        assert 0 < len(outline.rows) < said["combinedTree"].count("\n")


@pytest.mark.shared
def test_ordinals_count_breadth_first_from_the_main_frame(exchange: ModuleType, shared: Path) -> None:
    folder = shared / "oracle" / "recordings" / "stagehand"
    for name in ("03_iframes", "04_xorigin.spp", "iframes40.rec"):
        capture, _ = exchange.load(name, folder)
        frames = serialize_outline(capture).frames
        depths = [0] * len(frames)
        for i, frame in enumerate(frames[1:], 1):
            depths[i] = depths[frame.parent] + 1
        by_ordinal = sorted(range(len(frames)), key=lambda i: frames[i].ordinal)
        assert [frames[i].ordinal for i in by_ordinal] == list(range(len(frames)))
        assert [depths[i] for i in by_ordinal] == sorted(depths)
        assert by_ordinal[0] == 0


def test_captures_are_values(exchange: ModuleType) -> None:
    capture, said = exchange.load("03_iframes", OWN)
    first = serialize_outline(capture, options(exchange, said))
    again = serialize_outline(Capture(capture.payloads), options(exchange, said))
    assert first.text == again.text
    assert first.rows == again.rows
