"""An xpath names an element by its ancestors' tags and its place among siblings of the same tag."""

from __future__ import annotations

from workers.merge.tree import ELEMENT, FRAGMENT, LINK_CHILD
from workers.serialize.view import View


class XPaths:
    """Steps and ways are worked out once per parent, so that a list of n links costs n, not n squared."""

    __slots__ = ("_steps", "_view", "_ways")

    def __init__(self, view: View) -> None:
        self._view = view
        self._steps: dict[int, dict[int, str]] = {}
        self._ways: dict[int, str] = {}

    def of(self, node: int) -> str:
        """`html/body/form/input[2]`: shadow roots are transparent, a frame's document starts anew.

        The number stands only where a sibling has the same tag (browser-use 0.13.14, dom/views.py).
        """
        kind = self._view.tree.plain.kind[node]
        parent = self._view.tree.plain.parent[node]
        if kind == ELEMENT:
            return self._way(parent) + self._step(node, parent)
        return self._way(parent)[:-1] if kind == FRAGMENT else ""

    def _way(self, node: int) -> str:
        """The steps down to a node, each with a slash behind it."""
        plain = self._view.tree.plain
        asked, steps = node, []
        if node >= 0 and plain.tag[node] == "iframe":
            return ""
        while node not in self._ways and node >= 0:
            kind, parent = plain.kind[node], plain.parent[node]
            if kind == ELEMENT:
                steps.append(self._step(node, parent) + "/")
                if parent >= 0 and plain.tag[parent] == "iframe":
                    break
            elif kind != FRAGMENT:
                break
            node = parent
        way = self._ways[asked] = self._ways.get(node, "") + "".join(reversed(steps))
        return way

    def _step(self, node: int, parent: int) -> str:
        if parent < 0:
            return self._view.tag(node)
        if parent not in self._steps:
            self._steps[parent] = self._number(parent)
        return self._steps[parent][node]

    def _number(self, parent: int) -> dict[int, str]:
        plain = self._view.tree.plain
        kind, link, tag, ends = plain.kind, plain.link, plain.tag, plain.subtree_end
        counts: dict[str, int] = {}
        places = []
        child, end = parent + 1, ends[parent]
        while child < end:
            if kind[child] == ELEMENT and link[child] == LINK_CHILD:
                name = tag[child]
                counts[name] = place = counts.get(name, 0) + 1
                places.append((child, name, place))
            child = ends[child]
        return {child: f"{name}[{place}]" if counts[name] > 1 else name for child, name, place in places}
