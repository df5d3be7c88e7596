"""Seed files come as people have them: text, CSV, JSON lines or Parquet with a `url` column; each may be gzipped."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Iterator
from typing import BinaryIO, Final, Literal, TypeAlias, cast, get_args

from schemas.errors import SeedError

SeedFormat: TypeAlias = Literal["auto", "text", "csv", "jsonl", "parquet", "sitemap"]
SEED_FORMATS: tuple[SeedFormat, ...] = get_args(SeedFormat)
MAX_LINE_BYTES: Final = 64 * 1024
"""Far above what browsers take as a URL; guards against a binary file without line ends."""
COLUMN: Final = "url"

_SUFFIXES: Final[dict[str, SeedFormat]] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".xml": "sitemap",
}
_BOM: Final = b"\xef\xbb\xbf"
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_MAC_LINE: Final = re.compile(r"(?<=\r)(?=[^\n])")
_ROWS: Final = 10_000

Found: TypeAlias = tuple[int, str, str]
"""A line or row number from 1, its text, and why it is no seed; "" where it may be one."""


def format_of(name: str) -> SeedFormat:
    """The format that a file's name tells; text, where it tells none."""
    name = name.lower().removesuffix(".gz")
    return next((kind for suffix, kind in _SUFFIXES.items() if name.endswith(suffix)), "text")


def unpacking(file: BinaryIO) -> BinaryIO:
    """The file, or what is packed in it by gzip."""
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, file))
    if buffered.peek(2)[:2] == b"\x1f\x8b":
        return cast(BinaryIO, gzip.GzipFile(fileobj=buffered))
    return buffered


def urls_of(file: BinaryIO, kind: SeedFormat, shown: str) -> Iterator[Found]:
    """Every seed of a file that is no sitemap; `shown` names it in messages. Raises SeedError, OSError, ValueError."""
    if kind == "csv":
        return _csv(file, shown)
    if kind == "jsonl":
        return _json_lines(file, shown)
    if kind == "parquet":
        return _parquet(file, shown)
    return _text(file, shown)


def _text(file: BinaryIO, shown: str) -> Iterator[Found]:
    for number, text, reason in _lines(file, shown):
        # a file of an old Mac has one line for us, and several for its writer
        for one in map(str.strip, text.split("\r")):
            if one and (reason or not one.startswith("#")):
                yield number, one, reason


def _json_lines(file: BinaryIO, shown: str) -> Iterator[Found]:
    for number, text, reason in _lines(file, shown):
        if reason or not text.strip():
            if reason:
                yield number, text, reason
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            yield number, text, "it is no JSON"
            continue
        url = row.get(COLUMN) if isinstance(row, dict) else None
        if isinstance(url, str):
            yield number, url, ""
        else:
            yield number, text, f"it is no JSON object with a text named {COLUMN}"


def _csv(file: BinaryIO, shown: str) -> Iterator[Found]:
    lines = (text for _, text, _ in _lines(file, shown, keep_ends=True))
    header = next(lines, "")
    for delimiter in ",;\t":
        names = _names(header, delimiter)
        if COLUMN in names:
            break
    else:
        raise SeedError(
            f"The seed file {shown} has no column {COLUMN}; its first line must name the columns, one of them {COLUMN}."
        )
    place = names.index(COLUMN)
    reader = csv.reader(lines, delimiter=delimiter)
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield reader.line_num + 1, "", f"it is no CSV: {error}"
            continue
        number = reader.line_num + 1  # the header is line 1, and was not the reader's
        if len(row) <= place or not row[place].strip():
            if any(map(str.strip, row)):
                yield number, delimiter.join(row), f"its {COLUMN} is empty"
        elif any("\udc80" <= letter <= "\udcff" for letter in row[place]):
            yield number, row[place].encode("utf-8", "replace").decode(), "it is not UTF-8 text"
        else:
            yield number, row[place], ""


def _names(header: str, delimiter: str) -> list[str]:
    try:
        return [name.strip().lower() for name in next(csv.reader([header], delimiter=delimiter), [])]
    except csv.Error:
        return []  # no header, then: what is wrong with it does not matter


def _parquet(file: BinaryIO, shown: str) -> Iterator[Found]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        source = pq.ParquetFile(file if file.seekable() else pa.BufferReader(file.read()))
        if COLUMN not in source.schema_arrow.names:
            raise SeedError(
                f"The seed file {shown} has no column {COLUMN};"
                f" it has {', '.join(source.schema_arrow.names[:10])}: rename the one that holds the URLs."
            )
        kind = source.schema_arrow.field(COLUMN).type
        if not pa.types.is_string(kind) and not pa.types.is_large_string(kind) and not pa.types.is_dictionary(kind):
            raise SeedError(f"The column {COLUMN} of the seed file {shown} is {kind}, not text; store it as text.")
        number = 0
        for batch in source.iter_batches(batch_size=_ROWS, columns=[COLUMN]):
            for value in batch.column(0).to_pylist():
                number += 1
                yield (number, value, "") if isinstance(value, str) else (number, str(value), "it is no text")
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise SeedError(f"The seed file {shown} is no Parquet that can be read: {reason}; write it again.") from error


def _lines(file: BinaryIO, shown: str, *, keep_ends: bool = False) -> Iterator[Found]:
    """The lines of a text file; one that is too long or, without `keep_ends`, no UTF-8 comes with its reason.

    With `keep_ends` each comes as it is, what is no UTF-8 escaped: where CSV quotes, a line is not yet a row.
    """
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if number == 1:
            line = line.removeprefix(_BOM)
            if line.startswith(_UTF_16):
                raise SeedError(f"The seed file {shown} is UTF-16 text; save it as UTF-8.")
        if keep_ends:
            # a file of an old Mac has one line for us, and several for its writer
            for one in _MAC_LINE.split(line.decode("utf-8", "surrogateescape")):
                yield number, one, ""
            continue
        if len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
            yield number, line.decode("utf-8", "replace"), f"it is longer than {MAX_LINE_BYTES} bytes"
            while line and not line.endswith(b"\n"):
                line = file.readline(MAX_LINE_BYTES)
            continue
        try:
            yield number, line.decode("utf-8").strip(), ""
        except UnicodeDecodeError:
            yield number, line.decode("utf-8", "replace"), "it is not UTF-8 text"
