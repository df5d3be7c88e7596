"""Some of a long row of jobs are done ahead of who reads their results, because each waits for the store."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def ahead(
    work: Callable[[_Item], _Result], items: Iterable[_Item], threads: int, most: int
) -> Iterator[tuple[_Item, _Result]]:
    """Each item with its result, in the order of the items; at most so many are taken or done and not yet read.

    Raises what `work` does, at that item's place. Jobs that have not begun by then, or when nobody reads on, are
    dropped.
    """
    left = iter(items)
    with ThreadPoolExecutor(threads, "pagestate-ahead") as pool:
        begun: deque[tuple[_Item, Future[_Result]]] = deque()
        try:
            while True:
                for item in islice(left, most - len(begun)):
                    begun.append((item, pool.submit(work, item)))
                if not begun:
                    return
                item, future = begun.popleft()
                yield item, future.result()
        finally:
            for _, future in begun:
                future.cancel()
