"""Payload bytes are decoded into just the fields that the merge needs; everything else is skipped unread."""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from schemas.capture import Payload
from workers.merge.errors import PayloadError

T = TypeVar("T")

Whole: TypeAlias = Annotated[int, Meta(ge=-(2**53), le=2**53)]
"""A whole number that JSON carries exactly (RFC 8259, 6), so that it fits into a column."""
NodeType: TypeAlias = Annotated[int, Meta(ge=1, le=12)]
"""DOM Standard, 4.4 Interface Node."""


class DomNode(Struct, gc=False, kw_only=True):
    """A CDP `DOM.Node`; attributes stay undecoded, because most nodes of a large page never print.

    The fields stand in the order in which Chromium writes them: the decoder expects the next one next.
    """

    backendNodeId: Whole = 0
    nodeType: NodeType
    nodeName: str
    nodeValue: str = ""
    childNodeCount: int = 0
    children: list[DomNode] | None = None
    attributes: Raw = Raw()
    shadowRootType: str = ""
    frameId: str = ""
    contentDocument: DomNode | None = None
    shadowRoots: list[DomNode] | None = None
    isScrollable: bool = False


class DomDocument(Struct, gc=False):
    """The result of `DOM.getDocument`."""

    root: DomNode


class DomSubtree(Struct, gc=False):
    """The result of `DOM.describeNode`."""

    node: DomNode


class RareStrings(Struct, gc=False):
    """CDP `RareStringData`: string-table indexes of the few nodes that have the thing."""

    index: list[int] = []
    value: list[int] = []


class RareFlags(Struct, gc=False):
    """CDP `RareBooleanData`: the node indexes for which the flag is set."""

    index: list[int] = []


class SnapshotNodes(Struct, gc=False):
    """CDP `NodeTreeSnapshot`, without the structure: that comes from the DOM document."""

    backendNodeId: list[int]
    attributes: Raw = Raw()
    inputValue: RareStrings | None = None
    textValue: RareStrings | None = None
    inputChecked: RareFlags | None = None
    isClickable: RareFlags | None = None


class SnapshotLayout(Struct, gc=False):
    """CDP `LayoutTreeSnapshot`; rows of numbers stay undecoded, because most of them repeat or are never asked for."""

    nodeIndex: list[int]
    bounds: Raw
    styles: Raw = Raw()
    paintOrders: list[int] = []
    scrollRects: Raw = Raw()
    clientRects: Raw = Raw()


class SnapshotDocument(Struct, gc=False):
    """CDP `DocumentSnapshot`."""

    nodes: SnapshotNodes
    layout: SnapshotLayout


class Snapshot(Struct, gc=False):
    """The result of `DOMSnapshot.captureSnapshot`."""

    documents: list[SnapshotDocument]
    strings: list[str]


NO_ID = -(2**63)
"""The backend node id of an accessibility node that stands for no node: none that a payload may give."""


class AxText(Struct, gc=False):
    """CDP `AXValue` that is a text."""

    value: str | None = None


class AxNode(Struct, gc=False):
    """A CDP `AXNode` with what the listing and the outline need of it; what few nodes are asked for stays undecoded.

    `sources` and `ignoredReasons`, the bulk of its bytes, are skipped. The fields stand in Chromium's order.
    """

    nodeId: str = ""
    role: AxText | None = None
    name: AxText | None = None
    properties: Raw = Raw()
    parentId: str = ""
    childIds: Raw = Raw()
    backendDOMNodeId: Whole = NO_ID


class AxNodes(Struct, gc=False):
    """The result of `Accessibility.getFullAXTree`."""

    nodes: list[AxNode]


class RawAxNode(Struct, gc=False):
    """An `AXNode` of which only the field by which it is found has to make sense, until somebody asks for another."""

    role: Raw = Raw()
    name: Raw = Raw()
    properties: Raw = Raw()
    childIds: Raw = Raw()
    backendDOMNodeId: Whole = NO_ID


class RawAxNodes(Struct, gc=False):
    """An accessibility tree in which something stands that Chromium never says, such as a role that is a number."""

    nodes: list[RawAxNode]


class AxValue(Struct, gc=False):
    """CDP `AXValue`."""

    value: object = None


class AxProperty(Struct, gc=False):
    """CDP `AXProperty`."""

    name: str = ""
    value: AxValue | None = None


class MaskableAxNode(Struct, gc=False):
    """CDP `AXNode`, so far as it is looked at when values in it are masked."""

    role: AxValue | None = None
    name: AxValue | None = None
    properties: list[AxProperty] = []
    childIds: list[str] = []


class Listener(Struct, gc=False):
    """CDP `DOMDebugger.EventListener`."""

    type: str = ""
    backendNodeId: Whole = 0


class Listeners(Struct, gc=False):
    """The `listeners` payload of the capturer."""

    element_count: int = 0
    listeners: list[Listener] = []


class FrameTarget(Struct, gc=False):
    """Where one frame lives."""

    target_id: str = ""
    url: str = ""


class TargetName(Struct, gc=False):
    """One CDP target."""

    target_id: str = ""
    session_id: str = ""


class Targets(Struct, gc=False):
    """The `targets` payload of the capturer."""

    url: str = ""
    title: str = ""
    targets: list[TargetName] = []
    frames: dict[str, FrameTarget] = {}


class Viewport(Struct, gc=False, frozen=True):
    """CDP `LayoutViewport` and `VisualViewport` in one."""

    clientWidth: float | None = None
    clientHeight: float | None = None
    pageX: float | None = None
    pageY: float | None = None


class ContentSize(Struct, gc=False, frozen=True):
    """CDP `DOM.Rect` of the whole page."""

    width: float | None = None
    height: float | None = None


class LayoutMetrics(Struct, gc=False):
    """The result of `Page.getLayoutMetrics`."""

    layoutViewport: Viewport = Viewport()
    visualViewport: Viewport = Viewport()
    contentSize: ContentSize = ContentSize()
    cssLayoutViewport: Viewport = Viewport()
    cssVisualViewport: Viewport = Viewport()
    cssContentSize: ContentSize = ContentSize()


DOCUMENT_DECODER = msgspec.json.Decoder(DomDocument)
SUBTREE_DECODER = msgspec.json.Decoder(DomSubtree)
SNAPSHOT_DECODER = msgspec.json.Decoder(Snapshot)
AX_DECODER = msgspec.json.Decoder(AxNodes)
RAW_AX_DECODER = msgspec.json.Decoder(RawAxNodes)
MASKABLE_AX_NODE_DECODER = msgspec.json.Decoder(MaskableAxNode)
AX_VALUE_DECODER = msgspec.json.Decoder(AxValue | None)
AX_PROPERTIES_DECODER = msgspec.json.Decoder(list[AxProperty])
AX_PROPERTY_LISTS_DECODER = msgspec.json.Decoder(list[list[AxProperty]])
LISTENERS_DECODER = msgspec.json.Decoder(Listeners)
TARGETS_DECODER = msgspec.json.Decoder(Targets)
METRICS_DECODER = msgspec.json.Decoder(LayoutMetrics)
STRINGS_DECODER = msgspec.json.Decoder(list[str])
STRING_LISTS_DECODER = msgspec.json.Decoder(list[list[str]])
STRING_ROWS_DECODER = msgspec.json.Decoder(list[list[int]])
FLOATS_DECODER = msgspec.json.Decoder(list[float])
RECTANGLES_DECODER = msgspec.json.Decoder(list[tuple[float, float, float, float]])
RAW_ROWS_DECODER = msgspec.json.Decoder(list[Raw])

_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u([dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""One JSON escape: a whole surrogate pair, a lone surrogate (group 1), or anything else (so that `\\\\ud800` is a
backslash and five letters, not a surrogate)."""


def replace_surrogates(data: bytes | bytearray | memoryview) -> tuple[bytes, int]:
    """Every lone surrogate escape becomes U+FFFD; returns the new bytes and how many there were."""
    count = 0

    def fix(match: re.Match[bytes]) -> bytes:
        nonlocal count
        if match.group(1) is None:
            return match.group(0)
        count += 1
        return b"\\ufffd"

    return _ESCAPE.sub(fix, data), count


def decode(decoder: msgspec.json.Decoder[T], payload: Payload) -> tuple[T, int]:
    """The decoded payload and the number of surrogates replaced in it; PayloadError if it does not fit its type.

    msgspec refuses lone surrogates wherever they stand, so that only a payload it refused is looked at twice.
    """
    try:
        return decoder.decode(payload.data), 0
    except msgspec.ValidationError as error:
        raise _named(payload, error) from error
    except RecursionError as error:
        raise PayloadError(payload.kind, "$", "is nested too deeply") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        fixed, count = replace_surrogates(payload.data)
        if not count:
            raise PayloadError(payload.kind, "$", str(error)) from error
        return decode(decoder, Payload(payload.kind, fixed, payload.target, payload.frame_id))[0], count


def _named(payload: Payload, error: msgspec.ValidationError) -> PayloadError:
    text = str(error)
    problem, _, path = text.partition(" - at ")
    missing = re.search(r"missing required field `([^`]+)`", problem)
    field = path.strip("`") or "$"
    return PayloadError(payload.kind, f"{field}.{missing[1]}" if missing else field, problem)
