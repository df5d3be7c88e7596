"""Where the nodes of a page lie on its picture, from layout snapshots: rectangles in CSS pixels of the top document.

Frames are placed by the content box of the element that shows them, scrolled as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from schemas.capture import PLACE_STYLES, Payload
from workers.merge.payloads import decode

Rect: TypeAlias = tuple[float, float, float, float]
"""x1, y1, x2, y2."""
Node: TypeAlias = tuple[int, int]
"""Target ordinal and backend node id."""

EVERYWHERE: Final[Rect] = (-math.inf, -math.inf, math.inf, math.inf)
FRAME_TAGS: Final = frozenset({"iframe", "frame", "fencedframe"})
_OVERFLOWS = (PLACE_STYLES.index("overflow-x"), PLACE_STYLES.index("overflow-y"))
_POSITION = PLACE_STYLES.index("position")
_SCROLLBAR_PX = 17.5
"""No scrollbar of Chromium is wider, so that a frame whose document is narrower by more is scaled or turned."""


class Rare(Struct, frozen=True, gc=False):
    """CDP `RareStringData` and `RareIntegerData`."""

    index: list[int] = []
    value: list[int] = []


class Nodes(Struct, gc=False):
    """CDP `NodeTreeSnapshot`."""

    parentIndex: list[int]
    nodeName: list[int]
    backendNodeId: list[int]
    attributes: msgspec.Raw = msgspec.Raw(b"[]")
    contentDocumentIndex: Rare = Rare()
    inputValue: Rare = Rare()
    textValue: Rare = Rare()


class Layout(Struct, gc=False):
    """CDP `LayoutTreeSnapshot`."""

    nodeIndex: list[int]
    bounds: list[tuple[float, float, float, float]]
    text: list[int]
    styles: list[list[int]] = []


class Document(Struct, gc=False):
    """CDP `DocumentSnapshot`."""

    nodes: Nodes
    layout: Layout
    scrollOffsetX: float = 0.0
    scrollOffsetY: float = 0.0


class Snapshot(Struct, gc=False):
    """The result of `DOMSnapshot.captureSnapshot`."""

    documents: list[Document]
    strings: list[str]


_DECODER = msgspec.json.Decoder(Snapshot)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a document lies. What is `odd` is scaled or turned, so that nothing in it can be placed."""

    x: float
    y: float
    window: Rect
    odd: bool = False


@dataclass(slots=True)
class PlacedDocument:
    """One document of a snapshot, with the place that its frame has."""

    target: int
    document: Document
    strings: list[str]
    place: Place
    is_styled: bool
    ratio: float
    rows: dict[int, int] = field(default_factory=dict)
    """Layout row by node: the first one."""

    def __post_init__(self) -> None:
        nodes = self.document.layout.nodeIndex
        self.rows = dict(zip(reversed(nodes), range(len(nodes) - 1, -1, -1), strict=True))

    def tag(self, node: int) -> str:
        """The local part of a node's name in lower case."""
        name = self.document.nodes.nodeName[node]
        return self.strings[name].rpartition(":")[2].lower() if name >= 0 else ""

    def elements(self, tags: frozenset[str]) -> Iterator[int]:
        """The nodes with one of these names."""
        names = {i for i, text in enumerate(self.strings) if text.rpartition(":")[2].lower() in tags}
        return (node for node, name in enumerate(self.document.nodes.nodeName) if name in names)

    def rect(self, node: int) -> Rect | None:
        """Where a node lies; None without layout."""
        row = self.rows.get(node)
        return None if row is None else self.rect_of_row(row)

    def rect_of_row(self, row: int) -> Rect:
        """Where one row of the layout lies."""
        x, y, width, height = (number / self.ratio for number in self.document.layout.bounds[row])
        left, top = x + self.place.x, y + self.place.y
        return left, top, left + width, top + height

    def style(self, node: int, which: int) -> str:
        """A style by its place in PLACE_STYLES, "" where it is not known."""
        row = self.rows.get(node)
        if not self.is_styled or row is None:
            return ""
        styles = self.document.layout.styles[row]
        return self.strings[styles[which]] if which < len(styles) and styles[which] >= 0 else ""

    def seen(self, node: int) -> Rect | None:
        """What of a node is not cut off by its frames, nor by what it scrolls in (CSS Overflow 3, section 3)."""
        rect = self.rect(node)
        if rect is None or self.place.odd:
            return None
        rect = common(rect, self.place.window)
        position = self.style(node, _POSITION)
        at = self.document.nodes.parentIndex[node]
        while at > 0 and position != "fixed":
            own = self.style(at, _POSITION)
            holds = position != "absolute" or own not in ("static", "")
            # what body and html cut off is the window's business
            if holds and self.tag(at) not in ("body", "html"):
                cuts = [self.style(at, which) not in ("visible", "") for which in _OVERFLOWS]
                around = self.rect(at) if any(cuts) else None
                if around is not None:
                    rect = common(rect, around)
            if holds and own:
                position = own
            at = self.document.nodes.parentIndex[at]
        return rect if rect[0] < rect[2] and rect[1] < rect[3] else None


@dataclass(slots=True)
class Places:
    """The documents of a page's targets, placed; `find` by node, and the frames whose documents are not known."""

    documents: list[PlacedDocument]
    insets: dict[Node, tuple[float, float, float]]
    unknown: list[Rect]
    _found: dict[Node, tuple[PlacedDocument, int]]

    @classmethod
    def of(
        cls,
        snapshots: Sequence[Payload],
        owners: Mapping[int, Node],
        ratio: float = 1.0,
        insets: Mapping[Node, tuple[float, float, float]] | None = None,
    ) -> Places:
        """Places from snapshots of the targets; raises PayloadError for one that makes no sense.

        owners  by target the element that shows it
        ratio   pixels of the snapshots to a CSS pixel
        insets  what frames' borders and paddings take, where the snapshots have not been asked for PLACE_STYLES
        """
        made = cls([], dict(insets or {}), [], {})
        decoded = {payload.target: decode(_DECODER, payload)[0] for payload in snapshots}
        shown = {owners[target]: target for target in decoded if target in owners}
        waiting = [(0, 0, Place(0.0, 0.0, EVERYWHERE))] if 0 in decoded else []
        while waiting:
            target, number, place = waiting.pop()
            snapshot = decoded[target]
            one = PlacedDocument(target, snapshot.documents[number], snapshot.strings, place, insets is None, ratio)
            made.documents.append(one)
            ids = one.document.nodes.backendNodeId
            made._found.update({(target, backend): (one, node) for node, backend in enumerate(ids)})
            content = one.document.nodes.contentDocumentIndex
            below = {node: (target, document) for node, document in zip(content.index, content.value, strict=True)} | {
                node: (shown[key], 0) for node, backend in enumerate(ids) if (key := (target, backend)) in shown
            }
            for node, (of, document) in below.items():
                rect = one.rect(node)
                if rect is not None:
                    waiting.append((of, document, made._place(one, node, rect, decoded[of].documents[document])))
            made.unknown += [
                common(rect, place.window)
                for node in one.elements(FRAME_TAGS)
                if node not in below and (rect := one.rect(node)) is not None
            ]
        return made

    def find(self, node: Node) -> tuple[PlacedDocument, int] | None:
        """The document that holds a node, and its number in there."""
        return self._found.get(node)

    def _place(self, above: PlacedDocument, owner: int, rect: Rect, document: Document) -> Place:
        """Where the document lies that an element shows."""
        key = (above.target, above.document.nodes.backendNodeId[owner])
        if above.is_styled:
            left, top, right = (_px(above.style(owner, i)) + _px(above.style(owner, i + 3)) for i in range(3))
            self.insets[key] = (left, top, right)
        left, top, right = self.insets.get(key, (0.0, 0.0, 0.0))
        content = (rect[0] + left, rect[1] + top, rect[2], rect[3])
        window = common(content, above.place.window)
        odd = above.place.odd
        if above.is_styled and document.layout.bounds:
            lacks = rect[2] - rect[0] - left - right - document.layout.bounds[0][2] / above.ratio
            odd |= not -1.0 <= lacks <= _SCROLLBAR_PX
        scrolled = document.scrollOffsetX / above.ratio, document.scrollOffsetY / above.ratio
        return Place(content[0] - scrolled[0], content[1] - scrolled[1], window, odd)


def common(one: Rect, other: Rect) -> Rect:
    """What two rectangles have in common; without an area where they have nothing."""
    return max(one[0], other[0]), max(one[1], other[1]), min(one[2], other[2]), min(one[3], other[3])


def around(one: Rect, other: Rect) -> Rect:
    """The smallest rectangle that holds two."""
    return min(one[0], other[0]), min(one[1], other[1]), max(one[2], other[2]), max(one[3], other[3])


def _px(text: str) -> float:
    try:
        return float(text.removesuffix("px"))
    except ValueError:
        return 0.0
