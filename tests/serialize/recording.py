"""A recording of browser-use's raw trees becomes a capture."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from schemas.capture import Capture, Payload


def load(name: str, folder: str | Path) -> tuple[Capture, dict[str, Any]]:
    """The capture of one recording and what browser-use said about it."""
    with gzip.open(Path(folder) / f"{name}.raw.json.gz", "rt") as file:
        raw = json.load(file)
    expected = Path(folder) / f"{name}.expected.json.gz"
    if not expected.exists():
        with (Path(folder) / f"{name}.json").open() as file:
            return capture_of(raw, said := json.load(file)), said
    with gzip.open(expected, "rt") as file:
        said = json.load(file)
    return capture_of(raw, said), said


def capture_of(raw: dict[str, Any], said: dict[str, Any]) -> Capture:
    """The payloads in the order in which they are asked for; what a recording lacks is made up from what was said."""
    frames = {
        frame_id: {"target_id": frame.get("frameTargetId", ""), "url": frame.get("url", "")}
        for frame_id, frame in (raw["all_frames"] or {}).items()
    }
    tabs = [line for line in said.get("browser_state_description", "").split("\n") if line.startswith("Tab ")]
    title = tabs[0].rpartition(" - ")[2] if tabs else ""
    page = said.get("page_info", {})
    payloads = [
        _payload(
            "targets",
            0,
            {
                "url": said.get("final_url", raw["url"]),
                "title": title,
                "targets": [{"target_id": t["target_id"], "session_id": t["session_id"]} for t in raw["targets"]],
                "frames": frames,
            },
        )
    ]
    for ordinal, target in enumerate(raw["targets"]):
        ids = target["js_click_listener_backend_ids"]
        probe = {"element_count": 0, "listeners": [{"type": "click", "backendNodeId": i} for i in ids]}
        payloads += [
            _payload("listeners", ordinal, probe),
            _payload("layout_snapshot", ordinal, target["snapshot"]),
            _payload("dom_document", ordinal, target["dom_tree"]),
            _payload("ax_tree", ordinal, target["ax_tree"]),
            _payload("layout_metrics", ordinal, _metrics(target["device_pixel_ratio"], page)),
        ]
    return Capture(tuple(payloads))


def _payload(kind: Any, target: int, value: object) -> Payload:
    return Payload(kind, json.dumps(value, separators=(",", ":")).encode(), target)


def _metrics(ratio: float, page: dict[str, Any]) -> dict[str, Any]:
    width = page.get("viewport_width", 1280)
    return {
        "visualViewport": {"clientWidth": width * ratio},
        "cssVisualViewport": {
            "clientWidth": width,
            "pageX": page.get("scroll_x", 0),
            "pageY": page.get("scroll_y", 0),
        },
        "cssLayoutViewport": {"clientWidth": width, "clientHeight": page.get("viewport_height", 1100)},
        "contentSize": {
            "width": page.get("page_width", 0) * ratio,
            "height": page.get("page_height", 0) * ratio,
        },
    }
