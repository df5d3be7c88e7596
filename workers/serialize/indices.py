"""An index is a number by which an agent addresses an element: its backend node id, or the next free number."""

from __future__ import annotations

from dataclasses import dataclass

from workers.merge.tree import ELEMENT, LINK_CHILD, LINK_CONTENT, LINK_SHADOW, PageTree
from workers.serialize.bbox import excluded_by_parent
from workers.serialize.compound import Part, compound_parts
from workers.serialize.interactivity import InteractiveReason, Interactivity
from workers.serialize.options import ListingOptions
from workers.serialize.painting import Painting
from workers.serialize.simplify import Simplified, simplify
from workers.serialize.view import Flags, View, look

DROPDOWN_ROLES = frozenset({"listbox", "menu", "combobox", "menubar", "tree", "grid"})
DROPDOWN_CLASSES = frozenset({"dropdown", "dropdown-menu", "select-menu"})
SHADOW_CONTROL_TAGS = frozenset({"input", "button", "select", "textarea", "a"})
"""Rules of browser-use 0.13.14, serializer/serializer.py."""


@dataclass(frozen=True, slots=True, eq=False)
class FinalTree:
    """A page tree after all passes: which nodes remain, which have an index, which are covered or folded away."""

    view: View
    simplified: Simplified
    painting: Painting
    interactivity: Interactivity
    nodes: list[int]
    excluded: Flags
    index_of: dict[int, int]
    reasons: dict[int, InteractiveReason]
    new: frozenset[int]
    compounds: dict[int, list[Part]]


def final_tree(
    tree: PageTree, options: ListingOptions | None = None, previous: frozenset[tuple[str, int]] | None = None
) -> FinalTree:
    """All passes over a page tree; `previous` holds the (session id, backend node id) pairs of the last listing."""
    view = look(tree, options or ListingOptions())
    simplified = simplify(view)
    painting = Painting(view, simplified)
    interactivity = Interactivity(view)
    nodes = simplified.nodes()
    kind = tree.plain.kind
    elements = [n for n in nodes if kind[n] == ELEMENT]
    tree.expect(elements)
    excluded = excluded_by_parent(view, simplified)
    compounds = compound_parts(view, simplified)
    folded = excluded.tobytes()
    deserves = _Scans(view, simplified, interactivity).deserves
    deserving = {n: reason for n in elements if not folded[n] and (reason := deserves(n))}
    painting.ask([*deserving, *simplified.texts_of(nodes)])
    reserved = set(tree.backend_node_id[nodes].tolist())
    following = max(reserved, default=0) + 1
    used: set[int] = set()
    index_of: dict[int, int] = {}
    reasons: dict[int, InteractiveReason] = {}
    new = set()
    chosen = [n for n in deserving if not painting.ignores(n)]
    for node, index in zip(chosen, tree.backend_node_id[chosen].tolist() if chosen else (), strict=True):
        if index in used:
            while following in reserved:
                following += 1
            index = following
            following += 1
        used.add(index)
        index_of[node] = index
        reasons[node] = deserving[node]
        if node in compounds or (previous and _key(tree, node) not in previous):
            new.add(node)
    return FinalTree(
        view, simplified, painting, interactivity, nodes, excluded, index_of, reasons, frozenset(new), compounds
    )


def _key(tree: PageTree, node: int) -> tuple[str, int]:
    return tree.targets[int(tree.target[node])].session_id, int(tree.backend_node_id[node])


class _Scans:
    """Who deserves an index."""

    __slots__ = ("_file_input", "_final", "_interactivity", "_next", "_recorded", "_view")

    def __init__(self, view: View, simplified: Simplified, interactivity: Interactivity) -> None:
        self._view = view
        self._interactivity = interactivity
        self._final = simplified.remains
        self._file_input = simplified.file_input.tobytes()
        self._recorded = view.recorded
        self._next: dict[int, int] = {}

    def deserves(self, node: int) -> InteractiveReason | None:
        """Why the element gets an index, None if it gets none."""
        view = self._view
        if view.scrolls[node]:
            return "scrollable" if self._is_dropdown(node) or not self._holds_interactive(node) else None
        reason = self._interactivity.reason(node)
        if reason is None or view.seen[node]:
            return reason
        if self._file_input[node]:
            return "file_input"
        if not self._recorded[node] and view.tag(node) in SHADOW_CONTROL_TAGS and self._in_shadow(node):
            return "shadow_control"
        return None

    def _is_dropdown(self, node: int) -> bool:
        attributes = self._view.tree.attributes(node)
        classes = attributes.get("class", "").lower()
        tokens = classes.split()
        return (
            attributes.get("role", "").lower() in DROPDOWN_ROLES
            or self._view.tag(node) == "select"
            or not DROPDOWN_CLASSES.isdisjoint(tokens)
            or ("ui" in tokens and "dropdown" in classes)
        )

    def _holds_interactive(self, node: int) -> bool:
        """True if an interactive element lies below; what one scan learned, the next one skips."""
        final, end = self._final, self._view.tree.plain.subtree_end[node]
        place = node + 1
        passed = []
        while place < end:
            skip = self._next.get(place)
            if skip is not None:
                passed.append(place)
                place = skip
            elif final[place] and self._interactivity.reason(place) is not None:
                break
            else:
                passed.append(place)
                place += 1
        for step in passed:
            self._next[step] = place
        return place < end

    def _in_shadow(self, node: int) -> bool:
        plain = self._view.tree.plain
        while node > 0 and plain.link[node] in (LINK_CHILD, LINK_CONTENT):
            node = plain.parent[node]
        return node > 0 and plain.link[node] == LINK_SHADOW
