"""A recording of Stagehand's exchange with the browser becomes a capture."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from schemas.capture import Capture, Payload

SUFFIX = ".json.gz"


def load(name: str, folder: Path) -> tuple[Capture, dict[str, Any]]:
    """The capture of one recording, and what Stagehand made of it."""
    with gzip.open(folder / f"{name}{SUFFIX}", "rt") as file:
        said = json.load(file)
    return capture_of(said), said


def ordinals_of(said: dict[str, Any]) -> dict[str, int]:
    """The numbers that Stagehand had given to the frames."""
    return {frame["frameId"]: frame["ordinal"] for frame in said["frames"]}


def owners_of(said: dict[str, Any]) -> dict[str, int]:
    """The elements that show the frames, as the browser named them."""
    calls = [call for call in said["cdp"] if call["method"] == "DOM.getFrameOwner" and "error" not in call]
    return {call["params"]["frameId"]: call["result"]["backendNodeId"] for call in calls}


def capture_of(said: dict[str, Any]) -> Capture:
    """The payloads of the first whole pass; one target for each session, in frame order."""
    frames = said["frames"]
    sessions = list(dict.fromkeys(frame["session"] for frame in frames))
    targets = []
    for session in sessions:
        root = next(frame for frame in frames if frame["session"] == session)
        targets.append({"target_id": root["frameId"], "session_id": session})
    where = {f["frameId"]: {"target_id": targets[sessions.index(f["session"])]["target_id"], "url": ""} for f in frames}
    payloads = [
        _payload("targets", 0, {"url": said["url"], "title": "", "targets": targets, "frames": where}),
        _payload("frame_tree", 0, {"frameTree": _frame_tree(frames, frames[0])}),
    ]
    for ordinal, session in enumerate(sessions):
        root = next(frame for frame in frames if frame["session"] == session)
        if ordinal:
            payloads.append(_payload("frame_tree", ordinal, {"frameTree": _frame_tree(frames, root, session)}))
        payloads += _of_session(said["cdp"], session, ordinal, root["frameId"])
    return Capture(tuple(payloads))


def _of_session(exchange: list[dict[str, Any]], session: str, ordinal: int, root: str) -> list[Payload]:
    calls = [call for call in exchange if call["session"] == session and "error" not in call]
    documents = [call["result"] for call in calls if call["method"] == "DOM.getDocument"]
    payloads = [_payload("dom_document", ordinal, documents[-1])]
    found: dict[str, dict[str, Any]] = {}
    asked = root
    for call in exchange:
        if call["session"] != session:
            continue
        if call["method"] == "DOM.describeNode" and "depth" in call["params"] and "error" not in call:
            payloads.append(_payload("dom_subtree", ordinal, call["result"]))
        if call["method"] == "Accessibility.getFullAXTree":
            asked = (call.get("params") or {}).get("frameId", asked)
            if "error" not in call:
                found[asked] = call["result"]
    return payloads + [_payload("ax_tree", ordinal, result, frame) for frame, result in found.items()]


def _frame_tree(frames: list[dict[str, Any]], root: dict[str, Any], session: str | None = None) -> dict[str, Any]:
    children = [f for f in frames if f["parent"] == root["frameId"] and session in (None, f["session"])]
    frame = {"id": root["frameId"], **({"parentId": root["parent"]} if root["parent"] else {})}
    return {"frame": frame, "childFrames": [_frame_tree(frames, child, session) for child in children]}


def _payload(kind: Any, target: int, value: object, frame_id: str = "") -> Payload:
    return Payload(kind, json.dumps(value, separators=(",", ":")).encode(), target, frame_id)
