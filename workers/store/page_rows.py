"""The records of a batch become the rows of the tables; the store itself adds what the batch knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields

import pyarrow as pa

from schemas.batch import Batch
from schemas.errors import RecordRefused
from schemas.outcomes import is_retryable
from schemas.records import PageRecord, Row, StageResult
from schemas.tables import TableName
from schemas.urls import host_of, site_of
from schemas.version import PAGESTATE_VERSION, SCHEMA_VERSION
from workers.store.rows import BuiltTable, build_table


def batch_tables(batch: Batch, attempt: str, records: Sequence[PageRecord]) -> dict[TableName, pa.Table]:
    """The tables of a batch, pages in the order of the batch. Raises RecordRefused."""
    place = {page.url_key: position for position, page in enumerate(batch.pages)}
    ordered = sorted(records, key=lambda record: (place[record.url_key], record.profile))
    seeds = {page.url_key: page.seed for page in batch.pages}
    replaced: Counter[str] = Counter()

    selector_maps = _built("selector_maps", _of_all(batch, attempt, ordered, "selector_map"), replaced)
    outline_maps = _built("outline_maps", _of_all(batch, attempt, ordered, "outline_map"), replaced)
    stages = _built("stage_metrics", _of_all(batch, attempt, ordered, "stages"), replaced)
    captures = _built("captures", _of_all(batch, attempt, ordered, "captures"), replaced)
    screenshots = [_merged(row, _identity(batch, attempt, record)) for record in ordered for row in record.screenshots]
    listings = [_listing(batch, attempt, record, seeds[record.url_key]) for record in ordered]
    # The listings' own surrogates are known only after a first try; their count belongs in the same rows.
    own = build_table("listings", listings)
    for number, count in own.replaced.items():
        replaced[listings[number]["page_id"]] += count
    if replaced:
        own = build_table("listings", [_with_replaced(row, replaced[row["page_id"]]) for row in listings])
    return {
        "listings": own.table,
        "selector_maps": selector_maps,
        "outline_maps": outline_maps,
        "stage_metrics": stages,
        "captures": captures,
        "screenshots": _built("screenshots", screenshots, replaced),
    }


def _built(name: TableName, rows: list[Row], replaced: Counter[str]) -> pa.Table:
    built: BuiltTable = build_table(name, rows)
    for number, count in built.replaced.items():
        replaced[rows[number]["page_id"]] += count
    return built.table


def _of_all(batch: Batch, attempt: str, records: Iterable[PageRecord], part: str) -> list[Row]:
    rows: list[Row] = []
    for record in records:
        identity = _identity(batch, attempt, record)
        for position, row in enumerate(_part(record, part)):
            rows.append(_merged(row, {**identity, "position": position}))
    return rows


def _part(record: PageRecord, part: str) -> Iterator[Row]:
    if part == "stages":
        names = [field.name for field in fields(StageResult)]
        yield from ({name: getattr(stage, name) for name in names} for stage in record.stages)
    elif part == "captures":
        yield from record.captures
    elif part == "outline_map":
        yield from record.outline_map
    else:
        yield from record.selector_map


def _identity(batch: Batch, attempt: str, record: PageRecord) -> Row:
    return {
        "page_id": record.page_id,
        "crawl": batch.crawl,
        "round": batch.round,
        "url_key": record.url_key,
        "profile": record.profile,
        "attempt": attempt,
    }


def _listing(batch: Batch, attempt: str, record: PageRecord, seed: str) -> Row:
    known: Row = {
        **_identity(batch, attempt, record),
        "seed": seed,
        "host": host_of(record.url_key),
        "site": site_of(record.url_key),
        "lane": batch.lane,
        "batch_id": batch.batch_id,
        "outcome": record.outcome,
        "retryable": is_retryable(record.outcome, record.listing.get("status")),
        "pagestate_version": PAGESTATE_VERSION,
        "schema_version": SCHEMA_VERSION,
    }
    return _merged(record.listing, known)


def _merged(row: Row, known: Row) -> Row:
    """The row with what the store knows; a row that says otherwise is a defect."""
    for name, value in known.items():
        if name in row and row[name] != value:
            raise RecordRefused(f"A row of {known['url_key']} says {name} {row[name]!r}, its batch says {value!r}.")
    return {**row, **known}


def _with_replaced(row: Row, count: int) -> Row:
    """The row with lone surrogates that the store replaced added to its count and its degradations."""
    if not count:
        return row
    degradations = sorted({*(row.get("degradations") or ()), "surrogates_replaced"})
    return {**row, "surrogates_replaced": (row.get("surrogates_replaced") or 0) + count, "degradations": degradations}
