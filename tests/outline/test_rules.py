"""Rules of the outline that few pages show (Stagehand 3.7.3), one by one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest

from schemas.capture import Capture, Payload
from workers.serialize.outline import serialize_outline
from workers.serialize.outline_options import OutlineOptions

Ax = dict[str, Any]


def ax(node_id: int, role: str, name: str = "", parent: int = 0, children: Sequence[int] = (), **more: Any) -> Ax:
    node: Ax = {"nodeId": str(node_id), "role": {"value": role}, "name": {"value": name}, **more}
    node["childIds"] = [str(child) for child in children]
    return node | ({"parentId": str(parent)} if parent else {})


def lines(pages: ModuleType, root: Any, *nodes: Ax) -> list[str]:
    made = pages.capture(root, ax=False)
    payload = Payload("ax_tree", json.dumps({"nodes": nodes}).encode(), 0, "TOP")
    return serialize_outline(Capture((*made.payloads, payload))).text.split("\n")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # the text says what the name says, and goes before the structural node could give way to it
        ("x", ["[1] main"]),
        ("y", ["[1] main", "  [3] StaticText: x"]),
        ("", ["[1] main", "  [3] StaticText: x"]),
    ],
)
def test_a_text_is_dropped_before_its_parent_collapses(pages: ModuleType, name: str, expected: list[str]) -> None:
    tree = (ax(1, "main", children=[2]), ax(2, "generic", name, 1, [3]), ax(3, "StaticText", "x", 2))
    assert lines(pages, pages.document(), *tree) == expected


def test_the_first_url_alone_counts(pages: ModuleType) -> None:
    urls = [{"name": "url", "value": {"value": value}} for value in ("", "http://x/")]
    made = pages.capture(pages.document(pages.Node("A")), ax=False)
    nodes = [ax(1, "link", properties=urls, backendDOMNodeId=4), ax(2, "link", properties=urls[1:], backendDOMNodeId=3)]
    payload = Payload("ax_tree", json.dumps({"nodes": nodes}).encode(), 0, "TOP")
    assert serialize_outline(Capture((*made.payloads, payload))).url_map == {"0-3": "http://x/"}


def test_a_scrollable_text_has_no_hash_in_its_role(pages: ModuleType) -> None:
    made = pages.capture(pages.document(pages.text("x", backend_node_id=9)), ax=False)
    payloads = []
    for payload in made.payloads:
        data = bytes(payload.data)
        if payload.kind == "dom_document":
            data = data.replace(b'"backendNodeId":9,', b'"backendNodeId":9,"isScrollable":true,')
        payloads.append(Payload(payload.kind, data, payload.target, payload.frame_id))
    nodes = json.dumps({"nodes": [ax(1, "StaticText", "x", backendDOMNodeId=9)]}).encode()
    outline = serialize_outline(Capture((*payloads, Payload("ax_tree", nodes, 0, "TOP"))))
    assert outline.text == "[0-9] scrollable, text: x"


def test_siblings_are_counted_by_their_names_in_lower_case(pages: ModuleType) -> None:
    node = pages.Node
    outline = serialize_outline(pages.capture(pages.document(node("DIV"), node("div"), node("x:Y"), node("X:y"))))
    assert list(outline.xpath_map.values())[3:] == [
        "/html[1]/body[1]/div[1]",
        "/html[1]/body[1]/div[2]",
        "/html[1]/body[1]/*[name()='x:y'][1]",
        "/html[1]/body[1]/*[name()='x:y'][2]",
    ]


def test_the_last_shadow_root_is_visited_first(pages: ModuleType) -> None:
    def root(name: str) -> Any:
        return pages.Node("#document-fragment", kind=11, shadow_type="open", children=[pages.Node(name)])

    host = pages.Node("X-A", children=[pages.Node("P")], shadow=[root("B"), root("I")])
    paths = serialize_outline(pages.capture(pages.document(host))).xpath_map.values()
    assert [path.rpartition("/")[2] for path in paths if path.count("x-a") and not path.endswith("/")] == [
        *("x-a[1]", "i[1]", "b[1]", "p[1]")
    ]


def test_a_list_marker_goes_with_the_item_that_is_focused_on(pages: ModuleType) -> None:
    # Given a wrapper that has no node of its own, around items with markers that are in no document
    item = pages.Node("LI", backend_node_id=20)
    made = pages.capture(pages.document(pages.Node("X-LIST", children=[item]), pages.Node("P", backend_node_id=30)))
    nodes = [
        ax(1, "list", children=[2, 5]),
        ax(2, "listitem", parent=1, children=[3], backendDOMNodeId=20),
        ax(3, "ListMarker", "1.", 2),
        ax(5, "paragraph", "far", 1, [6], backendDOMNodeId=30),
        ax(6, "ListMarker", "2.", 5),
    ]
    payloads = [p for p in made.payloads if p.kind != "ax_tree"]
    payloads.append(Payload("ax_tree", json.dumps({"nodes": nodes}).encode(), 0, "TOP"))
    outline = serialize_outline(Capture(tuple(payloads)), OutlineOptions(focus="x-list"))
    assert outline.text == "[0-20] listitem\n  [3] ListMarker: 1."


def test_children_in_a_cycle_below_a_focused_element_are_walked_once(pages: ModuleType) -> None:
    made = pages.capture(pages.document(pages.Node("P", backend_node_id=9)), ax=False)
    nodes = [
        ax(1, "paragraph", "top", children=[2], backendDOMNodeId=9),
        ax(2, "list", parent=1, children=[3]),
        ax(3, "listitem", parent=2, children=[2]),
    ]
    payload = Payload("ax_tree", json.dumps({"nodes": nodes}).encode(), 0, "TOP")
    outline = serialize_outline(Capture((*made.payloads, payload)), OutlineOptions(focus="p"))
    assert outline.text == "[0-9] paragraph: top\n  [2] list\n    [3] listitem"


@pytest.mark.parametrize(
    ("child", "expected"),
    [
        # a leaf is never renamed, and what never prints is a child all the same
        (None, "combobox"),
        (ax(-3, "StaticText", "x", 2), "select"),
        (ax(-3, "InlineTextBox", " ", 2), "combobox"),
        (ax(-3, "InlineTextBox", "x", 2), "select"),
        (ax(-3, "option", "", 2), "select"),
        (ax(-3, "none", "", 2, [9]), "select"),
    ],
)
def test_a_box_with_children_that_never_print_is_a_select(pages: ModuleType, child: Ax | None, expected: str) -> None:
    box = ax(2, "combobox", parent=1, backendDOMNodeId=9)
    told = lines(
        *(pages, pages.document(pages.Node("SELECT", backend_node_id=9)), ax(1, "main"), box),
        *([child] if child else []),
    )
    assert told == ["[1] main", f"  [0-9] {expected}"]


@pytest.mark.parametrize(
    ("name", "printed"), [("\u001c", True), ("\u0085", True), ("\ufeff", False), ("\u3000 ", False), ("", False)]
)
def test_a_blank_name_is_blank_to_javascript(pages: ModuleType, name: str, printed: bool) -> None:
    # Given a text box of the browser's own, which prints nothing itself but keeps what is below it
    tree = (ax(1, "main"), ax(2, "generic", name, 1), ax(3, "button", "b", 2))
    assert lines(pages, pages.document(), *tree) == ["[1] main", *["  [3] button: b"] * printed]


def test_minus_zero_is_no_negative_id(pages: ModuleType) -> None:
    nodes = [ax(1, "main"), ax(0, "button", "b", 1) | {"nodeId": "-0"}, ax(0, "button", "c", 1) | {"nodeId": "-1"}]
    assert lines(pages, pages.document(), *nodes) == ["[1] main", "  [-0] button: b"]
