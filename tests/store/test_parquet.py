"""Files hold what the written schema says, and a file that changed is noticed."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.errors import RecordRefused, StoreDamaged, StoreMismatch
from schemas.tables import TABLE_NAMES, table_schema
from workers.store import parquet, read_parquet, table_of, write_parquet
from workers.store.page_rows import batch_tables
from workers.store.rows import without_lone_surrogates

STAGE = {
    "page_id": "0" * 32,
    "crawl": "test",
    "round": 0,
    "url_key": "http://h/",
    "profile": "desktop",
    "attempt": "a" * 32,
    "position": 0,
    "stage": "merge",
    "outcome": "ok",
    "started_ms": 0.0,
    "duration_ms": 1.0,
}


def test_an_unknown_column_in_the_500th_row_is_an_error_that_names_it():
    """Columns that the first row lacks are not dropped silently (pain 51)."""
    rows = [STAGE] * 499 + [STAGE | {"colour": "red"}]
    with pytest.raises(RecordRefused, match=r"Row 499 of stage_metrics .*colour"):
        table_of("stage_metrics", rows)


def test_a_column_of_nulls_keeps_its_written_type():
    """A column without a value does not become of type null (pain 51)."""
    table = table_of("stage_metrics", [STAGE, STAGE])
    assert table.schema.equals(table_schema("stage_metrics"), check_metadata=True)
    assert table["detail"].to_pylist() == [None, None]


def test_a_missing_required_column_is_an_error_that_names_row_and_column():
    lacking = {name: value for name, value in STAGE.items() if name != "stage"}
    with pytest.raises(RecordRefused, match="Row 1 of stage_metrics lacks stage"):
        table_of("stage_metrics", [STAGE, lacking])


@pytest.mark.parametrize(
    ("column", "value"), [("round", "one"), ("round", 2**40), ("stage", 5), ("started_ms", "soon"), ("nodes", 1.5)]
)
def test_a_value_of_another_type_is_an_error_that_names_the_column(column, value):
    with pytest.raises(RecordRefused, match=f"Column {column} of stage_metrics"):
        table_of("stage_metrics", [STAGE | {column: value}])


@given(st.text(st.characters(codec=None)))
def test_any_text_can_be_stored_once_lone_surrogates_are_replaced(text):
    """Lone surrogates become U+FFFD, one for one; everything else stays (pain 26)."""
    clean, count = without_lone_surrogates(text)
    clean.encode("utf-8")
    assert clean.count("\ufffd") == text.count("\ufffd") + count
    if count == 0:
        assert clean.encode("utf-16") == text.encode("utf-16", "surrogatepass")


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_an_empty_table_of_every_schema_survives_the_way_through_a_file(name, tmp_path):
    write_parquet(table_of(name, []), tmp_path / "t.parquet")
    back = read_parquet([str(tmp_path / "t.parquet")], table_schema(name))
    assert back.schema.equals(table_schema(name), check_metadata=True)


def test_row_groups_are_bounded_by_bytes(tmp_path, monkeypatch):
    """A few huge values do not end up in one row group (pain 50)."""
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 1000)
    rows = [STAGE | {"detail": "x" * size} for size in (400, 400, 5000, 10, 10, 900)]
    write_parquet(table_of("stage_metrics", rows), tmp_path / "t.parquet")
    footer = pq.read_metadata(tmp_path / "t.parquet")
    assert [footer.row_group(n).num_rows for n in range(footer.num_row_groups)] == [1, 1, 1, 2, 1]
    assert read_parquet([str(tmp_path / "t.parquet")], table_schema("stage_metrics")).num_rows == 6


def test_raw_payloads_are_not_compressed_twice_and_texts_have_no_dictionary(tmp_path, make_batch, make_records):
    batch = make_batch()
    tables = batch_tables(batch, "a" * 32, make_records(batch))
    write_parquet(tables["captures"], tmp_path / "c.parquet")
    group = pq.read_metadata(tmp_path / "c.parquet").row_group(0)
    codecs = {group.column(n).path_in_schema: group.column(n).compression for n in range(group.num_columns)}
    assert codecs["data"] == "UNCOMPRESSED"
    assert codecs["url_key"] == "ZSTD"
    write_parquet(tables["listings"], tmp_path / "l.parquet")
    group = pq.read_metadata(tmp_path / "l.parquet").row_group(0)
    columns = {group.column(n).path_in_schema: group.column(n) for n in range(group.num_columns)}
    assert not columns["listing"].has_dictionary_page
    assert columns["host"].has_dictionary_page
    assert {column.compression for column in columns.values()} == {"ZSTD"}


def test_every_flipped_bit_is_noticed_or_harmless(tmp_path, make_batch, make_records):
    """A flipped bit never changes what is read: the file is named as damaged, or the rows are the same."""
    batch = make_batch()
    table = batch_tables(batch, "a" * 32, make_records(batch))["captures"]
    path = tmp_path / "c.parquet"
    write_parquet(table, path)
    whole = path.read_bytes()
    chance = random.Random(3)
    noticed = named = 0
    # The pages, not the footer: a footer is guarded by the marker's hash only.
    pages_end = whole.index(b"ARROW:schema") - 2000
    data = whole.index(b"\x28\xb5\x2f\xfd")
    for _ in range(60):
        position = chance.randrange(min(data, pages_end), pages_end)
        path.write_bytes(
            whole[:position] + bytes([whole[position] ^ (1 << chance.randrange(8))]) + whole[position + 1 :]
        )
        try:
            assert read_parquet([str(path)], table.schema, where="here").equals(table)
        except StoreDamaged as error:
            named += "c.parquet" in str(error)
            noticed += 1
    assert named == noticed > 20


def test_a_damaged_file_among_whole_ones_is_named(tmp_path):
    rows = [STAGE | {"detail": f"detail {n}"} for n in range(100)]
    paths = [tmp_path / f"{n}.parquet" for n in range(3)]
    for path in paths:
        write_parquet(table_of("stage_metrics", rows), path)
    whole = paths[1].read_bytes()
    paths[1].write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StoreDamaged, match=r"1\.parquet"):
        read_parquet([str(path) for path in paths], table_schema("stage_metrics"))


def write_with(path: Path, schema: pa.Schema, version: int) -> None:
    table = table_of("stage_metrics", [STAGE]).select(schema.names)
    write_parquet(table.cast(schema.with_metadata({"table": "stage_metrics", "schema_version": str(version)})), path)


def test_a_file_of_an_older_schema_has_nulls_for_new_columns(tmp_path):
    """Files of two schema versions are read as one table (pain 51)."""
    now = table_schema("stage_metrics")
    write_with(tmp_path / "old.parquet", now.remove(now.get_field_index("cpu_ms")), 0)
    write_with(tmp_path / "new.parquet", now, 1)
    table = read_parquet([str(tmp_path / "old.parquet"), str(tmp_path / "new.parquet")], now)
    assert table["cpu_ms"].to_pylist() == [None, None]
    assert table.schema.equals(now)


def test_a_file_of_a_newer_schema_is_refused(tmp_path):
    write_with(tmp_path / "new.parquet", table_schema("stage_metrics"), 99)
    with pytest.raises(StoreMismatch, match="schema version 99"):
        read_parquet([str(tmp_path / "new.parquet")], table_schema("stage_metrics"))


def test_a_file_of_another_table_is_refused(tmp_path):
    write_parquet(table_of("captures", []), tmp_path / "c.parquet")
    with pytest.raises(StoreDamaged, match="columns of its table"):
        read_parquet([str(tmp_path / "c.parquet")], table_schema("stage_metrics"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None)
@given(details=st.lists(st.none() | st.text(), max_size=20))
def test_what_was_written_is_what_duckdb_reads(tmp_path, details):
    path = tmp_path / "d.parquet"
    write_parquet(table_of("stage_metrics", [STAGE | {"detail": detail} for detail in details]), path)
    rows = duckdb.connect().execute("SELECT detail FROM read_parquet(?)", [str(path)]).fetchall()
    assert [row[0] for row in rows] == details
