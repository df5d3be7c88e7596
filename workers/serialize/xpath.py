"""An xpath names an element by its ancestors' tags and its place among siblings of the same tag."""

from __future__ import annotations

from workers.merge.tree import DOCUMENT, ELEMENT, FRAGMENT, LINK_CHILD
from workers.serialize.view import View


class XPaths:
    """Steps are worked out once per parent, so that a list of n links costs n, not n squared."""

    __slots__ = ("_done", "_steps", "_view")

    def __init__(self, view: View) -> None:
        self._view = view
        self._steps: dict[int, str] = {}
        self._done: set[int] = set()

    def of(self, node: int) -> str:
        """`html/body/form/input[2]`: shadow roots are transparent, a frame's document starts anew.

        The number stands only where a sibling has the same tag (browser-use 0.13.14, dom/views.py).
        """
        tree = self._view.tree
        steps = []
        while node >= 0 and tree.kind[node] != DOCUMENT:
            parent = int(tree.parent[node])
            if tree.kind[node] == ELEMENT:
                if parent >= 0 and self._view.tag(parent) == "iframe":
                    break
                steps.append(self._step(node, parent))
            elif tree.kind[node] != FRAGMENT:
                break
            node = parent
        return "/".join(reversed(steps))

    def _step(self, node: int, parent: int) -> str:
        if parent < 0:
            return self._view.tag(node)
        if parent not in self._done:
            self._done.add(parent)
            self._number(parent)
        return self._steps[node]

    def _number(self, parent: int) -> None:
        tree, tag = self._view.tree, self._view.tag
        children = [c for c in tree.children(parent) if tree.kind[c] == ELEMENT and tree.link[c] == LINK_CHILD]
        counts: dict[str, int] = {}
        places = []
        for child in children:
            name = tag(child)
            counts[name] = counts.get(name, 0) + 1
            places.append((child, name, counts[name]))
        for child, name, place in places:
            self._steps[child] = f"{name}[{place}]" if counts[name] > 1 else name
