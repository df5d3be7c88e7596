"""Focus and ignore: which element of which frame a selector means, and what an outline is without."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from workers.merge.payloads import NO_ID, AxNode
from workers.merge.tree import PageTree
from workers.serialize.outline_decoding import as_root, below
from workers.serialize.outline_frames import Frame
from workers.serialize.outline_nodes import OutlineNodes
from workers.serialize.outline_selectors import Path, Selectable, SelectorError, ends_in_frame, read_selector

Mask = NDArray[np.bool_]


class Scopes:
    """Selectors on the frames of a page; a document is made selectable once.

    With `as_original` closed shadow roots are not looked into, and a selector that leads nowhere takes nothing away:
    Stagehand 3.7.3 knows of a closed root only if a script attached it, which a capture does not tell.
    """

    def __init__(self, frames: Sequence[Frame], *, as_original: bool) -> None:
        self._as_original = as_original
        self._frames = frames
        self._selectable: dict[int, Selectable] = {}

    def element(self, selector: str) -> tuple[int, int]:
        """Position of the frame and node of the first element that matches; SelectorError if there is none."""
        path = read_selector(selector)
        position, tail = self._walk(path)
        if not tail:
            return position, self._frames[position].document
        found = self._find(position, path, tail)
        if not found:
            raise SelectorError(selector, "no_match", "matches no element")
        return position, found[0]

    def excluded(self, selectors: Sequence[str]) -> dict[int, Mask]:
        """By identity of the tree, the nodes that match any selector, and all that is in them.

        A selector that matches nothing takes nothing away; SelectorError for one that cannot be followed.
        """
        masks: dict[int, Mask] = {}
        for selector in selectors:
            try:
                path = read_selector(selector)
                position, tail = self._walk(path)
                tree = self._frames[position].tree
                found = self._find(position, path, tail) if tail else [self._frames[position].document]
            except SelectorError:
                if self._as_original:
                    continue
                raise
            for node in found:
                _mask(masks, tree)[node : tree.subtree_end[node]] = True
        for frame in self._frames:
            # a frame that stands in a tree of its own goes with the element that shows it
            if frame.parent >= 0 and frame.owner >= 0 and frame.document >= 0:
                above = masks.get(id(self._frames[frame.parent].tree))
                if above is not None and above[frame.owner]:
                    _mask(masks, frame.tree)[frame.document : frame.tree.subtree_end[frame.document]] = True
        return masks

    def _walk(self, path: Path) -> tuple[int, str]:
        """The frame that a selector leads to, and what is left of it there."""
        position = 0
        before = ""
        for hop in path.hops:
            way = before + hop
            owners = self._find(position, path, way)[:1]
            inner = [
                i for i, f in enumerate(self._frames) if f.parent == position and f.document >= 0 and f.owner in owners
            ]
            if inner:
                position, before = inner[0], ""
            elif path.is_xpath and not ends_in_frame(hop):
                before = way  # an `html` that is no document's, such as in a <foreignObject>
            else:
                raise SelectorError(path.selector, "no_frame", f"{hop!r} shows no frame")
        return position, before + path.tail

    def _find(self, position: int, path: Path, part: str) -> list[int]:
        frame = self._frames[position]
        if frame.document < 0:
            return []
        known = self._selectable.get(position)
        if known is None:
            known = self._selectable[position] = Selectable(frame.tree, frame.document, closed=not self._as_original)
        return known.find(path, part)


def _mask(masks: dict[int, Mask], tree: PageTree) -> Mask:
    return masks.setdefault(id(tree), np.zeros(len(tree), np.bool_))


def focused(ax_nodes: list[AxNode], nodes: OutlineNodes, document: int, node: int) -> list[AxNode]:
    """The accessibility nodes of an element and what is in it; empty if there are none.

    Where Chromium gives the element itself no node, as many that only wrap others, those of the elements in it stand
    side by side.
    """
    tree = nodes.tree
    found = below(ax_nodes, int(tree.backend_node_id[node])) if tree.backend_node_id[node] else None
    if found is not None:
        return found
    ids = np.array([-1 if (i := ax.backendDOMNodeId) == NO_ID else i for ax in ax_nodes], np.int64)
    places = nodes.find(ids, document)
    inside = (places >= node) & (places < int(tree.subtree_end[node]))
    kept = [ax_nodes[i] for i in np.nonzero(inside)[0].tolist()]
    known = {ax.nodeId for ax in kept}
    # list markers and the like are in no document: they go with their parent
    loose = [ax_nodes[i] for i in np.nonzero(places < 0)[0].tolist()]
    kept += [ax for ax in loose if ax.parentId in known]
    known.update(ax.nodeId for ax in kept)
    return [ax if ax.parentId in known else as_root(ax) for ax in kept]
