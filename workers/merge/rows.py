"""Columns whose rows are short lists of numbers are cut into rows as bytes; a row is parsed when asked for."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from workers.merge.columns import float_column
from workers.merge.errors import PayloadError
from workers.merge.payloads import FLOATS_DECODER, RAW_ROWS_DECODER, RECTANGLES_DECODER, STRING_ROWS_DECODER

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]

MAX_COORDINATE = 1e100
"""Beyond any layout (Chromium clamps at 2**25 px), and small enough that areas stay finite."""
Rectangle: TypeAlias = tuple[float, float, float, float]
_NO_NUMBERS = (float("nan"),) * 4


def cut_rows(field: str, raw: Raw, count: int) -> list[bytes]:
    """The inner texts of the rows of a column like `[[1,2],[],[3]]`; none at all where the column is absent or empty.

    Chromium writes no white space, so that `],[` parts the rows; what comes otherwise takes the long way.
    """
    data = bytes(raw)
    if data in (b"", b"[]"):
        return []
    rows = data[2:-2].split(b"],[") if data.startswith(b"[[") and data.endswith(b"]]") else []
    if len(rows) != count:
        try:
            rows = [bytes(row).strip() for row in RAW_ROWS_DECODER.decode(data)]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PayloadError("layout_snapshot", field, str(error)) from error
        if not all(row.startswith(b"[") for row in rows):
            raise PayloadError("layout_snapshot", field, "has a row that is no list")
        rows = [row[1:-1].strip() for row in rows]
    if len(rows) != count:
        raise PayloadError("layout_snapshot", field, f"has {len(rows)} of {count} rows")
    return rows


def four_numbers(field: str, raw: Raw, count: int) -> F64:
    """A column of rectangles, all there; one row more at the end is NaN, so that row -1 is no rectangle."""
    data = bytes(raw)
    try:
        numbers = FLOATS_DECODER.decode(b"[" + data.translate(None, b"[]") + b"]") if count else []
        if len(numbers) != 4 * count or data.count(b"],[") != max(0, count - 1):
            rows = RECTANGLES_DECODER.decode(data)
            if len(rows) != count:
                raise PayloadError("layout_snapshot", field, f"has {len(rows)} of {count} rows")
            numbers = [number for row in rows for number in row]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PayloadError("layout_snapshot", field, str(error)) from error
    numbers += _NO_NUMBERS
    out = float_column(numbers).reshape(count + 1, 4)
    if count and max(float(out[:-1].max()), -float(out[:-1].min())) > MAX_COORDINATE:
        raise PayloadError("layout_snapshot", field, "has a coordinate out of all bounds")
    return out


class Rectangles:
    """A column of rectangles that are parsed when asked for; a row without numbers is none."""

    __slots__ = ("_count", "_known", "_parts")

    def __init__(self) -> None:
        self._parts: list[_Part] = []
        self._count = 0
        self._known: dict[int, Rectangle | None] = {}

    def add(self, field: str, raw: Raw, count: int) -> None:
        """Append the rows of one document; its rows are none where the column is absent."""
        self._parts.append(_Part(field, raw, self._count, count))
        self._count += count

    def __getitem__(self, row: int) -> Rectangle | None:
        """The rectangle of a layout row, None if there is none or the row is negative."""
        if row in self._known:
            return self._known[row]
        if row < 0:
            return None
        part = next(part for part in reversed(self._parts) if part.start <= row)
        found = self._known[row] = part.parse(row)
        return found

    def column(self, layout: I32) -> F64:
        """All of them by layout row, NaN where there is none."""
        return np.array([self[row] or _NO_NUMBERS for row in layout.tolist()], np.float64).reshape(len(layout), 4)


class _Part:
    """The rectangles of one document; cut into rows when the first is asked for."""

    __slots__ = ("_count", "_field", "_raw", "_rows", "start")

    def __init__(self, field: str, raw: Raw, start: int, count: int) -> None:
        self.start = start
        self._field = field
        self._raw = raw
        self._count = count
        self._rows: list[bytes] | None = None
        data = bytes(raw)
        if data in (b"", b"[]"):
            self._rows = [b""] * count
        elif data.count(b"],[") != count - 1 or data.count(b",") != count - 1 + 3 * (count - data.count(b"[]")):
            self._rows = cut_rows(field, raw, count)
            if any(row and row.count(b",") != 3 for row in self._rows):
                raise PayloadError("layout_snapshot", field, "has a row that is not four numbers")

    def parse(self, row: int) -> Rectangle | None:
        if self._rows is None:
            self._rows = cut_rows(self._field, self._raw, self._count)
        text = self._rows[row - self.start]
        if not text:
            return None
        try:
            x, y, width, height = FLOATS_DECODER.decode(b"[" + text + b"]")
        except (ValueError, UnicodeDecodeError) as error:  # msgspec's errors are ValueErrors
            raise PayloadError("layout_snapshot", self._field, "has a row that is not four numbers") from error
        if max(x, y, width, height) > MAX_COORDINATE or min(x, y, width, height) < -MAX_COORDINATE:
            raise PayloadError("layout_snapshot", self._field, "has a coordinate out of all bounds")
        return x, y, width, height


def style_numbers(field: str, raw: Raw, count: int, table: dict[bytes, int]) -> list[int]:
    """For each row the number of its text in `table`, which grows; -1 for an empty one, or where there are none."""
    rows = cut_rows(field, raw, count)
    if not rows:
        return [-1] * count
    for row in dict.fromkeys(rows):
        if row:
            table.setdefault(row, len(table))
    return list(map({**table, b"": -1}.__getitem__, rows))


def texts(field: str, rows: Collection[bytes], strings: list[str]) -> list[tuple[str | None, ...]]:
    """The texts of the string table that each row points to; None where an index is out of range."""
    if not rows:
        return []
    try:
        places = STRING_ROWS_DECODER.decode(b"[[" + b"],[".join(rows) + b"]]")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PayloadError("layout_snapshot", field, str(error)) from error
    count = len(strings)
    table: list[str | None] = [*strings, None]
    return [tuple([table[place if 0 <= place < count else -1] for place in row]) for row in places]
