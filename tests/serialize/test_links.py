"""The links of a page are those of its own document, resolved as the browser resolves them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schemas.capture import Capture, Payload
from workers.merge import PayloadError
from workers.serialize.links import links_of


def node(name: str, *below: dict[str, Any], **attributes: str) -> dict[str, Any]:
    flat = [text for pair in attributes.items() for text in pair]
    return {"nodeType": 1, "nodeName": name, "backendNodeId": 5, "attributes": flat, "children": list(below)}


def captured(*below: dict[str, Any], base: str = "http://h/dir/page", **more: Any) -> Capture:
    root = {"nodeType": 9, "nodeName": "#document", "backendNodeId": 1, "children": list(below)}
    return Capture((Payload("dom_document", json.dumps({"root": root | {"baseURL": base} | more}).encode()),))


def test_links_are_resolved_and_become_keys():
    capture = captured(
        *(node("A", href=href) for href in ("x", "/y?a=b c#d", "//g:80/ü", "?q", "#top", " \n z ", "http://u:p@h/")),
        node("AREA", href="map"),
        node("a", href="of-svg"),
        *(node("A", href=href) for href in ("mailto:a@b", "javascript:void 0", "http://", "data:,x", "ftp://h/")),
        node("A", id="none"),
        node("LINK", href="style.css"),
    )
    assert links_of(capture, "") == dict.fromkeys(
        [
            *("http://h/dir/x", "http://h/y?a=b%20c", "http://g/%C3%BC", "http://h/dir/page?q", "http://h/dir/page"),
            *("http://h/dir/z", "http://h/", "http://h/dir/map", "http://h/dir/of-svg"),
        ],
        True,
    )


def test_shadow_trees_belong_to_the_page_and_frames_do_not():
    host = node("DIV") | {"shadowRoots": [node("#document-fragment", node("A", href="in-shadow"))]}
    frame = node("IFRAME", src="f") | {
        "contentDocument": {"nodeType": 9, "nodeName": "#document", "children": [node("A", href="in-frame")]}
    }
    assert links_of(captured(host, frame), "") == {"http://h/dir/in-shadow": True}


def test_the_base_is_the_document_s():
    link = node("A", href="x")
    assert links_of(captured(link, base="http://base/"), "http://final/") == {"http://base/x": True}
    assert links_of(captured(link, base="", documentURL="http://own/"), "http://final/") == {"http://own/x": True}
    assert links_of(captured(link, base=""), "http://final/") == {"http://final/x": True}
    assert links_of(captured(link, base="about:blank"), "http://final/") == {}


def test_nofollow_counts_only_where_no_other_link_leads_there():
    shut = [node("A", href="x", rel="noopener NOFOLLOW"), node("A", href="y", rel="nofollow")]
    assert links_of(captured(*shut, node("A", href="y", rel="me")), "") == {
        "http://h/dir/x": False,
        "http://h/dir/y": True,
    }


def test_what_was_cut_off_and_filled_in_later_is_read():
    cut = {"nodeType": 1, "nodeName": "DIV", "backendNodeId": 7, "childNodeCount": 1}
    whole = json.dumps({"node": cut | {"children": [node("A", href="deep")]}}).encode()
    capture = Capture((*captured(cut).payloads, Payload("dom_subtree", whole)))
    assert links_of(capture, "") == {"http://h/dir/deep": True}


def test_a_document_that_makes_no_sense_is_an_error():
    with pytest.raises(PayloadError):
        links_of(Capture((Payload("dom_document", b'{"root": 5}'),)), "")
