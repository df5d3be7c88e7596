"""The layout snapshot of one target becomes one record per node, looked up by backend node id."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schemas.capture import Payload
from workers.merge.columns import int32_column, int64_column
from workers.merge.errors import PayloadError
from workers.merge.payloads import (
    METRICS_DECODER,
    SNAPSHOT_DECODER,
    LayoutMetrics,
    RareFlags,
    RareStrings,
    Snapshot,
    SnapshotDocument,
    decode,
)
from workers.merge.rows import Rectangles, cut_rows, four_numbers, style_numbers, texts

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

FALLBACK_CSS_WIDTH = 1920.0
"""Viewport width where layout metrics name none (browser-use 0.13.14, dom/service.py)."""
MAX_RATIO = 1e6
"""Beyond any zoom; a ratio outside its range counts as unknown."""
SENSITIVE_TYPES = frozenset({"password", "file", "hidden"})
SENSITIVE_AUTOCOMPLETE = ("cc-", "one-time-code")
"""Fields whose live value is left out (browser-use 0.13.14, dom/enhanced_snapshot.py)."""


@dataclass(frozen=True, slots=True)
class Records:
    """Columns of snapshot records, one row per snapshot node of a target, documents one after the other.

    Flags: 1 set, 0 not set, -1 unknown. `layout` is the row in the layout columns (from bounds on), -1 without layout;
    these columns have a last row for that case. `style` is the row in `style_rows`, -1 where no styles are known.
    Rectangles are (x, y, width, height); those of scroll and client are appended to what the caller passed.
    """

    backend_node_id: I64
    document: I32
    layout: I32
    is_clickable: NDArray[np.int8]
    input_checked: NDArray[np.int8]
    input_values: dict[int, str]
    bounds: F64
    paint_order: I64
    style: I32
    style_rows: list[tuple[str | None, ...]]
    layout_rows: int


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


def read_records(payload: Payload, ratio: float, scroll: Rectangles, client: Rectangles) -> tuple[Records, int]:
    """All records of one target and the number of surrogates replaced; bounds are divided by the pixel ratio."""
    snapshot, replaced = decode(SNAPSHOT_DECODER, payload)
    table: dict[bytes, int] = {}
    parts = [_Part(snapshot, number, document, table) for number, document in enumerate(snapshot.documents)]
    ids = [d.nodes.backendNodeId for d in snapshot.documents]
    count = sum(map(len, ids))
    layout = np.full(count, -1, np.int32)
    document = np.zeros(count, np.int32)
    clickable = np.full(count, -1, np.int8)
    checked = np.full(count, -1, np.int8)
    input_values: dict[int, str] = {}
    start = rows = 0
    for number, part in enumerate(parts):
        end = start + part.size
        many = len(part.node_index)
        # reversed, so that the first layout row of a node wins
        layout[start + part.node_index[::-1]] = np.arange(rows + many - 1, rows - 1, -1)
        document[start:end] = number
        for column, indexes in ((clickable, part.clickable), (checked, part.checked)):
            if indexes is not None:
                column[start:end] = 0
                column[start + indexes] = 1
        for index, text in part.input_values().items():
            input_values[start + index] = text
        raw = part.document.layout
        scroll.add(f"{part.field}.layout.scrollRects", raw.scrollRects, many)
        client.add(f"{part.field}.layout.clientRects", raw.clientRects, many)
        start, rows = end, rows + many
    bounds = _joined([p.bounds for p in parts])
    records = Records(
        backend_node_id=_integers(
            "nodes.backendNodeId", ids[0] if len(ids) == 1 else [b for part in ids for b in part]
        ),
        document=document,
        layout=layout,
        is_clickable=clickable,
        input_checked=checked,
        input_values=input_values,
        bounds=bounds if ratio == 1.0 else bounds / ratio,
        paint_order=np.concatenate([*(part.paint_order for part in parts), np.array([-1])]),
        style=np.concatenate([*(int32_column(part.style) for part in parts), np.array([-1], np.int32)]),
        style_rows=texts("layout.styles", table, snapshot.strings),
        layout_rows=rows,
    )
    return records, replaced


class _Part:
    """One document of a snapshot, checked."""

    __slots__ = (
        "bounds",
        "checked",
        "clickable",
        "document",
        "field",
        "node_index",
        "paint_order",
        "size",
        "strings",
        "style",
    )

    def __init__(self, snapshot: Snapshot, number: int, document: SnapshotDocument, styles: dict[bytes, int]) -> None:
        self.field = f"documents[{number}]"
        self.document = document
        self.strings = snapshot.strings
        self.size = len(document.nodes.backendNodeId)
        layout = document.layout
        self.node_index = self._indexes("layout.nodeIndex", layout.nodeIndex)
        count = len(self.node_index)
        self.bounds = four_numbers(f"{self.field}.layout.bounds", layout.bounds, count)
        self.style = style_numbers(f"{self.field}.layout.styles", layout.styles, count, styles)
        orders = layout.paintOrders or [-1] * count
        if len(orders) != count:
            raise PayloadError(
                "layout_snapshot", f"{self.field}.layout.paintOrders", f"has {len(orders)} of {count} rows"
            )
        self.paint_order = _integers(f"{self.field}.layout.paintOrders", orders)
        nodes = document.nodes
        self.clickable = self._flags("nodes.isClickable.index", nodes.isClickable)
        self.checked = self._flags("nodes.inputChecked.index", nodes.inputChecked)

    def _flags(self, name: str, rare: RareFlags | None) -> I64 | None:
        return None if rare is None else self._indexes(name, rare.index)

    def _indexes(self, name: str, values: list[int]) -> I64:
        indexes = None
        with suppress(OverflowError):
            indexes = int64_column(values)
        if indexes is None or (values and (indexes.min() < 0 or indexes.max() >= self.size)):
            raise PayloadError("layout_snapshot", f"{self.field}.{name}", f"is out of range: {self.size} nodes")
        return indexes

    def input_values(self) -> dict[int, str]:
        """Live values by node index; a text value takes precedence over an input value, sensitive fields have none."""
        nodes = self.document.nodes
        values: dict[int, str] = {}
        for name, rare in (("inputValue", nodes.inputValue), ("textValue", nodes.textValue)):
            if rare is not None:
                values.update(self._rare(name, rare))
        if not values:
            return values
        if not len(memoryview(nodes.attributes)):
            raise PayloadError("layout_snapshot", f"{self.field}.nodes.attributes", "is missing")
        field = f"{self.field}.nodes.attributes"
        attributes = cut_rows(field, nodes.attributes, self.size)
        rows = texts(field, [attributes[index] for index in values], self.strings)
        return {index: text for (index, text), row in zip(values.items(), rows, strict=True) if not _is_sensitive(row)}

    def _rare(self, name: str, rare: RareStrings) -> dict[int, str]:
        self._indexes(f"nodes.{name}.index", rare.index)
        pairs = zip(rare.index, rare.value, strict=False)
        return {index: self.strings[value] for index, value in pairs if 0 <= value < len(self.strings)}


def _is_sensitive(flat: tuple[str | None, ...]) -> bool:
    """True for a field whose live value browser-use leaves out: password, file, hidden, cards, one-time codes."""
    lowered = [(text or "").lower() for text in flat]
    attributes = dict(zip(lowered[::2], lowered[1::2], strict=False))
    return attributes.get("type", "") in SENSITIVE_TYPES or attributes.get("autocomplete", "").startswith(
        SENSITIVE_AUTOCOMPLETE
    )


def _integers(field: str, values: list[int]) -> I64:
    try:
        return int64_column(values)
    except OverflowError as error:
        raise PayloadError("layout_snapshot", field, "has a number beyond 64 bits") from error


def _joined(parts: list[F64]) -> F64:
    """The bounds of all documents; each part's last row, which is none, gives way to the one at the end of all."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([*(part[:-1] for part in parts), np.full((1, 4), np.nan)])
