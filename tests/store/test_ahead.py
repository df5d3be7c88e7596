"""Jobs done ahead of their reader."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from workers.store import ahead


def test_results_come_in_the_order_of_the_items_whatever_ends_first() -> None:
    second_is_done = threading.Event()

    def work(item: int) -> int:
        if item == 0:
            assert second_is_done.wait(10)
        if item == 1:
            second_is_done.set()
        return item * 10

    assert list(ahead(work, range(5), 2, 4)) == [(0, 0), (1, 10), (2, 20), (3, 30), (4, 40)]


def test_no_more_items_are_taken_than_may_be_held() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(100):
            taken.append(item)
            yield item

    results = ahead(lambda item: item, items(), 2, 4)
    assert next(results) == (0, 0)
    assert taken == [0, 1, 2, 3]
    assert next(results) == (1, 1)
    assert taken == [0, 1, 2, 3, 4]


def test_an_error_is_raised_at_its_items_place_and_what_has_not_begun_is_dropped() -> None:
    done: list[int] = []

    def work(item: int) -> int:
        if item == 1:
            raise ValueError("the second")
        done.append(item)
        return item

    results = ahead(work, range(1000), 1, 3)
    assert next(results) == (0, 0)
    with pytest.raises(ValueError, match="the second"):
        next(results)
    assert max(done) <= 3
