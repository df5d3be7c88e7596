"""A plan is stored before it is carried out, and what is left of it is a set difference."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from scheduler.next_round import next_round
from scheduler.pauses import LONGEST_PAUSE_SECONDS, MAX_IDLE_ROUNDS, Idleness, pause_seconds
from scheduler.rounds import plan_round, remaining
from schemas.batch import Batch, PlannedPage
from schemas.delivery import BatchReference
from schemas.errors import StoreDamaged, StoreError
from schemas.identifiers import page_id
from schemas.outcomes import Outcome
from schemas.records import PageRecord
from schemas.settings import CrawlSettings
from workers.back_off import MAX_SECONDS
from workers.store import FolderStore, commit_batch, find_pages, latest_listings, planned_rounds, read_plan

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SETTINGS = CrawlSettings(lanes=3, batch_size=2)
PAGES = [PlannedPage(f"http://h{n % 5}.org/{n}", f"http://h{n % 5}.org/{n}#seed") for n in range(17)]


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore.for_run(tmp_path / "store")


def commit(store: FolderStore, batch: Batch, outcome: Outcome = "ok", status: int | None = None) -> None:
    listing = {
        "degradations": [],
        "redirects": [],
        **dict.fromkeys(("duration_ms", "scale"), 1.0),
        **dict.fromkeys(("viewport_width", "viewport_height", "surrogates_replaced", "secrets_masked"), 0),
        **dict.fromkeys(("payload_bytes", "dialogs", "popups", "downloads"), 0),
        **dict.fromkeys(("locale", "time_zone", "settings_hash", "serializer", "serializer_version"), ""),
        "started_at": NOW,
        "status": status,
    }
    records = [
        PageRecord(
            page.url_key, page_id(batch.crawl, batch.round, page.url_key, "desktop"), "desktop", outcome, listing
        )
        for page in batch.pages
    ]
    assert commit_batch(store, batch, "a" * 32, records, now=NOW).result == "won"


def test_a_stored_plan_is_read_back_as_it_was(store):
    planned = plan_round(store, "c", 0, PAGES, SETTINGS)
    assert read_plan(store, 0) == planned
    assert sorted(page.seed for batch in planned for page in batch.pages) == sorted(page.seed for page in PAGES)
    assert planned_rounds(store) == [0]
    assert not any(store.scratch().iterdir())


def test_planning_again_changes_nothing(store):
    """A crash in the middle of planning costs nothing: the same seeds plan the same, once."""
    planned = plan_round(store, "c", 0, PAGES, SETTINGS)
    files = list(store.list("plan"))
    assert plan_round(store, "c", 0, PAGES[::-1], SETTINGS) == planned
    assert list(store.list("plan")) == files


def test_an_unfinished_plan_file_is_not_a_plan(store):
    plan_round(store, "c", 0, PAGES, SETTINGS)
    (path,) = store.list("plan")
    data = store.read(path)
    assert data is not None
    store.delete(path)
    (store.folder / path).with_name(".part-1.parquet.tmp").write_bytes(data[:100])
    assert read_plan(store, 0) == []
    assert planned_rounds(store) == []
    assert plan_round(store, "c", 0, PAGES, SETTINGS) == read_plan(store, 0) != []


def test_a_second_seed_list_adds_a_part(store):
    first = plan_round(store, "c", 0, PAGES[:9], SETTINGS)
    whole = plan_round(store, "c", 0, PAGES[5:], SETTINGS)
    assert set(first) < set(whole)
    assert whole == read_plan(store, 0)
    assert sorted(p.url_key for b in whole for p in b.pages) == sorted(p.url_key for p in PAGES)
    assert len(list(store.list("plan"))) == 2


def test_what_remains_is_planned_batches_minus_markers_in_sequence(store):
    planned = plan_round(store, "c", 0, PAGES, SETTINGS)
    for batch in planned[::2]:
        commit(store, batch)
    left = remaining(store, 0)
    assert [batch for lane in sorted(left) for batch in left[lane]] == planned[1::2]
    for lane, batches in left.items():
        assert {batch.lane for batch in batches} == {lane}
        assert list(batches.references("here")) == [BatchReference.to("here", batch) for batch in batches]
    assert sum(batches.looks(2) for batches in left.values()) == 2 * sum(len(batch.pages) for batch in planned[1::2])
    for batch in planned[1::2]:
        commit(store, batch)
    assert remaining(store, 0) == {}


def test_the_next_round_takes_up_what_was_deferred(store):
    """Resuming does not skip what a stopped run left (pain 52)."""
    planned = plan_round(store, "c", 0, PAGES, SETTINGS)
    for batch in planned[1:]:
        commit(store, batch)
    with pytest.raises(StoreError, match=r"Round 0 .* has 1 batches that are not committed"):
        next_round(store, "c", 0, SETTINGS)
    commit(store, planned[0], "deferred")

    assert next_round(store, "c", 0, SETTINGS)
    (again,) = read_plan(store, 1)
    assert (again.round, again.pages) == (1, planned[0].pages)
    assert next_round(store, "c", 0, SETTINGS)
    assert read_plan(store, 1) == [again]
    assert planned_rounds(store) == [0, 1]
    commit(store, again)
    assert not next_round(store, "c", 1, SETTINGS)
    assert planned_rounds(store) == [0, 1]
    assert latest_listings(store, ["outcome"])["outcome"].to_pylist() == ["ok"] * len(PAGES)
    assert [row["round"] for row in find_pages(store, again.pages[0].url_key)] == [1, 0]


def tries(batches: list[Batch]) -> dict[str, int]:
    return {page.url_key: page.tries for batch in batches for page in batch.pages}


def test_only_rows_that_may_end_otherwise_are_planned_again(store):
    planned = plan_round(store, "c", 0, PAGES[:8], CrawlSettings(lanes=1, batch_size=2))
    commit(store, planned[0], "http_error", 404)
    commit(store, planned[1], "http_error", 503)
    commit(store, planned[2], "deferred")
    commit(store, planned[3], "ok")
    assert tries(next_round(store, "c", 0, SETTINGS)) == tries([planned[2]])
    again = next_round(store, "c", 0, SETTINGS, 1)
    assert list(again) == read_plan(store, 1)
    assert again.most_tries() == 1
    assert tries(again) == dict.fromkeys(tries([planned[1]]), 1) | tries([planned[2]])


def test_a_page_is_tried_again_so_often_and_what_was_put_off_does_not_count(store):
    """The cap is the page's own: one that comes later into the crawl has as many tries."""
    plan_round(store, "c", 0, PAGES[:1], SETTINGS)
    (key,) = (page.url_key for page in PAGES[:1])
    seen = []
    for number, outcome in enumerate(("dns_error", "deferred", "connection_error", "deferred", "dns_error")):
        (batch,) = read_plan(store, number)
        commit(store, batch, outcome)
        seen.append(tries(next_round(store, "c", number, SETTINGS, 2)).get(key))
    assert seen == [1, 1, 2, 2, None]


def test_a_challenge_is_asked_for_once_more_only(store):
    (batch,) = plan_round(store, "c", 0, PAGES[:1], SETTINGS)
    commit(store, batch, "challenge")
    (again,) = next_round(store, "c", 0, SETTINGS, 5)
    commit(store, again, "challenge")
    assert not next_round(store, "c", 1, SETTINGS, 5)


def test_a_plan_that_does_not_tell_tries_counts_its_rounds(store):
    """Plans of before schema version 4 are read: their pages are seeds, and may have failed in each round."""
    for number in (0, 2):
        plan_round(store, "c", number, PAGES[:1], SETTINGS)
        (path,) = store.list(f"plan/round={number}")
        older = pq.read_table(store.folder / path, partitioning=None).drop_columns(["depth", "tries"])
        pq.write_table(
            older.replace_schema_metadata({**older.schema.metadata, b"schema_version": b"3"}), store.folder / path
        )
        (batch,) = read_plan(store, number)
        assert [(page.depth, page.tries) for page in batch.pages] == [(0, number)]
        commit(store, batch, "dns_error")
    assert not next_round(store, "c", 2, SETTINGS, 2)
    assert list(tries(next_round(store, "c", 2, SETTINGS, 3)).values()) == [3]


def test_pauses_grow_up_to_a_cap_and_chance_spreads_them():
    pauses = [pause_seconds(30, times, 0) for times in range(1, 8)]
    assert pauses == [30, 60, 120, 240, 480, 600, 600]
    assert pause_seconds(30, 1, 1) == 37.5
    assert pause_seconds(30, 9, 0.5) == LONGEST_PAUSE_SECONDS * 1.125


def test_rounds_that_capture_nothing_have_an_end():
    """A host that stays away would else be put off round after round without end."""
    idle = Idleness()
    idle.note(Counter(deferred=3))
    assert idle.rounds == 1
    idle.note(Counter(deferred=3, ok=1))
    assert idle.rounds == 0
    for _ in range(MAX_IDLE_ROUNDS):
        idle.note(Counter(deferred=3))
    assert not idle.is_over
    idle.note(Counter(deferred=3))
    assert idle.is_over
    # with the default pauses that takes longer than a host is left alone at most
    assert sum(pause_seconds(30, times, 0) for times in range(1, MAX_IDLE_ROUNDS + 1)) > MAX_SECONDS


def test_a_plan_of_the_wrong_batches_is_damaged(store):
    plan_round(store, "c", 0, PAGES, SETTINGS)
    (path,) = store.list("plan")
    file = store.folder / path
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(StoreDamaged, match="part-"):
        read_plan(store, 0)
