"""Exactly once: a batch is whole in the dataset or not in it at all, whoever dies and whoever races."""

from __future__ import annotations

import dataclasses
import pickle
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from schemas.errors import RecordRefused, StoreError
from schemas.marker import Marker
from schemas.records import PageRecord
from workers.store import (
    FolderStore,
    commit_batch,
    committed_batch_ids,
    latest_listings,
    markers,
    read_table,
    verify_markers,
)
from workers.store.layout import marker_path

ONE, OTHER = "a" * 32, "b" * 32

COMMITS = """
import pickle, sys
from pathlib import Path
from workers.store import FolderStore, commit_batch
jobs, now = pickle.loads(Path(sys.argv[1]).read_bytes())
store = FolderStore.for_run(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for batch, records in jobs:
    print(commit_batch(store, batch, sys.argv[3], records, now=now).result, flush=True)
"""


def query(store: FolderStore, table: str) -> list[dict[str, Any]]:
    """The lines of ARCHITECTURE section 7, as they stand there."""
    lines = (
        "SET VARIABLE f=(SELECT list('STORE/'||u.path) FROM (SELECT unnest(files) u FROM "
        "read_json('STORE/commits/*/*.json')) WHERE u.\"table\"='listings'); "
        "SELECT * FROM read_parquet(getvariable('f'));"
    )
    # Through Arrow, because DuckDB's own rows need pytz for a time with a zone.
    found = duckdb.connect().execute(lines.replace("STORE", store.where).replace("listings", table))
    rows: list[dict[str, Any]] = found.to_arrow_table().to_pylist()
    return rows


def start(jobs: Path, store: FolderStore, attempt: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", COMMITS, str(jobs), store.where, attempt],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def data_files(store: FolderStore) -> set[str]:
    return set(store.list("data"))


def test_a_commit_writes_every_table_and_then_its_marker(store, make_batch, make_records, now):
    """A marker names each file with its table, rows, bytes and hash (pains 45, 48: it is known what is saved)."""
    batch = make_batch()

    result = commit_batch(store, batch, ONE, make_records(batch), now=now)

    assert result.result == "won"
    assert [(f.table, f.rows) for f in result.marker.files] == [
        ("listings", 3),
        ("selector_maps", 6),
        ("outline_maps", 3),
        ("stage_metrics", 6),
        ("captures", 6),
    ]
    first = result.marker.files[0]
    assert first.path == f"data/listings/crawl=test/round=0/part-{batch.batch_id}-{ONE}.parquet"
    assert result.marker.outcomes == {"ok": 3}
    assert result.marker.committed_at == "2026-01-02T03:04:05+00:00"
    data = store.read(marker_path(0, batch.batch_id))
    assert data is not None
    assert Marker.decode(data, "here") == result.marker
    assert data_files(store) == {f.path for f in result.marker.files}
    assert list(verify_markers(store, hashes=True)) == []
    assert not any(store.scratch().iterdir())


def test_identity_columns_come_from_the_batch(store, make_batch, make_records, now):
    batch = make_batch(4)
    commit_batch(store, batch, ONE, make_records(batch), now=now)
    row = read_table(store, "listings").to_pylist()[1]
    assert (row["crawl"], row["round"], row["lane"], row["batch_id"]) == ("test", 0, 7, batch.batch_id)
    assert (row["url_key"], row["seed"], row["host"], row["site"]) == (
        "http://example.org/4/1",
        "http://example.org/4/1",
        "example.org",
        "example.org",
    )
    assert (row["attempt"], row["profile"], row["outcome"], row["retryable"]) == (ONE, "desktop", "ok", False)
    stages = read_table(store, "stage_metrics").to_pylist()
    assert [(s["position"], s["stage"]) for s in stages[:3]] == [(0, "navigate"), (1, "merge"), (0, "navigate")]


def test_files_grow_with_batches_and_not_with_pages(store, make_batch, make_records, now):
    """One file of a table for a batch, and `--batch-size` says how many pages that is, up to 1,000 (pain 49)."""
    big = make_batch(0, [f"http://example.org/{n}" for n in range(1000)])
    files = [
        commit_batch(store, batch, ONE, make_records(batch), now=now).marker.files for batch in (big, make_batch(1))
    ]
    assert [f.table for f in files[0]] == [f.table for f in files[1]]
    assert len(data_files(store)) == 2 * len({f.table for f in files[0]})
    assert read_table(store, "listings").num_rows == 1003


def test_a_table_without_rows_gets_no_file(store, make_batch, make_records, now):
    batch = make_batch()
    records = [
        dataclasses.replace(r, selector_map=[], captures=[], outline_map=[]) for r in make_records(batch, "dns_error")
    ]
    marker = commit_batch(store, batch, ONE, records, now=now).marker
    assert [f.table for f in marker.files] == ["listings", "stage_metrics"]
    assert read_table(store, "captures").num_rows == 0
    assert read_table(store, "listings")["retryable"].to_pylist() == [True] * 3


def test_committing_again_with_the_same_attempt_wins_again(store, make_batch, make_records, now):
    """A retried commit meets its own success (pain 37)."""
    batch = make_batch()
    first = commit_batch(store, batch, ONE, make_records(batch), now=now)
    assert commit_batch(store, batch, ONE, make_records(batch), now=now) == first


def test_a_second_attempt_is_a_duplicate_and_leaves_nothing(store, make_batch, make_records, now):
    """A redelivered batch changes nothing (pain 37)."""
    batch = make_batch()
    first = commit_batch(store, batch, ONE, make_records(batch), now=now)
    before = data_files(store)
    second = commit_batch(store, batch, OTHER, make_records(batch, title="other"), now=now)
    assert second.result == "duplicate"
    assert second.marker == first.marker
    assert data_files(store) == before


class OvertakenStore(FolderStore):
    """A store in which another attempt's marker lands just before ours."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        marker = Marker.decode(data, path)
        super().put_if_absent(path, dataclasses.replace(marker, attempt=OTHER).encode())
        return super().put_if_absent(path, data)


class AnswerLostStore(FolderStore):
    """A store whose answer to a successful marker is lost."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        super().put_if_absent(path, data)
        raise StoreError("no answer")


class FullStore(FolderStore):
    """A store that is full when the second file comes."""

    def put_file(self, local: Path, path: str) -> None:
        if "selector_maps" in path:
            raise StoreError("full")
        super().put_file(local, path)


def test_who_is_overtaken_deletes_its_files(tmp_path, make_batch, make_records, now):
    store = OvertakenStore(tmp_path / "store")
    batch = make_batch()
    result = commit_batch(store, batch, ONE, make_records(batch), now=now)
    assert (result.result, result.marker.attempt) == ("duplicate", OTHER)
    assert data_files(store) == set()


def test_a_lost_answer_is_settled_by_the_marker(tmp_path, make_batch, make_records, now):
    store = AnswerLostStore(tmp_path / "store")
    batch = make_batch()
    assert commit_batch(store, batch, ONE, make_records(batch), now=now).result == "won"
    assert list(verify_markers(store)) == []


def test_a_full_disk_commits_nothing_and_leaves_nothing(tmp_path, make_batch, make_records, now):
    """No truncated file under a final name (pain 45)."""
    store = FullStore(tmp_path / "store")
    with pytest.raises(StoreError, match="full"):
        commit_batch(store, make_batch(), ONE, make_records(make_batch()), now=now)
    assert data_files(store) == set()
    assert markers(store) == []


def spoilt(records: list[PageRecord], how: str) -> list[PageRecord]:
    changed = dataclasses.replace
    spoilings: dict[str, Callable[[], list[PageRecord]]] = {
        "lacks": lambda: records[:-1],
        "lacks a record": lambda: [],
        "two records": lambda: [*records, records[0]],
        "does not hold": lambda: [*records, changed(records[-1], url_key="http://other.org/")],
        "page id": lambda: [*records[:-1], changed(records[-1], page_id="0" * 32)],
        "outcome": lambda: [*records[:-1], changed(records[-1], outcome="fine")],  # type: ignore[arg-type]
        "says lane": lambda: [*records[:-1], changed(records[-1], listing=records[-1].listing | {"lane": 3})],
        "colour": lambda: [*records[:-1], changed(records[-1], listing=records[-1].listing | {"colour": 3})],
    }
    return spoilings[how]()


@pytest.mark.parametrize(
    "how",
    ["lacks", "lacks a record", "two records", "does not hold", "page id", "outcome", "says lane", "colour"],
)
def test_records_that_are_not_the_batch_are_refused(store, make_batch, make_records, now, how):
    """Gaps in a batch are impossible by its marker (pain 52)."""
    batch = make_batch()
    with pytest.raises(RecordRefused, match=how):
        commit_batch(store, batch, ONE, spoilt(make_records(batch), how), now=now)
    assert not store.folder.exists()


def test_two_profiles_need_every_page_twice(store, make_batch, make_records, now):
    batch = make_batch()
    both = make_records(batch) + make_records(batch, profile="mobile")
    with pytest.raises(RecordRefused, match="mobile"):
        commit_batch(store, batch, ONE, both[:-1], now=now)
    commit_batch(store, batch, ONE, both, now=now)
    assert latest_listings(store, ["profile"])["profile"].to_pylist() == ["desktop", "mobile"] * 3


def test_lone_surrogates_are_replaced_and_counted_in_the_page_s_row(store, make_batch, make_records, now):
    """Lone surrogates become U+FFFD and are counted, not dropped (pain 26)."""
    batch = make_batch()
    records = make_records(batch)
    records[1] = dataclasses.replace(
        records[1],
        listing=records[1].listing | {"title": "a\ud800b\ud83d\ude00", "surrogates_replaced": 1},
        selector_map=[records[1].selector_map[0] | {"name": "\udfff", "attributes": {"k\ud800": "\ud800\ud800"}}],
    )
    commit_batch(store, batch, ONE, records, now=now)
    rows = read_table(store, "listings").to_pylist()
    assert rows[1]["title"] == "a\ufffdb😀"
    assert [row["surrogates_replaced"] for row in rows] == [0, 1 + 1 + 1 + 3, 0]
    assert [row["degradations"] for row in rows] == [[], ["surrogates_replaced"], []]


def test_a_file_that_no_marker_names_is_not_read(store, make_batch, make_records, now):
    """Readers start from markers: an orphan of a dead attempt does not exist for them (pain 47)."""
    batch = make_batch()
    marker = commit_batch(store, batch, ONE, make_records(batch), now=now).marker
    orphan = store.folder / marker.files[0].path.replace(ONE, OTHER)
    orphan.write_bytes((store.folder / marker.files[0].path).read_bytes())
    assert read_table(store, "listings").num_rows == 3
    assert len(query(store, "listings")) == 3


def test_eight_processes_race_and_one_wins(tmp_path, store, make_batch, make_records, now):
    """Of 8 executions of the same batches each batch has exactly one winner, and the losers leave nothing (pain 37)."""
    batches = [make_batch(n) for n in range(4)]
    jobs = tmp_path / "jobs"
    jobs.write_bytes(pickle.dumps(([(batch, make_records(batch)) for batch in batches], now)))
    processes = [start(jobs, store, f"{n:032x}") for n in range(8)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    results = [process.communicate(timeout=60)[0].split() for process in processes]

    assert [process.returncode for process in processes] == [0] * 8
    assert [sorted(results[n][b] for n in range(8)).count("won") for b in range(4)] == [1] * 4
    assert data_files(store) == {f.path for marker in markers(store) for f in marker.files}
    assert len(query(store, "listings")) == 12


def test_kill_9_at_random_moments_leaves_only_whole_batches(tmp_path, store, make_batch, make_records, now):
    """What is committed when a process is killed is complete, and running again completes the rest, once (pain 48)."""
    batches = [make_batch(n) for n in range(30)]
    jobs = tmp_path / "jobs"
    jobs.write_bytes(pickle.dumps(([(batch, make_records(batch)) for batch in batches], now)))
    chance = random.Random(7)
    for attempt in range(5):
        process = start(jobs, store, f"{attempt:032x}")
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        # Somewhere within the commit after a few whole ones, however fast this machine is.
        for _ in range(chance.randint(1, 3)):
            began = time.monotonic()
            while (line := process.stdout.readline()) != "won\n":
                assert line, "the process ended by itself"
                began = time.monotonic()
        time.sleep(chance.uniform(0.0, time.monotonic() - began))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=30)

        committed = markers(store)
        assert list(verify_markers(store, hashes=True)) == []
        assert read_table(store, "captures").num_rows == 6 * len(committed)
        assert len(query(store, "listings")) == 3 * len(committed) > 0
        assert len(query(store, "selector_maps")) == 6 * len(committed)

    process = start(jobs, store, "f" * 32)
    process.communicate("go\n", timeout=60)
    assert committed_batch_ids(store, 0) == {batch.batch_id for batch in batches}
    keys = read_table(store, "listings", ["url_key"])["url_key"].to_pylist()
    assert sorted(keys) == sorted(page.url_key for batch in batches for page in batch.pages)
