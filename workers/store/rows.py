"""Rows become an Arrow table by the written schema: an unknown column is an error, wherever it first appears."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from schemas.errors import RecordRefused
from schemas.records import Row
from schemas.tables import TableName, table_schema

_SURROGATE = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class BuiltTable:
    """A table, and how many lone surrogates became U+FFFD in which of its rows (row number -> count)."""

    table: pa.Table
    replaced: dict[int, int]


def table_of(name: TableName, rows: Sequence[Row]) -> pa.Table:
    """The rows as a table of its written schema. Raises RecordRefused, which names the row and the column.

    A missing column is null where the schema allows it. Lone surrogates become U+FFFD.
    """
    return build_table(name, rows).table


def build_table(name: TableName, rows: Sequence[Row]) -> BuiltTable:
    """As `table_of`, and counts the lone surrogates that became U+FFFD."""
    schema = table_schema(name)
    known = frozenset(schema.names)
    for number, row in enumerate(rows):
        if not row.keys() <= known:
            unknown = ", ".join(sorted(map(str, row.keys() - known)))
            raise RecordRefused(f"Row {number} of {name} has columns that its schema does not have: {unknown}.")
    replaced: Counter[int] = Counter()
    columns = [_column(name, field, [row.get(field.name) for row in rows], replaced) for field in schema]
    return BuiltTable(pa.Table.from_arrays(columns, schema=schema), dict(replaced))


def without_lone_surrogates(text: str) -> tuple[str, int]:
    """The text with each lone surrogate as U+FFFD, and their number; two halves that belong together are joined."""
    count = 0

    def replacement(match: re.Match[str]) -> str:
        nonlocal count
        found = match.group()
        if len(found) == 2:
            return found.encode("utf-16", "surrogatepass").decode("utf-16")
        count += 1
        return "\ufffd"

    return _SURROGATE.sub(replacement, text), count


def _column(table: str, field: pa.Field[Any], values: list[Any], replaced: Counter[int]) -> pa.Array[Any]:
    array: pa.Array[Any]
    if pa.types.is_integer(field.type):
        # pyarrow would cut the fraction off without a word.
        for number, value in enumerate(values):
            if isinstance(value, float) and not value.is_integer():
                raise RecordRefused(f"Column {field.name} of {table} takes {field.type}: row {number} holds {value}.")
    try:
        try:
            array = pa.array(values, type=field.type)
        except UnicodeEncodeError:
            # Rare, so the price of looking at every text is paid only by a column that holds one.
            for number, value in enumerate(values):
                values[number], count = _encodable(value)
                if count:
                    replaced[number] += count
            array = pa.array(values, type=field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError) as error:
        raise RecordRefused(f"Column {field.name} of {table} takes {field.type}: {error}") from error
    _refuse_nulls(table, field, values, array)
    return array


def _refuse_nulls(table: str, field: pa.Field[Any], values: list[Any], array: pa.Array[Any]) -> None:
    if not field.nullable and array.null_count:
        number = next(n for n, value in enumerate(values) if value is None)
        raise RecordRefused(f"Row {number} of {table} lacks {field.name}, which every row must have.")
    if pa.types.is_list(field.type) and cast(Any, array).flatten().null_count:
        raise RecordRefused(f"A list in column {field.name} of {table} holds a null.")


def _encodable(value: Any) -> tuple[Any, int]:
    if isinstance(value, str):
        return without_lone_surrogates(value)
    if isinstance(value, list | tuple):
        parts = [_encodable(part) for part in value]
        return type(value)(part for part, _ in parts), sum(count for _, count in parts)
    if isinstance(value, dict):
        pairs, count = _encodable(list(value.items()))
        return pairs, count
    return value, 0
