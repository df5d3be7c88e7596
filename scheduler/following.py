"""Links found in what a round captured become pages of the next round; nothing is fetched for that.

They are read batch by batch from the stored documents into a file on this machine's disk, which sorts them out of core,
together with every page that the crawl has planned. So the order of rows does not matter, and a scheduler that is
killed on the way is followed by one that plans the same. What became of the links is stored beside the plan; where it
stands there, nothing is read a second time.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from scheduler.follow_rules import FollowSettings, Found, Refusal, Scope, Seen, followed
from scheduler.links_found import LinksFound
from scheduler.next_round import next_round
from schemas.batch import PlannedPage
from schemas.policy import NO_POLICY, Policy
from schemas.settings import CrawlSettings
from workers.store import (
    ObjectStore,
    StoredPlan,
    captured_documents,
    committed_batch_ids,
    planned_pages,
    planned_rounds,
    read_marker,
    read_table,
)
from workers.store.layout import links_path

SOURCES: Final = frozenset({"ok", "empty"})
"""The outcomes of pages whose links are followed; a page with hardly anything in it may have one. An error page leads
nowhere that its site would miss, and a challenge is left alone."""
PAGE_NOFOLLOW: Final = frozenset({"nofollow", "none"})
"""Directives of X-Robots-Tag and meta robots that hold for all links of a page; `none` is noindex and nofollow."""


class StoppedPlanning(Exception):  # nothing failed
    """Whoever asked for the next round wants to stop; nothing was planned."""


@dataclass(frozen=True, slots=True)
class Follow:
    """How links are followed, and who is told what was found."""

    settings: FollowSettings
    policy: Policy = NO_POLICY
    stopped: Callable[[], bool] = lambda: False
    told: Callable[[LinksFound], None] = lambda found: None
    memory_mb: int = 1024
    """What the file may use of the memory before it spills."""


@dataclass(slots=True)
class _Reading:
    """What is counted while links are read."""

    sources: int = 0
    unreadable: int = 0
    found: Found = field(default_factory=Found)


def next_round_following(
    store: ObjectStore, crawl: str, round_number: int, settings: CrawlSettings, retries: int, follow: Follow
) -> StoredPlan:
    """Plan round r+1 as `next_round` does, with the pages that the links of round r lead to.

    Raises StoreError, and StoppedPlanning.
    """
    if not follow.settings.depth:
        return next_round(store, crawl, round_number, settings, retries)
    scope = Scope.of(_seed_hosts(store), follow.settings.scope, follow.policy)
    batches = sorted(committed_batch_ids(store, round_number))
    path = links_path(round_number, _digest(follow, scope, batches))
    if store.size_of(path) is not None:
        return next_round(store, crawl, round_number, settings, retries)
    reading = _Reading()
    links = _links_of_round(store, round_number, follow, scope, reading)
    planned = next_round(store, crawl, round_number, settings, retries, links)
    found = reading.found
    made = LinksFound(
        round=round_number,
        batches=len(batches),
        sources=reading.sources,
        unreadable=reading.unreadable,
        links=found.links,
        known=found.known,
        planned=found.planned,
        refused=dict(sorted(found.refused.items())),
        examples=dict(sorted(found.examples.items())),
    )
    # after the plan: where it stands, the plan does too
    store.put_if_absent(path, made.encode())
    follow.told(made)
    return planned


def _digest(follow: Follow, scope: Scope, batches: list[str]) -> str:
    """What links were found in, and by which rules they were followed."""
    whole = [asdict(follow.settings), follow.policy.digest, sorted(scope.hosts), batches]
    return blake2b(json.dumps(whole).encode("ascii"), digest_size=16).hexdigest()


def _seed_hosts(store: ObjectStore) -> set[str]:
    hosts: set[str] = set()
    for table in planned_pages(store, 0, ["host"]):
        hosts.update(map(str, table["host"].unique().to_pylist()))
    return hosts


def _links_of_round(
    store: ObjectStore, round_number: int, follow: Follow, scope: Scope, reading: _Reading
) -> Iterator[PlannedPage]:
    """The pages to plan because of links; all of a round is read before the first one comes."""
    # DuckDB takes a tenth of a second to load, which a crawl that follows no links need not pay
    from scheduler.large_plan import CHUNK, insert_rows, plan_database

    with plan_database(follow.memory_mb) as database:
        database.execute(
            "CREATE TABLE seen (host VARCHAR, digits VARCHAR, path VARCHAR, length INTEGER, key VARCHAR,"
            " not_planned INTEGER, refusal VARCHAR, depth INTEGER)"
        )
        for rows in (_planned(store, round_number + 1), _linked(store, round_number, follow, scope, reading)):
            while chunk := list(islice(rows, CHUNK)):
                columns = (pa.array(values) for values in zip(*chunk, strict=True))
                insert_rows(database, "seen", pa.table(list(columns), names=list(Seen._fields)))
        in_order = database.execute(f"SELECT {', '.join(Seen._fields)} FROM seen ORDER BY ALL")
        reader: Any = in_order.to_arrow_reader(CHUNK)
        seen = (
            Seen(*row)
            for batch in reader
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        )
        for key, depth in followed(seen, follow.settings, reading.found):
            yield PlannedPage(key, key, depth=depth)


def _planned(store: ObjectStore, next_number: int) -> Iterator[Seen]:
    """Every page that any round has planned."""
    for number in planned_rounds(store):
        for table in planned_pages(store, number, ["url_key", "depth"]):
            for key, depth in zip(table["url_key"].to_pylist(), table["depth"].to_pylist(), strict=True):
                yield Seen.page(str(key), int(depth or 0), in_this_round=number == next_number)


def _linked(store: ObjectStore, round_number: int, follow: Follow, scope: Scope, reading: _Reading) -> Iterator[Seen]:
    """The links of a round's pages, each URL key once a batch; part by part of the plan, batch by batch."""
    for table in planned_pages(store, round_number, ["batch_id", "url_key", "depth"]):
        batches: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for row in table.to_pylist():
            if (row["depth"] or 0) < follow.settings.depth:
                batches[row["batch_id"]][row["url_key"]] = row["depth"] or 0
        for batch_id, depths in batches.items():
            if follow.stopped():
                raise StoppedPlanning
            yield from _linked_in(store, round_number, batch_id, depths, scope, reading)


def _linked_in(
    store: ObjectStore, round_number: int, batch_id: str, depths: dict[str, int], scope: Scope, reading: _Reading
) -> set[Seen]:
    """The links of a batch's pages, whose depths are given."""
    from workers.merge import PayloadError
    from workers.serialize.links import links_of

    marker = read_marker(store, round_number, batch_id)
    if marker is None or SOURCES.isdisjoint(marker.outcomes):
        return set()
    columns = ["page_id", "url_key", "outcome", "final_url", "robots_directives"]
    rows = read_table(store, "listings", columns, of=[marker]).to_pylist()
    sources = {row["page_id"]: row for row in rows if row["outcome"] in SOURCES and row["url_key"] in depths}
    if not sources:
        return set()
    reading.sources += len(sources)
    seen: set[Seen] = set()
    read = 0
    for page_id, capture in captured_documents(store, marker, sources.keys()):
        row = sources[page_id]
        try:
            links = links_of(capture, row["final_url"] or row["url_key"])
        except PayloadError:
            continue
        read += 1
        open_page = PAGE_NOFOLLOW.isdisjoint(row["robots_directives"] or ())
        for key, may_be_followed in links.items():
            nofollow: Refusal | None = None if open_page and may_be_followed else "nofollow"
            seen.add(Seen.link(key, scope.refusal(key) or nofollow, depths[row["url_key"]] + 1))
    reading.unreadable += len(sources) - read
    return seen
