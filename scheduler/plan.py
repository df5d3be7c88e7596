"""The plan is a pure function: pages become lanes by their host, and lanes become batches with hosts interleaved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from schemas.batch import Batch, PlannedPage
from schemas.identifiers import batch_id, lane_of
from schemas.settings import CrawlSettings
from schemas.urls import host_of


def plan(
    crawl: str,
    round_number: int,
    pages: Iterable[PlannedPage],
    settings: CrawlSettings,
    existing: Iterable[Batch] = (),
) -> list[Batch]:
    """The batches that a round needs besides the existing ones, by lane and sequence.

    The order of `pages` does not matter. A URL key of an existing batch is not planned again; new batches continue
    each lane's sequence. Of two pages with one key the one with the smaller seed counts.
    """
    planned: set[str] = set()
    next_sequence: defaultdict[int, int] = defaultdict(int)
    for batch in existing:
        planned.update(page.url_key for page in batch.pages)
        next_sequence[batch.lane] = max(next_sequence[batch.lane], batch.sequence + 1)

    by_key: dict[str, PlannedPage] = {}
    for page in pages:
        known = by_key.get(page.url_key)
        if page.url_key not in planned and (known is None or page.seed < known.seed):
            by_key[page.url_key] = page
    hosts: defaultdict[str, list[PlannedPage]] = defaultdict(list)
    for key in sorted(by_key):
        hosts[host_of(key)].append(by_key[key])
    lanes: defaultdict[int, list[list[PlannedPage]]] = defaultdict(list)
    for host in sorted(hosts):
        lanes[lane_of(host, settings.lanes)].append(hosts[host])

    return [
        _batch(crawl, round_number, lane, next_sequence[lane] + number, chunk)
        for lane in sorted(lanes)
        for number, chunk in enumerate(_chunks(interleaved(lanes[lane]), settings.batch_size))
    ]


def interleaved(hosts: Sequence[Sequence[PlannedPage]]) -> list[PlannedPage]:
    """The pages of several hosts, round-robin: the first of each, the second of each, until all are used up."""
    ranked = [(rank, number) for number, pages in enumerate(hosts) for rank in range(len(pages))]
    return [hosts[number][rank] for rank, number in sorted(ranked)]


def _chunks(pages: Sequence[PlannedPage], size: int) -> Iterator[tuple[PlannedPage, ...]]:
    return (tuple(pages[start : start + size]) for start in range(0, len(pages), size))


def _batch(crawl: str, round_number: int, lane: int, sequence: int, pages: tuple[PlannedPage, ...]) -> Batch:
    return Batch(
        crawl=crawl,
        round=round_number,
        lane=lane,
        sequence=sequence,
        batch_id=batch_id(crawl, round_number, lane, sequence, [page.url_key for page in pages]),
        pages=pages,
    )
