"""The attribute string of a line: HTML attributes, format hints, accessibility properties, in order of insertion."""

from __future__ import annotations

from collections.abc import Mapping

from workers.serialize.view import View

MAX_VALUE = 100
"""Characters of a value, and of an image's context, before `...`."""
DEDUPE_ABOVE = 5
"""Values longer than this print once (all: browser-use 0.13.14, serializer/serializer.py)."""
NEVER_DEDUPED = frozenset({"format", "expected_format", "placeholder", "value", "aria-label", "title"})
DATE_FORMATS = {
    "date": "YYYY-MM-DD",
    "time": "HH:MM",
    "datetime-local": "YYYY-MM-DDTHH:MM",
    "month": "YYYY-MM",
    "week": "YYYY-W##",
}
PHONE_FORMAT = "123-456-7890"
PICKER_CLASSES = ("datepicker", "datetimepicker", "daterangepicker")
PICKER_FORMAT = "mm/dd/yyyy"
VALUE_TAGS = frozenset({"input", "textarea", "select"})
VALUE_PROPERTIES = ("valuetext", "value")


def attribute_string(view: View, node: int) -> str:
    """The attributes of an element as its line prints them: `key=value key=value`, values cut to 100 characters."""
    return " ".join([attribute_text(key, value) for key, value in shown_attributes(view, node).items()])


def attribute_text(name: str, value: str) -> str:
    """One attribute as it prints."""
    return f"{name}={shortened(value) if value else repr('')}"


def shown_attributes(view: View, node: int) -> dict[str, str]:
    """The attributes that an element's line shows, in order, values whole."""
    shown = _collect(view, node, view.printable)
    if not shown:
        return shown
    _dedupe(shown, view)
    if "role" in shown and view.tree.ax_role(node) == view.tree.node_name(node):
        del shown["role"]
    if "type" in shown and shown["type"].lower() == view.tag(node):
        del shown["type"]
    if "invalid" in shown and shown["invalid"].lower() == "false":
        del shown["invalid"]
    if "required" in shown and shown["required"].lower() in ("false", "0", "no"):
        del shown["required"]
    if "expanded" in shown:
        shown.pop("aria-expanded", None)
    return shown


def shortened(text: str) -> str:
    """At most 100 characters and `...`."""
    return text[:MAX_VALUE] + "..." if len(text) > MAX_VALUE else text


def _collect(view: View, node: int, names: Mapping[str, int]) -> dict[str, str]:
    tree, tag = view.tree, view.tag(node)
    attributes = tree.attributes(node)
    shown = {key: text for key, value in attributes.items() if key in names and (text := value.strip())}
    password = False
    if tag == "input":
        kind = attributes.get("type", "").lower()
        password = kind == "password"
        _add_formats(attributes, kind, shown, names)
    properties = tree.ax_properties(node)
    for name, value in properties:
        if name not in names or value is None or (password and name in VALUE_PROPERTIES):
            continue
        if isinstance(value, bool):
            shown[name] = "true" if value else "false"
        elif text := str(value).strip():
            shown[name] = text
    if password:
        shown.pop("value", None)
    elif tag in VALUE_TAGS:
        for name, value in properties:
            if name in VALUE_PROPERTIES and value:
                text = str(value).strip()
                if text:
                    shown["value"] = text
                    break
    return shown


def _add_formats(attributes: Mapping[str, str], kind: str, shown: dict[str, str], names: Mapping[str, int]) -> None:
    """What a field expects to be typed in, as `format` and `placeholder`."""
    if kind in DATE_FORMATS:
        shown["format"] = DATE_FORMATS[kind]
    if "placeholder" not in names or "placeholder" in shown:
        return
    if kind in DATE_FORMATS:
        shown["placeholder"] = DATE_FORMATS[kind]
    elif kind == "tel" and "pattern" not in shown:
        shown["placeholder"] = PHONE_FORMAT
    elif kind in ("text", ""):
        if "uib-datepicker-popup" in attributes:
            pattern = attributes["uib-datepicker-popup"]
            if pattern:
                shown["expected_format"] = shown["format"] = pattern
            return
        classes = attributes.get("class", "").lower()
        if any(name in classes for name in PICKER_CLASSES) or "data-datepicker" in attributes:
            shown["placeholder"] = shown["format"] = attributes.get("data-date-format") or PICKER_FORMAT


def _dedupe(shown: dict[str, str], view: View) -> None:
    """A long value prints once, and one under a name that stands twice among the names not at all."""
    long = [key for key, value in shown.items() if len(value) > DEDUPE_ABOVE and key in view.printable]
    if view.repeated.isdisjoint(long):
        if len(long) < 2:
            return
        long.sort(key=view.printable.__getitem__)
    else:
        long = [key for key in view.options.attribute_names if key in long]
    seen: set[str] = set()
    for key in long:
        value = shown.get(key)
        if value is None:
            continue
        if value in seen and key not in NEVER_DEDUPED:
            del shown[key]
        else:
            seen.add(value)
