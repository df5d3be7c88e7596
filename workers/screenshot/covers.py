"""What of a picture must be covered: secret fields that hold a value, texts that repeat a secret, frames unknown.

A field is covered wherever it was before the picture and after it, and between the two. Also a password is covered,
since its dots tell how long it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from workers.merge.secret_fields import FIELD_TAGS, is_secret, tag_of
from workers.screenshot.places import Node, PlacedDocument, Places, Rect, around

_ROWS = msgspec.json.Decoder(list[list[int]])
TEXT_TYPES = frozenset({"", "text", "search", "tel", "url", "email", "password"})
"""Inputs that show nothing but their value (HTML, 4.10.5); one of another type may show what is no value yet."""


def covers_of(before: Places, after: Places, secrets: Sequence[str]) -> list[Rect]:
    """The rectangles to be covered, in CSS pixels of the top document; `secrets` are texts that may not be read."""
    found: dict[Node, Rect] = {}
    known = {key for places in (before, after) for key in _secret_fields(places, secrets)}
    for places in (before, after):
        for key in known:
            held = places.find(key)
            rect = _rect(*held) if held is not None else None
            if rect is not None:
                found[key] = around(found[key], rect) if key in found else rect
    texts = [rect for places in (before, after) for rect in _texts(places, secrets)] if secrets else []
    return [*found.values(), *dict.fromkeys(texts), *after.unknown]


def _rect(document: PlacedDocument, node: int) -> Rect | None:
    rect = document.rect(node)
    # nobody knows where in a frame that is turned
    return document.place.window if document.place.odd and rect is not None else rect


def _secret_fields(places: Places, secrets: Sequence[str]) -> set[Node]:
    """The fields that may show a secret: those of a secret kind with a value, and any with a secret value."""
    found: set[Node] = set()
    for document in places.documents:
        fields = [node for node in document.elements(FIELD_TAGS) if node in document.rows]
        if not fields:
            continue
        nodes, strings = document.document.nodes, document.strings
        rows = _ROWS.decode(nodes.attributes)
        values: dict[int, str] = {}
        for rare in (nodes.inputValue, nodes.textValue):
            values |= {i: strings[v] for i, v in zip(rare.index, rare.value, strict=True) if v >= 0 and strings[v]}
        for node in fields:
            flat = [strings[i] if i >= 0 else "" for i in rows[node]]
            attributes = list(zip(flat[::2], flat[1::2], strict=False))
            tag = tag_of(document.tag(node))
            kind = next((value.strip().lower() for name, value in attributes if name.lower() == "type"), "")
            is_shown = bool(values.get(node)) or tag == "select" or (tag == "input" and kind not in TEXT_TYPES)
            repeats = _tells(values.get(node, ""), secrets)
            if (is_shown and is_secret(tag, attributes)) or repeats:
                found.add((document.target, nodes.backendNodeId[node]))
    return found


def _texts(places: Places, secrets: Sequence[str]) -> list[Rect]:
    found: list[Rect] = []
    for document in places.documents:
        telling = {i for i, text in enumerate(document.strings) if _tells(text, secrets)}
        if telling:
            layout = document.document.layout
            found += [
                document.place.window if document.place.odd else document.rect_of_row(row)
                for row, text in enumerate(layout.text)
                if text in telling
            ]
    return found


def _tells(text: str, secrets: Sequence[str]) -> bool:
    """Whether a text holds a secret, in whatever case a style sheet may show it (CSS Text 3, 2.1)."""
    folded = text.casefold()
    return any(secret.casefold() in folded for secret in secrets)
