"""The plan of a round on disk: the same batches as `scheduler.plan.plan`, for lists that no memory holds.

Seeds stream into a DuckDB file, which drops duplicates and sorts out of core; the sorted pages stream back as batches,
which are stored in parts of the plan. The order is that of `plan`: by lane, then rank of the page within its host, then
host; so the two can be tested against each other.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import duckdb
import pyarrow as pa

from scheduler.rounds import check_plan_is_there
from schemas.batch import Batch, PlannedPage
from schemas.errors import StoreError
from schemas.identifiers import batch_id, lane_of
from schemas.settings import CrawlSettings
from schemas.urls import host_of
from workers.browser.orphans import PLAN_PREFIX, own_folder
from workers.store import ObjectStore, planned_pages, store_plan

CHUNK: Final = 100_000
PART_PAGES: Final = 500_000
"""Pages of one part of the plan, which is made in memory."""
MEMORY_MB: Final = 1024
"""What DuckDB may use; beyond that it spills to the disk."""
THREADS: Final = 2
"""Each takes its share of the memory: with many of them none has enough to sort in."""


def plan_large(
    store: ObjectStore,
    crawl: str,
    round_number: int,
    pages: Iterable[PlannedPage],
    settings: CrawlSettings,
    memory_mb: int = MEMORY_MB,
) -> int:
    """Plan the seeds that a round does not hold yet, store that, and say how many batches were added.

    The order of `pages` does not matter; of two with one key the one with the smaller seed counts. Depth and tries, of
    which seeds have none, are not kept. Raises StoreError.
    """
    with gathered(pages, memory_mb) as on_disk:
        return on_disk.plan(store, crawl, round_number, settings)


@contextmanager
def gathered(pages: Iterable[PlannedPage], memory_mb: int = MEMORY_MB) -> Iterator[GatheredPages]:
    """Pages on this machine's disk, all of them read; to be planned once. Raises StoreError, and what `pages` raises.

    Nothing of a store is read or written for that.
    """
    with plan_database(memory_mb) as database:
        _load(database, pages)
        yield GatheredPages(database)


@dataclass(frozen=True, slots=True)
class GatheredPages:
    """Seeds in a file of this machine's disk."""

    _database: duckdb.DuckDBPyConnection

    def plan(self, store: ObjectStore, crawl: str, round_number: int, settings: CrawlSettings) -> int:
        """Plan the pages that a round does not hold yet, store that, and say how many batches were added."""
        database = self._database
        check_plan_is_there(store, round_number)
        following = _load_existing(database, store, round_number)
        _number_hosts(database, settings.lanes)
        _rank(database)
        added = 0
        part: list[Batch] = []
        pages_of_part = 0
        for batch in _batches(database, crawl, round_number, settings.batch_size, following):
            part.append(batch)
            pages_of_part += len(batch.pages)
            added += 1
            if pages_of_part >= PART_PAGES:
                store_plan(store, round_number, part)
                part, pages_of_part = [], 0
        store_plan(store, round_number, part)
        return added


@contextmanager
def plan_database(memory_mb: int) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database on this machine's disk, gone afterwards. Raises StoreError where the disk refuses."""
    folder = own_folder(PLAN_PREFIX)
    try:
        with duckdb.connect(str(folder / "plan.duckdb")) as database:
            database.execute(f"SET memory_limit = '{memory_mb}MB'")
            database.execute(f"SET threads = {THREADS}")
            database.execute(f"SET temp_directory = '{folder / 'spill'}'")
            database.execute("SET preserve_insertion_order = false")
            yield database
    except duckdb.Error as error:
        raise StoreError(
            f"The plan cannot be made in {folder.parent}: {str(error).splitlines()[0].rstrip('.')};"
            " make room on that disk, point TMPDIR to another one, or give the seeds in several lists."
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _load(database: duckdb.DuckDBPyConnection, pages: Iterable[PlannedPage]) -> None:
    database.execute("CREATE TABLE given (url_key VARCHAR, seed VARCHAR, profiles VARCHAR[], host VARCHAR)")
    left = iter(pages)
    while chunk := list(islice(left, CHUNK)):
        keys = [page.url_key for page in chunk]
        columns = {
            "url_key": pa.array(keys),
            # most seeds are their own key
            "seed": pa.array([None if page.seed == page.url_key else page.seed for page in chunk], pa.string()),
            "profiles": pa.array([list(page.profiles) for page in chunk], pa.list_(pa.string())),
            "host": pa.array(list(map(host_of, keys))),
        }
        insert_rows(database, "given", pa.table(columns))


def _load_existing(database: duckdb.DuckDBPyConnection, store: ObjectStore, round_number: int) -> dict[int, int]:
    """What the round holds already goes into the table `existing`; the next free sequence of each lane."""
    database.execute("CREATE TABLE existing (url_key VARCHAR)")
    following: dict[int, int] = {}
    for table in planned_pages(store, round_number, ["url_key", "lane", "sequence"]):
        insert_rows(database, "existing", table.select(["url_key"]))
        last = table.group_by("lane").aggregate([("sequence", "max")])
        lanes: list[int] = last["lane"].to_pylist()  # type: ignore[assignment]  # a required column
        sequences: list[int] = last["sequence_max"].to_pylist()  # type: ignore[assignment]  # likewise
        for lane, sequence in zip(lanes, sequences, strict=True):
            following[lane] = max(following.get(lane, 0), sequence + 1)
    return following


def _number_hosts(database: duckdb.DuckDBPyConnection, lanes: int) -> None:
    hosts = [host for (host,) in database.execute("SELECT DISTINCT host FROM given").fetchall()]
    hosts.sort()
    lanes_of = [lane_of(host, lanes) for host in hosts]
    database.execute("CREATE TABLE hosts (host VARCHAR, number INTEGER, lane INTEGER)")
    columns = [
        pa.array(hosts, pa.string()),
        pa.array(range(len(hosts)), pa.int32()),
        pa.array(lanes_of, pa.int32()),
    ]
    insert_rows(database, "hosts", pa.table(columns, names=["host", "number", "lane"]))


def _rank(database: duckdb.DuckDBPyConnection) -> None:
    """Each new page once, with its rank among the pages of its host.

    Pages are sorted once; of those of one key the first stays, and the ranks are differences of row numbers. Sorting
    spills to the disk; grouping ten million texts does not, and fails in one gigabyte.
    """
    database.execute("SET preserve_insertion_order = true")
    database.execute(
        """
        CREATE TABLE lacking AS
        SELECT number, url_key, coalesce(seed, url_key) AS seed, profiles
        FROM given JOIN hosts USING (host) ANTI JOIN existing USING (url_key)
        """
    )
    database.execute("DROP TABLE given")
    database.execute("CREATE TABLE given_in_order AS SELECT * FROM lacking ORDER BY number, url_key, seed")
    database.execute("DROP TABLE lacking")
    database.execute(
        """
        CREATE TABLE sorted AS
        SELECT number, url_key, seed, profiles
        FROM (SELECT *, lag(url_key) OVER () AS above FROM given_in_order)
        WHERE above IS DISTINCT FROM url_key
        """
    )
    database.execute("DROP TABLE given_in_order")
    database.execute(
        """
        CREATE TABLE ranked AS
        SELECT lane, s.rowid - first AS rank, number, url_key, seed, profiles
        FROM sorted s JOIN (SELECT number, min(rowid) AS first FROM sorted GROUP BY number) USING (number)
        JOIN hosts USING (number)
        """
    )
    database.execute("DROP TABLE sorted")


def _batches(
    database: duckdb.DuckDBPyConnection, crawl: str, round_number: int, size: int, following: dict[int, int]
) -> Iterator[Batch]:
    sorted_pages = database.execute("SELECT lane, url_key, seed, profiles FROM ranked ORDER BY lane, rank, number")
    reader: Any = sorted_pages.to_arrow_reader(CHUNK)
    lane = -1
    waiting: list[PlannedPage] = []

    def made() -> Batch:
        sequence = following.get(lane, 0)
        following[lane] = sequence + 1
        identity = batch_id(crawl, round_number, lane, sequence, [page.url_key for page in waiting])
        return Batch(crawl, round_number, lane, sequence, identity, tuple(waiting))

    for rows in reader:
        columns = (rows.column(name).to_pylist() for name in ("lane", "url_key", "seed", "profiles"))
        for of_lane, key, seed, profiles in zip(*columns, strict=True):
            if waiting and (of_lane != lane or len(waiting) == size):
                yield made()
                waiting = []
            lane = of_lane
            waiting.append(PlannedPage(key, seed, tuple(profiles)))
    if waiting:
        yield made()


def insert_rows(database: duckdb.DuckDBPyConnection, table: str, rows: pa.Table) -> None:
    """Adds rows to a table of the same columns."""
    database.register("rows_to_insert", rows)
    database.execute(f"INSERT INTO {table} SELECT * FROM rows_to_insert")
    database.unregister("rows_to_insert")
