"""The logical hash is that of the pages: it knows nothing of ids, times, attempts, files and rounds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from scheduler.cli import main
from scheduler.logical import (
    LISTING_COLUMNS,
    OUTLINE_COLUMNS,
    SELECTOR_COLUMNS,
    logical_hash,
    logical_pages,
)
from scheduler.next_round import next_round
from scheduler.rounds import plan_round
from schemas.batch import PlannedPage
from schemas.identifiers import page_id
from schemas.records import PageRecord
from schemas.settings import CrawlSettings
from schemas.tables import table_schema
from workers.store import FolderStore, commit_batch, open_crawl, read_plan

SETTINGS = CrawlSettings(lanes=2, batch_size=2)
URLS = [f"http://h{n % 2}.org/{n}" for n in range(5)]
VOLATILE = {
    "listings": {
        *("page_id", "crawl", "round", "attempt", "lane", "batch_id", "started_at", "duration_ms", "settle_reason"),
        *("retry_after_seconds", "pagestate_version", "settings_hash", "playwright_version", "browser_version"),
        # of bytes with ids in them
        *("listing_sha256", "outline_sha256", "payload_bytes"),
        # of the network at the time
        *("requests", "response_bytes", "pending"),
    },
    "selector_maps": {
        *("page_id", "crawl", "round", "url_key", "profile", "attempt", "index", "backend_node_id", "frame_id"),
    },
    "outline_maps": {
        *("page_id", "crawl", "round", "url_key", "profile", "attempt", "encoded_id", "backend_node_id", "frame_id"),
    },
}

Change = Callable[[PageRecord], PageRecord]


@pytest.mark.parametrize(
    ("table", "logical"),
    [("listings", LISTING_COLUMNS), ("selector_maps", SELECTOR_COLUMNS), ("outline_maps", OUTLINE_COLUMNS)],
)
def test_every_column_is_logical_or_volatile(table, logical):
    assert set(logical).isdisjoint(VOLATILE[table])
    assert {*logical, *VOLATILE[table]} >= set(table_schema(table).names), "say of a new column which it is"
    assert set(logical) <= set(table_schema(table).names)


@pytest.fixture
def crawl(tmp_path: Path, make_records: Callable[..., Any], now: datetime) -> Callable[..., FolderStore]:
    """A committed crawl, of which each record can be changed before."""

    def make(change: Change = lambda record: record, attempt: str = "a" * 32, batch_size: int = 2) -> FolderStore:
        store = FolderStore.for_run(tmp_path / f"store-{len(list(tmp_path.iterdir()))}")
        settings = replace(SETTINGS, batch_size=batch_size)
        open_crawl(store, "test", settings, now=now)
        for batch in plan_round(store, "test", 0, [PlannedPage(url, url) for url in URLS], settings):
            records = [change(record) for record in make_records(batch, interactive_elements=2, payload_bytes=502)]
            commit_batch(store, batch, attempt, records, now=now)
        return store

    return make


def hash_of(store: FolderStore) -> str:
    return logical_hash(logical_pages(store))


def later(record: PageRecord) -> PageRecord:
    """The same page, captured another time by another browser."""
    row = record.listing
    listing = row["listing"].replace("[1]<", "[77]<")
    row = row | {"listing": listing, "listing_sha256": "0", "duration_ms": 9.0, "degradations": ["unsettled"]}
    row["started_at"] += timedelta(hours=1)
    return replace(
        record,
        listing=row,
        selector_map=[
            e | {"index": e["index"] + 76, "backend_node_id": 5, "frame_id": "G"} for e in record.selector_map
        ],
        outline_map=[line | {"encoded_id": "7-9", "backend_node_id": 9} for line in record.outline_map],
        stages=[],
    )


def with_row(**changes: Any) -> Change:
    return lambda record: replace(record, listing=record.listing | changes)


def with_element(**changes: Any) -> Change:
    return lambda record: replace(record, selector_map=[e | changes for e in record.selector_map])


def with_line(**changes: Any) -> Change:
    return lambda record: replace(record, outline_map=[line | changes for line in record.outline_map])


def test_who_captured_a_page_when_and_in_which_batch_does_not_matter(crawl):
    assert hash_of(crawl()) == hash_of(crawl(later, "b" * 32, batch_size=3))


@pytest.mark.parametrize(
    "change",
    [
        with_row(listing="[1]<a>Grüße</a>"),
        with_row(listing="[1]<a>Grüße 😀</a>\n[1]<a>Grüße 😀</a>"),
        with_row(outline="[0-1] RootWebArea"),
        with_row(title="another"),
        with_row(status=404),
        with_row(degradations=["ax_timeout"]),
        with_element(xpath="html/body/b"),
        with_element(attributes={"href": "elsewhere"}),
        with_line(name="another"),
        lambda record: replace(record, outcome="http_error"),
        lambda record: replace(record, selector_map=record.selector_map[:1]),
    ],
)
def test_what_a_page_is_does(crawl, change):
    assert hash_of(crawl()) != hash_of(crawl(change))


def test_ids_are_told_apart_by_their_order(crawl):
    same, other = "[1]<a>\n[2]<b>\n[1]<c>", "[1]<a>\n[2]<b>\n[3]<c>"
    renumbered = "[8]<a>\n[5]<b>\n[8]<c>"
    assert hash_of(crawl(with_row(listing=same))) == hash_of(crawl(with_row(listing=renumbered)))
    assert hash_of(crawl(with_row(listing=same))) != hash_of(crawl(with_row(listing=other)))


def test_the_last_round_counts(crawl, make_records, now):
    whole, first = crawl(), crawl(lambda record: replace(record, outcome="deferred", listing=record.listing))
    assert hash_of(whole) != hash_of(first)
    assert next_round(first, "test", 0, SETTINGS)
    for batch in read_plan(first, 1):
        records = make_records(batch, interactive_elements=2, payload_bytes=502)
        assert {record.page_id for record in records} == {
            page_id("test", 1, url, "desktop") for url in batch_urls(batch)
        }
        commit_batch(first, batch, "c" * 32, records, now=now)
    assert hash_of(whole) == hash_of(first)


def batch_urls(batch: Any) -> list[str]:
    return [page.url_key for page in batch.pages]


def test_of_a_page_that_changes_by_itself_the_outcome_counts(crawl):
    one, other = (logical_pages(crawl(with_row(title=title))) for title in ("one", "other"))
    assert logical_hash(one, set(one)) == logical_hash(other, set(one))
    lost = logical_pages(crawl(lambda record: replace(record, outcome="empty")))
    assert logical_hash(one, set(one)) != logical_hash(lost, set(one))


def test_the_command_line_prints_it(crawl, capsys):
    store = crawl()
    assert main(["verify", "--store", store.where, "--hash"]) == 0
    assert capsys.readouterr().out.endswith(f"\nLogical hash: {hash_of(store)}\n")
    assert main(["verify", "--store", store.where, "--hash", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["logical_hash"] == hash_of(store)
