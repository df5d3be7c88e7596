"""Merging a capture joins three trees by backend node id and names whatever does not fit."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import pairwise
from types import ModuleType

import numpy as np
import pytest

from schemas.capture import Capture, Payload
from workers.merge import PageTree, PayloadError, merge
from workers.merge.payloads import replace_surrogates
from workers.merge.tree import DOCUMENT, ELEMENT, LINK_CONTENT, LINK_SHADOW


def tags(tree: PageTree) -> list[str]:
    return [tree.tag(i) for i in range(len(tree))]


def swap(capture: Capture, kind: str, data: bytes) -> Capture:
    return Capture(tuple(Payload(p.kind, data, p.target) if p.kind == kind else p for p in capture.payloads))


def data_of(capture: Capture, kind: str) -> bytes:
    return bytes(next(p.data for p in capture.payloads if p.kind == kind))


def test_nodes_stand_in_printing_order(pages: ModuleType) -> None:
    # Given a host with a light child and a shadow root, and a frame with a fallback and a document
    inner = pages.Node("#document", kind=9, children=[pages.Node("HTML")], box=None)
    root = pages.Node("#document-fragment", kind=11, shadow_type="open", children=[pages.Node("B")], box=None)
    page = pages.document(
        pages.Node("X-HOST", children=[pages.Node("I")], shadow=[root]),
        pages.Node("IFRAME", content=inner, children=[pages.Node("P")]),
    )
    # When it is merged
    tree = merge(pages.capture(page))
    # Then the content document comes first, children before shadow roots, and subtrees are slices
    assert tags(tree) == [
        "#document", "html", "body", "x-host", "i", "#document-fragment", "b", "iframe", "#document", "html", "p",
    ]  # fmt: skip
    assert tree.subtree_end.tolist() == [11, 11, 11, 7, 5, 7, 7, 11, 10, 10, 11]
    assert tree.link[5] == LINK_SHADOW
    assert tree.link[8] == LINK_CONTENT
    assert tree.kind[8] == DOCUMENT
    assert tree.children(3) == [4, 5]


def test_payloads_may_be_memory_views(pages: ModuleType) -> None:
    capture = pages.capture(pages.document(pages.Node("BUTTON", role="button", ax_name="Go")))
    views = Capture(tuple(Payload(p.kind, memoryview(p.data), p.target) for p in capture.payloads))
    tree = merge(views)
    assert (tree.ax_role(3), tree.ax_name(3)) == ("button", "Go")


def test_without_accessibility_there_still_is_a_tree(pages: ModuleType) -> None:
    tree = merge(pages.capture(pages.document(pages.Node("BUTTON")), ax=False))
    assert tree.ax_role(3) is None
    assert tree.ax_properties(3) == []


def test_without_a_snapshot_no_node_has_a_record(pages: ModuleType) -> None:
    capture = pages.capture(pages.document(pages.Node("BUTTON")))
    tree = merge(Capture(tuple(p for p in capture.payloads if p.kind != "layout_snapshot")))
    assert not tree.has_record.any()


def test_live_values_replace_attributes_in_place(pages: ModuleType) -> None:
    given = {"value": "old", "name": "n", "checked": ""}
    tree = merge(pages.capture(pages.document(pages.Node("INPUT", given, live_value="new"))))
    assert tree.attributes(3) == {"value": "new", "name": "n"}


@pytest.mark.parametrize(("listening", "flagged"), [(100, 100), (101, 0)])
def test_more_than_a_hundred_listening_elements_flag_none(pages: ModuleType, listening: int, flagged: int) -> None:
    # Given that the document node listens too, which is no element
    page = pages.document(*(pages.Node() for _ in range(listening)))
    tree = merge(pages.capture(page, listeners=[1, *range(4, 4 + listening)]))
    assert int(tree.has_listener.sum()) == flagged
    assert not tree.has_listener[0]


def test_more_than_ten_thousand_elements_flag_none(pages: ModuleType) -> None:
    probe = {"element_count": 10_001, "listeners": [{"type": "click", "backendNodeId": 4}]}
    tree = merge(pages.capture(pages.document(pages.Node()), pages.payload("listeners", probe)))
    assert not tree.has_listener.any()


def test_other_listeners_flag_nothing(pages: ModuleType) -> None:
    probe = {"element_count": 4, "listeners": [{"type": "scroll", "backendNodeId": 4}]}
    tree = merge(pages.capture(pages.document(pages.Node()), pages.payload("listeners", probe)))
    assert not tree.has_listener.any()


def test_subtrees_fill_in_what_was_cut_off(pages: ModuleType) -> None:
    # Given a chain that was cut off twice
    last = pages.Node("EM", children=[pages.Node("I")], cut=True)
    first = pages.Node("UL", children=[pages.Node("LI", children=[last])], cut=True)
    page = pages.document(first)
    capture = pages.capture(page)
    replies = [pages.subtree(first), pages.subtree(last)]
    # When the replies come in the order asked
    tree = merge(Capture((*capture.payloads, *replies)))
    # Then the tree is whole
    assert tags(tree)[3:] == ["ul", "li", "em", "i"]
    assert tree.has_record[3:].all()


def test_a_chain_of_five_thousand_levels_is_stitched(pages: ModuleType) -> None:
    levels = [pages.Node("DIV") for _ in range(5000)]
    for i, (above, below) in enumerate(pairwise(levels)):
        above.children = [below]
        above.cut = i % 100 == 99
    capture = pages.capture(pages.document(levels[0]))
    replies = [pages.subtree_until_cut(level) for level in levels if level.cut]
    tree = merge(Capture((*capture.payloads, *replies)))
    assert len(tree) == 5003


@pytest.mark.parametrize(
    ("escape", "text", "count"),
    [
        (rb"\ud800", "\ufffd", 1),
        (rb"\udc00x\ud800", "\ufffdx\ufffd", 2),
        (rb"\ud83d\ude00", "\U0001f600", 0),
        (rb"\ud800\ud83d\ude00", "\ufffd\U0001f600", 1),
        (rb"\\ud800", "\\ud800", 0),
        (rb"\\\ud800", "\\\ufffd", 1),
    ],
)
def test_lone_surrogates_become_replacement_characters(pages: ModuleType, escape: bytes, text: str, count: int) -> None:
    capture = pages.capture(pages.document(pages.text("MARK")))
    tree = merge(swap(capture, "dom_document", data_of(capture, "dom_document").replace(b"MARK", escape)))
    assert tree.values[3] == text
    assert tree.surrogates_replaced == count


def test_surrogates_are_found_next_to_backslashes() -> None:
    assert replace_surrogates(rb'"\\\\ud800"') == (rb'"\\\\ud800"', 0)
    assert replace_surrogates(rb'"\uD800\uDBFF"') == (rb'"\ufffd\ufffd"', 2)


@pytest.mark.parametrize(
    ("metrics", "ratio"),
    [
        ({"visualViewport": {"clientWidth": 2560}, "cssVisualViewport": {"clientWidth": 1280}}, 2.0),
        ({"visualViewport": {"clientWidth": 2560}, "cssLayoutViewport": {"clientWidth": 1280}}, 2.0),
        ({"visualViewport": {"clientWidth": 3840}}, 2.0),
        ({"cssVisualViewport": {"clientWidth": 0}, "visualViewport": {"clientWidth": 10}}, 1.0),
        ({"cssVisualViewport": {"clientWidth": "wide"}}, 1.0),
        ({}, 1.0),
    ],
)
def test_pixel_ratio(pages: ModuleType, metrics: object, ratio: float) -> None:
    capture = pages.capture(pages.document(pages.Node(box=(10.0, 20.0, 30.0, 40.0))))
    changed = swap(capture, "layout_metrics", bytes(pages.payload("layout_metrics", metrics).data))
    tree = merge(changed)
    assert tree.targets[0].device_pixel_ratio == ratio
    assert np.array_equal(tree.bounds[3] * ratio, [10.0, 20.0, 30.0, 40.0])


@pytest.mark.parametrize(
    ("kind", "old", "new", "field"),
    [
        ("layout_snapshot", b'"nodeIndex":[1', b'"nodeIndex":[99', "documents[0].layout.nodeIndex"),
        ("layout_snapshot", b'"nodeIndex":[1', b'"nodeIndex":[-1', "documents[0].layout.nodeIndex"),
        ("layout_snapshot", b'"nodeIndex":[1,', b'"nodeIndex":[', "documents[0].layout.bounds"),
        (
            "layout_snapshot",
            b'"backendNodeId":[1',
            b'"backendNodeId":[true',
            "$.documents[0].nodes.backendNodeId[0]",
        ),
        ("layout_snapshot", b'"strings"', b'"wrong"', "$.strings"),
        (
            "layout_snapshot",
            b'"paintOrders":[1',
            b'"paintOrders":[99999999999999999999',
            "documents[0].layout.paintOrders",
        ),
        ("layout_snapshot", b'"scrollRects":[[', b'"scrollRects":[[1,', "documents[0].layout.scrollRects"),
        ("layout_snapshot", b'"bounds":[[0.0', b'"bounds":[[NaN', "$"),
        ("dom_document", b'"root"', b'"wrong"', "$.root"),
        ("dom_document", b'"nodeType":9', b'"nodeType":900', "$.root.nodeType"),
        ("dom_document", b'"nodeName":"BODY"', b'"nodeName":7', "$.root.children[0].children[0].nodeName"),
        ("ax_tree", b'"nodes"', b'"wrong"', "$.nodes"),
        ("ax_tree", b'"backendDOMNodeId":4', b'"backendDOMNodeId":"4"', "$.nodes[0].backendDOMNodeId"),
    ],
)
def test_malformed_payloads_are_named(pages: ModuleType, kind: str, old: bytes, new: bytes, field: str) -> None:
    capture = pages.capture(pages.document(pages.Node(scroll=(0.0, 0.0, 1.0, 1.0), role="button")))
    data = data_of(capture, kind)
    assert old in data
    with pytest.raises(PayloadError) as caught:
        merge(swap(capture, kind, data.replace(old, new, 1)))
    assert (caught.value.kind, caught.value.field) == (kind, field)


def test_a_document_is_needed(pages: ModuleType) -> None:
    with pytest.raises(PayloadError, match="dom_document: \\$: is missing"):
        merge(Capture(()))


def test_a_document_nested_too_deeply_is_named(pages: ModuleType) -> None:
    node = b'{"nodeType":1,"nodeName":"A","children":['
    data = b'{"root":' + node * 5000 + b"]}" * 5000 + b"}"
    with pytest.raises(PayloadError, match="nested too deeply"):
        merge(Capture((Payload("dom_document", data),)))


def test_errors_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(PayloadError("ax_tree", "nodes", "is missing")))
    assert str(error) == "ax_tree: nodes: is missing"
    assert (error.kind, error.field, error.problem) == ("ax_tree", "nodes", "is missing")


def test_attributes_decoded_at_once_are_those_decoded_one_by_one(pages: ModuleType) -> None:
    field = pages.Node("INPUT", {"name": "n", "value": "old"}, live_value="new")
    capture = pages.capture(pages.document(field, pages.Node("P", {"title": 'ü "q" \\'}), pages.Node("HR")))
    one_by_one, at_once = merge(capture), merge(capture)
    elements = (one_by_one.kind == ELEMENT).nonzero()[0].tolist()
    at_once.expect(elements)
    assert [at_once.attributes(e) for e in elements] == [one_by_one.attributes(e) for e in elements]
    assert {"name": "n", "value": "new"} in [at_once.attributes(e) for e in elements]


def test_malformed_attributes_cost_their_own_element_alone(pages: ModuleType) -> None:
    capture = pages.capture(pages.document(pages.Node("P", {"id": "a"}), pages.Node("P", {"id": "b"})))
    payloads = [
        replace(p, data=bytes(p.data).replace(b'["id","b"]', b'["id",7]')) if p.kind == "dom_document" else p
        for p in capture.payloads
    ]
    tree = merge(Capture(tuple(payloads)))
    elements = (tree.kind == ELEMENT).nonzero()[0].tolist()
    tree.expect(elements)
    assert tree.attributes(elements[-2]) == {"id": "a"}
    with pytest.raises(PayloadError, match="dom_document: attributes"):
        tree.attributes(elements[-1])
