"""An S3 prefix as an object store, on a real server: the same promises as the folder's, and sentences for refusals."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.exceptions import ClientError
from pyarrow.fs import FileType

from schemas.errors import SettingError, StoreError, StoreUnavailable
from schemas.settings import CrawlSettings
from workers.store import (
    commit_batch,
    find_pages,
    load_capture,
    markers,
    open_crawl,
    open_store,
    read_table,
    selector_map_of,
    verify_markers,
)
from workers.store.s3 import S3Store
from workers.store.s3_client import S3Options

COMMITS = """
import pickle, sys
from pathlib import Path
from workers.store import commit_batch, open_store
batch, records, now = pickle.loads(Path(sys.argv[1]).read_bytes())
store = open_store(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
print(commit_batch(store, batch, sys.argv[3], records, now=now).result, flush=True)
"""


@pytest.fixture
def store(s3_url: str) -> S3Store:
    return S3Store.connect(s3_url)


@pytest.fixture
def make_file(tmp_path: Path) -> Any:
    def make(data: bytes) -> Path:
        path = tmp_path / f"file-{len(list(tmp_path.iterdir()))}"
        path.write_bytes(data)
        return path

    return make


def test_a_url_opens_s3_and_a_path_opens_a_folder(s3_url, tmp_path):
    assert open_store(s3_url).where == s3_url
    assert open_store(f"{s3_url}/").where == s3_url
    assert open_store(str(tmp_path / "s")).where == str(tmp_path / "s")
    with pytest.raises(StoreError, match="is not there"):
        open_store(str(tmp_path / "s"), reading=True)


def test_a_name_is_taken_once(store):
    assert store.put_if_absent("commits/0/x.json", b"one")
    assert not store.put_if_absent("commits/0/x.json", b"two")
    assert not store.put_if_absent("commits/0/x.json", b"one")
    assert store.read("commits/0/x.json") == b"one"


def test_of_eight_threads_one_creates_a_name(store):
    gate = threading.Barrier(8)

    def put(name: str, number: int) -> bool:
        gate.wait()
        return store.put_if_absent(name, str(number).encode() * 1000)

    with ThreadPoolExecutor(8) as threads:
        for turn in range(10):
            results = list(threads.map(put, [f"commits/0/{turn}.json"] * 8, range(8)))
            assert sorted(results) == [False] * 7 + [True]
            assert store.read(f"commits/0/{turn}.json") == str(results.index(True)).encode() * 1000


def test_a_file_is_moved_in_whole_and_in_parts(s3_url, make_file):
    store = S3Store.connect(s3_url, S3Options(multipart_bytes=6 * 1024 * 1024, part_bytes=5 * 1024 * 1024))
    for size in (0, 1, 6 * 1024 * 1024, 6 * 1024 * 1024 + 1):
        data = os.urandom(size)
        local = make_file(data)
        store.put_file(local, f"data/t/{size}")
        assert store.size_of(f"data/t/{size}") == size
        assert store.read(f"data/t/{size}") == data
        assert not local.exists()


def test_listing_is_by_folder_and_page_by_page(store):
    names = [f"commits/0/{n:04}" for n in range(1001)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: store.put_if_absent(name, b""), names))
    store.put_if_absent("commits/0/.hidden", b"")
    store.put_if_absent("commits/00/other", b"")
    assert list(store.list("commits/0/")) == names
    assert list(store.list("commits/0")) == names
    assert list(store.list("")) == [*names, "commits/00/other"]
    assert list(store.list("none")) == []


def test_what_is_not_there_is_none_and_deleting_it_is_no_error(store):
    assert store.read("a/b") is None
    assert store.size_of("a/b") is None
    store.delete("a/b")
    store.put_if_absent("a/b", b"x")
    store.delete("a/b")
    assert store.read("a/b") is None


def test_scratch_is_a_local_folder_that_goes_with_the_store(s3_url):
    store = S3Store.connect(s3_url)
    folder = store.scratch()
    (folder / "f").write_bytes(b"")
    assert store.scratch() == folder
    del store
    assert not folder.exists()


def test_encryption_is_asked_for(s3_url, make_file):
    store = S3Store.connect(s3_url, S3Options(encryption="AES256", multipart_bytes=1))
    store.put_if_absent("a", b"one")
    store.put_file(make_file(b"two"), "b")
    for name in ("a", "b"):
        head = store.client.head_object(Bucket=store.bucket, Key=f"{store.prefix}{name}")
        assert head["ServerSideEncryption"] == "AES256"
    plain = S3Store.connect(s3_url)
    assert (plain.read("a"), plain.read("b")) == (b"one", b"two")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"encryption": "rot13"}, "no server-side encryption 'rot13'"),
        ({"kms_key": "k"}, "KMS key is given without"),
        ({"endpoint_url": "http://me:secret@127.0.0.1/"}, "endpoint holds a user name"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, says):
    with pytest.raises(SettingError, match=says) as refused:
        S3Options(**options)
    assert "secret" not in str(refused.value)


# pyarrow


def test_pyarrow_reads_through_the_store(store, make_file):
    table = pa.table({"n": list(range(50_000)), "t": ["x" * (n % 50) for n in range(50_000)]})
    local = make_file(b"")
    pq.write_table(table, local, row_group_size=5_000)
    store.put_file(local, "t.parquet")
    assert pq.read_table("t.parquet", filesystem=store.arrow()).equals(table)
    found, none = store.arrow().get_file_info(["t.parquet", "none"])
    assert (found.type, found.size, none.type) == (FileType.File, store.size_of("t.parquet"), FileType.NotFound)
    with pytest.raises(NotImplementedError):
        store.arrow().delete_file("t.parquet")


def test_a_server_that_goes_away_is_not_a_damaged_file(store, make_file):
    local = make_file(b"")
    pq.write_table(pa.table({"n": [1]}), local)
    store.put_file(local, "t.parquet")
    arrow = store.arrow()
    with deaf_server() as endpoint:
        away = S3Store(
            store.where, store.bucket, store.prefix, store.options, quick(store.where, endpoint).client, store._scratch
        )
        with pytest.raises(StoreUnavailable, match="does not answer"):
            pq.read_table("t.parquet", filesystem=away.arrow())
    assert pq.read_table("t.parquet", filesystem=arrow).num_rows == 1


# commits


def test_a_commit_reads_back(store, make_batch, make_records, now):
    batch = make_batch()
    open_crawl(store, "test", CrawlSettings(), now=now)
    first = commit_batch(store, batch, "a" * 32, make_records(batch), now=now)
    assert first.result == "won"
    files = set(store.list("data"))
    assert commit_batch(store, batch, "b" * 32, make_records(batch), now=now).result == "duplicate"
    assert files == {file.path for file in first.marker.files} == set(store.list("data"))
    assert list(verify_markers(store, hashes=True)) == []
    assert read_table(store, "selector_maps").num_rows == 6
    (page,) = find_pages(store, batch.pages[1].url_key)
    assert [row["index"] for row in selector_map_of(store, page["page_id"])] == [2, 1]
    assert len(load_capture(store, page["page_id"]).payloads) == 2


def test_a_race_of_eight_attempts_has_one_winner_and_no_orphans(store, make_batch, make_records, now):
    batch = make_batch()
    records = make_records(batch)
    gate = threading.Barrier(8)

    def commit(number: int) -> str:
        gate.wait()
        return commit_batch(store, batch, f"{number:032x}", records, now=now).result

    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(commit, range(8)))
    assert sorted(results) == ["duplicate"] * 7 + ["won"]
    (marker,) = markers(store)
    assert marker.attempt == f"{results.index('won'):032x}"
    assert set(store.list("data")) == {file.path for file in marker.files}


def test_a_killed_commit_is_whole_or_not_there(store, s3_server, make_batch, make_records, now, tmp_path):
    """Given processes that are killed while they commit, then each batch is in the dataset whole or not at all."""
    ends = []
    for sequence in range(4):
        batch = make_batch(sequence)
        (tmp_path / "job").write_bytes(pickle.dumps((batch, make_records(batch), now)))
        process = subprocess.Popen(
            [sys.executable, "-c", COMMITS, tmp_path / "job", store.where, f"{sequence:032x}"],
            env=os.environ | s3_server.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.stdin.write("\n")
            process.stdin.flush()
            time.sleep(0.03 * sequence)
            process.send_signal(signal.SIGKILL)
        ends.append(batch)
    assert list(verify_markers(store, hashes=True)) == []
    for batch in ends:
        commit_batch(store, batch, "f" * 32, make_records(batch), now=now)
    assert {marker.batch_id for marker in markers(store)} == {batch.batch_id for batch in ends}
    assert list(verify_markers(store, hashes=True)) == []
    assert read_table(store, "listings").num_rows == 12


# unknown results and refusals


class Answers:
    """A client whose conditional PUT reaches the server and is then answered as told."""

    def __init__(self, client: Any, *answers: Exception | None, sent: bool = True) -> None:
        self._client = client
        self._answers = list(answers)
        self._sent = sent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def put_object(self, **asked: Any) -> Any:
        answer = self._answers.pop(0) if self._answers else None
        if answer is None or self._sent:
            done = self._client.put_object(**asked)
        if answer is not None:
            raise answer
        return done


def answer(code: str, status: int, attempts: int = 0) -> ClientError:
    about: Any = {
        "Error": {"Code": code, "Message": "AKIASECRET"},
        "ResponseMetadata": {"HTTPStatusCode": status, "RetryAttempts": attempts},
    }
    return ClientError(about, "PutObject")


def answered(store: S3Store, *answers: Exception | None, sent: bool = True) -> S3Store:
    client: Any = Answers(store.client, *answers, sent=sent)
    return S3Store(store.where, store.bucket, store.prefix, store.options, client, store._scratch)


def lost() -> Exception:
    from botocore.exceptions import ReadTimeoutError

    return ReadTimeoutError(endpoint_url="http://127.0.0.1/")


def test_a_lost_answer_is_settled_by_reading(store):
    assert answered(store, lost()).put_if_absent("a", b"ours")
    assert answered(store, answer("InternalError", 500)).put_if_absent("b", b"ours")
    store.put_if_absent("c", b"theirs")
    assert not answered(store, lost(), sent=False).put_if_absent("c", b"ours")
    with pytest.raises(StoreUnavailable, match=r"^Cannot write to the store s3://.* at d: the server does not answer"):
        answered(store, lost(), sent=False).put_if_absent("d", b"ours")


def test_a_retried_put_that_meets_its_own_success_has_won(store):
    retried = answer("PreconditionFailed", 412, attempts=1)
    assert answered(store, retried).put_if_absent("a", b"ours")
    store.put_if_absent("b", b"theirs")
    assert not answered(store, retried, sent=False).put_if_absent("b", b"ours")


def test_a_conflict_is_asked_again(store):
    conflict = answer("ConditionalRequestConflict", 409)
    assert answered(store, conflict, conflict, sent=False).put_if_absent("a", b"ours")
    with pytest.raises(StoreUnavailable, match="others are writing b at the same time"):
        answered(store, *[conflict] * 6, sent=False).put_if_absent("b", b"ours")


def quick(url: str, endpoint: str) -> S3Store:
    """A store whose server is somewhere else and is not waited for; `connect` is not asked, since it would ask it."""
    from workers.store import s3, s3_client

    options = S3Options(endpoint_url=endpoint, attempts=1, connect_timeout=0.5, read_timeout=0.5)
    bucket, prefix = s3_client.bucket_and_prefix(url)
    return S3Store(url, bucket, prefix, options, s3_client.client_of(options), s3._Scratch())


@contextmanager
def deaf_server() -> Iterator[str]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_deaf_server_is_unavailable(s3_url):
    with deaf_server() as endpoint:
        store = quick(s3_url, endpoint)
        for refused in (
            lambda: store.read("a"),
            lambda: store.size_of("a"),
            lambda: store.put_if_absent("a", b""),
            lambda: list(store.list("")),
            lambda: store.delete("a"),
        ):
            with pytest.raises(StoreUnavailable, match=rf"store {s3_url}.*does not answer \(ReadTimeoutError\)"):
                refused()


@pytest.mark.parametrize(
    ("environment", "bucket", "says"),
    [
        (
            {"AWS_SECRET_ACCESS_KEY": "hush"},
            "bucket",
            r"not accept these credentials \(SignatureDoesNotMatch 403\)",
        ),
        ({"AWS_ACCESS_KEY_ID": "hush"}, "bucket", r"does not accept these credentials \(InvalidAccessKeyId 403\)"),
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "bucket", "no usable AWS credentials"),
        ({}, "no-such-bucket", r"no such bucket \(NoSuchBucket 404\); check the name"),
        ({"AWS_ENDPOINT_URL_S3": "http://hush:hush@127.0.0.1:1"}, "bucket", "endpoint holds a user name"),
        ({"AWS_PROFILE": "nobody"}, "bucket", r"no usable AWS credentials \(ProfileNotFound\)"),
    ],
)
def test_what_is_wrong_is_said_at_the_start_and_no_secret_is(s3_url, monkeypatch, environment, bucket, says):
    for name, value in environment.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    with pytest.raises((StoreError, SettingError), match=says) as refused:
        S3Store.connect(f"s3://{bucket}/x")
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["s3://key:hush@bucket/x", "s3://bucket/x?token=hush", "https://127.0.0.1/x", "s3:///x", "s3://"]
)
def test_a_url_that_is_no_store_is_refused(url):
    with pytest.raises(SettingError) as refused:
        open_store(url)
    assert "hush" not in str(refused.value)
