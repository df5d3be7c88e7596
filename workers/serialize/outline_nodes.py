"""The nodes of one document tree as Stagehand's index sees them: visiting order, documents, tags, XPath steps.

Everything is computed for all nodes at once; a step's text is made when somebody asks for a path.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from workers.merge.tree import (
    DOCUMENT,
    ELEMENT,
    LINK_CHILD,
    LINK_CONTENT,
    LINK_ROOT,
    LINK_SHADOW,
    SHADOW_KINDS,
    TEXT,
    PageTree,
)

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]

COMMENT = 8
_USER_AGENT = SHADOW_KINDS.index("user-agent")


class OutlineNodes:
    """The nodes of one page tree.

    document    the document node that each node belongs to
    special     marks nodes whose role the index changes: scrollable ones, `html`
    inputs      marks the other ones that can be a field for files, whose role it changes too
    """

    def __init__(self, tree: PageTree) -> None:
        self.tree = tree
        self.tags = [name.lower() for name in tree.names]
        self.backend_node_ids: list[int] = tree.backend_node_id.tolist()
        self.parent: list[int] = tree.parent.tolist()
        count = len(tree)
        self.document = np.zeros(count, np.int32)
        documents = np.nonzero((tree.kind == DOCUMENT) & ((tree.link == LINK_CONTENT) | (tree.link == LINK_ROOT)))[0]
        for node in documents.tolist():
            self.document[node : tree.subtree_end[node]] = node
        tag_ids = np.array([self.tags.index(tag) for tag in self.tags], np.int64)[tree.name]
        self._step_texts, self._step = self._steps(tag_ids)
        pages: NDArray[np.bool_] = np.array([tag == "html" for tag in self.tags], np.bool_)[tree.name]
        inputs: NDArray[np.bool_] = np.array([tag == "input" for tag in self.tags], np.bool_)[tree.name]
        self.special = tree.scrollable | pages
        self.inputs = inputs & ~self.special
        self._by_id: dict[int, tuple[I64, I64]] = {}
        self._order: I64 | None = None

    def _steps(self, tag_ids: I64) -> tuple[list[str], list[int]]:
        """The texts of steps, and which of them is each node's; the place among like siblings counts from 1."""
        tree = self.tree
        keys = tag_ids * 16 + tree.kind
        table, kinds = np.unique(keys, return_inverse=True)
        leads = [_lead(self.tags[key // 16], key % 16) for key in table.tolist()]
        child = np.nonzero(tree.link == LINK_CHILD)[0]
        group = tree.parent[child].astype(np.int64) * len(table) + kinds[child]
        order = np.argsort(group, kind="stable")
        ordered = group[order]
        starts = np.ones(len(ordered), np.bool_)
        starts[1:] = ordered[1:] != ordered[:-1]
        first = np.maximum.accumulate(np.where(starts, np.arange(len(ordered)), 0))
        position = np.ones(len(tree), np.int64)
        position[child[order]] = np.arange(len(ordered)) - first + 1
        texts, which = np.unique(position * len(table) + kinds, return_inverse=True)
        steps = [f"{leads[text % len(table)]}{text // len(table)}]" for text in texts.tolist()]
        return steps, which.tolist()

    def step(self, node: int) -> str:
        """What the node adds to the path of its parent: "/div[2]", "/text()[1]", "/*[name()='a:b'][1]"."""
        return self._step_texts[self._step[node]]

    def steps(self, nodes: list[int]) -> list[str]:
        """The step of each of these."""
        texts, which = self._step_texts, self._step
        return [texts[which[node]] for node in nodes]

    def tag(self, node: int) -> str:
        """The lower-cased name; an input's with its type as it is written."""
        tag = self.tags[int(self.tree.name[node])]
        if tag == "input" and self.tree.kind[node] == ELEMENT:
            kind = self.tree.attributes(node).get("type")
            return f"input, {kind}" if kind else tag
        return tag

    @cached_property
    def control_parts(self) -> NDArray[np.bool_]:
        """Marks what belongs to a control that the browser draws: its shadow root's nodes, the options of a select."""
        tree = self.tree
        parts: NDArray[np.bool_] = np.array([tag == "option" for tag in self.tags], np.bool_)[tree.name]
        for root in np.nonzero(tree.shadow_kind == _USER_AGENT)[0].tolist():
            parts[root : tree.subtree_end[root]] = True
        return parts

    def find(self, backend_node_ids: I64, document: int) -> I64:
        """The nodes of one document that have these ids, -1 where there is none; the later of two with one id."""
        ids, nodes = self._ids_of(document)
        if not len(ids):
            return np.full(len(backend_node_ids), -1, np.int64)
        place = np.searchsorted(ids, backend_node_ids, "right") - 1
        place = np.maximum(place, 0)
        return np.where(ids[place] == backend_node_ids, nodes[place], -1)

    def _ids_of(self, document: int) -> tuple[I64, I64]:
        known = self._by_id.get(document)
        if known is None:
            nodes = self.of_document(document)
            ids = self.tree.backend_node_id[nodes]
            order = np.argsort(ids, kind="stable")
            known = self._by_id[document] = (ids[order], nodes[order])
        return known

    def of_document(self, document: int) -> I64:
        """The nodes of a document that have an id, in visiting order."""
        start, end = document, int(self.tree.subtree_end[document])
        if not (self.tree.link[start:end] == LINK_SHADOW).any():
            nodes = np.arange(start, end)
        else:
            order = self._visiting_order()
            nodes = order[(order >= start) & (order < end)]
        kept: I64 = nodes[(self.document[nodes] == document) & (self.tree.backend_node_id[nodes] != 0)]
        return kept

    def _visiting_order(self) -> I64:
        """Content document, shadow roots from the last to the first, children; a page tree has the children second."""
        if self._order is not None:
            return self._order
        tree = self.tree
        roots = np.nonzero(tree.link == LINK_SHADOW)[0]
        # where a shadow root stands first, and no other beside it, the order is the same
        hosts = sorted(set(tree.parent[roots[tree.parent[roots] + 1 != roots]].tolist()))
        parts: list[I64] = []
        stack = [(0, len(tree))]
        while stack:
            start, end = stack.pop()
            if start >= end:
                continue
            place = bisect_left(hosts, start)
            host = hosts[place] if place < len(hosts) else end
            if host >= end:
                parts.append(np.arange(start, end))
                continue
            parts.append(np.arange(start, host + 1))
            below = [(child, int(tree.subtree_end[child]), int(tree.link[child])) for child in tree.children(host)]
            first = [(a, b) for a, b, link in below if link == LINK_CONTENT]
            shadow = [(a, b) for a, b, link in below if link == LINK_SHADOW]
            light = [(a, b) for a, b, link in below if link not in (LINK_CONTENT, LINK_SHADOW)]
            stack.append((int(tree.subtree_end[host]), end))
            stack.extend(light[::-1])
            stack.extend(shadow)
            stack.extend(first[::-1])
        self._order = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        return self._order


def _lead(tag: str, kind: int) -> str:
    if kind == TEXT:
        return "/text()["
    if kind == COMMENT:
        return "/comment()["
    return f"/*[name()='{tag}'][" if ":" in tag else f"/{tag}["
