"""A union of rectangles that splits exactly as browser-use's does, without comparing everything with everything.

Reference (browser-use 0.13.14, serializer/paint_order.py): a list of disjoint rectangles; a new one is cut by every
stored one in order and the leftovers are appended; nothing is added any more once the list holds 5,000. Whether a
rectangle with an area is covered depends on the union alone, unless a stored piece without area cuts it; for one
without area it depends on the cuts.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Rect: TypeAlias = tuple[float, float, float, float]
"""x1, y1, x2, y2."""
_NOWHERE: Rect = (float("nan"),) * 4

MAX_STORED = 5000
"""The union refuses additions from this size on; one addition may overshoot it (same place)."""
_BLOCK = 1 << 18
"""Pairs of a query and an occluder that are compared at once: they fit into a processor's cache."""
_FEW = 64
"""Up to so many pieces a loop over plain tuples is faster than arrays."""


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
    for number, other in enumerate(others):
        x1, y1, x2, y2 = other
        rest = []
        for p in pieces:
            if p[2] <= x1 or p[0] >= x2 or p[3] <= y1 or p[1] >= y2:
                rest.append(p)
                continue
            # the same as `cut`, without a call: this is the innermost loop
            px1, py1, px2, py2 = p
            if py1 < y1:
                rest.append((px1, py1, px2, y1))
            if y2 < py2:
                rest.append((px1, y2, px2, py2))
            low, high = max(py1, y1), min(py2, y2)
            if px1 < x1:
                rest.append((px1, low, x1, high))
            if x2 < px2:
                rest.append((x2, low, px2, high))
        if not rest:
            return rest
        pieces = rest
        if len(pieces) > _FEW:
            return _left_over_of_many(pieces, others[number + 1 :])
    return pieces


def _left_over_of_many(rects: list[Rect], others: list[Rect]) -> list[Rect]:
    """The same by arrays: each cut finds the few pieces that it crosses among all of them at once."""
    pieces = Pieces()
    pieces.add(rects)
    parts_of: dict[int, range] = {}
    for other in others:
        for place in pieces.crossing(other):
            parts = cut(pieces[place], other)
            parts_of[place] = range(pieces.count, pieces.count + len(parts))
            pieces.add(parts)
            pieces.drop(place)
    out = []
    stack = list(range(len(rects)))[::-1]
    while stack:  # parts stand where the piece stood that they were cut from
        place = stack.pop()
        if place in parts_of:
            stack += reversed(parts_of[place])
        else:
            out.append(pieces[place])
    return out


def is_covered(rect: Rect, others: list[Rect]) -> bool:
    """The reference's own test, piece by piece: closed inclusion drops a piece, strict overlap cuts it."""
    pieces = Pieces()
    pieces.add([rect])
    left = 1
    for other in others:
        for place in pieces.touching(other):
            piece = pieces[place]
            if within(piece, other):
                parts = []
            elif crosses(piece, other):
                parts = cut(piece, other)
            else:
                continue
            pieces.drop(place)
            pieces.add(parts)
            left += len(parts) - 1
        if not left:
            return True
    return False


class Pieces:
    """Rectangles in the order in which they were added, as columns, so that all are compared at once."""

    __slots__ = ("_rects", "_sides", "count")

    def __init__(self) -> None:
        self._rects: list[Rect] = []
        self._sides = np.empty((4, 64))
        self.count = 0

    def __getitem__(self, place: int) -> Rect:
        return self._rects[place]

    def add(self, rects: list[Rect]) -> None:
        """Append them."""
        end = self.count + len(rects)
        if end > self._sides.shape[1]:
            grown = np.empty((4, 2 * end))
            grown[:, : self.count] = self._sides[:, : self.count]
            self._sides = grown
        for place, rect in enumerate(rects, self.count):
            self._sides[:, place] = rect
        self._rects += rects
        self.count = end

    def drop(self, place: int) -> None:
        """From now on it neither crosses nor touches anything; the places of the others stay."""
        self._sides[:, place] = np.nan
        self._rects[place] = _NOWHERE

    def crossing(self, rect: Rect, count: int | None = None) -> list[int]:
        """The places, among the first `count`, of those that overlap the rectangle strictly, ascending."""
        end = self.count if count is None else count
        left, top, right, bottom = rect
        if end <= _FEW:
            few = enumerate(self._rects[:end])
            return [i for i, r in few if r[0] < right and r[2] > left and r[1] < bottom and r[3] > top]
        x1, y1, x2, y2 = self._sides[:, :end]
        found: list[int] = ((x1 < right) & (x2 > left) & (y1 < bottom) & (y2 > top)).nonzero()[0].tolist()
        return found

    def touching(self, rect: Rect, count: int | None = None) -> list[int]:
        """The places, among the first `count`, of those that share a point with the rectangle, ascending."""
        end = self.count if count is None else count
        left, top, right, bottom = rect
        if end <= _FEW:
            few = enumerate(self._rects[:end])
            return [i for i, r in few if r[0] <= right and r[2] >= left and r[1] <= bottom and r[3] >= top]
        x1, y1, x2, y2 = self._sides[:, :end]
        found: list[int] = ((x1 <= right) & (x2 >= left) & (y1 <= bottom) & (y2 >= top)).nonzero()[0].tolist()
        return found


class Occluders:
    """The rectangles of one context in the order in which they are added, and the answers about them.

    `rects` are (x1, y1, x2, y2) by row, `paint_order` falls; only rectangles of a strictly greater paint order count
    for a query, since a group is added after it was asked about. The union itself is worked out only where an answer
    depends on how it is cut up: whether it fills up, and where a rectangle without area takes part.
    """

    __slots__ = ("_ends", "_falling", "_flat_pieces", "_full_at", "_pieces", "_rects")

    def __init__(self, rects: F64, paint_order: I64) -> None:
        self._rects = rects
        self._falling = -paint_order
        self._pieces = Pieces()
        self._ends: list[int] | None = None
        self._flat_pieces: list[int] = []
        self._full_at = len(rects)
        if self._may_fill_up():
            self._add_all()

    @property
    def is_worked_out(self) -> bool:
        """True if the union is there piece by piece."""
        return self._ends is not None

    def covers(self, rect: Rect, paint_order: int) -> bool:
        """True if the union of what was painted later contains the rectangle."""
        return bool(self.cover(np.array([rect]), np.array([paint_order]))[0])

    def cover(self, rects: F64, paint_order: I64) -> Flags:
        """The same for many rectangles."""
        out = np.zeros(len(rects), np.bool_)
        counts = np.minimum(np.searchsorted(self._falling, -paint_order, "left"), self._full_at)
        asked = np.argsort(rects[:, 1], kind="stable")
        asked = asked[counts[asked] > 0]
        occluders = np.arange(self._full_at)
        if self._ends is not None:  # what was covered when it was added covers nothing more
            occluders = np.nonzero(np.diff(np.array([0, *self._ends])))[0]
        start = 0
        while start < len(asked):
            part = asked[start : start + max(1, _BLOCK // max(1, len(occluders)))]
            self._cover(part, rects[part], counts[part], occluders, out)
            start += len(part)
        return out

    def _cover(self, asked: I64, rects: F64, counts: I64, occluders: I64, out: Flags) -> None:
        low, high = float(rects[:, 1].min()), float(rects[:, 3].max())
        near = self._rects[occluders]
        here = (near[:, 1] <= high) & (near[:, 3] >= low)
        rows, near = occluders[here], near[here]
        x1, y1, x2, y2 = (near[:, k] for k in range(4))
        ax1, ay1, ax2, ay2 = (rects[:, k : k + 1] for k in range(4))
        counted = rows < counts[:, None]
        touching = (x1 <= ax2) & (x2 >= ax1) & (y1 <= ay2) & (y2 >= ay1) & counted
        flat = ((ax1 >= ax2) | (ay1 >= ay2))[:, 0]
        around = (x1 <= ax1) & (x2 >= ax2) & (y1 <= ay1) & (y2 >= ay2) & counted
        exact = flat | self._meet_flat_pieces(rects, counts)
        held = around.any(axis=1) & ~exact
        out[asked[held]] = True
        for place in (exact & touching.any(axis=1)).nonzero()[0].tolist():
            out[asked[place]] = self._covers_exactly(_rect(rects[place].tolist()), int(counts[place]))
        unsure = (touching.any(axis=1) & ~held & ~exact).nonzero()[0]
        if not len(unsure):
            return
        ax1, ay1, ax2, ay2 = ax1[unsure], ay1[unsure], ax2[unsure], ay2[unsure]
        areas = (np.minimum(x2, ax2) - np.maximum(x1, ax1)) * (np.minimum(y2, ay2) - np.maximum(y1, ay1))
        areas[~touching[unsure]] = 0
        # far beyond rounding: overlaps that add up to less cannot fill the rectangle
        may_fill = areas.sum(axis=1) >= ((ax2 - ax1) * (ay2 - ay1))[:, 0] * 0.999
        for row, place in zip(may_fill.nonzero()[0].tolist(), unsure[may_fill].tolist(), strict=True):
            largest_first = (-areas[row]).argsort(kind="stable")
            found = near[largest_first[touching[place][largest_first]]]
            rect = _rect(rects[place].tolist())
            out[asked[place]] = not left_over(rect, [_rect(one) for one in found.tolist()])

    def _meet_flat_pieces(self, rects: F64, counts: I64) -> Flags:
        """Whether a stored piece without area touches each: what it cuts off has no area, but must be covered."""
        if not self._flat_pieces or self._ends is None:
            return np.zeros(len(rects), np.bool_)
        x1, y1, x2, y2 = np.array([self._pieces[p] for p in self._flat_pieces]).T
        stored = np.array(self._flat_pieces) < np.array([0, *self._ends])[counts][:, None]
        ax1, ay1, ax2, ay2 = (rects[:, k : k + 1] for k in range(4))
        met: Flags = ((x1 <= ax2) & (x2 >= ax1) & (y1 <= ay2) & (y2 >= ay1) & stored).any(axis=1)
        return met

    def _covers_exactly(self, rect: Rect, count: int) -> bool:
        if self._ends is None:
            self._add_all()
        assert self._ends is not None
        return is_covered(rect, [self._pieces[p] for p in self._pieces.touching(rect, self._ends[count - 1])])

    def _may_fill_up(self) -> bool:
        """False if the union surely stays below its limit.

        Between two neighbouring y coordinates all pieces are as high as the gap, and their sides are sides of the
        rectangles that pass through it: there are less than twice as many pieces as rectangles.
        """
        x1, y1, x2, y2 = (self._rects[:, k] for k in range(4))
        if len(self._rects) >= MAX_STORED or bool(((x1 >= x2) | (y1 >= y2)).any()):
            return True
        levels = np.sort(np.concatenate((y1, y2)))
        return 2 * int((np.searchsorted(levels, y2) - np.searchsorted(levels, y1)).sum()) >= MAX_STORED

    def _add_all(self) -> None:
        """Cut every rectangle by the pieces stored before it, until the union is full."""
        self._ends = []
        pieces = self._pieces
        for row, coordinates in enumerate(self._rects.tolist()):
            if pieces.count >= MAX_STORED:
                self._full_at = row
                break
            rect = _rect(coordinates)
            if rect[0] >= rect[2] or rect[1] >= rect[3]:
                touching = [pieces[p] for p in pieces.touching(rect)]
                rest = [] if is_covered(rect, touching) else left_over(rect, touching)
            else:
                rest = left_over(rect, [pieces[p] for p in pieces.crossing(rect)])
            flat = [pieces.count + n for n, p in enumerate(rest) if p[0] >= p[2] or p[1] >= p[3]]
            self._flat_pieces += flat
            pieces.add(rest)
            self._ends.append(pieces.count)


def _rect(row: list[float]) -> Rect:
    return row[0], row[1], row[2], row[3]
