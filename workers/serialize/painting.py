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
    """Answers per node, so that only nodes that might print are ever compared."""

    __slots__ = ("_context", "_known", "_occluders", "_view")

    def __init__(self, view: View, simplified: Simplified) -> None:
        self._view = view
        self._known: dict[int, bool] = {}
        self._context = _contexts(view)
        self._occluders: dict[int, Occluders] = {}
        if view.options.paint_order_filtering:
            self._occluders = _by_context(view, simplified, self._context)

    def ignores(self, node: int) -> bool:
        """True if the node is covered by what was painted after it."""
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = self._ask(node)
        return known

    def _ask(self, node: int) -> bool:
        tree = self._view.tree
        occluders = self._occluders.get(int(self._context[node]))
        order = int(tree.paint_order[node])
        if occluders is None or order < 0 or not self._view.has_bounds[node]:
            return False
        x, y, width, height = tree.bounds[node].tolist()
        return occluders.covers((x, y, x + width, y + height), order)


def _contexts(view: View) -> I64:
    """By node the number of its (target, frame id of the nearest frame element above) pair."""
    tree = view.tree
    frames = np.nonzero(view.named(("iframe", "frame")))[0].tolist()
    inside, _ = nest(len(tree), [(n + 1, int(tree.subtree_end[n])) for n in frames])
    ids: dict[str, int] = {"": 0}
    of_frame = [ids.setdefault(tree.frame_ids.get(n, ""), len(ids)) for n in frames]
    frame = np.array([*of_frame, 0], np.int64)[inside]
    return tree.target * (len(ids) + 1) + frame


def _by_context(view: View, simplified: Simplified, context: I64) -> dict[int, Occluders]:
    tree = view.tree
    opaque = np.array([*(row.occludes for row in view.rows), True], np.bool_)
    drawn = (tree.paint_order >= 0) & view.has_bounds & opaque[tree.style]
    present = simplified.kept | _forced(view, simplified, drawn)
    nodes = np.nonzero(drawn & present)[0]
    nodes = nodes[np.argsort(-tree.paint_order[nodes], kind="stable")]
    out = {}
    for number in np.unique(context[nodes]).tolist():
        mine = nodes[context[nodes] == number]
        rects = tree.bounds[mine].copy()
        rects[:, 2] += rects[:, 0]
        rects[:, 3] += rects[:, 1]
        out[number] = Occluders(rects, tree.paint_order[mine])
    return out


def _forced(view: View, simplified: Simplified, drawn: Flags) -> Flags:
    """The drawn nodes outside the simplified tree that an `aria-` attribute in their subtree brings in after all."""
    tree = view.tree
    nothing = np.zeros(len(tree), np.bool_)
    unsure = drawn & simplified.live & ~simplified.kept & (tree.kind == ELEMENT)
    roots = np.nonzero(unsure)[0]
    if not len(roots):
        return nothing
    below = covered(len(tree), roots, tree.subtree_end[roots]) & simplified.live & (tree.kind == ELEMENT)
    forcing = nothing.copy()
    for node in np.nonzero(below)[0].tolist():
        forcing[node] = any(name.startswith(FORCING_PREFIXES) for name in tree.attributes(node))
    forced: Flags = subtree_any(tree, forcing) & unsure
    return forced
