"""The depth ladder on hand-made replies: which nodes were cut off, in document order."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from workers.capture.ladder import DOCUMENT_DEPTHS, SUBTREE_DEPTHS, cut_off_nodes, is_too_deep


def node(number: int, *children: dict[str, Any], hidden: int = 0, **more: Any) -> dict[str, Any]:
    """A node with these children, and `hidden` more that the reply does not show."""
    return {
        "nodeId": number,
        "backendNodeId": number,
        "nodeType": 1,
        "nodeName": "DIV",
        "childNodeCount": len(children) + hidden,
        **({"children": list(children)} if children else {}),
        **more,
    }


def cut_off(start: dict[str, Any], key: str = "root") -> list[int]:
    return cut_off_nodes(json.dumps({key: start}).encode())


def test_a_whole_document_has_no_cut():
    assert cut_off(node(1, node(2), node(3, node(4)))) == []


def test_cut_off_nodes_come_in_document_order():
    tree = node(1, node(2, node(3, hidden=1), node(4)), node(5, hidden=2), node(6, node(7, hidden=1)))
    assert cut_off(tree) == [3, 5, 7]
    assert cut_off(tree, "node") == [3, 5, 7]


def test_frames_and_shadow_trees_are_looked_into():
    """A frame's document comes before shadow trees, those before children: the order in which the browser numbers."""
    frame = node(2, contentDocument=node(3, node(4, hidden=1)))
    host = node(5, node(8, hidden=1), shadowRoots=[node(6, node(7, hidden=1))])
    assert cut_off(node(1, frame, host)) == [4, 7, 8]


def test_a_node_whose_children_are_all_hidden_is_cut_once():
    assert cut_off(node(1, hidden=900)) == [1]


def test_a_reply_deeper_than_pythons_stack_is_walked():
    """The walk itself has no recursion; the browser never sends more than its own limit (pain 23)."""
    tree = node(145, hidden=1)
    for number in range(144, 0, -1):
        tree = node(number, tree)
    assert cut_off(tree) == [145]


def test_fields_that_nobody_needs_are_passed_over():
    assert cut_off(
        node(1, node(2, hidden=1), attributes=["a", "b"], frameId="F", pseudoElements=[node(9, hidden=1)])
    ) == [2]


def test_a_reply_without_a_node_has_no_cut():
    assert cut_off_nodes(b"{}") == []


@pytest.mark.parametrize("reply", [b"", b"{", b"[]", b'{"root":7}'])
def test_a_reply_that_makes_no_sense_is_an_error(reply):
    with pytest.raises(msgspec.DecodeError):
        cut_off_nodes(reply)


def test_the_ladders_go_down():
    assert DOCUMENT_DEPTHS[0] == -1
    assert list(DOCUMENT_DEPTHS[1:]) == sorted(DOCUMENT_DEPTHS[1:], reverse=True) == list(SUBTREE_DEPTHS)
    assert DOCUMENT_DEPTHS[-1] == SUBTREE_DEPTHS[-1] == 1


@pytest.mark.parametrize(
    "message",
    [
        "Failed to convert response to JSON: CBOR: stack limit exceeded at position 19568",
        "-32000 Failed to convert response to JSON: CBOR: stack limit exceeded at position 7",
        "CBOR: Stack limit exceeded",
        "JSON: stack limit exceeded",
    ],
)
def test_the_error_is_known_in_the_words_of_several_browsers(message):
    assert is_too_deep(message)


@pytest.mark.parametrize("message", ["", "Frame with the given frameId is not found.", "Document not available"])
def test_other_errors_are_not(message):
    assert not is_too_deep(message)
