"""What the real browser-use 0.13.14 said about recorded pages is what we say, byte for byte."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from types import ModuleType

import pytest

from workers.merge import merge
from workers.serialize.eval_listing import serialize_eval_listing
from workers.serialize.forged import looks_like_a_line
from workers.serialize.indices import final_tree
from workers.serialize.interactivity import INTERACTIVE_REASONS
from workers.serialize.listing import serialize_listing
from workers.serialize.page_state import serialize_page_state
from workers.serialize.rows import listing_rows, text_of

OWN = Path(__file__).parents[1] / "data" / "browser_use"
SUFFIX = ".raw.json.gz"
SHARED_VARIABLE = "PAGESTATE_SHARED"


def names(folder: Path) -> list[str]:
    return sorted(p.name.removesuffix(SUFFIX) for p in folder.glob(f"*{SUFFIX}"))


def shared_folder() -> Path | None:
    root = os.environ.get(SHARED_VARIABLE)
    return Path(root) / "oracle" / "recordings" / "browser_use" if root else None


def check(recording: ModuleType, name: str, folder: Path) -> None:
    capture, said = recording.load(name, folder)
    tree = merge(capture)
    final = final_tree(tree)
    listing = serialize_listing(tree, final=final)
    assert listing.text == said["llm_representation"]
    assert serialize_eval_listing(tree, final=final) == said["eval_representation"]
    assert dataclasses.asdict(listing.stats) == said["page_stats"]
    assert serialize_page_state(tree, listing) == said["browser_state_description"]
    rows = listing_rows(final)
    assert text_of(rows) == listing.text
    own = [row for row in rows if row.kind not in ("text", "hint_item")]
    assert [row for row in own if not looks_like_a_line(row.line().strip())] == []
    look_alikes = sum(row.kind == "text" and looks_like_a_line(row.text) for row in rows)
    assert listing.forged_lines == len(listing.text.splitlines()) - len(rows) + look_alikes
    found = listing.selector_map
    assert list(found.index) == [e["index"] for e in said["selector_map"]]
    for i, element in enumerate(said["selector_map"]):
        assert found.backend_node_id[i] == element["backend_node_id"]
        assert found.tag[i] == element["tag"]
        assert found.xpath[i] == element["xpath"]
        assert found.role[i] == element["ax_role"]
        assert found.name[i] == element["ax_name"]
        assert dict(found.attributes[i]) == element["attributes"]
        assert list(dict(found.attributes[i])) == list(element["attributes"])
        assert found.bounds[i] == box(element["bounds"])
        assert found.absolute[i] == box(element["absolute_position"])
        assert tree.targets[found.target[i]].target_id == element["target_id"]
        assert found.interactive_reason[i] in INTERACTIVE_REASONS


def box(value: dict[str, float] | None) -> tuple[float, ...] | None:
    return None if value is None else (value["x"], value["y"], value["width"], value["height"])


@pytest.mark.parametrize("name", names(OWN))
def test_own_recordings_print_the_same(recording: ModuleType, name: str) -> None:
    check(recording, name, OWN)


@pytest.mark.shared
@pytest.mark.parametrize("name", names(shared_folder()) if shared_folder() else ["none"])
def test_shared_recordings_print_the_same(recording: ModuleType, shared: Path, name: str) -> None:
    check(recording, name, shared / "oracle" / "recordings" / "browser_use")


def test_there_are_recordings() -> None:
    assert len(names(OWN)) >= 20
