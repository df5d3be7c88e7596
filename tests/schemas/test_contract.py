"""The contract holds together: identifiers are golden, errors survive pickling, tables start alike."""

from __future__ import annotations

import inspect
import pickle
from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import errors
from schemas.batch import Batch, PlannedPage
from schemas.errors import CommandFailed, PageFailed, PagestateError, SettingError
from schemas.identifiers import attempt_id, batch_id, lane_of, page_id
from schemas.outcomes import OUTCOMES, RETRYABLE_OUTCOMES, is_retryable
from schemas.settings import Budgets, Caps, CrawlSettings, budgets_from
from schemas.tables import PLAN, TABLE_NAMES, table_schema

ERRORS = [value for _, value in inspect.getmembers(errors, inspect.isclass) if issubclass(value, PagestateError)]


def test_identifiers_never_change():
    """Golden values: stores that exist are joined and resumed by them."""
    found = (
        page_id("c", 0, "http://h/", "desktop"),
        batch_id("c", 0, 1, 2, ["http://h/"]),
        lane_of("example.org", 64),
    )
    assert found == ("0ae39392a09c32bbfd39b58350d54c17", "dd9fc62a2bca4544b9a6becaf232d648", 53)


@given(st.text(), st.integers(1, 1000))
def test_a_host_has_one_lane(host, lanes):
    assert 0 <= lane_of(host, lanes) < lanes


def test_fields_do_not_run_into_each_other():
    assert page_id("a", 1, "b", "c") != page_id("a", 1, "bc", "")
    assert batch_id("a", 1, 1, 1, ["x", "y"]) != batch_id("a", 1, 1, 1, ["xy"])


def test_an_attempt_takes_128_bits():
    assert attempt_id(bytes(range(16))) == "000102030405060708090a0b0c0d0e0f"
    with pytest.raises(ValueError, match="16 random bytes"):
        attempt_id(b"short")


def test_a_batch_survives_its_way_through_a_message():
    batch = Batch("c", 0, 1, 2, "id", (PlannedPage("http://h/", "http://h"),))
    assert Batch.decode(batch.encode()) == batch
    with pytest.raises(TypeError):
        Batch.decode(batch.encode().replace(b'"lane"', b'"line"'))


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_has_its_own_kind_is_drawn_in_the_tree_and_survives_pickling(kind):
    made = {PageFailed: lambda: PageFailed("dns_error", "x"), CommandFailed: lambda: CommandFailed("M", 1, "x")}
    error = made.get(kind, lambda: kind("a sentence"))()
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.args) == (kind, str(error), error.args)
    assert [other.kind for other in ERRORS].count(kind.kind) == 1
    assert f"{kind.__name__} " in (errors.__doc__ or "") + " " or kind is PagestateError


def test_every_retryable_outcome_is_an_outcome():
    assert set(OUTCOMES) >= RETRYABLE_OUTCOMES
    assert len(set(OUTCOMES)) == len(OUTCOMES)


@pytest.mark.parametrize(("status", "again"), [(404, False), (429, True), (500, True), (503, True), (None, False)])
def test_an_http_error_is_retryable_by_its_status(status, again):
    assert is_retryable("http_error", status) is again


def test_every_table_starts_with_the_same_identity_and_has_text_without_a_2_gib_limit():
    """Text columns are large_string (pain 50)."""
    first = [field.name for field in table_schema("listings")][:6]
    assert first == ["page_id", "crawl", "round", "url_key", "profile", "attempt"]
    for schema in [*map(table_schema, TABLE_NAMES), PLAN]:
        assert (schema.metadata or {})[b"schema_version"] == b"4"
        kinds = [kind for field in schema for kind in (field.type, getattr(field.type, "value_type", field.type))]
        assert pa.string() not in kinds
        assert pa.binary() not in kinds
    for name in TABLE_NAMES:
        assert table_schema(name).names[:6] == first


def test_settings_are_plain_json_and_their_hash_depends_on_every_value():
    assert CrawlSettings().as_json()["budgets"]["payload"] == 10.0  # type: ignore[index]
    assert CrawlSettings(budgets=Budgets(payload=timedelta(seconds=9))).hash() != CrawlSettings().hash()
    assert CrawlSettings(lanes=65).hash() != CrawlSettings().hash()


def test_an_unknown_budget_suggests_the_nearest():
    assert budgets_from({"payload": 0.5}).payload == timedelta(seconds=0.5)
    with pytest.raises(SettingError, match="did you mean payload"):
        budgets_from({"payloads": 1})
    with pytest.raises(SettingError, match=r"give 0\.001 to 3600 seconds"):
        budgets_from({"payload": 0})


@pytest.mark.parametrize(("name", "value"), [("requests", 0), ("document_bytes", -1), ("dialogs", -1)])
def test_a_cap_that_no_page_can_hold_to_is_refused(name, value):
    with pytest.raises(SettingError, match=f"caps.{name} is {value}"):
        Caps(**{name: value})
