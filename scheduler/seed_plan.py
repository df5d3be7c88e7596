"""Seeds are read to their end before anything is written: few of them into memory, many of them into a file on disk.

Either way makes the same plan; which one is taken is a matter of memory alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from typing import Final, Protocol

from scheduler.rounds import plan_round
from schemas.batch import PlannedPage
from schemas.settings import CrawlSettings
from workers.store import ObjectStore, StoredPlan

LARGE: Final = 500_000
"""Pages, of a list or of the plan that it adds to, from which on a plan is made on disk: in memory that many take about
half a gigabyte."""


class MakePlan(Protocol):
    """Plans, of the seeds that were read, those that a round does not hold yet, and stores that. Raises StoreError."""

    def __call__(self, store: ObjectStore, crawl: str, round_number: int, settings: CrawlSettings) -> object: ...


@contextmanager
def seeds_for_plan(seeds: Iterable[PlannedPage]) -> Iterator[MakePlan]:
    """What plans the seeds, which are all read by then. Raises what reading them raises, and StoreError."""
    left = iter(seeds)
    first = list(islice(left, LARGE))
    if len(first) < LARGE:
        yield partial(_plan, first)
        return
    # DuckDB takes a tenth of a second to load, which a short list need not pay
    from scheduler.large_plan import gathered

    with gathered(chain(first, left)) as pages:
        first.clear()
        yield pages.plan


def _plan(pages: list[PlannedPage], store: ObjectStore, crawl: str, round_number: int, settings: CrawlSettings) -> None:
    known = sum(table.num_rows for table in StoredPlan(store, round_number).pages(["lane"]))
    if known < LARGE:
        plan_round(store, crawl, round_number, pages, settings)
        return
    from scheduler.large_plan import gathered

    with gathered(pages) as on_disk:
        on_disk.plan(store, crawl, round_number, settings)
