"""Where a value is drawn tells how long it is, and where a list is scrolled to tells what is selected in it.

What is drawn inside a secret field takes the rectangle of the field, a field scrolls nowhere, and the options of a
select stand as if nobody had scrolled and nothing were selected. The rectangle of the field itself stays: its width
follows the value only where the page or the browser sizes it by its content.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from workers.merge.secret_texts import MASK

Rows: TypeAlias = list[list[int | float]]

NUMBERS = msgspec.json.Decoder(list[int])
STRING_ROWS = msgspec.json.Decoder(list[list[int]])
RECTANGLES = msgspec.json.Decoder(list[list[int | float]])  # whole numbers stay whole, so that they are written alike

LAYOUT_COLUMNS: dict[str, msgspec.json.Decoder[Any]] = {
    "nodeIndex": NUMBERS,
    "text": NUMBERS,
    "styles": STRING_ROWS,
    "bounds": RECTANGLES,
    "offsetRects": RECTANGLES,
    "clientRects": RECTANGLES,
    "scrollRects": RECTANGLES,
}
"""CDP's LayoutTreeSnapshot, so far as it is looked at when values are masked."""
TEXT_BOX_COLUMNS: dict[str, msgspec.json.Decoder[Any]] = {
    "layoutIndex": NUMBERS,
    "bounds": RECTANGLES,
    "start": NUMBERS,
    "length": NUMBERS,
}
"""CDP's TextBoxSnapshot."""


class SecretLayout:
    """The decoded layout of one document, with its text boxes if it has any."""

    def __init__(self, layout: dict[str, Any], boxes: dict[str, Any]) -> None:
        self._boxes = boxes
        self._nodes: list[int] = layout["nodeIndex"]
        self._bounds: Rows = layout.get("bounds", [])
        self._offsets: Rows = layout.get("offsetRects", [])
        self._clients: Rows = layout.get("clientRects", [])
        self._scrolls: Rows = layout.get("scrollRects", [])
        self._styles: list[list[int]] = layout.get("styles", [])
        self._first: dict[int, int] = {}
        for row, node in enumerate(self._nodes):
            self._first.setdefault(node, row)

    def hide_sizes(self, owner: Mapping[int, int]) -> bool:
        """Give what is inside a field the field's rectangle; True if that changed anything.

        `owner` has the field of each node that repeats its value; the field itself is one of them.
        """
        changed = False
        for row, node in enumerate(self._nodes):
            if node not in owner:
                continue
            top = self._first.get(owner[node], row)
            if node != owner[node]:
                for column in (self._bounds, self._offsets, self._clients):
                    changed |= _put(column, row, _at(column, top))
            client = _at(self._clients, top)
            if len(client) == 4:
                changed |= _put(self._scrolls, row, [0, 0, *client[2:]])
        return self._hide_boxes(owner) or changed

    def scroll_back(self, inside: Mapping[int, int], owner: Mapping[int, int]) -> bool:
        """Undo the scrolling of the selects in whose lists `inside` says a node stands; True if one was scrolled."""
        moved: dict[int, tuple[int | float, int | float]] = {}
        for select in {s for s in inside.values() if s in self._first}:
            scroll = _at(self._scrolls, self._first[select])
            if len(scroll) == 4 and (scroll[0] or scroll[1]):
                moved[select] = (scroll[0], scroll[1])
                scroll[:2] = [0, 0]
        if not moved:
            return False
        by_row = {
            row: moved[inside[node]]
            for row, node in enumerate(self._nodes)
            if node not in owner and inside.get(node) in moved and inside[node] != node
        }
        for row, (x, y) in by_row.items():
            _shift(_at(self._bounds, row), x, y)
        for place, row in enumerate(self._boxes.get("layoutIndex", ())):
            if row in by_row:
                _shift(_at(self._boxes.get("bounds", []), place), *by_row[row])
        return True

    def level(self, group: Mapping[int, tuple[int, str]]) -> set[int]:
        """Give all nodes of a group the styles that most of them have; returns those whose styles changed."""
        rows: dict[tuple[int, str], list[int]] = {}
        for row, node in enumerate(self._nodes[: len(self._styles)]):
            if node in group:
                rows.setdefault(group[node], []).append(row)
        changed: set[int] = set()
        for places in rows.values():
            common = Counter(tuple(self._styles[row]) for row in places).most_common(1)[0][0]
            for row in places:
                if tuple(self._styles[row]) != common:
                    self._styles[row] = list(common)
                    changed.add(self._nodes[row])
        return changed

    def _hide_boxes(self, owner: Mapping[int, int]) -> bool:
        """Leave one box of each masked text."""
        if not all(name in self._boxes for name in TEXT_BOX_COLUMNS):
            return False
        kept: list[tuple[Any, ...]] = []
        boxes = list(zip(*(self._boxes[name] for name in TEXT_BOX_COLUMNS), strict=False))
        seen: set[int] = set()
        for box in boxes:
            row = box[0]
            node = self._nodes[row] if 0 <= row < len(self._nodes) else -1
            if node not in owner:
                kept.append(box)
            elif row not in seen:
                seen.add(row)
                kept.append((row, _at(self._bounds, self._first.get(owner[node], row)), 0, len(MASK)))
        if kept == boxes:
            return False
        for place, name in enumerate(TEXT_BOX_COLUMNS):
            self._boxes[name] = [box[place] for box in kept]
        return True


def _at(rows: Rows, place: int) -> list[int | float]:
    return rows[place] if place < len(rows) else []


def _put(rows: Rows, place: int, row: list[int | float]) -> bool:
    """Replace a row that has something in it; True if that changed it."""
    if not _at(rows, place) or rows[place] == row:
        return False
    rows[place] = list(row)
    return True


def _shift(rectangle: list[int | float], x: int | float, y: int | float) -> None:
    rectangle[:2] = [place + by for place, by in zip(rectangle[:2], (x, y), strict=False)]
