"""The simplified tree is the flags of the nodes that remain: first those that count, then those worth printing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workers.merge.merge import EXCLUDE_ATTRIBUTE
from workers.merge.tree import (
    DOCUMENT,
    ELEMENT,
    FRAGMENT,
    LINK_CONTENT,
    LINK_SHADOW,
    TEXT,
)
from workers.serialize.view import I64, Flags, View, covered, subtree_any

DROPPED_TAGS = frozenset({"style", "script", "head", "meta", "link", "title"})
SVG_TAGS = frozenset(
    {
        "path", "rect", "g", "circle", "ellipse", "line", "polyline", "polygon", "use", "defs", "mask", "pattern",
        "image", "text", "tspan",
    }
)  # fmt: skip
"""Subtrees dropped by name (browser-use 0.13.14, serializer/serializer.py; its `clipPath` never matches a lower-case
name, so it is not here)."""
FRAME_NAMES = frozenset({"IFRAME", "FRAME"})
"""The exact names of nodes that stand for the document they show; what others show does not print."""
_HOLDS_NODES = np.isin(np.arange(13), (ELEMENT, DOCUMENT, FRAGMENT))
_WANTED = _HOLDS_NODES | (np.arange(13) == TEXT)
"""By kind of node: what has children that print, and what may print itself."""
MIN_TEXT = 2
"""Characters of stripped text below which a text node vanishes (same place)."""


@dataclass(frozen=True, slots=True, eq=False)
class Simplified:
    """By node: live (not in a dropped subtree), kept (in the simplified tree), final (also after optimising).

    `remains` is `final` for loops; `file_input` marks invisible inputs whose type is exactly `file`; `texts` holds the
    stripped text of each text node kept.
    """

    live: Flags
    kept: Flags
    final: Flags
    file_input: Flags
    remains: bytes
    texts: dict[int, str]

    def nodes(self) -> list[int]:
        """The nodes of the final tree in printing order."""
        found: list[int] = self.final.nonzero()[0].tolist()
        return found

    def texts_of(self, nodes: list[int]) -> list[int]:
        """Those of the nodes that are texts."""
        return [n for n in nodes if n in self.texts]


def simplify(view: View) -> Simplified:
    """Both steps, from the enhanced tree to the final one."""
    tree = view.tree
    live = _live(view)
    file_input = _file_inputs(view, live)
    texts = {}
    text_kept = np.zeros(len(tree), np.bool_)
    values = tree.values
    for node in (live & (tree.kind == TEXT) & view.visible).nonzero()[0].tolist():
        text = values[node].strip()
        if len(text) >= MIN_TEXT:
            texts[node] = text
    text_kept[list(texts)] = True
    element = tree.kind == ELEMENT
    framed = shown_frames(view)
    own = element & (view.visible | view.scrollable | file_input | framed)
    own |= text_kept | (tree.kind == FRAGMENT)
    own &= live
    others = _other_branches(view, own)
    if len(others):
        outside = covered(len(tree), others, tree.subtree_end[others])
        live &= ~outside
        own &= ~outside
    kept = subtree_any(tree, own) & live & (tree.kind != DOCUMENT)
    worth = kept & (view.visible | view.scrollable | (tree.kind == TEXT) | file_input)
    final = kept & subtree_any(tree, worth)
    return Simplified(live, kept, final, file_input, final.tobytes(), texts)


def parent_in(view: View, node: int) -> int:
    """The parent in the simplified tree: documents are transparent; -1 at the top."""
    plain = view.tree.plain
    parent = plain.parent[node]
    return plain.parent[parent] if parent >= 0 and plain.kind[parent] == DOCUMENT else parent


def shown_frames(view: View) -> Flags:
    """The frames that stand for the document they show: no object, no embed, and no frame whose document is cut."""
    frames: Flags = _exact_frames(view) & (view.content >= 0)
    return frames


def _exact_frames(view: View) -> Flags:
    exact = np.array([n in FRAME_NAMES for n in view.tree.names], np.bool_)
    frames: Flags = exact[view.tree.name] & (view.tree.kind == ELEMENT)
    return frames


def _live(view: View) -> Flags:
    """Everything outside dropped subtrees."""
    tree = view.tree
    frames = _exact_frames(view)
    dropped = view.named(DROPPED_TAGS | SVG_TAGS)
    under_content = tree.link == LINK_CONTENT
    parent = np.maximum(tree.parent, 0)
    dropped |= under_content & ~frames[parent]
    # a frame that shows a document prints only the document's children
    dropped |= ~under_content & shown_frames(view)[parent] & (tree.parent >= 0)
    dropped |= (tree.link == LINK_SHADOW) & (tree.kind[parent] == DOCUMENT) & (parent > 0)
    # nothing hangs under a text or a comment, whatever a payload says
    dropped |= ~_HOLDS_NODES[tree.kind[parent]] & (tree.parent >= 0)
    for node in _excluded_by_attribute(view):
        dropped[node] = True
    starts = dropped.nonzero()[0]
    live: Flags = _WANTED[tree.kind] & ~covered(len(tree), starts, tree.subtree_end[starts]) & ~view.detached
    return live


def _excluded_by_attribute(view: View) -> list[int]:
    tree = view.tree
    if not tree.may_exclude:
        return []
    needle = EXCLUDE_ATTRIBUTE.encode()
    own = f"{EXCLUDE_ATTRIBUTE}-{view.options.session_id}" if view.options.session_id else ""
    out = []
    for node, raw in enumerate(tree.attributes_raw):
        if needle in bytes(memoryview(raw)):
            attributes = tree.attributes(node)
            value = (attributes.get(own) if own else "") or attributes.get(EXCLUDE_ATTRIBUTE) or ""
            if value.lower() == "true":
                out.append(node)
    return out


def _file_inputs(view: View, live: Flags) -> Flags:
    """The invisible inputs whose type is exactly `file`: they stay although their box is hidden as a rule."""
    out = np.zeros(len(live), np.bool_)
    for node in (live & ~view.visible & view.named(("input",))).nonzero()[0].tolist():
        raw = bytes(view.tree.attributes_raw[node])
        if b"file" in raw or b"\\u" in raw:  # most pages have more hidden inputs than that, none of which prints
            out[node] = view.tree.attributes(node).get("type") == "file"
    return out


def _other_branches(view: View, own: Flags) -> I64:
    """The children of the top document behind the first that yields a node: they are not printed."""
    tree = view.tree
    yields = subtree_any(tree, own)
    return np.array([child for child in tree.children(0) if yields[child]][1:], np.int64)
