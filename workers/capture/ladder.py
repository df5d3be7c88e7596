"""The depth ladder asks for a document in pieces where it is too deep to come whole.

Chromium refuses replies nested deeper than its CBOR encoder's stack (146 elements in version 156) with an error that
is matched on its text, as Stagehand 3.7.3 does.
"""

from __future__ import annotations

import msgspec

TOO_DEEP = "CBOR: stack limit exceeded"
DOCUMENT_DEPTHS: tuple[int, ...] = (-1, 128, 64, 32, 16, 8, 4, 2, 1)
"""Depths asked of DOM.getDocument. Stagehand tries 256 after -1; the limit lies below 256 levels, so that must fail."""
SUBTREE_DEPTHS: tuple[int, ...] = (128, 64, 32, 16, 8, 4, 2, 1)
"""Depths asked of DOM.describeNode. Stagehand starts with -1, which below a too deep document mostly fails."""


class _Node(msgspec.Struct, rename="camel"):
    backend_node_id: int = 0
    child_node_count: int = 0
    children: list[_Node] = []
    shadow_roots: list[_Node] = []
    content_document: _Node | None = None


class _Reply(msgspec.Struct):
    root: _Node | None = None
    node: _Node | None = None


_REPLY = msgspec.json.Decoder(_Reply)


def cut_off_nodes(reply: bytes | memoryview) -> list[int]:
    """Backend ids of the nodes in a DOM.getDocument or DOM.describeNode reply that have more children than it shows.

    In document order. Frames below a cut are found when their owner is filled in.
    """
    decoded = _REPLY.decode(reply)
    start = decoded.root or decoded.node
    found: list[int] = []
    stack = [start] if start is not None else []
    while stack:
        node = stack.pop()
        if node.child_node_count > len(node.children):
            found.append(node.backend_node_id)
        below = [*node.shadow_roots, *node.children]
        if node.content_document is not None:
            below.insert(0, node.content_document)
        stack.extend(reversed(below))
    return found
