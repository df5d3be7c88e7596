"""Whatever is lost, added or changed in a store, `pagestate verify` says so; unfinished work is no problem."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from scheduler.cli import main
from scheduler.rounds import plan_round
from scheduler.verify import remove_strays, verify
from schemas.batch import Batch, PlannedPage
from schemas.errors import StoreDamaged
from schemas.records import StageResult
from schemas.settings import CrawlSettings
from workers.store import FolderStore, commit_batch, markers, open_crawl, open_store, screenshot_of

URLS = [f"http://example.org/{n}" for n in range(4)]
ROW = {"interactive_elements": 2, "payload_bytes": 502}
SETTINGS = CrawlSettings(lanes=1, batch_size=2)


@pytest.fixture
def planned(store: FolderStore, now: datetime) -> list[Batch]:
    open_crawl(store, "test", SETTINGS, now=now)
    return plan_round(store, "test", 0, [PlannedPage(url, url) for url in URLS], SETTINGS)


@pytest.fixture
def commit(store: FolderStore, make_records: Callable[..., Any], now: datetime) -> Callable[..., None]:
    def make(batch: Batch, attempt: str = "ab" * 16, **changes: Any) -> None:
        commit_batch(store, batch, attempt, make_records(batch, **(ROW | changes)), now=now)

    return make


def test_a_whole_crawl_has_no_problem(store, planned, commit, capsys):
    for batch in planned:
        commit(batch)
    found = verify(store)
    assert (found.problems, found.strays, found.waiting) == ([], [], 0)
    assert (found.batches, found.committed, found.pages) == (2, 2, 4)
    assert main(["verify", "--store", store.where]) == 0
    assert "2 of 2 batches are committed, 4 pages in 10 files; 0 problems" in capsys.readouterr().out


def pictured(records: list[Any], image: bytes, told: bytes) -> list[Any]:
    """The records, the first of which has a picture, and says that its hash is that of `told`."""
    row = {
        "area": "viewport", "format": "png", "width": 1, "height": 1, "scale": 1.0, "x": 0.0, "y": 0.0,
        "page_width": 1.0, "page_height": 1.0, "cut": False, "boxes": 0, "covered": 0, "bytes": len(image),
        "image": image, "sha256": hashlib.sha256(told).hexdigest(),
    }  # fmt: skip
    stage = StageResult("screenshot", "ok", 1.0, 2.0)
    return [replace(records[0], screenshots=[row], stages=[*records[0].stages, stage]), *records[1:]]


def test_a_picture_is_looked_at_and_read_back(store, planned, commit, make_records, now):
    records = pictured(make_records(planned[0], **ROW), b"image", b"image")
    commit_batch(store, planned[0], "ab" * 16, records, now=now)
    commit(planned[1])
    assert verify(store).problems == []
    found = screenshot_of(store, records[0].page_id)
    assert found is not None
    assert found["image"] == b"image"
    assert screenshot_of(store, records[1].page_id) is None


def test_a_picture_that_is_another_or_lacks_is_a_problem(store, planned, make_records, now):
    first = pictured(make_records(planned[0], **ROW), b"image", b"other")
    second = pictured(make_records(planned[1], **ROW), b"image", b"image")
    commit_batch(store, planned[0], "ab" * 16, first, now=now)
    commit_batch(store, planned[1], "ab" * 16, [replace(second[0], screenshots=[]), *second[1:]], now=now)
    one, other = verify(store).problems
    assert f"The picture of page {first[0].page_id}" in one
    assert f"has 0 pictures of {second[0].url_key}, and by its stages it took 1" in other
    with pytest.raises(StoreDamaged, match="is not what was stored"):
        screenshot_of(store, first[0].page_id)


def test_what_is_not_done_yet_is_no_problem(store, planned, commit, capsys):
    commit(planned[0])
    assert main(["verify", "--store", store.where, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["waiting"], told["problems"]) == (1, [])


def test_a_missing_file_and_a_changed_one_are_problems(store, planned, commit, capsys):
    for batch in planned:
        commit(batch)
    one, other = (marker.files[0] for marker in markers(store))
    (store.folder / one.path).unlink()
    path = store.folder / other.path
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    found = verify(store)
    assert any(one.path in problem and "is missing" in problem for problem in found.problems)
    assert any(other.path in problem and "is not what its marker says" in problem for problem in found.problems)
    assert main(["verify", "--store", store.where]) == 1
    assert one.path in capsys.readouterr().out
    # a look at names and sizes finds the one only
    quick = verify(store, contents=False).problems
    assert any(one.path in problem for problem in quick)
    assert not any(other.path in problem for problem in quick)


def test_elements_and_payloads_that_do_not_fit_their_listing_are_problems(store, planned, commit):
    commit(planned[0], interactive_elements=3)
    commit(planned[1], payload_bytes=501)
    problems = verify(store).problems
    assert sum("has 2 elements of" in problem and "has 3;" in problem for problem in problems) == 2
    assert sum("has 502 bytes of payloads of" in problem and "says 501;" in problem for problem in problems) == 2


def test_a_marker_of_no_planned_batch_and_one_that_counts_wrong_are_problems(store, planned, commit, make_batch):
    commit(planned[0])
    commit(make_batch(5))
    path = next(iter(store.list("commits/0/")))
    (name,) = [p for p in store.list("commits/0/") if planned[0].batch_id in p]
    marker = json.loads(store.read(name) or b"")
    marker["outcomes"] = {"ok": 1, "empty": 1}
    (store.folder / name).write_text(json.dumps(marker))
    problems = verify(store).problems
    assert path
    assert any("is of no planned batch" in problem for problem in problems)
    assert any("other outcomes than its marker says" in problem for problem in problems)


def test_a_lost_part_of_a_plan_is_a_problem(store, planned, commit, now):
    more = plan_round(store, "test", 0, [PlannedPage("http://example.org/9", "")], SETTINGS)
    assert len(more) == 3
    # the first part of the plan goes
    first = min(store.list("plan/"), key=lambda path: -(store.size_of(path) or 0))
    store.delete(first)
    problems = verify(store).problems
    assert any("does not hold the batches 0 to" in problem for problem in problems)


@pytest.mark.parametrize("finished", [True, False])
def test_only_old_strays_of_finished_rounds_are_removed(store, planned, commit, finished, tmp_path):
    for batch in planned if finished else planned[:1]:
        commit(batch)
    committed = sorted(file.path for marker in markers(store) for file in marker.files)
    old, new = committed[0].replace("ab" * 16, "cd" * 16), committed[0].replace("ab" * 16, "ef" * 16)
    other = "data/notes.txt"
    for path in old, new, other:
        local = tmp_path / "stray"
        local.write_bytes(b"stray")
        store.put_file(local, path)
    long_ago = (datetime.now(UTC) - 3 * SETTINGS.batch_deadline).timestamp()
    for path in old, other:
        os.utime(store.folder / path, (long_ago, long_ago))
    found = verify(store)
    assert sorted(found.strays) == sorted([old, new, other])
    assert found.problems == []
    remove_strays(store, found, datetime.now(UTC))
    assert found.removed == int(finished)
    assert (store.size_of(old) is None) is finished
    assert sorted(store.list("data/")) == sorted([*committed, new, other, *([] if finished else [old])])


def test_a_store_in_s3_is_verified_alike(s3_url, make_records, now, tmp_path):
    store = open_store(s3_url)
    open_crawl(store, "test", SETTINGS, now=now)
    for batch in plan_round(store, "test", 0, [PlannedPage(url, url) for url in URLS], SETTINGS):
        commit_batch(store, batch, "ab" * 16, make_records(batch, **ROW), now=now)
    stray = next(iter(store.list("data/"))).replace("ab" * 16, "cd" * 16)
    local: Path = tmp_path / "stray"
    local.write_bytes(b"stray")
    store.put_file(local, stray)
    found = verify(store)
    assert (found.problems, found.strays) == ([], [stray])
    remove_strays(store, found, datetime.now(UTC))
    assert found.removed == 0, "it may be about to be committed"
    remove_strays(store, found, datetime.now(UTC) + 3 * timedelta(seconds=120))
    assert store.size_of(stray) is None
