"""A capture of ours becomes the raw trees that browser-use's replay reads; written from browser-use's own rules."""

from __future__ import annotations

import gzip
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from schemas.capture import Capture, PayloadKind

MAX_ELEMENTS = 10_000
MAX_HOLDERS = 100
CLICKS = frozenset({"click", "mousedown", "mouseup", "pointerdown", "pointerup"})
"""The listener probe of browser-use 0.13.14 (dom/service.py)."""
DEEP_RECURSION = 1_000_000
DEEP_STACK_BYTES = 1 << 29

Made = TypeVar("Made")


def raw_of(capture: Capture, max_chars: int = 40_000) -> dict[str, Any]:
    """The raw trees of a capture, every target that has a snapshot and a document."""
    about = _one(capture, "targets", 0)
    targets = []
    for ordinal, name in enumerate(about["targets"]):
        document, snapshot = _one(capture, "dom_document", ordinal), _one(capture, "layout_snapshot", ordinal)
        if document is None or snapshot is None:
            continue
        _fill_in(document["root"], [json.loads(bytes(p.data))["node"] for p in capture.of("dom_subtree", ordinal)])
        trees = [json.loads(bytes(p.data))["nodes"] for p in capture.of("ax_tree", ordinal)]
        targets.append(
            {
                "target_id": name["target_id"],
                "session_id": name["session_id"],
                "snapshot": snapshot,
                "dom_tree": document,
                "ax_tree": {"nodes": [node for nodes in trees for node in nodes]},
                "device_pixel_ratio": _ratio(_one(capture, "layout_metrics", ordinal) or {}),
                "js_click_listener_backend_ids": _holders(document["root"], _one(capture, "listeners", ordinal)),
            }
        )
    frames = about.get("frames", {})
    return {
        "url": about["url"],
        "focus_target_id": about["targets"][0]["target_id"],
        "bs_id": "",
        "all_frames": {key: {"frameTargetId": f["target_id"], "url": f["url"]} for key, f in frames.items()},
        "targets": targets,
        "page": {
            "url": about["url"],
            "title": about["title"],
            "target_id": about["targets"][0]["target_id"],
            "max_chars": max_chars,
            "info": _page_info(_one(capture, "layout_metrics", 0) or {}),
        },
    }


def write_job(path: Path, raw: dict[str, Any], previous: dict[str, Any] | None, options: dict[str, Any]) -> None:
    """One job for `ask.py`."""
    job = {"raw": raw, "previous": previous, "options": options}
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write(deeply(lambda: json.dumps(job)))


def deeply(make: Callable[[], Made]) -> Made:
    """Runs a function that recurses as deep as the page is nested."""
    out: list[Made] = []
    before = sys.getrecursionlimit()
    threading.stack_size(DEEP_STACK_BYTES)
    try:
        sys.setrecursionlimit(DEEP_RECURSION)
        thread = threading.Thread(target=lambda: out.append(make()))
        thread.start()
        thread.join()
    finally:
        sys.setrecursionlimit(before)
        threading.stack_size(0)
    return out[0]


def _one(capture: Capture, kind: PayloadKind, target: int) -> Any:
    payload = next(capture.of(kind, target), None)
    return None if payload is None or not payload.data else json.loads(bytes(payload.data))


def _below(node: dict[str, Any]) -> list[dict[str, Any]]:
    content = node.get("contentDocument")
    return [*(node.get("children") or ()), *(node.get("shadowRoots") or ()), *([content] if content else ())]


def _fill_in(root: dict[str, Any], replies: list[dict[str, Any]]) -> None:
    """Hang each reply under the node that was cut off, and number all nodes anew: replies carry no node ids."""
    if not replies:
        return
    for reply in replies:
        stack = [root]
        while stack:
            node = stack.pop()
            cut = node.get("childNodeCount", 0) > len(node.get("children") or ())
            if node["backendNodeId"] == reply["backendNodeId"] and cut:
                node.update({k: v for k, v in reply.items() if k not in ("nodeId", "parentId")})
                break
            stack += _below(node)
    number = 0
    numbered: list[tuple[dict[str, Any], int | None]] = [(root, None)]
    while numbered:
        node, parent = numbered.pop()
        number += 1
        node["nodeId"] = number
        node.pop("parentId", None)
        if parent is not None:
            node["parentId"] = parent
        numbered += [(child, number) for child in node.get("children") or ()]
        numbered += [(other, None) for other in _below(node)[len(node.get("children") or ()) :]]


def _holders(root: dict[str, Any], probed: dict[str, Any] | None) -> list[int]:
    """The elements of the top document that listen, none where there are too many."""
    if probed is None or probed["element_count"] > MAX_ELEMENTS:
        return []
    listening = {x.get("backendNodeId") for x in probed["listeners"] if x["type"] in CLICKS}
    found = []
    stack = [root]
    while stack:
        node = stack.pop()
        if node["nodeType"] == 1 and node["backendNodeId"] in listening:
            found.append(node["backendNodeId"])
        stack += node.get("children") or ()
    return sorted(found) if len(found) <= MAX_HOLDERS else []


def _ratio(metrics: dict[str, Any]) -> float:
    css = metrics.get("cssVisualViewport", {}).get(
        "clientWidth", metrics.get("cssLayoutViewport", {}).get("clientWidth", 1920.0)
    )
    device = metrics.get("visualViewport", {}).get("clientWidth", css)
    return device / css if css > 0 else 1.0


def _page_info(metrics: dict[str, Any]) -> dict[str, int]:
    """Where the page stands (browser-use 0.13.14, browser/watchdogs/dom_watchdog.py)."""
    layout, visual = metrics.get("cssLayoutViewport", {}), metrics.get("cssVisualViewport", {})
    old = metrics.get("layoutViewport", {})
    ratio = _ratio(metrics) if metrics else 1.0
    width = int(layout.get("clientWidth") or old.get("clientWidth", 1280))
    height = int(layout.get("clientHeight") or old.get("clientHeight", 720))
    size = metrics.get("contentSize", {})
    page_width, page_height = int(size.get("width", width) / ratio), int(size.get("height", height) / ratio)
    left = int(visual.get("pageX") or layout.get("pageX", 0))
    top = int(visual.get("pageY") or layout.get("pageY", 0))
    return {
        "viewport_width": width,
        "viewport_height": height,
        "page_width": page_width,
        "page_height": page_height,
        "scroll_x": left,
        "scroll_y": top,
        "pixels_above": top,
        "pixels_below": max(0, page_height - height - top),
        "pixels_left": left,
        "pixels_right": max(0, page_width - width - left),
    }
