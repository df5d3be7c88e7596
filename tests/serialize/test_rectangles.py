"""The fast union of rectangles answers exactly as the reference's plain one, cap included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from workers.serialize import rectangles
from workers.serialize.rectangles import Occluders, Rect, left_over

numbers = st.integers(0, 12)


@st.composite
def rects(draw: st.DrawFn) -> Rect:
    """A rectangle on a small grid, now and then without area."""
    x, y = draw(numbers), draw(numbers)
    return float(x), float(y), float(x + draw(st.integers(0, 6))), float(y + draw(st.integers(0, 6)))


class PlainUnion:
    """The reference as the specification tells it: a list, every rectangle against every other."""

    def __init__(self, cap: int) -> None:
        self.stored: list[Rect] = []
        self.cap = cap

    def contains(self, rect: Rect) -> bool:
        pieces = [rect]
        for s in self.stored:
            rest: list[Rect] = []
            for p in pieces:
                if s[0] <= p[0] and s[1] <= p[1] and s[2] >= p[2] and s[3] >= p[3]:
                    continue
                rest += self.minus(p, s)
            pieces = rest
            if not pieces:
                return True
        return False

    def add(self, rect: Rect) -> None:
        if len(self.stored) >= self.cap or self.contains(rect):
            return
        pieces = [rect]
        for s in self.stored:
            pieces = [q for p in pieces for q in self.minus(p, s)]
        self.stored += pieces

    @staticmethod
    def minus(a: Rect, b: Rect) -> list[Rect]:
        if a[2] <= b[0] or a[0] >= b[2] or a[3] <= b[1] or a[1] >= b[3]:
            return [a]
        out = []
        if a[1] < b[1]:
            out.append((a[0], a[1], a[2], b[1]))
        if b[3] < a[3]:
            out.append((a[0], b[3], a[2], a[3]))
        low, high = max(a[1], b[1]), min(a[3], b[3])
        if a[0] < b[0]:
            out.append((a[0], low, b[0], high))
        if b[2] < a[2]:
            out.append((b[2], low, a[2], high))
        return out


@settings(max_examples=300, deadline=None)
@example(
    added=[((0.0, 1.0, 1.0, 1.0), 0), ((0.0, 0.0, 2.0, 2.0), 0), ((1.0, 0.0, 3.0, 2.0), 0)],
    asked=[((0.0, 0.0, 3.0, 2.0), -1)],
    cap=5000,
)  # a line without area cuts what the reference then finds uncovered
@given(
    st.lists(st.tuples(rects(), st.integers(0, 5)), max_size=30),
    st.lists(st.tuples(rects(), st.integers(-1, 5)), max_size=15),
    st.sampled_from([5000, 4, 12]),
)
def test_answers_equal_the_plain_union(added: list[tuple[Rect, int]], asked: list[tuple[Rect, int]], cap: int) -> None:
    # Given occluders in falling paint order, as they are added
    added.sort(key=lambda item: -item[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rectangles, "MAX_STORED", cap)
        fast = Occluders(
            np.array([r for r, _ in added], np.float64).reshape(-1, 4), np.array([o for _, o in added], np.int64)
        )
        for rect, order in asked:
            # When a rectangle of some paint order is asked about
            plain = PlainUnion(cap)
            for other, other_order in added:
                if other_order > order:
                    plain.add(other)
            # Then both agree
            assert fast.covers(rect, order) == plain.contains(rect)


@settings(max_examples=100, deadline=None)
@given(rects(), st.lists(rects(), max_size=40))
def test_many_cuts_leave_what_few_cuts_leave(rect: Rect, others: list[Rect]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rectangles, "_FEW", 0)
        many = left_over(rect, others)
        patch.setattr(rectangles, "_FEW", 1000)
        assert many == left_over(rect, others)


@settings(max_examples=100, deadline=None)
@given(st.lists(rects(), max_size=25))
def test_the_union_is_worked_out_only_where_it_may_fill_up(added: list[Rect]) -> None:
    # Given a limit that the union reaches exactly
    plain = PlainUnion(10**6)
    for rect in added:
        plain.add(rect)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rectangles, "MAX_STORED", len(plain.stored))
        # When it is only estimated, then it is never taken for smaller than it is
        occluders = Occluders(np.array(added, np.float64).reshape(-1, 4), np.arange(len(added))[::-1])
        assert occluders.is_worked_out


@pytest.mark.parametrize("flat", [False, True])
def test_a_hostile_page_takes_bounded_time(flat: bool) -> None:
    # Given six thousand occluders that all overlap, and one below them all
    size = 1.0 if flat else 60.0
    grid = [(float(i % 100) * 7, float(i // 100) * 5) for i in range(6_000)]
    rows = [(x, y, x + 60.0, y if flat else y + size) for x, y in grid]
    rows.append((0.0, 0.0, 1000.0, 1000.0))
    occluders = Occluders(np.array(rows), np.arange(len(rows))[::-1])
    # Then every answer is there at once
    asked = np.array(rows[:2000])
    assert occluders.cover(asked, np.zeros(len(asked), np.int64)).all()
