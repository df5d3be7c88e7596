"""Any tree of the payload grammar gives a listing or a PayloadError; the same payloads give the same bytes anywhere."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.capture import COMPUTED_STYLES, Capture, Payload
from workers.merge import PayloadError

DATA = Path(__file__).parents[1] / "data" / "browser_use"
EVERYTHING = Path(__file__).with_name("everything.py")
COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

texts = st.sampled_from(["", "x", "text", " spaced ", "a\n[12]<button", "\x00\x07", "\ufffd", "é 😀", "1", "true"])
names = st.sampled_from(
    [
        "DIV",
        "SPAN",
        "A",
        "BUTTON",
        "INPUT",
        "SELECT",
        "OPTION",
        "TEXTAREA",
        "LABEL",
        "IFRAME",
        "FRAME",
        "HTML",
        "BODY",
        "svg",
        "g",
        "path",
        "DETAILS",
        "VIDEO",
        "STYLE",
        "X-Y",
        "UL",
        "LI",
        "IMG",
        "HEAD",
    ]
)
attributes = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "id",
                "class",
                "type",
                "role",
                "for",
                "value",
                "aria-label",
                "tabindex",
                "onclick",
                "data-x",
                "title",
                "placeholder",
                "checked",
                "src",
                "alt",
                "min",
                "max",
                "autocomplete",
                "data-browser-use-exclude",
                "multiple",
            ]
        ),
        st.one_of(
            texts, st.sampled_from(["password", "range", "file", "number", "date", "combobox", "true", "search"])
        ),
    ),
    max_size=4,
)
numbers = st.one_of(st.sampled_from([0.0, 1.0, 10.0, 100.0, -40.0, 1099.5, 2200.0, 1e9]), st.floats(-50, 3000))
boxes = st.tuples(numbers, numbers, numbers, numbers)
styles = {
    "display": ["block", "none", "NONE", ""],
    "visibility": ["visible", "hidden"],
    "opacity": ["1", "0", ".5", "x", ""],
    "overflow": ["visible", "auto"],
    "overflow-x": ["visible", "scroll"],
    "overflow-y": ["visible", "auto"],
    "cursor": ["auto", "pointer"],
    "background-color": ["rgba(0, 0, 0, 0)", "rgb(1, 2, 3)", "rgba(0, 0, 0, 0.5)"],
}


@st.composite
def captures(draw: st.DrawFn) -> list[tuple[str, int, Any]]:
    """The payloads of one page of one or two processes, every reference within its range, everything else at will."""
    made: list[tuple[str, int, Any]] = []
    frames = {}
    targets = draw(st.integers(1, 2))
    for target in range(targets):
        nodes = [draw_node(draw, number + 100 * target) for number in range(draw(st.integers(0, 14)))]
        root = {"nodeType": 9, "nodeName": "#document", "backendNodeId": 1 + 100 * target, "nodeId": 1, "children": []}
        hang(draw, root, nodes)
        made += [
            ("layout_snapshot", target, draw_snapshot(draw, [root, *nodes])),
            ("dom_document", target, {"root": root}),
            ("ax_tree", target, {"nodes": [draw_ax(draw, node) for node in nodes if draw(st.booleans())]}),
            ("layout_metrics", target, {"cssVisualViewport": {"clientWidth": draw(numbers)}}),
        ]
        ids = [node["backendNodeId"] for node in nodes if draw(st.booleans())]
        found = [{"type": draw(st.sampled_from(["click", "keydown"])), "backendNodeId": i} for i in ids]
        made.append(("listeners", target, {"element_count": len(nodes), "listeners": found}))
        frames[f"F{target}"] = {"target_id": f"T{target}", "url": "http://x/"}
    about = [{"target_id": f"T{t}", "session_id": draw(st.sampled_from(["", "S"]))} for t in range(targets)]
    made.append(("targets", 0, {"url": "http://x/", "title": "X", "targets": about, "frames": frames}))
    return made


def draw_node(draw: st.DrawFn, number: int) -> dict[str, Any]:
    kind = draw(st.sampled_from([1, 1, 1, 1, 3, 3, 8, 10, 11]))
    node: dict[str, Any] = {
        "nodeType": kind,
        "nodeName": draw(names) if kind == 1 else "#text" if kind == 3 else "html",
        "backendNodeId": draw(st.sampled_from([number + 2, number + 2, number + 2, 5])),
        "nodeId": number + 2,
        "nodeValue": draw(texts),
    }
    if kind == 1:
        node["attributes"] = [text for pair in draw(attributes) for text in pair]
        if draw(st.integers(0, 4)) == 0:
            node["frameId"] = draw(st.sampled_from(["F0", "F1", "G"]))
        if draw(st.integers(0, 4)) == 0:
            node["isScrollable"] = True
    return node


def hang(draw: st.DrawFn, root: dict[str, Any], nodes: list[dict[str, Any]]) -> None:
    """Makes a tree of the nodes: as children, shadow roots and content documents."""
    above = [root]
    for node in nodes:
        parent = above[draw(st.integers(max(0, len(above) - 4), len(above) - 1))]
        way = draw(st.sampled_from(["children", "children", "children", "children", "shadowRoots", "contentDocument"]))
        if way == "shadowRoots" and node["nodeType"] == 11:
            node["shadowRootType"] = draw(st.sampled_from(["open", "closed", "user-agent"]))
            parent.setdefault("shadowRoots", []).append(node)
        elif way == "contentDocument" and parent["nodeType"] == 1 and "contentDocument" not in parent:
            parent["contentDocument"] = {**node, "nodeType": 9, "nodeName": "#document"}
            node = parent["contentDocument"]
        else:
            parent.setdefault("children", []).append(node)
        above.append(node)


def draw_snapshot(draw: st.DrawFn, nodes: list[dict[str, Any]]) -> dict[str, Any]:
    strings: dict[str, int] = {}

    def string(text: str) -> int:
        return strings.setdefault(text, len(strings))

    known = [node for node in nodes if draw(st.integers(0, 9))]
    laid = [i for i in range(len(known)) if draw(st.integers(0, 5))]
    rows = [[string(draw(st.sampled_from(styles.get(name, ["x"])))) for name in COMPUTED_STYLES] for _ in laid]
    live = [i for i in range(len(known)) if not draw(st.integers(0, 3))]
    body = {
        "nodes": {
            "parentIndex": [max(-1, i - 1) for i in range(len(known))],
            "nodeName": [string(node["nodeName"]) for node in known],
            "nodeValue": [string(node.get("nodeValue", "")) for node in known],
            "backendNodeId": [node["backendNodeId"] for node in known],
            "attributes": [[string(text) for text in node.get("attributes", [])] for node in known],
            "inputValue": {"index": live, "value": [string(draw(texts)) for _ in live]},
            "inputChecked": {"index": live[:1]},
            "isClickable": {"index": live[1:]},
        },
        "layout": {
            "nodeIndex": laid,
            "styles": rows,
            "bounds": [draw(boxes) for _ in laid],
            "text": [-1 for _ in laid],
            "paintOrders": [draw(st.integers(0, 5)) for _ in laid],
            "scrollRects": [draw(st.one_of(st.just(()), boxes)) for _ in laid],
            "clientRects": [draw(st.one_of(st.just(()), boxes)) for _ in laid],
        },
    }
    return {"documents": [body], "strings": list(strings)}


def draw_ax(draw: st.DrawFn, node: dict[str, Any]) -> dict[str, Any]:
    properties = draw(
        st.lists(
            st.tuples(
                st.sampled_from(
                    [
                        "disabled",
                        "focusable",
                        "checked",
                        "expanded",
                        "level",
                        "valuetext",
                        "value",
                        "hidden",
                        "required",
                    ]
                ),
                st.one_of(st.booleans(), texts, st.integers(0, 9), st.none()),
            ),
            max_size=3,
        )
    )
    return {
        "nodeId": str(node["nodeId"]),
        "backendDOMNodeId": node["backendNodeId"],
        "role": {"value": draw(st.sampled_from(["button", "generic", "listbox", "INPUT", None]))},
        "name": {"value": draw(texts)},
        "childIds": draw(st.lists(st.sampled_from(["2", "3", "4"]), max_size=2)),
        "properties": [{"name": name, "value": {"value": value}} for name, value in properties],
    }


def as_capture(payloads: list[tuple[str, int, Any]]) -> Capture:
    return Capture(tuple(Payload(kind, json.dumps(value).encode(), target) for kind, target, value in payloads))  # type: ignore[arg-type]


def outcome(everything: ModuleType, payloads: list[tuple[str, int, Any]]) -> str:
    try:
        text: str = everything.everything(as_capture(payloads))
    except PayloadError as error:
        return f"{error.kind}: {error.field}: {error.problem}"
    return text


def reordered(value: Any, order: random.Random) -> Any:
    """The same JSON value with the members of every object in another order."""
    if isinstance(value, dict):
        keys = list(value)
        order.shuffle(keys)
        return {key: reordered(value[key], order) for key in keys}
    return [reordered(item, order) for item in value] if isinstance(value, list | tuple) else value


@settings(COMMON, max_examples=150)
@given(payloads=captures())
def test_any_tree_gives_a_listing_or_a_payload_error(
    everything: ModuleType, payloads: list[tuple[str, int, Any]]
) -> None:
    assert outcome(everything, payloads)


@settings(COMMON, max_examples=50)
@given(payloads=captures(), seed=st.integers(0, 999))
def test_the_order_of_keys_means_nothing(
    everything: ModuleType, payloads: list[tuple[str, int, Any]], seed: int
) -> None:
    order = random.Random(seed)
    others = [(kind, target, reordered(value, order)) for kind, target, value in payloads]
    assert outcome(everything, others) == outcome(everything, payloads)


def test_the_order_of_keys_means_nothing_in_real_payloads(everything: ModuleType, recording: ModuleType) -> None:
    for name in ("forms.html", "xorigin.html", "oopif_xorigin.html", "shadow.html"):
        capture, _ = recording.load(name, DATA)
        given = [(p.kind, p.target, json.loads(bytes(p.data))) for p in capture.payloads]
        others = [(kind, target, reordered(value, random.Random(7))) for kind, target, value in given]
        assert outcome(everything, others) == outcome(everything, given)


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_another_process_with_another_hash_seed_gives_the_same_bytes(
    everything: ModuleType, recording: ModuleType, seed: str
) -> None:
    # Given the recordings of small pages
    files = sorted(DATA.glob("*.raw.json.gz"))
    captures = [recording.load(file.name.removesuffix(".raw.json.gz"), DATA)[0] for file in files]
    pages = [[[p.kind, p.target, bytes(p.data).decode()] for p in capture.payloads] for capture in captures]
    # When another process makes everything of them
    run = subprocess.run(
        [sys.executable, str(EVERYTHING)],
        input=json.dumps(pages),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": seed},
        check=True,
        timeout=300,
    )
    # Then it makes the same
    assert json.loads(run.stdout) == [everything.digest_of(page) for page in pages]
