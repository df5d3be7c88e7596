"""The layout snapshot of one target becomes one record per node, looked up by backend node id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import msgspec
import numpy as np
from numpy.typing import NDArray

from schemas.capture import Payload
from workers.merge.errors import PayloadError
from workers.merge.payloads import (
    METRICS_DECODER,
    SNAPSHOT_DECODER,
    STRING_ROWS_DECODER,
    LayoutMetrics,
    RareFlags,
    RareStrings,
    Snapshot,
    SnapshotDocument,
    decode,
)

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

FALLBACK_CSS_WIDTH = 1920.0
"""Viewport width where layout metrics name none (browser-use 0.13.14, dom/service.py)."""
MAX_COORDINATE = 1e100
"""Beyond any layout (Chromium clamps at 2**25 px), and small enough that areas stay finite."""
MAX_RATIO = 1e6
"""Beyond any zoom; a ratio outside its range counts as unknown."""
SENSITIVE_TYPES = frozenset({"password", "file", "hidden"})
SENSITIVE_AUTOCOMPLETE = ("cc-", "one-time-code")
"""Fields whose live value is left out (browser-use 0.13.14, dom/enhanced_snapshot.py)."""


@dataclass(frozen=True, slots=True)
class Records:
    """Columns of snapshot records, one row per snapshot node of a target, documents one after the other.

    Rectangles are (x, y, width, height). `layout` is the row in the layout columns, -1 without layout.
    `style` is the row in `style_rows`, -1 where no styles are known. Flags: 1 set, 0 not set, -1 unknown.
    """

    backend_node_id: I64
    document: I64
    layout: I64
    is_clickable: NDArray[np.int8]
    input_checked: NDArray[np.int8]
    input_values: dict[int, str]
    bounds: F64
    paint_order: I64
    scroll_rect: F64
    client_rect: F64
    style: I64
    style_rows: list[tuple[str | None, ...]]


def read_metrics(payload: Payload | None) -> LayoutMetrics | None:
    """The layout metrics, or None where they are missing or malformed (the page then counts as unscaled)."""
    if payload is None:
        return None
    try:
        return decode(METRICS_DECODER, payload)[0]
    except PayloadError:
        return None


def device_pixel_ratio(metrics: LayoutMetrics | None) -> float:
    """visualViewport.clientWidth / CSS width; 1.0 on any problem (browser-use 0.13.14, dom/service.py)."""
    if metrics is None:
        return 1.0
    css = metrics.cssVisualViewport.clientWidth
    css = metrics.cssLayoutViewport.clientWidth if css is None else css
    css = FALLBACK_CSS_WIDTH if css is None else css
    device = css if metrics.visualViewport.clientWidth is None else metrics.visualViewport.clientWidth
    ratio = device / css if css > 0 else 1.0
    return ratio if 1 / MAX_RATIO <= ratio <= MAX_RATIO else 1.0


def read_records(payload: Payload, ratio: float) -> tuple[Records, int]:
    """All records of one target and the number of surrogates replaced; bounds are divided by the pixel ratio."""
    snapshot, replaced = decode(SNAPSHOT_DECODER, payload)
    parts = [_Part(snapshot, number, document) for number, document in enumerate(snapshot.documents)]
    sizes = [len(d.nodes.backendNodeId) for d in snapshot.documents]
    starts = np.cumsum([0, *sizes])
    layout = np.full(int(starts[-1]), -1, np.int64)
    rows = 0
    input_values: dict[int, str] = {}
    clickable = np.full(int(starts[-1]), -1, np.int8)
    checked = np.full(int(starts[-1]), -1, np.int8)
    for part, start, size in zip(parts, starts, sizes, strict=False):
        node_index = part.node_index
        # reversed, so that the first layout row of a node wins
        layout[start + node_index[::-1]] = rows + np.arange(len(node_index) - 1, -1, -1)
        rows += len(node_index)
        for column, indexes in ((clickable, part.clickable), (checked, part.checked)):
            if indexes is not None:
                column[start : start + size] = 0
                column[start + indexes] = 1
        for index, text in part.input_values().items():
            input_values[int(start) + index] = text
    table: dict[tuple[int, ...], int] = {}
    style = [s for part in parts for s in part.style_numbers(table)]
    bounds = _stack([p.bounds for p in parts])
    records = Records(
        backend_node_id=_integers(
            "nodes.backendNodeId", [b for d in snapshot.documents for b in d.nodes.backendNodeId]
        ),
        document=np.repeat(np.arange(len(sizes)), sizes),
        layout=layout,
        is_clickable=clickable,
        input_checked=checked,
        input_values=input_values,
        bounds=bounds if ratio == 1.0 else bounds / ratio,
        paint_order=np.concatenate([p.paint_order for p in parts]) if parts else np.empty(0, np.int64),
        scroll_rect=_stack([p.scroll_rect for p in parts]),
        client_rect=_stack([p.client_rect for p in parts]),
        style=np.array(style, np.int64),
        style_rows=[_style_row(row, snapshot.strings) for row in table],
    )
    return records, replaced


class _Part:
    """One document of a snapshot, checked."""

    __slots__ = (
        "bounds",
        "checked",
        "clickable",
        "client_rect",
        "document",
        "field",
        "node_index",
        "paint_order",
        "scroll_rect",
        "size",
        "strings",
    )

    def __init__(self, snapshot: Snapshot, number: int, document: SnapshotDocument) -> None:
        self.field = f"documents[{number}]"
        self.document = document
        self.strings = snapshot.strings
        self.size = len(document.nodes.backendNodeId)
        layout = document.layout
        self.node_index = self._indexes("layout.nodeIndex", layout.nodeIndex)
        count = len(self.node_index)
        for name in ("bounds", "styles", "paintOrders", "scrollRects", "clientRects"):
            length = len(getattr(layout, name))
            if length != count and (length or name == "bounds"):
                raise PayloadError("layout_snapshot", f"{self.field}.layout.{name}", f"has {length} of {count} rows")
        self.bounds = np.fromiter(chain.from_iterable(layout.bounds), np.float64, 4 * count).reshape(count, 4)
        self._finite("bounds", self.bounds)
        self.paint_order = (
            _integers(f"{self.field}.layout.paintOrders", layout.paintOrders)
            if layout.paintOrders
            else np.full(count, -1, np.int64)
        )
        self.scroll_rect = self._rectangles("scrollRects", layout.scrollRects)
        self.client_rect = self._rectangles("clientRects", layout.clientRects)
        nodes = document.nodes
        self.clickable = self._flags("nodes.isClickable.index", nodes.isClickable)
        self.checked = self._flags("nodes.inputChecked.index", nodes.inputChecked)

    def _flags(self, name: str, rare: RareFlags | None) -> I64 | None:
        return None if rare is None else self._indexes(name, rare.index)

    def _indexes(self, name: str, values: Sequence[int]) -> I64:
        indexes = _integers(f"{self.field}.{name}", values)
        if len(indexes) and (int(indexes.min()) < 0 or int(indexes.max()) >= self.size):
            raise PayloadError("layout_snapshot", f"{self.field}.{name}", f"is out of range: {self.size} nodes")
        return indexes

    def _rectangles(self, name: str, rows: list[list[float]]) -> F64:
        """One row per layout row; NaN where the payload has an empty list."""
        out = np.full((len(self.node_index), 4), np.nan)
        if not rows:
            return out
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        filled = lengths == 4
        if not np.all(filled | (lengths == 0)):
            raise PayloadError("layout_snapshot", f"{self.field}.layout.{name}", "has a row that is not four numbers")
        found = np.fromiter(chain.from_iterable(rows), np.float64, 4 * int(filled.sum())).reshape(-1, 4)
        self._finite(name, found)
        out[filled] = found
        return out

    def _finite(self, name: str, rectangles: F64) -> None:
        if len(rectangles) and float(np.abs(rectangles).max()) > MAX_COORDINATE:
            raise PayloadError("layout_snapshot", f"{self.field}.layout.{name}", "has a coordinate out of all bounds")

    def style_numbers(self, table: dict[tuple[int, ...], int]) -> list[int]:
        """For each layout row the number of its combination of styles in `table`, which grows."""
        styles = self.document.layout.styles
        if not styles:
            return [-1] * len(self.node_index)
        return [table.setdefault(tuple(row), len(table)) if row else -1 for row in styles]

    def input_values(self) -> dict[int, str]:
        """Live values by node index; a text value takes precedence over an input value, sensitive fields have none."""
        nodes = self.document.nodes
        values: dict[int, str] = {}
        for name, rare in (("inputValue", nodes.inputValue), ("textValue", nodes.textValue)):
            if rare is not None:
                values.update(self._rare(name, rare))
        if not values:
            return values
        try:
            attributes = STRING_ROWS_DECODER.decode(nodes.attributes)
        except msgspec.MsgspecError as error:
            raise PayloadError("layout_snapshot", f"{self.field}.nodes.attributes", str(error)) from error
        return {
            index: text
            for index, text in values.items()
            if index >= len(attributes) or not self._sensitive(attributes[index])
        }

    def _rare(self, name: str, rare: RareStrings) -> dict[int, str]:
        self._indexes(f"nodes.{name}.index", rare.index)
        pairs = zip(rare.index, rare.value, strict=False)
        return {index: self.strings[value] for index, value in pairs if 0 <= value < len(self.strings)}

    def _sensitive(self, row: list[int]) -> bool:
        texts = [self.strings[i] if 0 <= i < len(self.strings) else "" for i in row]
        return is_sensitive(dict(zip(texts[::2], texts[1::2], strict=False)))


def is_sensitive(attributes: dict[str, str]) -> bool:
    """True for a field whose live value browser-use leaves out: password, file, hidden, cards, one-time codes."""
    lowered = {name.lower(): value.lower() for name, value in attributes.items()}
    return lowered.get("type", "") in SENSITIVE_TYPES or lowered.get("autocomplete", "").startswith(
        SENSITIVE_AUTOCOMPLETE
    )


def _style_row(row: tuple[int, ...], strings: list[str]) -> tuple[str | None, ...]:
    return tuple(strings[i] if 0 <= i < len(strings) else None for i in row)


def _integers(field: str, values: Sequence[int]) -> I64:
    try:
        return np.array(values, np.int64)
    except OverflowError as error:
        raise PayloadError("layout_snapshot", field, "has a number beyond 64 bits") from error


def _stack(parts: list[F64]) -> F64:
    return np.concatenate(parts) if parts else np.empty((0, 4))
