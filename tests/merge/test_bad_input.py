"""Each kind of bad payload ends in a listing or in a PayloadError that names the field, and never takes long."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from schemas.capture import Capture, Payload, PayloadKind
from workers.merge import PayloadError, mask_secrets, merge
from workers.serialize.listing import Listing, serialize_listing

PATIENCE_SECONDS = 20.0
"""On a machine that is busy with other things; each of these takes well under a second by itself."""


def listed(capture: Capture) -> Listing:
    begun = time.process_time()
    listing = serialize_listing(merge(mask_secrets(capture)[0]))
    assert time.process_time() - begun < PATIENCE_SECONDS
    return listing


def changed(capture: Capture, kind: PayloadKind, change: Callable[[Any], None]) -> Capture:
    """The capture with one payload changed in place."""

    def one(payload: Payload) -> Payload:
        if payload.kind != kind:
            return payload
        value = json.loads(bytes(payload.data))
        change(value)
        return Payload(kind, json.dumps(value).encode(), payload.target)

    return Capture(tuple(one(p) for p in capture.payloads))


@pytest.fixture
def page(pages: ModuleType) -> Capture:
    """A page with a text, a button, a field with a live value and a password."""
    capture: Capture = pages.capture(
        pages.document(
            pages.Node("DIV", children=[pages.text("Some text")]),
            pages.Node("BUTTON", role="button", ax_name="Go"),
            pages.Node("INPUT", {"type": "text"}, live_value="typed", scroll=(0, 0, 1, 1), client=(0, 0, 1, 1)),
            pages.Node("INPUT", {"type": "password", "value": "secret"}),
        ),
        listeners=[4],
    )
    return capture


SNAPSHOT_NODES = ("parentIndex", "nodeName", "nodeValue", "backendNodeId", "attributes", "inputValue", "isClickable")
LAYOUT = ("nodeIndex", "styles", "bounds", "text", "paintOrders", "scrollRects", "clientRects")

NEEDED = frozenset({"backendNodeId", "nodeIndex", "bounds", "nodeName", "attributes"})
"""The last two only where there are secret fields to be masked and live values."""


@pytest.mark.parametrize("name", [*SNAPSHOT_NODES, *LAYOUT])
def test_an_array_that_is_missing(page: Capture, name: str) -> None:
    part = "layout" if name in LAYOUT else "nodes"
    broken = changed(page, "layout_snapshot", lambda s: s["documents"][0][part].pop(name))
    if name not in NEEDED:
        assert "Some text" in listed(broken).text
        return
    with pytest.raises(PayloadError, match=name) as raised:
        listed(broken)
    assert raised.value.kind == "layout_snapshot"


@pytest.mark.parametrize("name", [n for n in LAYOUT if n != "text"])
def test_an_array_that_is_too_short(page: Capture, name: str) -> None:
    broken = changed(page, "layout_snapshot", lambda s: s["documents"][0]["layout"][name].pop())
    with pytest.raises(PayloadError, match=r"layout_snapshot: documents\[0\].layout"):
        listed(broken)


@pytest.mark.parametrize("wrong", [-1, 10**6, 2**40])
def test_a_node_index_out_of_range(page: Capture, wrong: int) -> None:
    def set_index(snapshot: Any) -> None:
        snapshot["documents"][0]["layout"]["nodeIndex"][1] = wrong

    with pytest.raises(PayloadError, match=r"documents\[0\].layout.nodeIndex: is out of range"):
        listed(changed(page, "layout_snapshot", set_index))


@pytest.mark.parametrize("name", ["inputValue", "inputChecked", "isClickable"])
def test_a_rare_index_out_of_range(page: Capture, name: str) -> None:
    def set_index(snapshot: Any) -> None:
        snapshot["documents"][0]["nodes"][name] = {"index": [10**6], "value": [0]}

    with pytest.raises(PayloadError, match=rf"documents\[0\].nodes.{name}.index: is out of range"):
        listed(changed(page, "layout_snapshot", set_index))


@pytest.mark.parametrize("wrong", [-7, 10**6])
def test_string_indices_out_of_range_are_no_strings(page: Capture, wrong: int) -> None:
    def set_all(snapshot: Any) -> None:
        body = snapshot["documents"][0]
        body["layout"]["styles"] = [[wrong] * len(row) for row in body["layout"]["styles"]]
        body["nodes"]["inputValue"]["value"] = [wrong] * len(body["nodes"]["inputValue"]["value"])
        body["nodes"]["attributes"] = [[wrong] * len(row) for row in body["nodes"]["attributes"]]

    assert "Some text" in listed(changed(page, "layout_snapshot", set_all)).text


@pytest.mark.parametrize("name", ["parentIndex", "nodeName", "nodeValue", "attributes"])
def test_a_column_of_nodes_that_is_cut_short_is_named(page: Capture, name: str) -> None:
    broken = changed(page, "layout_snapshot", lambda s: s["documents"][0]["nodes"][name].pop())
    with pytest.raises(PayloadError, match=rf"documents\[0\].nodes.{name}: has 7 entries for 8 nodes"):
        mask_secrets(broken)


@pytest.mark.parametrize(
    ("kind", "path", "wrong", "named"),
    [
        ("layout_snapshot", ["strings", 3], None, r"strings\[3\]"),
        ("layout_snapshot", ["strings"], 5, "strings"),
        ("layout_snapshot", ["documents"], {}, "documents"),
        ("layout_snapshot", ["documents", 0, "nodes"], [], r"documents\[0\].nodes"),
        ("layout_snapshot", ["documents", 0, "title"], "x", r"documents\[0\].title"),
        ("layout_snapshot", ["documents", 0, "nodes", "nodeName", 2], "x", r"documents\[0\].nodes.nodeName\[2\]"),
        ("layout_snapshot", ["documents", 0, "nodes", "inputValue"], [1], r"documents\[0\].nodes.inputValue"),
        ("layout_snapshot", ["documents", 0, "nodes", "originURL"], [1], r"documents\[0\].nodes.originURL"),
        ("layout_snapshot", ["documents", 0, "layout", "styles", 1], 7, r"documents\[0\].layout.styles\[1\]"),
        ("layout_snapshot", ["documents", 0, "layout", "bounds", 1], [""], r"documents\[0\].layout.bounds\[1\]\[0\]"),
        ("layout_snapshot", ["documents", 0, "textBoxes"], [], r"documents\[0\].textBoxes"),
        ("layout_snapshot", ["documents", 0, "textBoxes"], {"start": 1}, r"documents\[0\].textBoxes.start"),
        ("dom_document", ["root", "children", 0, "nodeName"], 5, r"\$.root.children\[0\].nodeName"),
        ("dom_document", ["root"], [], r"\$.root"),
        ("ax_tree", ["nodes"], {}, "nodes"),
        ("ax_tree", ["nodes", 0], [], r"nodes\[0\]"),
        ("ax_tree", ["nodes", 0, "childIds"], 5, r"nodes\[0\].childIds"),
        ("ax_tree", ["nodes", 0, "properties"], 5, r"nodes\[0\].properties"),
    ],
)
def test_masking_names_the_field_that_is_wrong(
    page: Capture, kind: PayloadKind, path: list[str | int], wrong: object, named: str
) -> None:
    def spoil(payload: Any) -> None:
        for step in path[:-1]:
            payload = payload[step]
        payload[path[-1]] = wrong

    with pytest.raises(PayloadError, match=rf"^{kind}: {named}: \w") as raised:
        mask_secrets(changed(page, kind, spoil))
    assert "Error" not in str(raised.value)


def test_masking_names_the_field_that_is_missing(page: Capture) -> None:
    with pytest.raises(PayloadError, match=r"^ax_tree: nodes: is missing$"):
        mask_secrets(changed(page, "ax_tree", lambda tree: tree.pop("nodes")))
    with pytest.raises(PayloadError, match=r"^dom_document: \$.root: "):
        mask_secrets(changed(page, "dom_document", lambda document: document.pop("root")))
    with pytest.raises(PayloadError, match=r"^layout_snapshot: documents\[0\].layout: is missing$"):
        mask_secrets(changed(page, "layout_snapshot", lambda snapshot: snapshot["documents"][0].pop("layout")))


def test_parents_that_form_a_cycle(page: Capture) -> None:
    def turn_round(snapshot: Any) -> None:
        nodes = snapshot["documents"][0]["nodes"]
        count = len(nodes["parentIndex"])
        nodes["parentIndex"] = [(i + 1) % count for i in range(count)]

    # structure comes from the document, so that these parents matter to nothing but masking
    assert "Some text" in listed(changed(page, "layout_snapshot", turn_round)).text


def test_accessibility_children_that_form_a_cycle(page: Capture) -> None:
    def turn_round(tree: Any) -> None:
        tree["nodes"] += [
            {"nodeId": "100", "backendDOMNodeId": 8, "childIds": ["101", "100"], "role": {"value": "textbox"}},
            {"nodeId": "101", "backendDOMNodeId": 0, "childIds": ["100"], "name": {"value": "secret"}},
        ]

    assert listed(changed(page, "ax_tree", turn_round)).interactive == 4


def test_frames_that_form_a_cycle(pages: ModuleType) -> None:
    # Given two processes, each with a frame that shows the other, and itself
    def frames() -> list[Any]:
        return [pages.Node("IFRAME", box=(0, 0, 300, 200), frame_id=f) for f in ("F0", "F1", "F0")]

    names = [{"target_id": f"T{t}", "session_id": f"S{t}"} for t in (0, 1)]
    places = {f"F{t}": {"target_id": f"T{t}", "url": "http://x/"} for t in (0, 1)}
    payloads = [pages.payload("targets", {"targets": names, "frames": places})]
    for target in (0, 1):
        own = pages.capture(pages.document(*frames(), pages.Node("BUTTON")))
        payloads += [Payload(p.kind, p.data, target) for p in own.payloads if p.kind != "targets"]
    # Then each document stands in the page once
    assert listed(Capture(tuple(payloads))).text.count("<button />") == 2


def test_a_subtree_that_holds_itself(pages: ModuleType) -> None:
    # Given replies that each cut off at a node with the id of the node that they fill in
    cut = pages.Node("DIV", children=[pages.Node("BUTTON", backend_node_id=71)], cut=True, backend_node_id=70)
    capture = pages.capture(pages.document(cut))
    inner = {"nodeType": 1, "nodeName": "DIV", "backendNodeId": 70, "childNodeCount": 1, "attributes": []}
    reply = pages.payload("dom_subtree", {"node": {**inner, "children": [inner]}})
    assert listed(Capture((*capture.payloads, *[reply] * 50))).nodes == 54


def test_a_rectangle_that_is_no_number(page: Capture) -> None:
    def set_bounds(snapshot: Any) -> None:
        snapshot["documents"][0]["layout"]["bounds"][1] = [float("nan"), 0, float("inf"), 1]

    # NaN and Infinity are no JSON (RFC 8259, 6), whatever some writers think
    with pytest.raises(PayloadError, match="layout_snapshot"):
        listed(changed(page, "layout_snapshot", set_bounds))


@pytest.mark.parametrize("name", ["bounds", "scrollRects", "clientRects"])
def test_a_rectangle_out_of_all_bounds(page: Capture, name: str) -> None:
    def set_rectangle(snapshot: Any) -> None:
        snapshot["documents"][0]["layout"][name] = [
            [0, 0, 1e308, 1e308] for _ in snapshot["documents"][0]["layout"][name]
        ]

    with pytest.raises(PayloadError, match=rf"layout.{name}: has a coordinate out of all bounds"):
        listed(changed(page, "layout_snapshot", set_rectangle))


def test_a_huge_rectangle_within_bounds_is_one(page: Capture) -> None:
    def set_rectangle(snapshot: Any) -> None:
        snapshot["documents"][0]["layout"]["bounds"] = [
            [0, 0, 1e99, 1e99] for _ in snapshot["documents"][0]["layout"]["bounds"]
        ]

    assert "Some text" in listed(changed(page, "layout_snapshot", set_rectangle)).text


def test_lone_surrogates_are_replaced_and_counted(pages: ModuleType) -> None:
    capture = pages.capture(pages.document(pages.Node("DIV", children=[pages.text("ab SURROGATE cd")])))
    kinds = ("dom_document", "layout_snapshot")
    broken = Capture(
        tuple(
            Payload(p.kind, bytes(p.data).replace(b"SURROGATE", rb"\ud800 \udc00\ud83d"), p.target)
            if p.kind in kinds
            else p
            for p in capture.payloads
        )
    )
    tree = merge(broken)
    assert serialize_listing(tree).text == "ab \ufffd \ufffd\ufffd cd"
    assert tree.surrogates_replaced >= 3


def test_nul_and_control_characters_are_text(pages: ModuleType) -> None:
    strange = "a\x00b\x07\x1b[31m\x85"
    button = pages.Node("BUTTON", {"title": strange}, [pages.text(strange)])
    listing = listed(pages.capture(pages.document(button)))
    assert listing.text == f"[4]<button title={strange.strip()} />\n\t{strange.strip()}"
    assert listing.forged_lines == 0


def test_twenty_thousand_attributes_on_one_node(pages: ModuleType) -> None:
    many = {f"data-{i}": "x" * 10 for i in range(20_000)}
    listing = listed(pages.capture(pages.document(pages.Node("BUTTON", {**many, "title": "Go"}))))
    assert listing.text == "[4]<button title=Go />"
    assert len(listing.selector_map.attributes[0]) == 20_001


def test_an_attribute_of_five_megabytes(pages: ModuleType) -> None:
    listing = listed(
        pages.capture(pages.document(pages.Node("BUTTON", {"title": "y" * 5_000_000, "class": "z" * 5_000_000})))
    )
    assert listing.text == f"[4]<button title={'y' * 100}... />"


def test_duplicate_backend_ids(pages: ModuleType) -> None:
    # Given three buttons of one id, and one that has the number which the second would get
    twins = [pages.Node("BUTTON", backend_node_id=70) for _ in range(3)]
    listing = listed(pages.capture(pages.document(*twins, pages.Node("BUTTON", backend_node_id=71))))
    # Then each has a number of its own
    assert listing.selector_map.index == (70, 72, 73, 71)
    assert listing.selector_map.backend_node_id == (70, 70, 70, 71)


def test_a_payload_that_is_no_json_names_its_kind(page: Capture) -> None:
    for kind in ("layout_snapshot", "dom_document", "targets"):
        broken = Capture(tuple(Payload(p.kind, b"\xff{", p.target) if p.kind == kind else p for p in page.payloads))
        with pytest.raises(PayloadError, match=kind):
            listed(broken)
