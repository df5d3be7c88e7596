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

SEARCH_WORDS = ("search", "magnify", "glass", "lookup", "find", "query")
"""The reference's ten words; the other four contain `search` and so never decide."""
CONTROL_TAGS = frozenset({"input", "select", "textarea"})
INTERACTIVE_TAGS = frozenset({"button", "input", "select", "textarea", "a", "details", "summary", "option", "optgroup"})
INTERACTIVE_ATTRIBUTES = ("onclick", "onmousedown", "onmouseup", "onkeydown", "onkeyup", "tabindex")
INTERACTIVE_ROLES = frozenset(
    {
        "button", "link", "menuitem", "option", "radio", "checkbox", "tab", "textbox", "combobox", "slider",
        "spinbutton", "search", "searchbox", "row", "cell", "gridcell",
    }
)  # fmt: skip
INTERACTIVE_AX_ROLES = INTERACTIVE_ROLES | {"listbox"}
AX_PRESENT = frozenset({"checked", "expanded", "pressed", "selected"})
AX_TRUE = frozenset({"focusable", "editable", "settable", "required", "autocomplete", "keyshortcuts"})
ICON_ATTRIBUTES = ("class", "role", "onclick", "data-action", "aria-label")
MIN_FRAME_PX = 100.0
ICON_PX = (10.0, 50.0)
"""Rules of browser-use 0.13.14, serializer/clickable_elements.py."""


class Interactivity:
    """Answers per node, each worked out once."""

    __slots__ = ("_known", "_view")

    def __init__(self, view: View) -> None:
        self._view = view
        self._known: dict[int, InteractiveReason | None] = {}

    def reason(self, node: int) -> InteractiveReason | None:
        """Why the element is interactive, None if it is not."""
        if node in self._known:
            return self._known[node]
        reason = self._known[node] = self._judge(node)
        return reason

    def _judge(self, node: int) -> InteractiveReason | None:
        view, tree = self._view, self._view.tree
        if tree.kind[node] != ELEMENT:
            return None
        tag = view.tag(node)
        if tag in ("html", "body"):
            return None
        if tree.has_listener[node]:
            return "listener"
        bounds = tree.bounds[node].tolist() if view.has_bounds[node] else None
        if tag in ("iframe", "frame") and bounds and bounds[2] > MIN_FRAME_PX and bounds[3] > MIN_FRAME_PX:
            return "frame"
        attributes = tree.attributes(node)
        if tag == "label":
            if attributes.get("for"):
                return None
            if self._wraps_control(node, 2):
                return "label"
        elif tag == "span" and self._wraps_control(node, 2):
            return "span"
        if _has_search_word(attributes):
            return "search_word"
        decided = self._by_ax_state(node)
        if decided is not None:
            return "ax_state" if decided else None
        if tag in INTERACTIVE_TAGS:
            return "tag"
        if any(name in attributes for name in INTERACTIVE_ATTRIBUTES):
            return "attribute"
        if attributes.get("role") in INTERACTIVE_ROLES:
            return "role"
        if tree.ax_role(node) in INTERACTIVE_AX_ROLES:
            return "ax_role"
        low, high = ICON_PX
        small = bounds is not None and low <= bounds[2] <= high and low <= bounds[3] <= high
        if small and any(name in attributes for name in ICON_ATTRIBUTES):
            return "icon"
        return "cursor" if view.has_record[node] and view.style(node, "cursor") == "pointer" else None

    def _by_ax_state(self, node: int) -> bool | None:
        for name, value in self._view.tree.ax_properties(node):
            if name in ("disabled", "hidden"):
                if value:
                    return False
            elif name in AX_PRESENT or (name in AX_TRUE and value):
                return True
        return None

    def _wraps_control(self, node: int, levels: int) -> bool:
        tree = self._view.tree
        for child in tree.children(node):
            if tree.kind[child] != ELEMENT or tree.link[child] == LINK_CONTENT:
                continue
            if self._view.tag(child) in CONTROL_TAGS:
                return True
            if levels > 1 and self._wraps_control(child, levels - 1):
                return True
        return False


def _has_search_word(attributes: dict[str, str]) -> bool:
    for name, value in attributes.items():
        if name in ("class", "id") or name.startswith("data-"):
            lowered = value.lower()
            if any(word in lowered for word in SEARCH_WORDS):
                return True
    return False
