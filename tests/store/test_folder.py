"""A local folder as an object store: files appear whole, a name is taken once, and refusals are sentences."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from schemas.errors import StoreError, StoreLocked
from workers.store import FolderStore, locked

HOLDS = """
import sys, time
from workers.store import FolderStore, locked
with locked(FolderStore.for_run(sys.argv[1])):
    print("held", flush=True)
    if sys.argv[2] == "fork":
        import os
        if os.fork() == 0:
            time.sleep(60)
    time.sleep(60)
"""


def test_checking_a_store_creates_nothing(tmp_path):
    FolderStore.for_run(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


def test_a_name_is_taken_once_and_nothing_else_stays(store):
    assert store.put_if_absent("commits/0/x.json", b"one")
    assert not store.put_if_absent("commits/0/x.json", b"two")
    assert store.read("commits/0/x.json") == b"one"
    assert [path.name for path in (store.folder / "commits/0").iterdir()] == ["x.json"]


def test_of_many_threads_one_creates_a_name(store):
    gate = threading.Barrier(16)

    def put(number: int) -> bool:
        gate.wait()
        return store.put_if_absent("commits/0/x.json", str(number).encode() * 1000)

    with ThreadPoolExecutor(16) as threads:
        results = list(threads.map(put, range(16)))
    assert sorted(results) == [False] * 15 + [True]
    assert store.read("commits/0/x.json") == str(results.index(True)).encode() * 1000


def test_a_file_is_moved_in(store):
    local = store.scratch() / "f"
    local.write_bytes(b"data")
    store.put_file(local, "data/t/f.parquet")
    assert store.read("data/t/f.parquet") == b"data"
    assert store.size_of("data/t/f.parquet") == 4
    assert not local.exists()


def test_a_file_from_another_file_system_is_moved_in(store, monkeypatch):
    local = store.scratch() / "f"
    local.write_bytes(b"data")
    whole = Path.replace

    def across(self: Path, target: Path) -> Path:
        if self == local:
            raise OSError(18, "Invalid cross-device link")
        return whole(self, target)

    monkeypatch.setattr(Path, "replace", across)
    store.put_file(local, "data/t/f.parquet")
    assert list(store.list("")) == ["data/t/f.parquet"]
    assert not local.exists()


def test_listing_passes_over_unfinished_files(store):
    store.put_if_absent("b/2", b"")
    store.put_if_absent("b/1", b"")
    store.put_if_absent("a", b"")
    store.scratch()
    (store.folder / "b" / ".1.tmp").write_bytes(b"")
    assert list(store.list("")) == ["a", "b/1", "b/2"]
    assert list(store.list("b/")) == ["b/1", "b/2"]
    assert list(store.list("none")) == []


def test_what_is_not_there_is_none_and_deleting_it_is_no_error(store):
    assert store.read("a/b") is None
    assert store.size_of("a/b") is None
    store.delete("a/b")


@pytest.mark.parametrize("path", ["file", "file/below"])
def test_a_file_in_the_way_is_a_store_error(tmp_path, path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"because .*file is a file; move that file away"):
        FolderStore.for_run(tmp_path / path)


def test_an_unwritable_place_is_a_store_error_that_leaves_nothing(tmp_path):
    (tmp_path / "shut").mkdir()
    (tmp_path / "shut").chmod(0o500)
    if os.access(tmp_path / "shut", os.W_OK):
        pytest.skip("this user may write everywhere")
    with pytest.raises(StoreError, match="read-only for this user"):
        FolderStore.for_run(tmp_path / "shut" / "store")


def test_a_place_that_refuses_every_user_is_a_store_error():
    with (
        pytest.raises(StoreError, match=r"^Cannot write to the store /proc/none: .*\.$"),
        locked(FolderStore.for_run("/proc/none")),
    ):
        pass
    with pytest.raises(StoreError, match=r"^Cannot write to the store /proc/none: .*\.$"):
        FolderStore.for_run("/proc/none").put_if_absent("a/b", b"")


@pytest.mark.parametrize(("make", "says"), [(False, "is not there"), (True, "is a file")])
def test_reading_from_no_folder_is_a_store_error(tmp_path, make, says):
    if make:
        (tmp_path / "store").write_text("")
    with pytest.raises(StoreError, match=says):
        FolderStore.for_reading(tmp_path / "store")


def test_a_locked_store_names_the_process_that_holds_it(store):
    with (
        locked(store),
        pytest.raises(StoreLocked, match=rf"in use by process {os.getpid()}; wait until it ends"),
        locked(store),
    ):
        pass
    with locked(store):
        pass


@pytest.mark.parametrize("how", ["plain", "fork"])
def test_a_killed_run_s_lock_is_free_even_if_its_children_live(store, how):
    """A forked child that outlives a killed run does not keep the store locked."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, store.where, how], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(StoreLocked, match=str(process.pid)), locked(store):
            pass
        if how == "fork":
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            while not children.read_text().strip():
                pass
        process.kill()
        process.wait()
        for _ in range(100):
            try:
                with locked(store):
                    return
            except StoreLocked:
                threading.Event().wait(0.02)
        pytest.fail("the lock stayed")
    finally:
        os.killpg(process.pid, 9) if how == "fork" else None
        process.wait()
        process.stdout.close()


def test_taking_the_lock_clears_what_a_killed_run_left_in_the_making(store):
    (store.scratch() / "half").write_bytes(b"x")
    with locked(store):
        assert list(store.scratch().iterdir()) == []
