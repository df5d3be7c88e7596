"""A batch is committed by its marker: files first, marker last, and the first marker wins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import pyarrow as pa

from schemas.batch import Batch
from schemas.errors import RecordRefused, StoreError
from schemas.identifiers import page_id
from schemas.marker import CommittedFile, Marker
from schemas.outcomes import OUTCOMES
from schemas.records import PageRecord
from schemas.tables import TABLE_NAMES, TableName
from workers.store.layout import data_path, marker_path
from workers.store.objects import ObjectStore
from workers.store.page_rows import batch_tables
from workers.store.parquet import sha256_of, write_parquet

CommitOutcome: TypeAlias = Literal["won", "duplicate"]


@dataclass(frozen=True, slots=True)
class CommitResult:
    """Whether this attempt made the batch part of the dataset, and the marker that did, ours or another's."""

    result: CommitOutcome
    marker: Marker


def commit_batch(
    store: ObjectStore, batch: Batch, attempt: str, records: Sequence[PageRecord], *, now: datetime
) -> CommitResult:
    """Make the records of a batch part of the dataset, exactly once.

    `records` are the batch's URL keys, one each for every profile. A process that dies before the marker leaves files
    that no reader sees. Raises RecordRefused for records that are not the batch's, StoreError where the store refuses.
    """
    _check_records(batch, records)
    earlier = read_marker(store, batch.round, batch.batch_id)
    if earlier is not None:
        return _result(earlier, attempt)
    files = _write_files(store, batch, attempt, batch_tables(batch, attempt, records))
    marker = Marker(
        crawl=batch.crawl,
        round=batch.round,
        lane=batch.lane,
        sequence=batch.sequence,
        batch_id=batch.batch_id,
        attempt=attempt,
        files=files,
        outcomes=dict(sorted(Counter(record.outcome for record in records).items())),
        committed_at=now.astimezone(UTC).isoformat(),
    )
    refusal: StoreError | None = None
    try:
        if store.put_if_absent(marker_path(batch.round, batch.batch_id), marker.encode()):
            return CommitResult("won", marker)
    except StoreError as error:
        # The marker may be there although its answer was lost; only the marker itself can tell.
        refusal = error
    found = read_marker(store, batch.round, batch.batch_id)
    if found is None:
        # Our files stay: a marker that is still on its way may yet name them.
        raise refusal or StoreError(
            f"The marker of batch {batch.batch_id} in {store.where} was there and is gone;"
            " let nothing else change the store, and run again."
        )
    if found.attempt != attempt:
        _delete(store, files)
    return _result(found, attempt)


def read_marker(store: ObjectStore, round_number: int, batch_id: str) -> Marker | None:
    """The marker of a batch; None where it is not committed."""
    path = marker_path(round_number, batch_id)
    data = store.read(path)
    return None if data is None else Marker.decode(data, f"{path} in {store.where}")


def _result(marker: Marker, attempt: str) -> CommitResult:
    return CommitResult("won" if marker.attempt == attempt else "duplicate", marker)


def _write_files(
    store: ObjectStore, batch: Batch, attempt: str, tables: dict[TableName, pa.Table]
) -> tuple[CommittedFile, ...]:
    """Write one file for each table that has rows; where one cannot be written, none of them stays."""
    files: list[CommittedFile] = []
    try:
        for name in TABLE_NAMES:
            # Taken out, so that a table's memory is free again once it is written.
            table = tables.pop(name)
            if table.num_rows:
                files.append(_write_file(store, batch, attempt, name, table))
    except StoreError:
        _delete(store, files)
        raise
    return tuple(files)


def _write_file(store: ObjectStore, batch: Batch, attempt: str, name: TableName, table: pa.Table) -> CommittedFile:
    path = data_path(name, batch.crawl, batch.round, batch.batch_id, attempt)
    local = store.scratch() / f"{name}-{batch.batch_id}-{attempt}.parquet"
    try:
        write_parquet(table, local)
        size, digest = local.stat().st_size, sha256_of(local)
        store.put_file(local, path)
    finally:
        local.unlink(missing_ok=True)
    return CommittedFile(table=name, path=path, rows=table.num_rows, bytes=size, sha256=digest)


def _delete(store: ObjectStore, files: Iterable[CommittedFile]) -> None:
    # A file that stays is an orphan that no reader sees.
    for file in files:
        with suppress(StoreError):
            store.delete(file.path)


def _check_records(batch: Batch, records: Sequence[PageRecord]) -> None:
    """Every URL key of the batch once for each profile, and nothing else: no gap and no stranger can be committed."""
    planned = [page.url_key for page in batch.pages]
    given = Counter((record.profile, record.url_key) for record in records)
    profiles = sorted({record.profile for record in records}) or [""]
    wanted = {(profile, key) for profile in profiles for key in planned}
    missing = sorted(wanted - given.keys())
    foreign = sorted(given.keys() - wanted)
    twice = sorted(pair for pair, count in given.items() if count > 1)
    for what, pairs in (("lacks a record of", missing), ("does not hold", foreign), ("has two records of", twice)):
        if pairs:
            profile, key = pairs[0]
            raise RecordRefused(f"Batch {batch.batch_id} {what} {key} (profile {profile or 'any'}).")
    for record in records:
        if record.page_id != page_id(batch.crawl, batch.round, record.url_key, record.profile):
            raise RecordRefused(f"The page id of {record.url_key} is not that of batch {batch.batch_id}.")
        if record.outcome not in OUTCOMES:
            raise RecordRefused(f"The outcome {record.outcome!r} of {record.url_key} is none of the closed set.")
