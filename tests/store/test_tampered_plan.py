"""A plan that somebody has changed is not carried out: batches are named by what is in them, and so are its parts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from scheduler.cli import main
from scheduler.rounds import plan_round, remaining
from scheduler.verify import verify
from schemas.batch import Batch, PlannedPage
from schemas.errors import StoreDamaged, StoreError
from schemas.identifiers import batch_id
from schemas.settings import CrawlSettings
from schemas.tables import PLAN
from workers.store import FolderStore, StoredPlan, open_crawl, read_plan
from workers.store.parquet import read_parquet, write_parquet

SETTINGS = CrawlSettings(lanes=1, batch_size=2)
URLS = [f"http://example.org/{n}" for n in range(4)]

Change = Callable[[dict[str, list[Any]]], None]


@pytest.fixture
def planned(store: FolderStore) -> list[Batch]:
    open_crawl(store, "test", SETTINGS, now=datetime.now(UTC))
    return plan_round(store, "test", 0, [PlannedPage(url, url) for url in URLS], SETTINGS)


@pytest.fixture
def tamper(store: FolderStore, tmp_path: Path) -> Callable[[Change], None]:
    """Changes the rows of the plan, in a file that is a whole one of its own again."""

    def with_plan(change: Change) -> None:
        (path,) = store.list("plan")
        columns = read_parquet([path], PLAN, filesystem=store.arrow()).to_pydict()
        change(columns)
        arrays = [pa.array(columns[field.name], field.type) for field in PLAN]
        local = tmp_path / "tampered"
        write_parquet(pa.Table.from_arrays(arrays, schema=PLAN), local)
        store.delete(path)
        store.put_file(local, path)

    return with_plan


def another_url(columns: dict[str, list[Any]]) -> None:
    columns["url_key"][0] = "http://elsewhere.example/"


def another_lane(columns: dict[str, list[Any]]) -> None:
    columns["lane"] = [7] * len(columns["lane"])


def one_page_less(columns: dict[str, list[Any]]) -> None:
    for values in columns.values():
        values.pop(0)


def test_a_batch_that_was_moved_to_another_lane_is_not_found(store, planned, tamper):
    tamper(another_lane)
    with pytest.raises(StoreError, match="holds no batch"):
        StoredPlan(store, 0).batch(0, 0, planned[0].batch_id)
    for refused in (lambda: read_plan(store, 0), lambda: remaining(store, 0), lambda: verify(store)):
        with pytest.raises(StoreDamaged, match="does not hold the batches that it was made of"):
            refused()


@pytest.mark.parametrize("change", [another_url, one_page_less])
def test_a_batch_that_is_not_what_its_id_says_is_refused(store, planned, tamper, change):
    tamper(change)
    with pytest.raises(StoreDamaged, match="is not whole; restore the plan from a copy"):
        StoredPlan(store, 0).batch(0, 0, planned[0].batch_id)
    for refused in (lambda: read_plan(store, 0), lambda: list(remaining(store, 0)[0]), lambda: verify(store)):
        with pytest.raises(StoreDamaged, match="is not whole; restore the plan from a copy"):
            refused()


def one_batch_less(columns: dict[str, list[Any]]) -> None:
    for values in columns.values():
        del values[:2]


def a_batch_of_its_own(columns: dict[str, list[Any]]) -> None:
    keys = ["http://elsewhere.example/1", "http://elsewhere.example/2"]
    columns["url_key"][:2] = keys
    columns["batch_id"][:2] = [batch_id("test", 0, 0, 0, keys)] * 2


@pytest.mark.parametrize("change", [one_batch_less, a_batch_of_its_own])
def test_a_part_that_is_not_what_its_name_says_is_refused(store, planned, tamper, change, capsys):
    """Given batches that are whole, but are not those that were planned."""
    tamper(change)
    with pytest.raises(StoreDamaged, match="does not hold the batches that it was made of; restore the plan"):
        read_plan(store, 0)
    assert main(["status", "--store", store.where]) == 2
    assert main(["verify", "--store", store.where]) == 2
    assert capsys.readouterr().err.count("does not hold the batches that it was made of") == 2
