"""An xpath names an element by its ancestors' tags and its place among siblings of the same tag."""

from __future__ import annotations

from workers.merge.tree import ELEMENT, FRAGMENT, LINK_CHILD
from workers.serialize.view import View

MAX_KEPT = 2000
"""Characters of a way that is kept for the children of every ancestor on it: a page may be thousands of levels deep."""


class XPaths:
    """Steps and ways are worked out once per parent, so that a list of n links costs n, not n squared."""

    __slots__ = ("_places", "_view", "_ways")

    def __init__(self, view: View) -> None:
        self._view = view
        self._places: dict[int, tuple[dict[int, int], dict[str, int]]] = {}
        self._ways: dict[int, str] = {}

    def of(self, node: int) -> str:
        """`html/body/form/input[2]`: shadow roots are transparent, a frame's document starts anew.

        The number stands only where a sibling has the same tag (browser-use 0.13.14, dom/views.py).
        """
        kind = self._view.tree.plain.kind[node]
        parent = self._view.tree.plain.parent[node]
        if kind == ELEMENT:
            way = self._ways.get(parent)
            return (self._way(parent) if way is None else way) + self._step(node, parent)
        return self._way(parent)[:-1] if kind == FRAGMENT else ""

    def _way(self, node: int) -> str:
        """The steps down to a node, each with a slash behind it."""
        plain = self._view.tree.plain
        if node >= 0 and plain.tag[node] == "iframe":
            return ""
        climbed = []
        while node >= 0 and node not in self._ways:
            kind, parent = plain.kind[node], plain.parent[node]
            if kind != ELEMENT and kind != FRAGMENT:
                break
            climbed.append(node)
            node = -1 if kind == ELEMENT and parent >= 0 and plain.tag[parent] == "iframe" else parent
        way = self._ways.get(node, "")
        for node in reversed(climbed):
            if plain.kind[node] == ELEMENT:
                way += self._step(node, plain.parent[node]) + "/"
            if len(way) <= MAX_KEPT or node == climbed[0]:
                self._ways[node] = way
        return way

    def _step(self, node: int, parent: int) -> str:
        tag = self._view.tree.plain.tag[node]
        if parent < 0:
            return tag
        known = self._places.get(parent)
        if known is None:
            known = self._places[parent] = self._number(parent)
        places, counts = known
        # an element that a damaged payload hangs there as a shadow root or a document is no sibling
        return f"{tag}[{places[node]}]" if node in places and counts[tag] > 1 else tag

    def _number(self, parent: int) -> tuple[dict[int, int], dict[str, int]]:
        """By child its place among those of the same tag, and by tag how many there are."""
        plain = self._view.tree.plain
        kind, link, tag, ends = plain.kind, plain.link, plain.tag, plain.subtree_end
        places: dict[int, int] = {}
        counts: dict[str, int] = {}
        child, end = parent + 1, ends[parent]
        while child < end:
            if kind[child] == ELEMENT and link[child] == LINK_CHILD:
                name = tag[child]
                places[child] = counts[name] = counts.get(name, 0) + 1
            child = ends[child]
        return places, counts
