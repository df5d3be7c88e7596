"""A node that later painted opaque rectangles cover is ignored: it gets no index, and its text does not print."""

from __future__ import annotations

import numpy as np

from workers.merge.tree import ELEMENT
from workers.serialize.rectangles import Occluders
from workers.serialize.simplify import Simplified
from workers.serialize.view import I64, Flags, View, covered, nest, subtree_any

FORCING_PREFIXES = ("aria-", "pseudo")
"""Attributes that bring an invisible element into the simplified tree (browser-use 0.13.14, serializer.py)."""


class Painting:
    """Answers per node, worked out for many at once, so that only nodes that might print are ever compared."""

    __slots__ = ("_context", "_known", "_occluders", "_view")

    def __init__(self, view: View, simplified: Simplified) -> None:
        self._view = view
        self._known: dict[int, bool] = {}
        self._context = _contexts(view)
        self._occluders: dict[int, Occluders] = {}
        if view.options.paint_order_filtering:
            self._occluders = _by_context(view, simplified, self._context)

    def ask(self, nodes: list[int]) -> None:
        """Work out the answers for these nodes."""
        self._known |= dict.fromkeys(nodes, False)
        tree = self._view.tree
        asked = np.array(nodes, np.int64)
        asked = asked[(tree.paint_order[asked] >= 0) & self._view.has_bounds[asked]]
        for context, occluders in self._occluders.items():
            mine = asked[self._of(asked) == context]
            if not len(mine):
                continue
            rects = tree.bounds[mine]
            rects[:, 2:] += rects[:, :2]
            covered = occluders.cover(rects, tree.paint_order[mine])
            self._known |= dict.fromkeys(mine[covered].tolist(), True)

    def ignores(self, node: int) -> bool:
        """True if the node is covered by what was painted after it."""
        if node not in self._known:
            self.ask([node])
        return self._known[node]

    def _of(self, nodes: I64) -> I64:
        return np.zeros(len(nodes), np.int64) if self._context is None else self._context[nodes]


def _contexts(view: View) -> I64 | None:
    """By node the number of its (target, frame id of the nearest frame element above) pair; None if all have one."""
    tree = view.tree
    if len(tree.targets) == 1 and "iframe" not in view.tags and "frame" not in view.tags:
        return None
    frames = np.nonzero(view.named(("iframe", "frame")))[0].tolist()
    inside, _ = nest(len(tree), [(n + 1, int(tree.subtree_end[n])) for n in frames])
    ids: dict[str, int] = {"": 0}
    of_frame = [ids.setdefault(tree.frame_ids.get(n, ""), len(ids)) for n in frames]
    frame = np.array([*of_frame, 0], np.int64)[inside]
    return tree.target * (len(ids) + 1) + frame


def _by_context(view: View, simplified: Simplified, context: I64 | None) -> dict[int, Occluders]:
    tree = view.tree
    drawn = (tree.paint_order >= 0) & view.has_bounds & view.occludes[tree.style]
    present = simplified.kept | _forced(view, simplified, drawn)
    nodes = (drawn & present).nonzero()[0]
    nodes = nodes[(-tree.paint_order[nodes]).argsort(kind="stable")]
    out = {}
    of = np.zeros(len(nodes), np.int64) if context is None else context[nodes]
    for number in sorted(set(of.tolist())):
        mine = nodes[of == number]
        rects = tree.bounds[mine]
        rects[:, 2:] += rects[:, :2]
        out[number] = Occluders(rects, tree.paint_order[mine])
    return out


def _forced(view: View, simplified: Simplified, drawn: Flags) -> Flags:
    """The drawn nodes outside the simplified tree that an `aria-` attribute in their subtree brings in after all."""
    tree = view.tree
    nothing = np.zeros(len(tree), np.bool_)
    unsure = drawn & simplified.live & ~simplified.kept & (tree.kind == ELEMENT)
    roots = unsure.nonzero()[0]
    if not len(roots):
        return nothing
    below = covered(len(tree), roots, tree.subtree_end[roots]) & simplified.live & (tree.kind == ELEMENT)
    forcing = nothing.copy()
    for node in below.nonzero()[0].tolist():
        raw = bytes(tree.attributes_raw[node])
        # hardly any of them has one, and most are far outside the viewport: only a candidate is decoded
        if b'"aria-' in raw or b'"pseudo' in raw or b"\\u" in raw:
            forcing[node] = any(name.startswith(FORCING_PREFIXES) for name in tree.attributes(node))
    forced: Flags = subtree_any(tree, forcing) & unsure
    return forced
