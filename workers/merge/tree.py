"""A page tree is the merge of document, layout snapshot and accessibility of all frames, as columns.

Row i of every column is node i; nodes stand in pre-order, so that the subtree of i is the slice i .. subtree_end[i].
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from workers.merge.accessibility import AxTrees
from workers.merge.errors import PayloadError
from workers.merge.payloads import (
    AX_PROPERTIES_DECODER,
    AX_PROPERTY_LISTS_DECODER,
    AX_VALUE_DECODER,
    STRING_LISTS_DECODER,
    STRINGS_DECODER,
    AxProperty,
    AxText,
    LayoutMetrics,
)
from workers.merge.rows import Rectangles

ELEMENT: Final = 1
TEXT: Final = 3
DOCUMENT: Final = 9
FRAGMENT: Final = 11
"""Node kinds (DOM Standard, 4.4 Interface Node)."""

LINK_ROOT: Final = 0
LINK_CHILD: Final = 1
LINK_SHADOW: Final = 2
LINK_CONTENT: Final = 3
"""How a node hangs under its parent: not at all, as a child, as a shadow root, as a content document."""

SHADOW_KINDS: Final = ("", "user-agent", "open", "closed", "unknown")

_FIELD_TAGS = frozenset({"input", "textarea"})
_NO_PROPERTIES: list[tuple[str, object]] = []
_EMPTY = len(b"[]")
"""Bytes of an empty list; what is not longer is one, or is not there."""

I8 = NDArray[np.int8]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Target:
    """One CDP target; `root` is the node of its document, -1 if no iframe of the page shows it."""

    target_id: str
    session_id: str
    device_pixel_ratio: float
    root: int


@dataclass(frozen=True, slots=True, eq=False)
class Plain:
    """The columns that loops read node by node, without NumPy's cost per value; they share memory with the arrays."""

    kind: bytes
    link: bytes
    parent: array[int]
    subtree_end: array[int]
    tag: list[str]
    has_record: bytes
    layout: array[int]
    style: array[int]
    ax: array[int]


@dataclass(frozen=True, slots=True, eq=False)
class PageTree:
    """Columns by node. Rectangles are (x, y, width, height) in CSS pixels, NaN where there is none.

    kind, link, parent, subtree_end, name (into `names`), backend_node_id, target, shadow_kind (into SHADOW_KINDS)
                    come from the document; scrollable is CDP's isScrollable; values holds the text of text nodes
    has_record      the snapshot knows the node; `document` is the ordinal of its snapshot document
    layout          row in `scroll` and `client`, -1 without layout
    bounds          in the coordinates of the owning document; `scroll` and `client` as CDP gives them
    paint_order     -1 without layout
    style           row in `style_rows` (texts in the order of schemas.capture.COMPUTED_STYLES), -1 if unknown
    is_clickable, input_checked   1, 0, or -1 if unknown
    may_exclude     some attribute may be one that keeps elements out of the listing (browser-use 0.13.14)
    ax              row in `ax_trees.nodes`, -1 without an accessibility node
    has_listener    a click, mousedown, mouseup, pointerdown or pointerup listener sits on the element
    frame_ids, input_values   sparse, by node
    Attributes, accessibility nodes, scroll and client rectangles are decoded on demand: most nodes never print. The
    tree therefore holds views into the payload buffers.
    """

    url: str
    title: str
    targets: tuple[Target, ...]
    kind: I8
    link: I8
    parent: I32
    subtree_end: I32
    name: I32
    names: tuple[str, ...]
    backend_node_id: I64
    target: I32
    shadow_kind: I8
    scrollable: Flags
    values: list[str]
    attributes_raw: list[Raw]
    frame_ids: dict[int, str]
    may_exclude: bool
    has_record: Flags
    document: I32
    layout: I32
    bounds: F64
    client: Rectangles
    scroll: Rectangles
    paint_order: I64
    style: I32
    style_rows: tuple[tuple[str | None, ...], ...]
    is_clickable: I8
    input_checked: I8
    input_values: dict[int, str]
    ax: I32
    ax_trees: AxTrees
    has_listener: Flags
    metrics: LayoutMetrics | None
    surrogates_replaced: int
    plain: Plain
    _attributes: dict[int, dict[str, str]] = field(default_factory=dict, repr=False)
    _roles: dict[bytes, str | None] = field(default_factory=dict, repr=False)
    _properties: dict[bytes, list[tuple[str, object]]] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.kind)

    def node_name(self, node: int) -> str:
        """The name as CDP gives it: upper case for HTML."""
        return self.names[int(self.name[node])]

    def tag(self, node: int) -> str:
        """The name in lower case."""
        return self.plain.tag[node]

    @property
    def scroll_rect(self) -> F64:
        """The scroll rectangles of all nodes, NaN where there is none."""
        return self.scroll.column(self.layout)

    @property
    def client_rect(self) -> F64:
        """The client rectangles of all nodes, NaN where there is none."""
        return self.client.column(self.layout)

    def attributes(self, node: int) -> dict[str, str]:
        """The attributes in document order, with the live value and checked state of a field.

        A live value keeps the position of a `value` attribute or is appended; checked=False removes the attribute
        (browser-use 0.13.14, dom/service.py).
        """
        known = self._attributes.get(node)
        return self._with_live_value(node, dict(attribute_pairs(self.attributes_raw[node]))) if known is None else known

    def expect(self, nodes: list[int]) -> None:
        """Decode the attributes of all these elements at once, because a call for each costs more than its decoding.

        If one of them is malformed none is decoded here; asking for that one's attributes then says so.
        """
        nodes = [node for node in nodes if node not in self._attributes]
        raws = [self.attributes_raw[node] for node in nodes]
        try:
            lists = STRING_LISTS_DECODER.decode(b"[" + b",".join([raw if len(raw) else b"[]" for raw in raws]) + b"]")
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        known, tags = self._attributes, self.plain.tag
        for node, flat in zip(nodes, lists, strict=True):
            values = iter(flat)
            known[node] = attributes = dict(zip(values, values))  # noqa: B905  # an odd one at the end is no pair
            if tags[node] in _FIELD_TAGS:
                self._with_live_value(node, attributes)

    def _with_live_value(self, node: int, attributes: dict[str, str]) -> dict[str, str]:
        self._attributes[node] = attributes
        if self.plain.tag[node] in _FIELD_TAGS and self.plain.has_record[node]:
            value = self.input_values.get(node)
            if value is not None:
                attributes["value"] = value
            checked = self.input_checked[node]
            if checked == 1:
                attributes["checked"] = "true"
            elif checked == 0:
                attributes.pop("checked", None)
        return attributes

    def ax_role(self, node: int) -> str | None:
        """The role's value as Chromium gives it."""
        row = self.plain.ax[node]
        if row < 0:
            return None
        held = self.ax_trees.nodes[row].role
        if not isinstance(held, Raw):
            return held.value if held is not None else None
        raw = bytes(held)  # the same few texts over and over
        try:
            return self._roles[raw]
        except KeyError:
            known = self._roles[raw] = self._ax_text(row, "role", held)
            return known

    def ax_name(self, node: int) -> str | None:
        """The computed name."""
        row = self.plain.ax[node]
        return self._ax_text(row, "name", self.ax_trees.nodes[row].name) if row >= 0 else None

    def ax_properties(self, node: int) -> list[tuple[str, object]]:
        """Name and value of each property, in order; None where a property has no value.

        Nodes whose properties are the same text have one and the same list: most of a page's do.
        """
        row = self.plain.ax[node]
        if row < 0:
            return _NO_PROPERTIES
        raw = bytes(self.ax_trees.nodes[row].properties)
        known = self._properties.get(raw)
        if known is None:
            found = self._decoded(AX_PROPERTIES_DECODER, row, "properties", raw) if len(raw) > _EMPTY else []
            known = self._properties[raw] = _pairs(found)
        return known

    def properties_of(self, raws: Sequence[Raw]) -> list[list[tuple[str, object]]] | None:
        """What `ax_properties` tells, of properties of this page; None if some are malformed."""
        known = self._properties
        texts = list(map(bytes, raws))
        new = [text for text in dict.fromkeys(texts) if text not in known]
        try:
            lists = AX_PROPERTY_LISTS_DECODER.decode(b"[" + b",".join(new) + b"]")
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        known.update(zip(new, map(_pairs, lists), strict=True))
        return list(map(known.__getitem__, texts))

    def has_ax_children(self, node: int) -> bool:
        """True if the accessibility node is there and names children."""
        row = self.plain.ax[node]
        raw = self.ax_trees.nodes[row].childIds if row >= 0 else Raw()
        return len(raw) > _EMPTY and bool(self._decoded(STRINGS_DECODER, row, "childIds", raw))

    def _ax_text(self, row: int, name: str, held: AxText | Raw | None) -> str | None:
        if not isinstance(held, Raw):
            return held.value if held is not None else None
        if not len(held):
            return None
        value = self._decoded(AX_VALUE_DECODER, row, name, held)
        return value.value if value is not None and isinstance(value.value, str) else None

    @staticmethod
    def _decoded(decoder: msgspec.json.Decoder[Any], row: int, name: str, raw: Raw | bytes) -> Any:
        try:
            return decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PayloadError("ax_tree", f"nodes[{row}].{name}", str(error)) from error

    def children(self, node: int) -> list[int]:
        """Every node that hangs directly under it, whatever the link, in pre-order."""
        ends = self.plain.subtree_end
        out = []
        child, end = node + 1, ends[node]
        while child < end:
            out.append(child)
            child = ends[child]
        return out


def _pairs(found: Iterable[AxProperty]) -> list[tuple[str, object]]:
    return [(p.name, held.value if (held := p.value) is not None else None) for p in found]


def attribute_pairs(raw: Raw) -> Iterable[tuple[str, str]]:
    """The (name, value) pairs of CDP's flat attribute list."""
    if len(raw) <= _EMPTY:
        return ()
    try:
        flat = STRINGS_DECODER.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PayloadError("dom_document", "attributes", str(error)) from error
    values = iter(flat)
    return zip(values, values, strict=False)
