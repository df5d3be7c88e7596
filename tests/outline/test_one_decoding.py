"""An outline is the same whoever had the page merged, and looks at no more of the capture than it needs."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from schemas.capture import Capture, Payload
from workers.merge import PayloadError, merge
from workers.serialize.listing import serialize_listing
from workers.serialize.outline import serialize_outline
from workers.serialize.outline_options import OutlineOptions

OWN = Path(__file__).parents[1] / "data" / "stagehand"
NAMES = sorted(path.name.removesuffix(".json.gz") for path in OWN.glob("*.json.gz"))


@pytest.fixture
def page(pages: ModuleType) -> Capture:
    """A button and two fields into which something was typed."""
    fields = [pages.Node("INPUT", {"type": "text"}, live_value=text, role="textbox") for text in ("one", "two")]
    root = pages.document(pages.Node("BUTTON", role="button", ax_name="Go"), *fields)
    return pages.capture(root)  # type: ignore[no-any-return]


def with_payload(capture: Capture, kind: str, data: bytes) -> Capture:
    return Capture(tuple(replace(p, data=data) if p.kind == kind else p for p in capture.payloads))


@pytest.mark.parametrize("name", NAMES)
def test_both_merges_make_the_same_outline(exchange: ModuleType, name: str) -> None:
    capture = exchange.load(name, OWN)[0]
    alone = serialize_outline(capture)
    for outlined in (False, True):
        outline = serialize_outline(capture, tree=merge(capture, outlined=outlined))
        assert outline.text == alone.text
        assert outline.rows == alone.rows
        assert list(outline.xpath_map.items()) == list(alone.xpath_map.items())
        assert list(outline.url_map.items()) == list(alone.url_map.items())


def test_both_merges_make_the_same_listing(page: Capture) -> None:
    first, second = (serialize_listing(merge(page, outlined=outlined)) for outlined in (False, True))
    assert "<button" in first.text
    assert (first.text, first.stats) == (second.text, second.stats)
    assert asdict(first.selector_map) == asdict(second.selector_map)


@pytest.mark.parametrize("role", [b'{"value":7}', b'{"value":null}', b"null", b"{}"])
def test_a_role_that_is_no_text_is_none_to_both_merges(page: Capture, role: bytes) -> None:
    ax = bytes(next(page.of("ax_tree")).data).replace(b'{"type":"role","value":"button"}', role)
    damaged = with_payload(page, "ax_tree", ax)
    assert ax != next(page.of("ax_tree")).data
    trees = [merge(damaged, outlined=outlined) for outlined in (False, True)]
    roles = [[tree.ax_role(node) for node in range(len(tree))] for tree in trees]
    assert roles[0] == roles[1]
    assert "button" not in roles[0]
    assert serialize_outline(damaged).text == serialize_outline(damaged, tree=trees[0]).text


def test_the_outline_of_one_element_leaves_the_tree_as_it_was(exchange: ModuleType) -> None:
    capture = exchange.load("03_iframes", OWN)[0]
    tree = merge(capture, outlined=True)
    whole = serialize_outline(capture, tree=tree)
    part = serialize_outline(capture, OutlineOptions(focus="iframe >> body"), tree=tree)
    assert 0 < len(part.rows) < len(whole.rows)
    assert serialize_outline(capture, tree=tree).rows == whole.rows


def test_an_outline_alone_needs_no_layout_snapshot(page: Capture) -> None:
    damaged = with_payload(page, "layout_snapshot", b"{}")
    with pytest.raises(PayloadError, match="layout_snapshot"):
        merge(damaged)
    assert serialize_outline(damaged).text == serialize_outline(page).text


@pytest.mark.parametrize("options", [{"focus": "[value=two]"}, {"ignore": ("[value=one]",)}])
def test_a_selector_sees_what_was_typed(page: Capture, options: dict[str, Any]) -> None:
    tree = merge(page)
    first, second = (f"0-{tree.backend_node_id[node]}" for node in range(len(tree)) if tree.tag(node) == "input")
    ids = serialize_outline(page, OutlineOptions(**options)).rows.id
    assert second in ids
    assert first not in ids


def test_a_payload_of_another_page_is_read_too(page: Capture) -> None:
    copied = Capture(tuple(Payload(p.kind, bytes(p.data), p.target, p.frame_id) for p in page.payloads))
    assert serialize_outline(copied, tree=merge(page, outlined=True)).text == serialize_outline(page).text
