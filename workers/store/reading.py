"""Readers start from markers, never from a listing of files: what no marker names does not exist."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.capture import Capture, Payload
from schemas.errors import SeedError, StoreDamaged, StoreError
from schemas.marker import CommittedFile, Marker
from schemas.records import Row
from schemas.tables import TableName, table_schema
from schemas.urls import NotAWebUrl, url_key
from workers.store.ahead import ahead
from workers.store.commit import read_marker
from workers.store.layout import MARKERS, markers_of_round
from workers.store.objects import ObjectStore
from workers.store.parquet import read_parquet
from workers.store.payloads import decode_capture, decode_payload

READERS: Final = 32
"""Requests for markers, and for the sizes of files, at once; of an S3 server each takes some ten milliseconds."""
_PAGE_ID = re.compile(r"[0-9a-f]{32}")
_MARKER = re.compile(r"commits/(\d+)/([0-9a-f]+)\.json")


def markers(store: ObjectStore, round_number: int | None = None) -> list[Marker]:
    """The markers of a store or of one of its rounds, by round, lane and sequence."""
    found = each_marker(store, round_number)
    return sorted(found, key=lambda marker: (marker.round, marker.lane, marker.sequence, marker.batch_id))


def each_marker(store: ObjectStore, round_number: int | None = None) -> Iterator[Marker]:
    """The markers of a store or of one of its rounds, one after the other, in no order of the plan's.

    A hundred and more are asked for at once, because each costs a request; no more of them than that are in memory.
    """
    for path, data in ahead(store.read, _marker_paths(store, round_number), READERS, READERS * 4):
        if data is not None:
            yield Marker.decode(data, f"{path} in {store.where}")


def committed_batch_ids(store: ObjectStore, round_number: int) -> frozenset[str]:
    """The batches of a round that are committed, from the names of their markers."""
    return frozenset(path.rsplit("/", 1)[1].removesuffix(".json") for path in _marker_paths(store, round_number))


def committed_rounds(store: ObjectStore) -> list[int]:
    """The rounds that have markers, in order."""
    return sorted({int(found.group(1)) for path in store.list(MARKERS) if (found := _MARKER.fullmatch(path))})


def read_table(
    store: ObjectStore,
    name: TableName,
    columns: Sequence[str] | None = None,
    filter: pc.Expression | None = None,
    *,
    of: Iterable[Marker] | None = None,
) -> pa.Table:
    """The committed rows of a table, of all batches or of those of some markers.

    Raises StoreDamaged where a file is missing, of another size, or fails its checksums.
    """
    files = [file for marker in (markers(store) if of is None else of) for file in marker.files if file.table == name]
    with ThreadPoolExecutor(READERS, "pagestate-sizes") as pool:
        for _ in pool.map(partial(_check_size, store), files):
            pass
    return read_parquet(
        [file.path for file in files],
        table_schema(name),
        filesystem=store.arrow(),
        where=store.where,
        columns=columns,
        filter=filter,
    )


def latest_listings(store: ObjectStore, columns: Sequence[str] | None = None) -> pa.Table:
    """Per URL key and profile the row of its last round, by URL key and profile."""
    keys = ["url_key", "profile", "round"]
    wanted = list(columns) if columns is not None else table_schema("listings").names
    table = read_table(store, "listings", [*wanted, *(key for key in keys if key not in wanted)])
    if table.num_rows == 0:
        return table.select(wanted)
    order = pc.sort_indices(table.select(keys), sort_keys=[(key, "ascending") for key in keys])
    ordered = table.select(["url_key", "profile"]).take(order)
    here, below = ordered.slice(0, table.num_rows - 1), ordered.slice(1)
    # A row is the last of its page where the row below it is another page's.
    same = [pc.equal(here[key], below[key]).to_numpy() for key in ("url_key", "profile")]
    last = np.append(~(same[0] & same[1]), True)
    return table.select(wanted).take(order.to_numpy()[last])


def outcomes_by_round(store: ObjectStore, round_number: int | None = None) -> dict[int, dict[str, int]]:
    """How many URLs ended how in each round that has committed batches, or in one of them, from the markers alone."""
    rounds: dict[int, Counter[str]] = {}
    for marker in each_marker(store, round_number):
        rounds.setdefault(marker.round, Counter()).update(marker.outcomes)
    return {number: dict(sorted(outcomes.items())) for number, outcomes in sorted(rounds.items())}


def find_pages(store: ObjectStore, url_or_page_id: str, columns: Sequence[str] | None = None) -> list[Row]:
    """The `listings` rows of a URL, whatever its form, or of a page id; the last round first.

    Raises SeedError for a text that is neither.
    """
    if _PAGE_ID.fullmatch(url_or_page_id):
        wanted = pc.field("page_id") == url_or_page_id
    else:
        try:
            wanted = pc.field("url_key") == url_key(url_or_page_id)
        except NotAWebUrl as error:
            raise SeedError(
                f"{url_or_page_id!r} is no URL of a page: {error}; give the http or https URL as it was crawled."
            ) from error
    names = list(columns) if columns is not None else table_schema("listings").names
    keys = [key for key in ("round", "profile") if key not in names]
    rows: list[Row] = read_table(store, "listings", [*names, *keys], wanted).to_pylist()
    rows.sort(key=lambda row: (-row["round"], row["profile"]))
    return [{name: row[name] for name in names} for row in rows]


def selector_map_of(store: ObjectStore, page_id: str) -> list[Row]:
    """The indexed elements of a page, in the selector map's order; `attributes` as a dict."""
    return _rows_of_page(store, "selector_maps", page_id)


def outline_map_of(store: ObjectStore, page_id: str) -> list[Row]:
    """The lines of a page's outline, in print order, each with its XPath and URL."""
    return _rows_of_page(store, "outline_maps", page_id)


def stages_of(store: ObjectStore, page_id: str) -> list[Row]:
    """The stages of a page, in the order in which they ended."""
    return _rows_of_page(store, "stage_metrics", page_id)


def screenshot_of(store: ObjectStore, page_id: str) -> Row | None:
    """The picture of a page, its hash verified, or None where it has none. Raises StoreDamaged."""
    rows = _rows_of_page(store, "screenshots", page_id, order="page_id")
    for row in rows:
        check_screenshot(row, f"page {page_id} in {store.where}")
    return rows[0] if rows else None


def check_screenshot(row: Row, where: str) -> None:
    """Raises StoreDamaged where a picture is not what was stored; `where` names the page."""
    image = row["image"]
    if len(image) != row["bytes"] or hashlib.sha256(image).hexdigest() != row["sha256"]:
        raise StoreDamaged(f"The picture of {where} is not what was stored; restore its file from a copy.")


def has_capture(store: ObjectStore, page_id: str) -> bool:
    """Whether raw payloads of a page are stored."""
    return bool(_rows_of_page(store, "captures", page_id, ["position"]))


def load_capture(store: ObjectStore, page_id: str) -> Capture:
    """The raw payloads of a page, decompressed, their hashes verified.

    Raises StoreError where none are stored, StoreDamaged where they are not what was stored.
    """
    rows = _rows_of_page(store, "captures", page_id)
    if not rows:
        raise StoreError(
            f"The store {store.where} holds no capture of page {page_id}: it was not captured, or captures were off."
        )
    return decode_capture(rows, f"page {page_id} in {store.where}")


def captured_documents(store: ObjectStore, marker: Marker, page_ids: Collection[str]) -> Iterator[tuple[str, Capture]]:
    """Of some pages of a batch the payloads of their own documents, page by page, their hashes verified.

    A page that none was stored of is left out. Raises StoreDamaged.
    """
    wanted = (
        pc.field("kind").isin(["dom_document", "dom_subtree"])
        & (pc.field("target") == 0)
        & pc.field("page_id").isin(pa.array(page_ids, pa.large_string()))
    )
    table = read_table(store, "captures", filter=wanted, of=[marker])
    table = table.sort_by([("page_id", "ascending"), ("position", "ascending")])
    payloads: list[Payload] = []
    page = ""
    # row by row, because all documents of a batch unpacked may be many times what they are packed
    for number in range(table.num_rows):
        (row,) = table.slice(number, 1).to_pylist()
        if row["page_id"] != page:
            if payloads:
                yield page, Capture(tuple(payloads))
            page, payloads = row["page_id"], []
        payloads.append(decode_payload(row, f"page {page} in {store.where}"))
    if payloads:
        yield page, Capture(tuple(payloads))


def verify_markers(store: ObjectStore, *, hashes: bool = False, of: Iterable[Marker] | None = None) -> Iterator[str]:
    """What is wrong with the files that all markers name, or some, one sentence each: missing, of another size, or,
    where hashes are asked for (every byte is read), of other content."""
    for marker in each_marker(store) if of is None else of:
        for file in marker.files:
            try:
                _check_size(store, file)
            except StoreDamaged as error:
                yield str(error)
                continue
            if hashes and hashlib.sha256(store.read(file.path) or b"").hexdigest() != file.sha256:
                yield f"The file {file.path} in {store.where} is not what its marker says; restore it from a copy."


def _marker_paths(store: ObjectStore, round_number: int | None) -> Iterator[str]:
    prefix = MARKERS if round_number is None else markers_of_round(round_number)
    return (path for path in store.list(prefix) if _MARKER.fullmatch(path))


def _check_size(store: ObjectStore, file: CommittedFile) -> None:
    size = store.size_of(file.path)
    if size is None:
        raise StoreDamaged(f"The file {file.path} in {store.where} is missing; restore it from a copy.")
    if size != file.bytes:
        raise StoreDamaged(
            f"The file {file.path} in {store.where} has {size} bytes instead of {file.bytes}; restore it from a copy."
        )


def _rows_of_page(
    store: ObjectStore,
    name: TableName,
    page_id: str,
    columns: Sequence[str] | None = None,
    order: str = "position",
) -> list[Row]:
    """The rows of one page by way of its batch's marker, so that only that batch's file is opened."""
    wanted = pc.field("page_id") == page_id
    found = read_table(store, "listings", ["round", "batch_id"], wanted).to_pylist()
    of = [
        marker
        for place in found
        if (marker := read_marker(store, cast(int, place["round"]), cast(str, place["batch_id"]))) is not None
    ]
    table = read_table(store, name, columns, wanted, of=of)
    rows: list[Row] = table.sort_by(order).to_pylist(maps_as_pydicts="strict")
    return rows
