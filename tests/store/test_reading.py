"""What readers see: committed rows only, the last round of each page, captures that are what they were."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow.fs import FileSystem, PyFileSystem

from schemas.capture import Capture, Payload
from schemas.errors import SeedError, StoreDamaged, StoreError, StoreMismatch
from schemas.identifiers import page_id
from schemas.marker import Marker
from workers.store import (
    FolderStore,
    commit_batch,
    decode_capture,
    encode_capture,
    find_pages,
    latest_listings,
    load_capture,
    markers,
    outcomes_by_round,
    read_table,
    selector_map_of,
    stages_of,
    verify_markers,
)
from workers.store.arrow_files import StoredFiles
from workers.store.layout import marker_path

ONE = "a" * 32


@pytest.fixture
def two_rounds(store, make_batch, make_records, now):
    """Round 0: three pages ok, three deferred; round 1: the deferred ones again, one of them still deferred."""
    first, second = make_batch(0), make_batch(1)
    again = make_batch(0, [page.url_key for page in second.pages], round_number=1)
    commit_batch(store, second, ONE, make_records(second, "deferred", title="early"), now=now)
    commit_batch(store, first, ONE, make_records(first, title="first"), now=now)
    records = make_records(again, title="late")
    records[2] = dataclasses.replace(records[2], outcome="deferred")
    commit_batch(store, again, ONE, records, now=now)
    return store


def test_an_empty_store_reads_as_empty_tables(store):
    assert markers(store) == []
    assert outcomes_by_round(store) == {}
    assert latest_listings(store, ["url_key"]).num_rows == 0
    assert read_table(store, "captures", ["kind"]).schema == pa.schema(
        [read_table(store, "captures").schema.field("kind")]
    )
    assert find_pages(store, "http://example.org/") == []


def test_markers_come_by_round_lane_and_sequence(two_rounds):
    assert [(m.round, m.lane, m.sequence) for m in markers(two_rounds)] == [(0, 7, 0), (0, 7, 1), (1, 7, 0)]
    assert [m.round for m in markers(two_rounds, 1)] == [1]


def test_each_page_stands_once_with_the_row_of_its_last_round(two_rounds):
    rows = latest_listings(two_rounds, ["title", "url_key", "outcome"]).to_pylist()
    assert [(row["url_key"][-3:], row["title"], row["outcome"]) for row in rows] == [
        ("0/0", "first", "ok"),
        ("0/1", "first", "ok"),
        ("0/2", "first", "ok"),
        ("1/0", "late", "ok"),
        ("1/1", "late", "ok"),
        ("1/2", "late", "deferred"),
    ]
    assert latest_listings(two_rounds).schema.names == read_table(two_rounds, "listings").schema.names


def test_outcomes_are_counted_per_round(two_rounds):
    assert outcomes_by_round(two_rounds) == {0: {"deferred": 3, "ok": 3}, 1: {"deferred": 1, "ok": 2}}


def test_tables_are_read_with_columns_and_filters(two_rounds):
    table = read_table(two_rounds, "listings", ["title"], pc.field("outcome") == "deferred")
    assert table.to_pydict() == {"title": ["early", "early", "early", "late"]}


def test_a_page_is_found_by_any_form_of_its_url_and_by_its_id(two_rounds):
    rows = find_pages(two_rounds, "HTTP://user:pw@EXAMPLE.org:80/1/0#part", ["title"])
    assert rows == [{"title": "late"}, {"title": "early"}]
    wanted = page_id("test", 1, "http://example.org/1/0", "desktop")
    assert [row["page_id"] for row in find_pages(two_rounds, wanted)] == [wanted]
    assert find_pages(two_rounds, "http://example.org/none") == []
    with pytest.raises(SeedError, match="'/1/0' is no URL of a page"):
        find_pages(two_rounds, "/1/0")


def test_a_page_s_rows_come_in_their_own_order(two_rounds):
    wanted = page_id("test", 1, "http://example.org/1/0", "desktop")
    elements = selector_map_of(two_rounds, wanted)
    assert [(e["position"], e["index"]) for e in elements] == [(0, 2), (1, 1)]
    assert elements[0]["attributes"] == {"href": "http://example.org/1/0", "id": "2"}
    assert [stage["stage"] for stage in stages_of(two_rounds, wanted)] == ["navigate", "merge"]
    assert selector_map_of(two_rounds, "0" * 32) == []


def test_a_capture_comes_back_as_it_was(two_rounds):
    capture = load_capture(two_rounds, page_id("test", 0, "http://example.org/0/1", "desktop"))
    assert capture == Capture((Payload("dom_document", b'{"root":1}' * 50), Payload("ax_tree", b"{}", 0, "F1")))
    with pytest.raises(StoreError, match="holds no capture of page"):
        load_capture(two_rounds, "0" * 32)


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_every_buffer_and_the_empty_one_can_be_a_payload(make):
    capture = Capture((Payload("ax_tree", make(b"x" * 9)), Payload("targets", make(b""))))
    rows = encode_capture(capture)
    assert decode_capture(rows, "here") == Capture((Payload("ax_tree", b"x" * 9), Payload("targets", b"")))
    assert rows[0]["raw_bytes"] == 9


@pytest.mark.parametrize(
    "change",
    [
        {"sha256": hashlib.sha256(b"other").hexdigest()},
        {"data": b"not zstd"},
        {"raw_bytes": 10},
        {"encoding": "brotli"},
        {"kind": "photograph"},
        {"position": 1},
    ],
)
def test_a_payload_that_changed_is_damage(change):
    rows = encode_capture(Capture((Payload("ax_tree", b"x" * 900),)))
    with pytest.raises(StoreDamaged, match="page 7"):
        decode_capture([rows[0] | change], "page 7")


def test_a_missing_cut_or_changed_file_is_named(two_rounds):
    """Each marker's files are cross-checked (pain 47), and a cut file is never read (pain 45)."""
    one, two, three = (m.files[0].path for m in markers(two_rounds))
    (two_rounds.folder / one).unlink()
    (two_rounds.folder / two).write_bytes((two_rounds.folder / two).read_bytes()[:-1])
    data = bytearray((two_rounds.folder / three).read_bytes())
    data[100] ^= 1
    (two_rounds.folder / three).write_bytes(data)

    assert len(list(verify_markers(two_rounds))) == 2
    found = list(verify_markers(two_rounds, hashes=True))
    assert [path in sentence for path, sentence in zip((one, two, three), found, strict=True)] == [True] * 3
    assert ["missing" in found[0], "bytes instead of" in found[1], "not what its marker says" in found[2]] == [True] * 3
    with pytest.raises(StoreDamaged, match="missing"):
        read_table(two_rounds, "listings")


def test_a_damaged_marker_is_named_and_a_newer_one_refused(two_rounds):
    marker = markers(two_rounds)[0]
    path = two_rounds.folder / marker_path(0, marker.batch_id)
    path.write_bytes(dataclasses.replace(marker, schema_version=99).encode())
    with pytest.raises(StoreMismatch, match="99"):
        markers(two_rounds)
    for data in (b"{", b"[]", b'{"schema_version": "x"}', b'{"schema_version": 1}'):
        path.write_bytes(data)
        with pytest.raises(StoreDamaged, match=marker.batch_id):
            markers(two_rounds)


def test_a_marker_survives_its_way_through_json(two_rounds):
    for marker in markers(two_rounds):
        assert Marker.decode(marker.encode(), "here") == marker


class Recording:
    """A folder that notes what is listed, and whose files pyarrow can open one by one only."""

    def __init__(self, store: FolderStore) -> None:
        self._store = store
        self.listed: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def list(self, prefix: str) -> Iterator[str]:
        self.listed.append(prefix)
        return self._store.list(prefix)

    def read_range(self, path: str, start: int, length: int) -> bytes:
        return (self._store.folder / path).read_bytes()[start : start + length]

    def arrow(self) -> FileSystem:
        return PyFileSystem(StoredFiles(self))


def test_a_reader_lists_markers_and_never_data_files(two_rounds):
    store: Any = Recording(two_rounds)
    page = find_pages(store, "http://example.org/0/0")[0]
    readers = [
        lambda: markers(store),
        lambda: outcomes_by_round(store),
        lambda: read_table(store, "listings"),
        lambda: latest_listings(store),
        lambda: selector_map_of(store, page["page_id"]),
        lambda: stages_of(store, page["page_id"]),
        lambda: load_capture(store, page["page_id"]),
    ]
    for read in readers:
        read()
    assert len(store.listed) > len(readers)
    assert set(store.listed) == {"commits/"}
