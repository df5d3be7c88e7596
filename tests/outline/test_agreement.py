"""The share of the actionable elements that both the listing and the outline know."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from workers.merge import merge
from workers.serialize.agreement import agreement, is_actionable
from workers.serialize.listing import serialize_listing
from workers.serialize.outline import serialize_outline

LISTINGS = Path(__file__).parents[1] / "data" / "browser_use"


def test_each_difference_is_named(pages: ModuleType) -> None:
    node = pages.Node
    both = node("BUTTON", role="button", ax_name="both", box=(0, 0, 90, 30))
    unseen = node("BUTTON", role="button", ax_name="unseen", box=(0, 5000, 90, 30))
    silent = node("BUTTON", box=(0, 100, 90, 30))
    root = pages.document(both, unseen, silent)
    root.role, root.ax_name = "RootWebArea", "x"
    capture = pages.capture(root)
    tree = merge(capture)
    found = agreement(serialize_listing(tree), serialize_outline(capture, tree=tree))
    assert (found.both, found.actionable, found.only_listing, found.only_outline) == (1, 3, 1, 1)
    assert found.score == pytest.approx(1 / 3)
    listed, outlined = found.differences
    assert (listed.known_to, listed.backend_node_id, listed.id) == ("listing", silent.backend_node_id, None)
    assert listed.index is not None
    assert (outlined.known_to, outlined.name, outlined.index) == ("outline", "unseen", None)
    assert outlined.id == f"0-{unseen.backend_node_id}"


def test_nothing_actionable_is_no_score(pages: ModuleType) -> None:
    capture = pages.capture(pages.document(pages.text("only words")))
    tree = merge(capture)
    found = agreement(serialize_listing(tree), serialize_outline(capture, tree=tree))
    assert found.score is None
    assert found.differences == ()


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("button", True),
        ("scrollable, textarea", True),
        ("input, file", True),
        ("scrollable, input, text", True),
        ("inputs", False),
        ("generic", False),
        ("scrollable, html", False),
        ("select", True),
    ],
)
def test_roles(role: str, expected: bool) -> None:
    assert is_actionable(role) is expected


def test_real_pages_mostly_agree() -> None:
    spec = importlib.util.spec_from_file_location("rec", Path(__file__).parents[1] / "serialize" / "recording.py")
    assert spec is not None
    assert spec.loader is not None
    recording = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recording)
    capture, _ = recording.load("forms.html", LISTINGS)
    tree = merge(capture)
    found = agreement(serialize_listing(tree), serialize_outline(capture, tree=tree))
    assert found.score is not None
    assert found.score > 0.5
    assert found.both + len(found.differences) == found.actionable
    assert all(difference.role not in ("option", "spinbutton") for difference in found.differences)
