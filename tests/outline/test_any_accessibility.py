"""Whatever an accessibility payload says, the outcome is an outline or a PayloadError: no crash, no endless walk."""

from __future__ import annotations

import json
from contextlib import suppress
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.capture import Capture, Payload
from workers.merge import PayloadError
from workers.serialize.outline import serialize_outline
from workers.serialize.outline_options import OutlineOptions
from workers.serialize.outline_selectors import SelectorError

IDS = st.sampled_from(["1", "2", "3", "4", "5", "-1", "-x", "", "99"])
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(["generic", "none", "StaticText", "InlineTextBox", "button", "combobox", "Iframe", "[0-3] x\n"]),
    st.lists(st.integers(), max_size=2),
)
HELD = st.one_of(st.none(), st.fixed_dictionaries({}, optional={"value": VALUES, "type": st.text(max_size=3)}))
PROPERTIES = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from(["url", "checked", "selected", "level"])}, optional={"value": HELD}),
    max_size=3,
)
NODE = st.fixed_dictionaries(
    {"nodeId": IDS},
    optional={
        "parentId": IDS,
        "backendDOMNodeId": st.integers(-1, 8),
        "role": HELD,
        "name": HELD,
        "properties": PROPERTIES,
        "childIds": st.lists(IDS, max_size=3),
        "ignored": st.booleans(),
    },
)
ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["nodes", "nodeId"]), inner)),
    max_leaves=6,
)


def capture(pages: ModuleType, ax: object) -> Capture:
    root = pages.document(pages.Node("SELECT"), pages.Node("DIV", children=[pages.text("x")]), pages.Node("INPUT"))
    made = pages.capture(root, ax=False)
    return Capture((*made.payloads, Payload("ax_tree", json.dumps(ax).encode(), 0, "TOP")))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(nodes=st.lists(NODE, max_size=12))
def test_any_nodes_make_an_outline(pages: ModuleType, nodes: list[dict[str, Any]]) -> None:
    outline = serialize_outline(capture(pages, {"nodes": nodes}))
    assert len(outline.rows) <= len(nodes)
    assert len(outline.text.split("\n")) >= min(len(outline.rows), 1)
    ids = {f"0-{node}" for node in range(1, 9)}
    assert set(outline.xpath_map) <= ids
    for row in range(len(outline.rows)):
        path, truncated = outline.xpath(row)
        assert not truncated
        assert path is None or outline.xpath_map[outline.rows.id[row]] == path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(nodes=st.lists(NODE, max_size=8), selector=st.sampled_from(["div", "select", "xpath=//input", "/html", "b"]))
def test_any_nodes_can_be_focused_on(pages: ModuleType, nodes: list[dict[str, Any]], selector: str) -> None:
    made = capture(pages, {"nodes": nodes})
    with suppress(SelectorError):
        assert len(serialize_outline(made, OutlineOptions(focus=selector)).rows) <= len(nodes)
    assert len(serialize_outline(made, OutlineOptions(ignore=(selector,))).rows) <= len(nodes)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(ax=ANYTHING)
def test_any_payload_ends(pages: ModuleType, ax: object) -> None:
    with suppress(PayloadError):
        serialize_outline(capture(pages, ax))


def test_a_cycle_and_unknown_parents_vanish(pages: ModuleType) -> None:
    def node(own: str, parent: str | None = None) -> dict[str, Any]:
        return {"nodeId": own, "role": {"value": "button"}, **({"parentId": parent} if parent else {})}

    nodes = [node("1"), node("2", "3"), node("3", "2"), node("4", "nobody"), node("5", "5"), node("6", "1")]
    assert serialize_outline(capture(pages, {"nodes": nodes})).text == "[1] button\n  [6] button"


@pytest.mark.parametrize(
    ("role", "printed"),
    [(0, ""), (0.0, ""), (-7, "-7"), (1234567, "1234567"), (1e6, "1000000"), (0.5, "0.5"), (10**400, f"1{0:0400}")],
)
def test_a_role_that_is_a_number_prints_as_one(pages: ModuleType, role: float, printed: str) -> None:
    outline = serialize_outline(capture(pages, {"nodes": [{"nodeId": "1", "role": {"value": role}}]}))
    assert outline.rows.role == (printed,)
