"""Whatever a payload holds, merging and listing end with a tree or with a PayloadError."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.capture import Capture, Payload
from workers.merge import PayloadError, mask_secrets, merge
from workers.serialize.eval_listing import serialize_eval_listing
from workers.serialize.indices import final_tree
from workers.serialize.listing import serialize_listing

DATA = Path(__file__).parents[1] / "data" / "browser_use"
KINDS = ("targets", "listeners", "layout_snapshot", "dom_document", "ax_tree", "layout_metrics")
values = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        3,
        9,
        11,
        10**6,
        2**63,
        2**70,
        -(2**70),
        1.5,
        1e308,
        "",
        "x",
        "\ud800",
        [],
        [0],
        [[]],
        {},
        {"value": 1},
    ]
)


def listed(capture: Capture) -> None:
    masked, _ = mask_secrets(capture)
    tree = merge(masked)
    final = final_tree(tree)
    serialize_listing(tree, final=final)
    serialize_eval_listing(tree, final=final)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a JSON value."""
    out: list[tuple[Any, Any]] = []
    stack = [value]
    while stack:
        item = stack.pop()
        keys = list(item) if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else ()
        for key in keys:
            out.append((item, key))
            stack.append(item[key])
    return out


@pytest.mark.parametrize("name", ["nested.html", "forms.html", "xorigin.html", "shadow.html"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(KINDS), where=st.integers(0, 10**9), value=values, drop=st.booleans())
def test_one_changed_value(recording: ModuleType, name: str, kind: str, where: int, value: Any, drop: bool) -> None:
    capture, _ = recording.load(name, DATA)
    payloads = list(capture.payloads)
    chosen = [i for i, p in enumerate(payloads) if p.kind == kind]
    number = chosen[where % len(chosen)]
    given = json.loads(bytes(payloads[number].data))
    found = places(given)
    container, key = found[where % len(found)]
    if drop:
        del container[key]
    else:
        container[key] = value
    payloads[number] = Payload(payloads[number].kind, json.dumps(given).encode(), payloads[number].target)
    with suppress(PayloadError):
        listed(Capture(tuple(payloads)))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(KINDS), cut=st.integers(0, 10**6))
def test_a_truncated_payload(recording: ModuleType, kind: str, cut: int) -> None:
    capture, _ = recording.load("nested.html", DATA)
    payloads = tuple(
        Payload(p.kind, bytes(p.data)[: cut % len(p.data)], p.target) if p.kind == kind else p for p in capture.payloads
    )
    with suppress(PayloadError):
        listed(Capture(payloads))


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_payload(recording: ModuleType, kind: str) -> None:
    capture, _ = recording.load("xorigin.html", DATA)
    rest = Capture(tuple(p for p in capture.payloads if p.kind != kind))
    if kind == "dom_document":
        with pytest.raises(PayloadError):
            listed(rest)
    else:
        listed(rest)
