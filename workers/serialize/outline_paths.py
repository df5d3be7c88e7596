"""The XPaths of an outline: a node's path is its parent's and one step, made once and only for who asks.

A shadow root's step is `//`, a frame's document has the path of the element that shows it. No path is longer than the
cap: a node below the last one that fits gets that one's path, so that a page of depth d costs d strings, not d * d
letters.
"""

from __future__ import annotations

import sys

import numpy as np

from workers.merge.tree import LINK_SHADOW
from workers.serialize.outline_nodes import OutlineNodes


class FramePaths:
    """The paths of one document's nodes, below `prefix`, which is the path of the element that shows it.

    own_shadow_step   False prints a shadow root as `x-open[1]/`, as the map of a page does; True as `x-open[1]//`, as
                      that of a focused element does
    """

    def __init__(
        self,
        nodes: OutlineNodes,
        document: int,
        prefix: str,
        cap: int | None,
        *,
        truncated: bool = False,
        own_shadow_step: bool = False,
    ) -> None:
        self._nodes = nodes
        self._document = document
        self._prefix = prefix
        self._cap = cap
        self._own_shadow_step = own_shadow_step
        self._known: dict[int, str] = {document: prefix.removesuffix("/")}
        self._truncated: set[int] = {document} if truncated else set()

    @property
    def prefix(self) -> str:
        """The path of the element that shows the document; empty for the main document."""
        return self._prefix

    @property
    def backend_node_ids(self) -> list[int]:
        """The ids of the tree's nodes."""
        return self._nodes.backend_node_ids

    def has(self, node: int) -> bool:
        """Whether the node belongs to the document."""
        return node >= 0 and int(self._nodes.document[node]) == self._document

    def of(self, node: int) -> tuple[str, bool]:
        """The path of a node, and whether it is that of an ancestor instead."""
        known, parent = self._known, self._nodes.parent
        above = []
        climbing = node
        while climbing not in known:
            above.append(climbing)
            climbing = parent[climbing]
        for below in reversed(above):
            self._step(below)
        return self._printed(node, known[node]), node in self._truncated

    def all(self) -> tuple[list[int], list[str]]:
        """Every node of the document that has an id, in visiting order, and the path of each."""
        nodes = self._nodes
        self._fill()
        known = self._known
        found = nodes.of_document(self._document)
        places: list[int] = found.tolist()
        paths = [known[node] for node in places]
        if places and places[0] == self._document:
            paths[0] = paths[0] or "/"
        if not self._own_shadow_step:
            for at in np.nonzero(nodes.tree.link[found] == LINK_SHADOW)[0].tolist():
                paths[at] = self._printed(places[at], paths[at])
        return places, paths

    def _fill(self) -> None:
        """Makes the paths of all nodes at once: one pass, parents before children."""
        nodes, known, document = self._nodes, self._known, self._document
        tree = nodes.tree
        start, end = document + 1, int(tree.subtree_end[document])
        below = np.nonzero(nodes.document[start:end] == document)[0] + start
        above = tree.parent[below]
        rows, parents = below.tolist(), above.tolist()
        steps = nodes.steps(rows)
        in_shadow = tree.link[above] == LINK_SHADOW
        for at in np.nonzero(in_shadow)[0].tolist():
            steps[at] = steps[at][1:]
        for at in np.nonzero(tree.link[below] == LINK_SHADOW)[0].tolist():
            steps[at] = "/" if in_shadow[at] else "//"
        done = 0
        if not self._truncated and not known[document].endswith("/"):
            cap = sys.maxsize if self._cap is None else self._cap
            for node, parent, step in zip(rows, parents, steps, strict=True):
                path = known[parent] + step
                if len(path) > cap:
                    break
                known[node] = path
                done += 1
        for node in rows[done:]:
            self._step(node)

    def _step(self, node: int) -> None:
        nodes, known = self._nodes, self._known
        parent = nodes.parent[node]
        above = known[parent]
        if parent in self._truncated:
            self._truncated.add(node)
            known[node] = above
            return
        if nodes.tree.link[node] == LINK_SHADOW:
            path = above + ("/" if above.endswith("/") else "//")
        else:
            step = nodes.step(node)
            path = above + (step[1:] if above.endswith("/") else step)
        if self._cap is not None and len(path) > self._cap:
            self._truncated.add(node)
            path = above
        known[node] = path

    def _printed(self, node: int, path: str) -> str:
        if node == self._document:
            return path or "/"
        if not self._own_shadow_step and path.endswith("/") and len(path) > 1:
            return path[:-1]
        return path
