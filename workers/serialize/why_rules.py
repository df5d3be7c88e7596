"""The rules that make an element interactive, one after the other, with what each found."""

from __future__ import annotations

from workers.serialize.indices import FinalTree
from workers.serialize.interactivity import (
    AX_PRESENT,
    AX_TRUE,
    CONTROL_TAGS,
    ICON_ATTRIBUTES,
    ICON_PX,
    INTERACTIVE_ATTRIBUTES,
    MIN_FRAME_PX,
    SEARCH_WORDS,
    InteractiveReason,
)


def rules_tried(final: FinalTree, node: int) -> list[str]:
    """What each rule found, in the order in which they are asked, up to the one that decided."""
    view, tree = final.view, final.view.tree
    tag, attributes = view.tag(node), tree.attributes(node)
    if tag in ("html", "body"):
        return [f"the page itself: <{tag}> is never interactive"]
    decided = final.interactivity.reason(node)
    bounds = tree.bounds[node].tolist() if view.has_bounds[node] else None
    size = f"{bounds[2]:g}x{bounds[3]:g}" if bounds else "without a box"
    tried: list[tuple[InteractiveReason | None, str]] = [
        ("listener", "a click, mouse or pointer listener sits on it" if tree.has_listener[node] else "has none"),
        ("frame", f"{size}, needs more than {MIN_FRAME_PX:g} both ways" if tag in ("iframe", "frame") else "is none"),
    ]
    if tag == "label" and attributes.get("for"):
        return [*_told(tried), f"label: it points elsewhere (for={attributes['for']}), so it is not interactive"]
    if tag in ("label", "span"):
        wraps = decided in ("label", "span")
        what = "" if wraps else "no "
        tried.append(("label" if tag == "label" else "span", f"{what}{_either(CONTROL_TAGS)} within two levels"))
    tried.append(("search_word", _search_word(attributes)))
    states, denied = _states(tree.ax_properties(node))
    if denied and decided is None:
        return [*_told(tried), f"ax_state: {denied} says that it is not interactive"]
    tried += [
        ("ax_state", states),
        ("tag", f"<{tag}>"),
        ("attribute", _present(attributes, INTERACTIVE_ATTRIBUTES)),
        ("role", f"role={attributes['role']}" if "role" in attributes else "no role attribute"),
        ("ax_role", f"{tree.ax_role(node)}" if tree.ax_role(node) else "no accessibility role"),
        (
            "icon",
            f"{size}, needs {ICON_PX[0]:g} to {ICON_PX[1]:g} both ways; {_present(attributes, ICON_ATTRIBUTES)}",
        ),
        ("cursor", f"cursor is {view.style(node, 'cursor') or 'unknown'}, needs pointer"),
    ]
    reasons = [reason for reason, _ in tried]
    return _told(tried[: reasons.index(decided) + 1] if decided in reasons else tried)


def _told(tried: list[tuple[InteractiveReason | None, str]]) -> list[str]:
    return [f"{reason}: {found}" for reason, found in tried]


def _either(names: frozenset[str]) -> str:
    return " or ".join(sorted(names))


def _present(attributes: dict[str, str], names: frozenset[str]) -> str:
    found = [name for name in attributes if name in names]
    return f"has {', '.join(found)}" if found else f"none of {', '.join(sorted(names))}"


def _search_word(attributes: dict[str, str]) -> str:
    for name, value in attributes.items():
        if name in ("class", "id") or name.startswith("data-"):
            for word in SEARCH_WORDS:
                if word in value.lower():
                    return f"{name} holds `{word}`"
    return "none in class, id or data attributes"


def _states(properties: list[tuple[str, object]]) -> tuple[str, str]:
    """What the accessibility properties say, and the one that says no before any says yes."""
    for name, value in properties:
        if name in ("disabled", "hidden"):
            if value:
                return f"{name} is {value}", name
        elif name in AX_PRESENT or (name in AX_TRUE and value):
            return f"{name} is {value}", ""
    return "no deciding accessibility property", ""
