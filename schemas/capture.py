"""A capture is the raw CDP payloads of one page, exactly as they came over the wire.

Everything downstream (merge, listing, replay) is a pure function of a capture.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

Buffer: TypeAlias = bytes | bytearray | memoryview

PayloadKind: TypeAlias = Literal[
    "targets",
    "frame_tree",
    "listeners",
    "layout_snapshot",
    "dom_document",
    "dom_subtree",
    "ax_tree",
    "layout_metrics",
]
PAYLOAD_KINDS: tuple[PayloadKind, ...] = get_args(PayloadKind)

COMPUTED_STYLES: tuple[str, ...] = (
    "display",
    "visibility",
    "opacity",
    "overflow",
    "overflow-x",
    "overflow-y",
    "cursor",
    "pointer-events",
    "position",
    "background-color",
)
"""The styles asked of DOMSnapshot.captureSnapshot, in this order (browser-use 0.13.14 asks for the same ten)."""

PLACE_STYLES: tuple[str, ...] = (
    "border-left-width",
    "border-top-width",
    "border-right-width",
    "padding-left",
    "padding-top",
    "padding-right",
    "overflow-x",
    "overflow-y",
    "position",
)
"""The styles that a snapshot is asked for to place things on a picture by it, in this order."""


@dataclass(frozen=True, slots=True)
class Payload:
    """One payload is one CDP reply: the bytes of its `result` member, untouched.

    kind      what was asked for:
              `targets`          made by the capturer: {"url", "title", "targets": [{"target_id", "session_id"}],
                                 "frames": {frame id: {"target_id", "url"}}}; the position in
                                 "targets" is the target ordinal
              `frame_tree`       Page.getFrameTree
              `listeners`        made by the capturer: {"element_count": elements in the top document,
                                 "listeners": the array of DOMDebugger.getEventListeners(depth -1)}
              `layout_snapshot`  DOMSnapshot.captureSnapshot
              `dom_document`     DOM.getDocument(pierce), possibly of limited depth
              `dom_subtree`      DOM.describeNode(pierce): fills in the node with the same backendNodeId whose children
                                 were cut off; in the order asked
              `ax_tree`          Accessibility.getFullAXTree of one frame, root frame first
              `layout_metrics`   Page.getLayoutMetrics
    target    ordinal of the CDP target it belongs to; 0 is the page itself, others are out-of-process frames
    frame_id  CDP frame id, only for `ax_tree`
    data      UTF-8 JSON; any buffer, so that a memory-mapped file serves as well as bytes
    """

    kind: PayloadKind
    data: Buffer
    target: int = 0
    frame_id: str = ""


@dataclass(frozen=True, slots=True)
class Capture:
    """All payloads of one page, in the order they were asked for."""

    payloads: tuple[Payload, ...]

    def of(self, kind: PayloadKind, target: int = 0) -> Iterator[Payload]:
        """The payloads of one kind and target, in order."""
        return (p for p in self.payloads if p.kind == kind and p.target == target)
