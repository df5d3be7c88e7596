"""A store remembers whose it is and how its rows are made, and refuses anything else in one sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from schemas.errors import SettingError, StoreDamaged, StoreError, StoreMismatch
from schemas.settings import Budgets, CrawlSettings
from schemas.version import SCHEMA_VERSION
from workers.store import check_crawl, open_crawl
from workers.store.layout import CRAWL_FILE

SETTINGS = CrawlSettings()


def test_the_first_opening_creates_it_and_the_next_ones_find_it(store, now):
    created = open_crawl(store, "news", SETTINGS, now=now)
    assert created.crawl == "news"
    assert created.settings == SETTINGS.as_json()
    assert created.settings_hash == SETTINGS.hash()
    assert created.created_at == "2026-01-02T03:04:05+00:00"
    assert open_crawl(store, "news", SETTINGS) == created
    assert open_crawl(store, None, None) == created


def test_a_crawl_without_a_name_is_named_crawl(store, now):
    assert open_crawl(store, None, SETTINGS, now=now).crawl == "crawl"


def test_an_empty_store_has_no_crawl_and_stays_empty(store):
    assert check_crawl(store, "news", SETTINGS) is None
    with pytest.raises(StoreError, match="There is no crawl in"):
        open_crawl(store, None, None)
    assert not store.folder.exists()


@pytest.mark.parametrize("name", ["", "a/b", "../x", "2026-08-02", "7", ".a", "a b", "null", "NaN", "é", "a" * 101])
def test_a_name_that_cannot_be_part_of_a_path_or_reads_as_a_value_is_refused(store, now, name):
    with pytest.raises(SettingError, match="crawl name"):
        open_crawl(store, name, SETTINGS, now=now)
    assert not store.folder.exists()


def test_another_crawl_is_refused(store, now):
    open_crawl(store, "news", SETTINGS, now=now)
    with pytest.raises(StoreMismatch, match="belongs to the crawl news, not other; give --crawl news or another"):
        open_crawl(store, "other", SETTINGS, now=now)


def test_other_settings_are_named_one_by_one(store, now):
    open_crawl(store, "news", SETTINGS, now=now)
    other = replace(SETTINGS, lanes=8, budgets=replace(Budgets(), payload=timedelta(seconds=0.5)))
    with pytest.raises(StoreMismatch) as refusal:
        open_crawl(store, "news", other, now=now)
    assert str(refusal.value) == (
        f"The crawl news in {store.where} has other settings: budgets.payload: stored 10.0, given 0.5;"
        " lanes: stored 64, given 8; use the stored settings or another --store."
    )


def edited(store, **changes):
    raw = json.loads(store.read(CRAWL_FILE))
    (store.folder / CRAWL_FILE).write_text(json.dumps(raw | changes))


def test_a_newer_schema_is_refused(store, now):
    open_crawl(store, "news", SETTINGS, now=now)
    edited(store, schema_version=99, something="new")
    with pytest.raises(StoreMismatch, match=f"schema version 99 and this pagestate knows {SCHEMA_VERSION}; use"):
        open_crawl(store, None, None)


@pytest.mark.parametrize(
    "changes",
    [{"settings": {"lanes": 1}}, {"settings": 5}, {"surprise": 1}, {"schema_version": "1"}, {"crawl": None}],
)
def test_a_file_that_is_not_what_was_written_is_damaged(store, now, changes):
    open_crawl(store, "news", SETTINGS, now=now)
    edited(store, **changes)
    with pytest.raises(StoreDamaged, match=r"crawl\.json in .* is damaged; restore it"):
        open_crawl(store, None, None)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"{}"])
def test_a_file_that_cannot_be_read_is_damaged(store, data):
    store.put_if_absent(CRAWL_FILE, data)
    with pytest.raises(StoreDamaged, match=r"crawl\.json in .* is damaged"):
        open_crawl(store, "news", SETTINGS)
