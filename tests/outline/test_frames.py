"""Frames: partial ones say so, those of other processes find their place, whatever the frame trees say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.capture import Capture, Payload
from workers.merge import PayloadError, merge
from workers.serialize.outline import serialize_outline
from workers.serialize.outline_options import OutlineOptions

OWN = Path(__file__).parents[1] / "data" / "stagehand"


def load(exchange: ModuleType, name: str) -> Capture:
    return exchange.load(name, OWN)[0]  # type: ignore[no-any-return]


def without(capture: Capture, kind: str, frame_id: str | None = None, target: int | None = None) -> Capture:
    return Capture(
        tuple(
            p
            for p in capture.payloads
            if p.kind != kind or frame_id not in (None, p.frame_id) or target not in (None, p.target)
        )
    )


def test_a_frame_without_accessibility_keeps_its_paths(exchange: ModuleType) -> None:
    capture = load(exchange, "03_iframes")
    whole = serialize_outline(capture)
    lost = serialize_outline(without(capture, "ax_tree", whole.frames[1].frame_id))
    assert [frame.status for frame in lost.frames] == ["ok", "ax_missing", *["ok"] * 8]
    assert lost.xpath_map == whole.xpath_map
    assert set(lost.rows.id) < set(whole.rows.id)
    # no line, not an empty one either
    assert set(lost.text.split("\n")) < set(whole.text.split("\n"))


def test_no_accessibility_at_all_is_an_empty_outline(exchange: ModuleType) -> None:
    capture = load(exchange, "03_iframes")
    lost = serialize_outline(without(capture, "ax_tree"))
    assert (lost.text, len(lost.rows), lost.url_map) == ("", 0, {})
    assert {frame.status for frame in lost.frames} == {"ax_missing"}
    assert lost.xpath_map == serialize_outline(capture).xpath_map


def test_a_frame_of_another_process_that_was_lost(exchange: ModuleType) -> None:
    capture = load(exchange, "04_xorigin.spp")
    whole = serialize_outline(capture)
    lost = Capture(tuple(p for p in capture.payloads if p.target != 1 or p.kind == "frame_tree"))
    outline = serialize_outline(lost)
    assert outline.frames[1].status == "document_missing"
    assert outline.frames[0].text == whole.frames[0].text
    assert not any(key.startswith("1-") for key in outline.xpath_map)


def test_frames_of_other_processes_stand_where_their_owners_do(exchange: ModuleType) -> None:
    """As a browser says it: each target's frame tree has its own frames only, and names the parent of its root."""
    capture = load(exchange, "04_xorigin.spp")
    whole = serialize_outline(capture)
    payloads = []
    for payload in capture.payloads:
        if payload.kind == "frame_tree" and payload.target == 0:
            tree = json.loads(bytes(payload.data))
            kept = [child for child in tree["frameTree"]["childFrames"] if not _is_target(capture, child)]
            assert len(kept) < len(tree["frameTree"]["childFrames"])
            tree["frameTree"]["childFrames"] = kept
            payload = replace(payload, data=json.dumps(tree).encode())
        elif payload.kind == "frame_tree":
            tree = json.loads(bytes(payload.data))
            tree["frameTree"]["frame"].pop("parentId")
            payload = replace(payload, data=json.dumps(tree).encode())
        payloads.append(payload)
    outline = serialize_outline(Capture(tuple(payloads)))
    assert outline.text == whole.text
    assert list(outline.xpath_map.items()) == list(whole.xpath_map.items())
    assert outline.frames == whole.frames


def _is_target(capture: Capture, node: dict[str, Any]) -> bool:
    targets = json.loads(bytes(next(capture.of("targets")).data))["targets"]
    return node["frame"]["id"] in [target["target_id"] for target in targets]


@pytest.mark.parametrize("tag", ["FRAME", "OBJECT"])
def test_a_frame_that_the_listing_does_not_descend_into(pages: ModuleType, tag: str) -> None:
    """A document of another process that no <iframe> shows stands in a tree of its own."""
    owner = pages.Node(tag, frame_id="F", role="Iframe", backend_node_id=9)
    root = pages.document(owner)
    root.role = "RootWebArea"
    inner = pages.document(pages.Node("BUTTON", role="button", ax_name="in"), frame_id="F")
    targets = {
        "targets": [{"target_id": "TOP", "session_id": "A"}, {"target_id": "F", "session_id": "B"}],
        "frames": {"F": {"target_id": "F", "url": "http://y/"}},
    }
    mine = [p for p in pages.capture(root).payloads if p.kind != "targets"]
    theirs = [replace(p, target=1) for p in pages.capture(inner).payloads if p.kind in ("dom_document", "ax_tree")]
    trees = [
        pages.payload("frame_tree", {"frameTree": {"frame": {"id": "TOP"}}}),
        pages.payload("frame_tree", {"frameTree": {"frame": {"id": "F"}}}, 1),
    ]
    capture = Capture((pages.payload("targets", targets), *trees, *mine, *theirs))
    assert merge(capture).targets[1].root == -1
    outline = serialize_outline(capture)
    assert outline.text == "[0-1] RootWebArea\n[0-9] Iframe\n  [1-4] button: in"
    assert outline.xpath(len(outline.rows) - 1)[0] == f"/html[1]/body[1]/{tag.lower()}[1]/html[1]/body[1]/button[1]"
    without_it = serialize_outline(capture, OutlineOptions(ignore=(tag.lower(),)))
    assert without_it.text == "[0-1] RootWebArea"
    assert {id_.partition("-")[0] for id_ in without_it.xpath_map} == {"0"}
    assert serialize_outline(capture, OutlineOptions(focus=f"{tag} >> button")).text == "[1-4] button: in"


def test_a_frame_of_another_process_in_a_frame_of_this_one(pages: ModuleType) -> None:
    """No frame tree names its parent: that is told by the document in which its owner stands."""
    node = pages.Node
    inmost = pages.document(node("BUTTON", backend_node_id=30), frame_id="F")
    middle = pages.document(node("IFRAME", frame_id="F", backend_node_id=21), frame_id="M")
    root = pages.document(node("IFRAME", frame_id="M", content=middle, backend_node_id=11))
    targets = {
        "targets": [{"target_id": "TOP", "session_id": "A"}, {"target_id": "F", "session_id": "B"}],
        "frames": {"F": {"target_id": "F", "url": "http://y/"}},
    }
    mine = [p for p in pages.capture(root, ax=False).payloads if p.kind != "targets"]
    theirs = [replace(p, target=1) for p in pages.capture(inmost, ax=False).payloads if p.kind == "dom_document"]
    own = {"frame": {"id": "TOP"}, "childFrames": [{"frame": {"id": "M", "parentId": "TOP"}}]}
    trees = [
        pages.payload("frame_tree", {"frameTree": own}),
        pages.payload("frame_tree", {"frameTree": {"frame": {"id": "F"}}}, 1),
    ]
    outline = serialize_outline(Capture((pages.payload("targets", targets), *trees, *mine, *theirs)))
    assert [(frame.frame_id, frame.parent, frame.host) for frame in outline.frames] == [
        ("TOP", -1, None),
        ("M", 0, "0-11"),
        ("F", 1, "1-21"),
    ]
    way = "/html[1]/body[1]/iframe[1]"
    assert outline.xpath_map["2-30"] == f"{way}{way}/html[1]/body[1]/button[1]"


def test_without_frame_trees_frames_come_from_the_documents(exchange: ModuleType) -> None:
    capture = load(exchange, "03_iframes")
    whole = serialize_outline(capture)
    outline = serialize_outline(without(capture, "frame_tree"))
    assert {frame.frame_id for frame in outline.frames} == {frame.frame_id for frame in whole.frames}
    assert len(outline.rows) == len(whole.rows)
    assert sorted(outline.xpath_map.values()) == sorted(whole.xpath_map.values())


def test_without_frames_there_is_only_the_main_one(exchange: ModuleType) -> None:
    outline = serialize_outline(load(exchange, "03_iframes"), OutlineOptions(include_frames=False))
    assert len(outline.frames) == 1
    assert {key.partition("-")[0] for key in outline.xpath_map} == {"0"}


def test_ordinals_may_be_given_for_some(exchange: ModuleType) -> None:
    capture = load(exchange, "03_iframes")
    ids = [frame.frame_id for frame in serialize_outline(capture).frames]
    outline = serialize_outline(capture, OutlineOptions(ordinals={ids[3]: 0, ids[0]: 7}))
    numbers = {frame.frame_id: frame.ordinal for frame in outline.frames}
    assert (numbers[ids[3]], numbers[ids[0]]) == (0, 7)
    assert len(set(numbers.values())) == len(ids)


FRAME_IDS = st.sampled_from(["TOP", "A", "B", "C", ""])
FRAME_TREES = st.recursive(
    st.fixed_dictionaries({"frame": st.fixed_dictionaries({"id": FRAME_IDS}, optional={"parentId": FRAME_IDS})}),
    lambda inner: st.fixed_dictionaries(
        {"frame": st.fixed_dictionaries({"id": FRAME_IDS}), "childFrames": st.lists(inner, max_size=3)}
    ),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(trees=st.lists(FRAME_TREES, max_size=3), shown=st.lists(FRAME_IDS, max_size=3))
def test_any_frame_trees_make_an_outline(pages: ModuleType, trees: list[Any], shown: list[str]) -> None:
    root = pages.document(*(pages.Node("IFRAME", frame_id=frame, role="Iframe") for frame in shown))
    made = pages.capture(root)
    more = [pages.payload("frame_tree", {"frameTree": tree}, i) for i, tree in enumerate(trees)]
    outline = serialize_outline(Capture((*made.payloads, *more)))
    assert len({frame.ordinal for frame in outline.frames}) == len(outline.frames)
    assert all(frame.parent < i for i, frame in enumerate(outline.frames))


def test_a_malformed_frame_tree_is_named(pages: ModuleType) -> None:
    made = pages.capture(pages.document())
    with pytest.raises(PayloadError, match="frame_tree"):
        serialize_outline(Capture((*made.payloads, Payload("frame_tree", b"{}"))))
