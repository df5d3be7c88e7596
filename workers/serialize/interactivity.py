"""An element is interactive by the first of fourteen rules that decides; the rule is kept as the reason."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

from workers.merge.tree import ELEMENT, LINK_CONTENT
from workers.serialize.view import View

InteractiveReason: TypeAlias = Literal[
    "listener", "frame", "label", "span", "search_word", "ax_state", "tag", "attribute", "role", "ax_role", "icon",
    "cursor", "scrollable", "file_input", "shadow_control",
]  # fmt: skip
INTERACTIVE_REASONS: Final[tuple[InteractiveReason, ...]] = get_args(InteractiveReason)
"""Why an element got an index: the rule of section "interactive" that said yes, or, for elements that got one without
being judged interactive by it, `scrollable`."""

SEARCH_WORDS = ("search", "find", "query", "glass", "lookup", "magnify")
"""The reference's ten words; the other four contain `search` and so never decide."""
CONTROL_TAGS = frozenset({"input", "select", "textarea"})
INTERACTIVE_TAGS = frozenset({"button", "input", "select", "textarea", "a", "details", "summary", "option", "optgroup"})
INTERACTIVE_ATTRIBUTES = frozenset({"onclick", "onmousedown", "onmouseup", "onkeydown", "onkeyup", "tabindex"})
INTERACTIVE_ROLES = frozenset(
    {
        "button", "link", "menuitem", "option", "radio", "checkbox", "tab", "textbox", "combobox", "slider",
        "spinbutton", "search", "searchbox", "row", "cell", "gridcell",
    }
)  # fmt: skip
INTERACTIVE_AX_ROLES = INTERACTIVE_ROLES | {"listbox"}
AX_PRESENT = frozenset({"checked", "expanded", "pressed", "selected"})
AX_TRUE = frozenset({"focusable", "editable", "settable", "required", "autocomplete", "keyshortcuts"})
ICON_ATTRIBUTES = frozenset({"class", "role", "onclick", "data-action", "aria-label"})
MIN_FRAME_PX = 100.0
ICON_PX = (10.0, 50.0)
"""Rules of browser-use 0.13.14, serializer/clickable_elements.py."""


class Interactivity:
    """Answers per node, each worked out once."""

    __slots__ = ("_icon_sized", "_known", "_listens", "_search", "_states", "_view")

    def __init__(self, view: View) -> None:
        self._view = view
        self._listens = view.tree.has_listener.tobytes()
        self._icon_sized = _sized(view, *ICON_PX)
        self._known: dict[int, InteractiveReason | None] = {}
        # by the values and the lists of properties that many elements of a page have in common
        self._search: dict[str, bool] = {}
        self._states: dict[int, bool | None] = {}

    def reason(self, node: int) -> InteractiveReason | None:
        """Why the element is interactive, None if it is not."""
        if node in self._known:
            return self._known[node]
        reason = self._known[node] = self._judge(node)
        return reason

    def _judge(self, node: int) -> InteractiveReason | None:
        view, tree = self._view, self._view.tree
        plain = tree.plain
        if plain.kind[node] != ELEMENT:
            return None
        tag = plain.tag[node]
        if tag == "html" or tag == "body":
            return None
        if self._listens[node]:
            return "listener"
        if (tag == "iframe" or tag == "frame") and self._is_large(node):
            return "frame"
        attributes = tree.attributes(node)
        if tag == "label":
            if attributes.get("for"):
                return None
            if self._wraps_control(node, 2):
                return "label"
        elif tag == "span" and self._wraps_control(node, 2):
            return "span"
        if attributes and self._has_search_word(attributes):
            return "search_word"
        if plain.ax[node] >= 0:
            decided = self._by_ax_state(node)
            if decided is not None:
                return "ax_state" if decided else None
        if tag in INTERACTIVE_TAGS:
            return "tag"
        if attributes:
            if not INTERACTIVE_ATTRIBUTES.isdisjoint(attributes):
                return "attribute"
            if attributes.get("role") in INTERACTIVE_ROLES:
                return "role"
        if tree.ax_role(node) in INTERACTIVE_AX_ROLES:
            return "ax_role"
        if self._icon_sized[node] and not ICON_ATTRIBUTES.isdisjoint(attributes):
            return "icon"
        return "cursor" if view.points[plain.style[node]] and view.recorded[node] else None

    def _is_large(self, node: int) -> bool:
        if not self._view.boxed[node]:
            return False
        _, _, width, height = self._view.tree.bounds[node].tolist()
        return bool(width > MIN_FRAME_PX and height > MIN_FRAME_PX)

    def _by_ax_state(self, node: int) -> bool | None:
        properties = self._view.tree.ax_properties(node)
        key = id(properties)  # the tree keeps the list
        if key not in self._states:
            self._states[key] = _state(properties)
        return self._states[key]

    def _has_search_word(self, attributes: dict[str, str]) -> bool:
        """True if class, id or data hold a search word."""
        for name, value in attributes.items():
            if name == "class" or name == "id" or name.startswith("data-"):
                found = self._search.get(value)
                if found is None:
                    found = self._search[value] = _holds_search_word(value.lower())
                if found:
                    return True
        return False

    def _wraps_control(self, node: int, levels: int) -> bool:
        plain = self._view.tree.plain
        child, end = node + 1, plain.subtree_end[node]
        while child < end:
            element = plain.kind[child] == ELEMENT and plain.link[child] != LINK_CONTENT
            if element and (
                plain.tag[child] in CONTROL_TAGS or (levels > 1 and self._wraps_control(child, levels - 1))
            ):
                return True
            child = plain.subtree_end[child]
        return False


def _sized(view: View, low: float, high: float) -> bytes:
    """By node 1 if both sides of its box lie between the limits."""
    width, height = view.tree.bounds[:, 2], view.tree.bounds[:, 3]
    flags = (width >= low) & (width <= high) & (height >= low) & (height <= high) & view.has_bounds
    return flags.tobytes()


def _state(properties: list[tuple[str, object]]) -> bool | None:
    for name, value in properties:
        if name in ("disabled", "hidden"):
            if value:
                return False
        elif name in AX_PRESENT or (name in AX_TRUE and value):
            return True
    return None


def _holds_search_word(text: str) -> bool:
    """Spelt out, which costs a third of a loop over SEARCH_WORDS."""
    return (
        "search" in text
        or "find" in text
        or "query" in text
        or "glass" in text
        or "lookup" in text
        or "magnify" in text
    )
