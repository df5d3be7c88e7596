"""The accessibility nodes of a frame come from the page tree, which has decoded them already.

A payload in which something makes no sense is decoded here on its own, with care.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
import numpy as np
from msgspec import Raw, Struct
from numpy.typing import NDArray

from schemas.capture import Payload
from workers.merge.columns import int64_column
from workers.merge.payloads import NO_ID, AxNode, AxProperty, AxText, AxValue, Whole, decode
from workers.merge.tree import PageTree

EMPTY = len(b"[]")
"""Bytes of an empty list; what is not longer is one, or is not there."""
SHOWN_PROPERTIES = frozenset({"url", "selected", "checked"})

Properties: TypeAlias = list[tuple[str, object]]


@dataclass(frozen=True, slots=True)
class FrameNodes:
    """The accessibility nodes of one frame.

    keys     their backend node ids, NO_ID without
    shown    those properties that tell one of SHOWN_PROPERTIES, by the identity of what they are decoded from
    """

    nodes: list[AxNode]
    keys: NDArray[np.int64]
    shown: dict[int, Properties]

    def only(self, nodes: list[AxNode]) -> FrameNodes:
        """Some of the nodes, or copies of them."""
        return FrameNodes(nodes, _keys(nodes), self.shown)


class _AnyAxNode(Struct, gc=False):
    """An `AXNode` whose values are anything at all."""

    nodeId: str = ""
    parentId: str = ""
    backendDOMNodeId: Whole | None = None
    role: AxValue | None = None
    name: AxValue | None = None
    properties: list[AxProperty] = []
    childIds: Raw = Raw()


class _AnyAxNodes(Struct, gc=False):
    nodes: list[_AnyAxNode]


_ANY_DECODER = msgspec.json.Decoder(_AnyAxNodes)
_CHILD_IDS = msgspec.json.Decoder(list[str])


def nodes_of(payload: Payload | None, tree: PageTree) -> FrameNodes:
    """The nodes of a frame of this page, none without a payload; PayloadError if one does not fit."""
    if payload is None:
        return FrameNodes([], _keys([]), {})
    found = tree.ax_trees.of(payload)
    shown = _shown(found.nodes, tree) if found is not None else None
    if found is not None and shown is not None:
        return FrameNodes(found.nodes, found.backend_node_id, shown)
    # something that Chromium never says, such as a name that is no text
    nodes = list(map(_as_text, decode(_ANY_DECODER, payload)[0].nodes))
    return FrameNodes(nodes, _keys(nodes), _shown(nodes, tree) or {})


def _keys(nodes: Iterable[AxNode]) -> NDArray[np.int64]:
    return int64_column([ax.backendDOMNodeId for ax in nodes])


def _shown(nodes: Iterable[AxNode], tree: PageTree) -> dict[int, Properties] | None:
    """None if properties are malformed."""
    raws = [ax.properties for ax in nodes if len(ax.properties) > EMPTY]
    lists = tree.properties_of(raws)
    if lists is None:
        return None
    # what is the same text is one list
    each = {id(told): told for told in lists}
    shown = {key for key, told in each.items() if any(name in SHOWN_PROPERTIES for name, _ in told)}
    return {id(raw): told for raw, told in zip(raws, lists, strict=True) if id(told) in shown}


def below(nodes: Sequence[AxNode], backend_node_id: int) -> list[AxNode] | None:
    """The node of an element and all below it by their child ids, in list order; None if it has none."""
    top = next((ax for ax in nodes if ax.backendDOMNodeId == backend_node_id), None)
    if top is None:
        return None
    by_id = {ax.nodeId: ax for ax in nodes}
    kept = {top.nodeId}
    waiting = [top]
    while waiting:
        for child in child_ids(waiting.pop()):
            if child not in kept and child in by_id:
                kept.add(child)
                waiting.append(by_id[child])
    return [as_root(ax) if ax is top else ax for ax in nodes if ax.nodeId in kept]


def as_root(ax: AxNode) -> AxNode:
    """The node without a parent; the page tree keeps it as it is."""
    return msgspec.structs.replace(ax, parentId="")


def child_ids(ax: AxNode) -> list[str]:
    """The ids of the children; where they are no texts, as many empty ones, since mostly only their number counts."""
    try:
        return _CHILD_IDS.decode(ax.childIds) if len(ax.childIds) else []
    except (msgspec.DecodeError, UnicodeDecodeError):
        return [""] if len(ax.childIds) > EMPTY else []


def has_children(ax: AxNode) -> bool:
    """Whether it names children, which most often is plain without decoding."""
    return len(ax.childIds) > EMPTY and (bytes(ax.childIds).startswith(b'["') or bool(child_ids(ax)))


def _as_text(ax: _AnyAxNode) -> AxNode:
    """The node with JavaScript's `String(value || "")` of its role, and its name if that is a text."""
    role, name = (None if held is None else held.value for held in (ax.role, ax.name))
    return AxNode(
        nodeId=ax.nodeId,
        role=AxText(_text_of(role)),
        name=AxText(name if isinstance(name, str) else ""),
        properties=Raw(msgspec.json.encode(ax.properties)),
        parentId=ax.parentId,
        childIds=ax.childIds,
        backendDOMNodeId=NO_ID if ax.backendDOMNodeId is None else ax.backendDOMNodeId,
    )


def _text_of(value: object) -> str:
    """JavaScript's `String(value || "")` of what may stand for a role."""
    if isinstance(value, bool):
        return "true" if value else ""
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}" if value else ""
    if isinstance(value, int | float):
        return str(value) if value else ""
    return value if isinstance(value, str) else ""
