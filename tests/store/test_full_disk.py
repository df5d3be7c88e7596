"""A disk that is full says so, shows nothing half, and costs nothing: the same commit succeeds once there is room."""

from __future__ import annotations

import os
import pickle
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import StoreError
from schemas.settings import CrawlSettings
from workers.browser.spool import SPOOL_ABOVE_BYTES, Spooled
from workers.store import (
    FolderStore,
    ObjectStore,
    commit_batch,
    markers,
    open_crawl,
    open_store,
    read_plan,
    store_plan,
    verify_markers,
)

COMMIT_ON_A_FULL_DISK = """
import pickle, subprocess, sys
from pathlib import Path
from schemas.errors import StoreError
from workers.store import FolderStore, commit_batch
batch, records, now, disk, crawl = pickle.loads(Path(sys.argv[1]).read_bytes())
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={sys.argv[2]}", "none", disk], check=True)
store = FolderStore.for_run(Path(disk) / "store")
store.put_if_absent("crawl.json", crawl)
try:
    commit_batch(store, batch, "a" * 32, records, now=now)
except StoreError as error:
    print(error)
print(sorted(str(path.relative_to(disk)) for path in Path(disk).rglob("*") if path.is_file()))
subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
print(commit_batch(store, batch, "b" * 32, records, now=now).result)
"""


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "folder":
        return FolderStore.for_run(tmp_path / "store")
    return open_store(request.getfixturevalue("s3_url"))


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """Inside, this process can make no file larger than `size` bytes: the error is that of a full disk but for its
    number, and it comes at the same places."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [0, 1_000, 5_000, 9_000])
def test_a_commit_without_room_is_refused_and_leaves_nothing(place, size, make_batch, make_records, now):
    batch = make_batch()
    open_crawl(place, "test", CrawlSettings(), now=now)
    with no_file_above(size), pytest.raises(StoreError, match=r"make room on|File too large") as refused:
        commit_batch(place, batch, "a" * 32, make_records(batch), now=now)
    assert "\n" not in str(refused.value)
    assert (markers(place), list(place.list("data")), list(place.scratch().iterdir())) == ([], [], [])
    assert commit_batch(place, batch, "b" * 32, make_records(batch), now=now).result == "won"
    assert list(verify_markers(place, hashes=True)) == []


def test_a_plan_without_room_is_refused_and_leaves_nothing(place, make_batch):
    with no_file_above(1_000), pytest.raises(StoreError, match="make room"):
        store_plan(place, 0, [make_batch()])
    assert read_plan(place, 0) == []
    store_plan(place, 0, [make_batch()])
    assert read_plan(place, 0) == [make_batch()]


def test_small_files_without_room_are_not_there(tmp_path):
    store = FolderStore.for_run(tmp_path / "store")
    assert store.put_if_absent("claim", b"old")
    _, tag = store.read_tagged("claim") or (b"", "")
    with no_file_above(10):
        with pytest.raises(StoreError, match="File too large"):
            store.put_if_absent("marker", b"x" * 11)
        with pytest.raises(StoreError, match="File too large"):
            store.put_if_match("claim", b"x" * 11, tag)
    assert store.read("marker") is None
    assert store.read("claim") == b"old"
    assert [path.name for path in store.folder.iterdir() if path.suffix == ".tmp"] == []


def test_a_file_from_another_disk_that_does_not_fit_leaves_nothing(tmp_path, monkeypatch):
    store = FolderStore.for_run(tmp_path / "store")
    local = Path("/dev/shm") / f"pagestate-test-{os.getpid()}"
    if not local.parent.is_dir() or local.parent.stat().st_dev == tmp_path.stat().st_dev:
        local = tmp_path / "local"
        monkeypatch.setattr(Path, "replace", _across_disks(Path.replace))
    local.write_bytes(b"x" * 11)
    try:
        with no_file_above(10), pytest.raises(StoreError, match="File too large"):
            store.put_file(local, "data/t/part")
        assert [path for path in store.folder.rglob("*") if path.is_file()] == []
        store.put_file(local, "data/t/part")
        assert store.read("data/t/part") == b"x" * 11
    finally:
        local.unlink(missing_ok=True)


def _across_disks(rename: Callable[..., Any]) -> Callable[..., Any]:
    """A rename that refuses what comes from elsewhere, as the kernel does across file systems."""

    def replace(self: Path, target: Path) -> Any:
        if self.parent != target.parent:
            raise OSError(18, "Invalid cross-device link")
        return rename(self, target)

    return replace


def test_a_payload_without_room_leaves_no_file(tmp_path):
    with no_file_above(1_000_000), pytest.raises(OSError, match="File too large"):
        Spooled.write(tmp_path, b"x" * SPOOL_ABOVE_BYTES)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", ["16k", "32k", "48k"])
def test_a_real_full_disk_is_the_same(size, tmp_path, make_batch, make_records, now):
    """Given a file system of a few pages, in a mount namespace of the test's own."""
    disk, job = tmp_path / "disk", tmp_path / "job"
    disk.mkdir()
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    tried = subprocess.run([*unshare, "mount", "-t", "tmpfs", "none", disk], capture_output=True, check=False)
    if tried.returncode:
        pytest.skip("this kernel lets nobody mount; the limit on file sizes says the same")
    batch = make_batch()
    first = FolderStore.for_run(tmp_path / "first")
    crawl = open_crawl(first, "test", CrawlSettings(), now=now).encode()
    job.write_bytes(pickle.dumps((batch, make_records(batch), now, str(disk), crawl)))
    run = subprocess.run(
        [*unshare, sys.executable, "-c", COMMIT_ON_A_FULL_DISK, job, size],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    said, files, again = run.stdout.splitlines()
    assert re.search("No space left on device.*make room", said)
    assert files == "['store/crawl.json']"
    assert again == "won"
