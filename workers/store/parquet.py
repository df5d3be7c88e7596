"""Parquet files are written by the written schema, read back before they count, and checked page by page when read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem, LocalFileSystem

from schemas.errors import StoreDamaged, StoreError, StoreMismatch
from schemas.version import SCHEMA_VERSION

ROW_GROUP_BYTES: Final = 64 * 1024 * 1024
"""Large enough for a scan, small enough that a reader of one page does not hold a whole file."""
ROW_GROUP_ROWS: Final = 100_000
OPENERS: Final = 8
"""Files of a table that are opened at once."""

_NO_DICTIONARY: Final = frozenset(
    {"listing", "listing_sha256", "data", "sha256", "xpath", "title", "detail", "text", "image"}
)
"""Long or unique values: a dictionary of them costs memory and is thrown away."""
_ALREADY_COMPRESSED: Final = frozenset({"data", "image"})
_READING: Final = (pa.ArrowException, OSError, ValueError, KeyError)
"""What pyarrow raises over a file that is not what it was; thrift errors are OSError, damaged schemas ValueError."""

_CHECKED: Final = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)


def write_parquet(table: pa.Table, path: Path, row_group_rows: int = ROW_GROUP_ROWS) -> None:
    """Write a table to a local file and read it back: footer, row count and schema must be what was meant.

    The table's schema carries `table` and `schema_version` in its metadata. Raises StoreError where the disk refuses.
    """
    try:
        with pq.ParquetWriter(
            path,
            table.schema,
            compression=_compression(table.schema),
            use_dictionary=_dictionary_columns(table.schema),  # type: ignore[arg-type]
            write_page_checksum=True,
            write_page_index=True,
        ) as writer:
            for start, length in _row_groups(table, row_group_rows):
                writer.write_table(table.slice(start, length), row_group_size=length)
    except OSError as error:
        raise StoreError(f"Cannot write {path}: {error}; make room on the disk or choose another --store.") from error
    _read_back(table, path)


def read_parquet(
    paths: Sequence[str],
    schema: pa.Schema,
    *,
    filesystem: FileSystem | None = None,
    where: str = "",
    columns: Sequence[str] | None = None,
    filter: pc.Expression | None = None,
) -> pa.Table:
    """The rows of files of one table, in the order of the files, with every page's checksum verified.

    A file of an older schema version has nulls where it lacks a column. Raises StoreDamaged, which names the file,
    and StoreMismatch where a newer pagestate wrote it. `where` is the store, for messages.
    """
    place = filesystem or LocalFileSystem()
    names = list(columns) if columns is not None else list(schema.names)
    if not paths:
        return schema.empty_table().select(names)
    # one after the other, each would be waited for; of an S3 server several times
    with ThreadPoolExecutor(OPENERS, "pagestate-open") as pool:
        fragments = list(pool.map(lambda path: _fragment(_CHECKED, path, place, schema, where), paths))
    try:
        return _scan(fragments, schema, _CHECKED, names, filter)
    except _READING as error:
        # The scan of many files does not say which one failed.
        for path, fragment in zip(paths, fragments, strict=True):
            try:
                _scan([fragment], schema, _CHECKED, names, filter)
            except _READING as single:
                raise _damaged(path, where, single) from single
        raise StoreDamaged(f"The store {where} cannot be read: {error}") from error


class RowGroups:
    """A file of one table that is read row group by row group; its footer is read once. Raises as `read_parquet`."""

    def __init__(self, path: str, schema: pa.Schema, *, filesystem: FileSystem, where: str) -> None:
        self._path = path
        self._schema = schema
        self._where = where
        self._fragment = _fragment(_CHECKED, path, filesystem, schema, where)

    def tables(self, columns: Sequence[str], wanted: pc.Expression | None = None) -> Iterator[pa.Table]:
        """The rows that are wanted, a table for each row group that may hold some by its statistics."""
        try:
            within = self._fragment if wanted is None else self._fragment.subset(wanted, schema=self._schema)
            for group in [each.id for each in within.row_groups]:
                one = self._fragment.subset(row_group_ids=[group])
                yield _scan([one], self._schema, _CHECKED, list(columns), wanted)
        except _READING as error:
            raise _damaged(self._path, self._where, error) from error


def sha256_of(path: Path) -> str:
    """The SHA-256 of a local file, hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _scan(
    fragments: list[Any],
    schema: pa.Schema,
    read_format: ds.ParquetFileFormat,
    columns: list[str],
    filter: pc.Expression | None,
) -> pa.Table:
    dataset = ds.FileSystemDataset(fragments, schema, read_format)
    return dataset.to_table(columns=columns, filter=filter)


def _fragment(read_format: ds.ParquetFileFormat, path: str, place: FileSystem, schema: pa.Schema, where: str) -> Any:
    """A file, opened as far as its footer, which must be of the same table and of no newer version."""
    fragment = read_format.make_fragment(path, filesystem=place)
    try:
        found = fragment.physical_schema
        wanted_metadata, metadata = schema.metadata or {}, found.metadata or {}
        version = int(metadata[b"schema_version"])
        same_table = metadata[b"table"] == wanted_metadata[b"table"]
    except _READING as error:
        raise _damaged(path, where, error) from error
    if version > SCHEMA_VERSION:
        raise StoreMismatch(
            f"The file {path} in {where} has schema version {version} and this pagestate knows {SCHEMA_VERSION};"
            " use a newer pagestate."
        )
    if not same_table or (version == SCHEMA_VERSION and not found.equals(schema)):
        raise StoreDamaged(f"The file {path} in {where} does not have the columns of its table; restore it.")
    return fragment


def _damaged(path: str, where: str, error: Exception) -> StoreDamaged:
    reason = " ".join(str(error).split())
    return StoreDamaged(f"The file {path} in {where} is damaged ({reason}); restore it from a copy.")


def _read_back(table: pa.Table, path: Path) -> None:
    try:
        with pq.ParquetFile(path) as file:
            rows, schema = file.metadata.num_rows, file.schema_arrow
    except _READING as error:
        raise _damaged(path.name, str(path.parent), error) from error
    # Nested names are Parquet's own, so the fields are compared without metadata and the file's metadata by itself.
    if rows != table.num_rows or not schema.equals(table.schema) or schema.metadata != table.schema.metadata:
        raise StoreDamaged(
            f"The file {path} was read back with {rows} rows of {table.num_rows} or another schema;"
            " check the disk and run again."
        )


def _compression(schema: pa.Schema) -> Any:
    """Zstandard, except for what is compressed already (only flat tables have such a column)."""
    if _ALREADY_COMPRESSED.isdisjoint(schema.names):
        return "zstd"
    return {name: "none" if name in _ALREADY_COMPRESSED else "zstd" for name in schema.names}


def _dictionary_columns(schema: pa.Schema) -> list[str]:
    """Columns whose few values repeat; a nested column is named by the path of its leaves."""
    columns: list[str] = []
    for field in schema:
        if pa.types.is_map(field.type):
            columns += [f"{field.name}.key_value.key", f"{field.name}.key_value.value"]
        elif pa.types.is_list(field.type):
            columns.append(f"{field.name}.list.element")
        elif field.name not in _NO_DICTIONARY:
            columns.append(field.name)
    return columns


def _row_groups(table: pa.Table, most_rows: int) -> Iterator[tuple[int, int]]:
    """(start, length) of row groups that stay near ROW_GROUP_BYTES; one row larger than that is a group of its own."""
    if table.num_rows == 0:
        return
    ends = np.cumsum(_row_bytes(table))
    start = 0
    while start < table.num_rows:
        before = ends[start - 1] if start else 0
        fitting = int(np.searchsorted(ends, before + ROW_GROUP_BYTES, side="right"))
        end = min(max(fitting, start + 1), start + most_rows, table.num_rows)
        yield start, end - start
        start = end


def _row_bytes(table: pa.Table) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The bytes of each row in memory: exact for texts and binaries, the average for everything else."""
    sizes = np.zeros(table.num_rows, dtype=np.int64)
    rest = 0
    for column in table.columns:
        if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type):
            lengths = pc.fill_null(pc.binary_length(column), 0)
            sizes += lengths.to_numpy().astype(np.int64)
        else:
            rest += column.nbytes
    return sizes + rest // table.num_rows + 1
