"""The depth ladder asks for a document in pieces where it is too deep to come whole.

Chromium refuses replies nested deeper than its encoder's stack (146 elements in version 156) with an error that has no
code of its own and is known by its text.
"""

from __future__ import annotations

import msgspec

_TOO_DEEP = "stack limit exceeded"
"""Of "Failed to convert response to JSON: CBOR: stack limit exceeded at position 19568" (Chromium 156), the words that
its JSON parser says too and that other versions have kept."""
DOCUMENT_DEPTHS: tuple[int, ...] = (-1, 128, 64, 32, 16, 8, 4, 2, 1)
"""Depths asked of DOM.getDocument. Stagehand tries 256 after -1; the limit lies below 256 levels, so that must fail."""
SUBTREE_DEPTHS: tuple[int, ...] = (128, 64, 32, 16, 8, 4, 2, 1)
"""Depths asked of DOM.describeNode. Stagehand starts with -1, which below a too deep document mostly fails."""


def is_too_deep(message: str) -> bool:
    """Whether an error of the browser says that a reply was nested too deeply."""
    return _TOO_DEEP in message.lower()


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
