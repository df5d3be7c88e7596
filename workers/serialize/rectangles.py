"""A union of rectangles that splits exactly as browser-use's does, without comparing everything with everything.

Reference (browser-use 0.13.14, serializer/paint_order.py): a list of disjoint rectangles; a new one is cut by every
stored one in order and the leftovers are appended; nothing is added any more once the list holds 5,000. Whether a
rectangle with an area is covered depends on the union alone; for one without area it depends on the cuts.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Rect: TypeAlias = tuple[float, float, float, float]
"""x1, y1, x2, y2."""

MAX_STORED = 5000
"""The union refuses additions from this size on; one addition may overshoot it (same place)."""
_BLOCK = 2_000_000
"""Pairs compared at once: bounds the memory of a page whose rectangles all overlap."""


def crosses(a: Rect, b: Rect) -> bool:
    """True if the two overlap strictly, so that one cuts the other."""
    return not (a[2] <= b[0] or a[0] >= b[2] or a[3] <= b[1] or a[1] >= b[3])


def within(a: Rect, b: Rect) -> bool:
    """True if a lies in b, borders included."""
    return b[0] <= a[0] and b[1] <= a[1] and b[2] >= a[2] and b[3] >= a[3]


def cut(a: Rect, b: Rect) -> list[Rect]:
    """What is left of a without b: the full-width bands below and above, then the sides; only copies of coordinates."""
    parts: list[Rect] = []
    ax1, ay1, ax2, ay2 = a
    bx1, by1, bx2, by2 = b
    if ay1 < by1:
        parts.append((ax1, ay1, ax2, by1))
    if by2 < ay2:
        parts.append((ax1, by2, ax2, ay2))
    low, high = max(ay1, by1), min(ay2, by2)
    if ax1 < bx1:
        parts.append((ax1, low, bx1, high))
    if bx2 < ax2:
        parts.append((bx2, low, ax2, high))
    return parts


def left_over(rect: Rect, others: list[Rect]) -> list[Rect]:
    """What is left of rect after being cut by the others in order."""
    pieces = [rect]
    for other in others:
        if any(crosses(piece, other) for piece in pieces):
            pieces = [q for p in pieces for q in (cut(p, other) if crosses(p, other) else (p,))]
            if not pieces:
                break
    return pieces


def is_covered(rect: Rect, others: list[Rect]) -> bool:
    """The reference's own test, piece by piece: closed inclusion drops a piece, strict overlap cuts it."""
    pieces = [rect]
    for other in others:
        rest: list[Rect] = []
        for piece in pieces:
            if within(piece, other):
                continue
            rest.extend(cut(piece, other) if crosses(piece, other) else (piece,))
        pieces = rest
        if not pieces:
            return True
    return False


def crossing_pairs(rects: F64) -> tuple[I64, I64]:
    """All pairs (i, j) of rows that overlap strictly, each once, in no particular order."""
    count = len(rects)
    order = np.argsort(rects[:, 1], kind="stable")
    x1, y1, x2, y2 = (np.ascontiguousarray(rects[order, k]) for k in range(4))
    first = np.arange(1, count + 1)
    many = np.maximum(np.searchsorted(y1, y2, "left") - first, 0)
    ends = np.cumsum(many)
    left: list[I64] = []
    right: list[I64] = []
    start = 0
    while start < count:
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + _BLOCK, "right")))
        part = many[start:stop]
        i = np.repeat(np.arange(start, stop), part)
        j = np.arange(len(i)) - np.repeat(ends[start:stop] - part - done, part) + i + 1
        hit = (x1[i] < x2[j]) & (x2[i] > x1[j]) & (y1[i] < y2[j]) & (y2[i] > y1[j])
        left.append(order[i[hit]])
        right.append(order[j[hit]])
        start = stop
    empty = np.empty(0, np.int64)
    return np.concatenate([empty, *left]), np.concatenate([empty, *right])


class Occluders:
    """The rectangles of one context in the order in which they are added, and the answers about them.

    `rects` are (x1, y1, x2, y2) by row, `paint_order` falls; only rectangles of a strictly greater paint order count
    for a query, since a group is added after it was asked about.
    """

    __slots__ = ("_added", "_pieces", "paint_order", "rects")

    def __init__(self, rects: F64, paint_order: I64) -> None:
        self.rects = rects
        self.paint_order = paint_order
        self._pieces: list[list[Rect]] = []
        self._added = self._add_all()

    def covers(self, rect: Rect, paint_order: int) -> bool:
        """True if the union of what was painted later contains the rectangle."""
        count = min(self._added, int(np.searchsorted(-self.paint_order, -paint_order, "left")))
        if not count:
            return False
        rects = self.rects[:count]
        if rect[0] >= rect[2] or rect[1] >= rect[3]:
            return self._covers_flat(rect, rects)
        near = (rects[:, 0] < rect[2]) & (rects[:, 2] > rect[0]) & (rects[:, 1] < rect[3]) & (rects[:, 3] > rect[1])
        rows = np.nonzero(near)[0]
        if not len(rows):
            return False
        found = rects[rows]
        x1, y1 = np.maximum(found[:, 0], rect[0]), np.maximum(found[:, 1], rect[1])
        x2, y2 = np.minimum(found[:, 2], rect[2]), np.minimum(found[:, 3], rect[3])
        areas = (x2 - x1) * (y2 - y1)
        whole = (rect[2] - rect[0]) * (rect[3] - rect[1])
        if np.any((x1 == rect[0]) & (y1 == rect[1]) & (x2 == rect[2]) & (y2 == rect[3])):
            return True
        if float(areas.sum()) < whole * 0.999:  # far beyond rounding: the overlaps cannot fill the rectangle
            return False
        largest_first = found[np.argsort(-areas, kind="stable")]
        return not left_over(rect, [_rect(row) for row in largest_first.tolist()])

    def _covers_flat(self, rect: Rect, rects: F64) -> bool:
        return is_covered(rect, self._touching(rect, rects))

    def _touching(self, rect: Rect, rects: F64) -> list[Rect]:
        """The stored pieces of the occluders that touch the rectangle, in the order in which they were stored."""
        near = (rects[:, 0] <= rect[2]) & (rects[:, 2] >= rect[0]) & (rects[:, 1] <= rect[3]) & (rects[:, 3] >= rect[1])
        return [piece for row in np.nonzero(near)[0].tolist() for piece in self._pieces[row]]

    def _add_all(self) -> int:
        """Cut every rectangle by its earlier neighbours; returns how many were added before the union was full."""
        count = len(self.rects)
        left, right = crossing_pairs(self.rects)
        earlier, later = np.minimum(left, right), np.maximum(left, right)
        order = np.lexsort((earlier, later))
        earlier, later = earlier[order], later[order]
        starts = np.searchsorted(later, np.arange(count + 1)).tolist()
        neighbours = earlier.tolist()
        stored = 0
        pieces = self._pieces
        for row, coordinates in enumerate(self.rects.tolist()):
            if stored >= MAX_STORED:
                return row
            rect = _rect(coordinates)
            near = neighbours[starts[row] : starts[row + 1]]
            if rect[0] >= rect[2] or rect[1] >= rect[3]:
                touching = self._touching(rect, self.rects[:row])
                rest = [] if is_covered(rect, touching) else left_over(rect, touching)
            elif near:
                rest = left_over(rect, [p for other in near for p in pieces[other] if crosses(rect, p)])
            else:
                rest = [rect]
            pieces.append(rest)
            stored += len(rest)
        return count


def _rect(row: list[float]) -> Rect:
    return row[0], row[1], row[2], row[3]
