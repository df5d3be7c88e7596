"""The listing's rules that recordings do not show, on pages written for one rule each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from schemas.capture import Capture, Payload
from workers.merge import merge
from workers.serialize.eval_listing import serialize_eval_listing
from workers.serialize.indices import final_tree
from workers.serialize.listing import NAME, VERSION, serialize_listing
from workers.serialize.options import ListingOptions
from workers.serialize.page_state import serialize_page_state
from workers.serialize.xpath import XPaths

OPAQUE = {"background-color": "rgb(255, 255, 255)"}


def test_name_and_version() -> None:
    assert (NAME, VERSION) == ("browser-use-listing", "1")


def test_new_elements_are_starred(pages: ModuleType) -> None:
    # Given a listing of a page with one button
    one = pages.Node("BUTTON", backend_node_id=70)
    first = serialize_listing(merge(pages.capture(pages.document(one))))
    assert first.text == "[70]<button />"
    assert first.selector_map.is_new == (False,)
    # When a second one appears
    two = pages.Node("BUTTON", backend_node_id=71)
    page = pages.document(pages.Node("BUTTON", backend_node_id=70), two)
    second = serialize_listing(merge(pages.capture(page)), previous=first.seen)
    # Then only that one is new
    assert second.text == "[70]<button />\n*[71]<button />"
    assert second.selector_map.is_new == (False, True)


def test_an_empty_previous_listing_stars_nothing(pages: ModuleType) -> None:
    listing = serialize_listing(merge(pages.capture(pages.document(pages.Node("BUTTON")))), previous=frozenset())
    assert listing.selector_map.is_new == (False,)


def test_nothing_prints_below_a_text(pages: ModuleType) -> None:
    # No browser makes such a text, a damaged payload does
    tree = merge(pages.capture(pages.document(pages.text("words", children=[pages.Node("BUTTON")]))))
    assert serialize_listing(tree).text == "words"


def test_covered_text_and_buttons_vanish(pages: ModuleType) -> None:
    page = pages.document(
        pages.Node("BUTTON", children=[pages.text("under", paint_order=2)], paint_order=2),
        pages.Node("DIV", styles=OPAQUE, paint_order=3),
    )
    tree = merge(pages.capture(page))
    assert serialize_listing(tree).text == ""
    assert serialize_listing(tree, ListingOptions(paint_order_filtering=False)).text == "[4]<button />\n\tunder"


def test_an_invisible_labelled_element_still_covers(pages: ModuleType) -> None:
    # Given an element that prints never, hidden by visibility, with an opaque background and an aria attribute
    cover = pages.Node("DIV", {"aria-label": "x"}, styles={**OPAQUE, "visibility": "hidden"}, paint_order=3)
    plain = pages.Node("DIV", styles={**OPAQUE, "visibility": "hidden"}, paint_order=3)
    button = pages.Node("BUTTON", paint_order=2)
    # Then it covers only with the attribute, as browser-use has it
    assert serialize_listing(merge(pages.capture(pages.document(button, cover)))).text == ""
    assert serialize_listing(merge(pages.capture(pages.document(button, plain)))).text == "[4]<button />"


@pytest.mark.parametrize(("top", "threshold", "shown"), [(2099, 1000, True), (2100, 1000, False), (9000, None, True)])
def test_the_threshold_bounds_the_listing(pages: ModuleType, top: float, threshold: int | None, shown: bool) -> None:
    page = pages.document(pages.Node("BUTTON", box=(0.0, top, 10.0, 10.0)))
    listing = serialize_listing(merge(pages.capture(page)), ListingOptions(viewport_threshold=threshold))
    assert bool(listing.text) == shown


def test_children_that_fill_a_link_are_folded_in(pages: ModuleType) -> None:
    page = pages.document(pages.Node("A", children=[pages.Node("DIV", {"tabindex": "0"})]))
    tree = merge(pages.capture(page))
    assert serialize_listing(tree).text == "[4]<a />"
    assert serialize_listing(tree, ListingOptions(bbox_filtering=False)).text == "[4]<a />\n\t[5]<div />"


def test_attributes_may_be_chosen(pages: ModuleType) -> None:
    page = pages.document(pages.Node("A", {"href": "/x", "id": "i"}))
    tree = merge(pages.capture(page))
    assert serialize_listing(tree, ListingOptions(include_attributes=("href",))).text == "[4]<a href=/x />"


def test_excluded_subtrees_are_left_out(pages: ModuleType) -> None:
    page = pages.document(
        pages.Node("DIV", {"data-browser-use-exclude": "TRUE"}, children=[pages.Node("BUTTON")]),
        pages.Node("DIV", {"data-browser-use-exclude-s1": "true"}, children=[pages.Node("BUTTON")]),
    )
    tree = merge(pages.capture(page))
    assert serialize_listing(tree).text == "[7]<button />"
    assert serialize_listing(tree, ListingOptions(session_id="s1")).text == ""


def test_selector_map_has_a_reason_for_each_element(pages: ModuleType) -> None:
    page = pages.document(
        pages.Node("BUTTON"),
        pages.Node("DIV", {"onclick": "f()"}),
        pages.Node("DIV", {"class": "sunglasses"}),
        pages.Node("DIV", styles={"cursor": "pointer"}),
    )
    found = serialize_listing(merge(pages.capture(page, listeners=[4]))).selector_map
    assert found.interactive_reason == ("listener", "attribute", "search_word", "cursor")
    assert found.xpath == ("html/body/button", "html/body/div[1]", "html/body/div[2]", "html/body/div[3]")
    assert found.frame_id == ("TOP",) * 4
    assert found.bounds[0] == found.absolute[0] == (0.0, 0.0, 200.0, 60.0)
    assert found.printed == (True,) * 4


def test_elements_in_an_svg_are_mapped_but_not_printed(pages: ModuleType) -> None:
    listing = serialize_listing(merge(pages.capture(pages.document(pages.Node("svg", children=[pages.Node("a")])))))
    assert listing.text == "<svg /> <!-- SVG content collapsed -->"
    assert listing.selector_map.printed == (False,)


@pytest.mark.parametrize("name", ["OBJECT", "EMBED", "iframe"])
def test_what_shows_a_document_and_is_no_frame_hosts_its_shadow_root(pages: ModuleType, name: str) -> None:
    # Given an object with a document, and the shadow root that the browser gives it
    root = pages.Node("#document-fragment", kind=11, shadow_type="user-agent", box=None, children=[pages.Node("SLOT")])
    inner = pages.document(pages.Node("BUTTON"), frame_id="F")
    shows = pages.Node(name, {"tabindex": "0"}, content=inner, shadow=[root], backend_node_id=70)
    listing = serialize_listing(merge(pages.capture(pages.document(shows))))
    # Then it is marked as a host, and counted as one; a real frame shows its document in the place of all that
    assert listing.text.split("\n")[0].startswith("|SHADOW(open)|")
    assert "<button />" not in listing.text
    assert listing.stats.shadow_open == 1
    frame = pages.Node("IFRAME", {"tabindex": "0"}, content=inner, shadow=[root], backend_node_id=70)
    listing = serialize_listing(merge(pages.capture(pages.document(frame))))
    assert "SHADOW" not in listing.text
    assert "<button />" in listing.text
    assert listing.stats.shadow_open == 0


def test_five_thousand_levels_neither_recurse_nor_square(pages: ModuleType) -> None:
    # Given a chain far deeper than Python recurses, delivered in pieces as a capture delivers it
    levels = [pages.Node("DIV") for _ in range(5000)]
    levels.append(pages.Node("BUTTON", children=[pages.text("deep")]))
    for i in range(5000):
        levels[i].children = [levels[i + 1]]
        levels[i].cut = i % 100 == 99
    capture = pages.capture(pages.document(levels[0]))
    replies = [pages.subtree_until_cut(level) for level in levels if level.cut]
    tree = merge(type(capture)((*capture.payloads, *replies)))
    # Then both listings print
    listing = serialize_listing(tree)
    assert listing.text == "[5004]<button />\n\tdeep"
    assert listing.selector_map.xpath[0].count("/") == 5002
    assert serialize_eval_listing(tree).endswith("[i_5004] <button>deep")


def test_nothing_left_says_so(pages: ModuleType) -> None:
    page = pages.Node("#document", kind=9, box=None, children=[pages.Node("HTML", box=None)])
    tree = merge(pages.capture(page))
    listing = serialize_listing(tree)
    assert listing.text == "Empty DOM tree (you might have to wait for the page to load)"
    assert serialize_eval_listing(tree) == listing.text
    assert listing.stats.total_elements == 0


def test_a_long_listing_is_truncated_in_the_page_state(pages: ModuleType) -> None:
    tree = merge(pages.capture(pages.document(pages.Node(children=[pages.text("y" * 100)]))))
    state = serialize_page_state(tree, serialize_listing(tree), max_listing=20)
    assert f"Interactive elements (truncated to 20 characters):\n[Start of page]\n{'y' * 20}\n[End of page]" in state


def test_an_element_that_hangs_as_a_shadow_root_has_an_xpath(pages: ModuleType) -> None:
    # No browser makes one, a damaged payload does: a shadow root whose node type says element
    capture = pages.capture(pages.document(pages.Node("DIV", {}, [pages.text("words")])))
    payloads = []
    for payload in capture.payloads:
        data = bytes(payload.data)
        if payload.kind == "dom_document":
            document = json.loads(data)
            (host,) = [node for node in every(document["root"]) if node["nodeName"] == "DIV"]
            inner = {"nodeId": 0, "backendNodeId": 9_000, "nodeType": 1, "nodeName": "BUTTON", "nodeValue": ""}
            host["shadowRoots"] = [{**inner, "shadowRootType": "open"}]
            data = json.dumps(document).encode()
        payloads.append(Payload(payload.kind, data, payload.target, payload.frame_id))
    tree = merge(Capture(tuple(payloads)))
    node = tree.backend_node_id.tolist().index(9_000)
    assert XPaths(final_tree(tree).view).of(node).endswith("div/button")


def every(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("children", []):
        yield from every(child)
