"""A compound is a control whose parts are described on its line: spin buttons, a player's keys, a select's options."""

from __future__ import annotations

from dataclasses import dataclass

from workers.merge.tree import ELEMENT, LINK_CONTENT, TEXT
from workers.serialize.simplify import Simplified
from workers.serialize.view import View

COMPOUND_TAGS = frozenset({"input", "select", "details", "audio", "video"})
PLAIN_DATE_TYPES = frozenset({"date", "time", "datetime-local", "month", "week"})
COMPOUND_INPUT_TYPES = PLAIN_DATE_TYPES | {"range", "number", "color", "file"}
SHOWN_OPTIONS = 4
MAX_OPTION = 30
HINT_OPTIONS = 5
MIN_HINT_OPTIONS = 2
"""Rules of browser-use 0.13.14, serializer/serializer.py."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a compound; a field that is None does not print."""

    name: str
    role: str
    low: float | int | None = None
    high: float | int | None = None
    current: str | None = None
    count: int | None = None
    options: tuple[str, ...] = ()
    format: str | None = None

    def text(self) -> str:
        """The part as it prints on the element's line."""
        fields = [f"name={self.name}", f"role={self.role}"]
        if self.low is not None:
            fields.append(f"min={self.low}")
        if self.high is not None:
            fields.append(f"max={self.high}")
        if self.current is not None:
            fields.append(f"current={self.current}")
        if self.count is not None:
            fields.append(f"count={self.count}")
        if self.options:
            fields.append(f"options={'|'.join(self.options)}")
        if self.format:
            fields.append(f"format={self.format}")
        return f"({','.join(fields)})"


def compound_parts(view: View, simplified: Simplified) -> dict[int, list[Part]]:
    """The compounds of the final tree and their parts."""
    out = {}
    for node in (simplified.final & view.named(COMPOUND_TAGS)).nonzero()[0].tolist():
        parts = _parts(view, node)
        if parts:
            out[node] = parts
    return out


def _parts(view: View, node: int) -> list[Part]:
    tree, tag = view.tree, view.tag(node)
    if tag == "input":
        kind = tree.attributes(node).get("type", "")
        return _input_parts(view, node, kind) if kind in COMPOUND_INPUT_TYPES - PLAIN_DATE_TYPES else []
    if not tree.has_ax_children(node):
        return []
    if tag == "select":
        return [Part("Dropdown Toggle", "button"), _options(view, node)]
    if tag == "details":
        return [Part("Toggle Disclosure", "button"), Part("Content Area", "region")]
    parts = [
        Part("Play/Pause", "button"),
        Part("Progress", "slider", 0, 100),
        Part("Mute", "button"),
        Part("Volume", "slider", 0, 100),
    ]
    return [*parts, Part("Fullscreen", "button")] if tag == "video" else parts


def _input_parts(view: View, node: int, kind: str) -> list[Part]:
    attributes = view.tree.attributes(node)
    low, high = attributes.get("min"), attributes.get("max")
    if kind == "range":
        return [Part("Value", "slider", _number(low or "0", 0.0), _number(high or "100", 100.0))]
    if kind == "number":
        value = Part("Value", "textbox", _number(low, None), _number(high, None))
        return [Part("Increment", "button"), Part("Decrement", "button"), value]
    if kind == "color":
        return [Part("Hex Value", "textbox"), Part("Color Picker", "button")]
    name = "Files Selected" if "multiple" in attributes else "File Selected"
    return [Part("Browse Files", "button"), Part(name, "textbox", current=_chosen_file(view, node))]


def _number(text: str | None, fallback: float | None) -> float | None:
    try:
        return float(text) if text else fallback
    except ValueError:
        return fallback


def _chosen_file(view: View, node: int) -> str:
    for name, value in view.tree.ax_properties(node):
        if not value:
            continue
        text = str(value)
        if name == "valuetext":
            return "None" if any(t in text.lower() for t in ("no file chosen", "no file selected")) else text
        if name == "value":
            return text.rpartition("\\")[2].rpartition("/")[2]
    return "None"


def _options(view: View, node: int) -> Part:
    tree = view.tree
    shown: list[tuple[str, str]] = []
    for child in range(node + 1, tree.plain.subtree_end[node]):
        if tree.plain.kind[child] != ELEMENT or view.tag(child) != "option":
            continue
        below = [c for c in tree.children(child) if tree.plain.kind[c] == TEXT and tree.plain.link[c] != LINK_CONTENT]
        text = " ".join(t for t in (tree.values[c].strip() for c in below) if t)
        value = tree.attributes(child).get("value", "").strip() or text
        if text or value:
            shown.append((text, value))
    if not shown:
        return Part("Options", "listbox")
    labels = tuple(_shortened(text or value) for text, value in shown[:SHOWN_OPTIONS])
    return Part("Options", "listbox", count=len(shown), options=labels, format=_hint([v for _, v in shown]))


def _shortened(text: str) -> str:
    return text[:MAX_OPTION] + "..." if len(text) > MAX_OPTION else text


def _hint(values: list[str]) -> str | None:
    some = [v for v in values[:HINT_OPTIONS] if v]
    if len(values) < MIN_HINT_OPTIONS or not some:
        return None
    if all(v.isdigit() for v in some):
        return "numeric"
    if all(len(v) == 2 and v.isupper() for v in some):
        return "country/state codes"
    if all("/" in v or "-" in v for v in some):
        return "date/path format"
    return "email addresses" if any("@" in v for v in some) else None
