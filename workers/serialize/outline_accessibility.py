"""The accessibility nodes of one frame are pruned and collapsed into the rows of its outline (Stagehand 3.7.3).

The tree comes as a flat list that names parents; whatever it says, every node hangs in one place at most, so that no
list makes the walk endless.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import msgspec
import numpy as np
from msgspec import Raw, Struct
from numpy.typing import NDArray

from schemas.capture import Payload
from workers.merge.errors import PayloadError
from workers.merge.payloads import AxProperty, AxValue, Whole, decode
from workers.serialize.js_whitespace import JS_WHITESPACE, collapse, trim
from workers.serialize.outline_nodes import OutlineNodes

STRUCTURAL = frozenset({"generic", "none", "inlinetextbox"})
SELECTED, CHECKED = 1, 2


class AxText(Struct, gc=False):
    """CDP `AXValue` that is a text."""

    value: str = ""


class AxNode(Struct, gc=False):
    """What an outline needs of a CDP `AXNode`."""

    nodeId: str = ""
    parentId: str = ""
    backendDOMNodeId: Whole | None = None
    role: AxText | None = None
    name: AxText | None = None
    properties: list[AxProperty] = []
    childIds: list[str] = []


class _AxNodes(Struct, gc=False):
    nodes: list[AxNode]


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


_DECODER = msgspec.json.Decoder(_AxNodes)
_ANY_DECODER = msgspec.json.Decoder(_AnyAxNodes)
_CHILD_IDS = msgspec.json.Decoder(list[str])


@dataclass(slots=True)
class FrameRows:
    """The rows of one frame in print order, as columns.

    ax_id, backend_node_id   of the accessibility node; None without an element
    node                     in the frame's tree, -1 if the document does not know it
    name                     as printed, None without one
    flags                    SELECTED, CHECKED
    control_part             it belongs to a control that the browser draws
    urls                     (backend node id, URL) of all nodes, the pruned ones included
    """

    ax_id: list[str] = field(default_factory=list)
    backend_node_id: list[int | None] = field(default_factory=list)
    node: list[int] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    role: list[str] = field(default_factory=list)
    name: list[str | None] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    control_part: list[bool] = field(default_factory=list)
    urls: list[tuple[int, str]] = field(default_factory=list)


def decode_nodes(payloads: Iterable[Payload]) -> list[AxNode]:
    """The nodes of a frame; PayloadError if one does not fit."""
    nodes: list[AxNode] = []
    for payload in payloads:
        try:
            nodes += decode(_DECODER, payload)[0].nodes
        except PayloadError:
            # a value that is no text, which Chromium never says: read with care, and twice as slow
            nodes += map(_as_text, decode(_ANY_DECODER, payload)[0].nodes)
    return nodes


def _as_text(ax: _AnyAxNode) -> AxNode:
    """The node with JavaScript's `String(value || "")` of its role, and its name if that is a text."""
    role, name = (None if held is None else held.value for held in (ax.role, ax.name))
    return AxNode(
        ax.nodeId,
        ax.parentId,
        ax.backendDOMNodeId,
        AxText(_text_of(role)),
        AxText(name if isinstance(name, str) else ""),
        ax.properties,
        _child_ids(ax),
    )


def below(nodes: Sequence[AxNode], backend_node_id: int) -> list[AxNode] | None:
    """The node of an element and all below it by their child ids, in list order; None if it has none."""
    top = next((ax for ax in nodes if ax.backendDOMNodeId == backend_node_id), None)
    if top is None:
        return None
    by_id = {ax.nodeId: ax for ax in nodes}
    kept = {top.nodeId}
    waiting = [top]
    while waiting:
        for child in waiting.pop().childIds:
            if child not in kept and child in by_id:
                kept.add(child)
                waiting.append(by_id[child])
    top.parentId = ""
    return [ax for ax in nodes if ax.nodeId in kept]


def _child_ids(ax: _AnyAxNode) -> list[str]:
    """The ids of the children; where they are no texts, as many empty ones, since mostly only their number counts."""
    try:
        return _CHILD_IDS.decode(ax.childIds) if len(memoryview(ax.childIds)) else []
    except (msgspec.DecodeError, UnicodeDecodeError):
        return [""] if len(memoryview(ax.childIds)) > 2 else []


def frame_rows(
    ax_nodes: Sequence[AxNode], nodes: OutlineNodes, document: int, excluded: NDArray[np.bool_] | None = None
) -> FrameRows:
    """The rows of a frame; `excluded` marks the nodes of the tree that it is to be without."""
    return _Frame(ax_nodes, nodes, document, excluded).rows()


class _Frame:
    """The columns of a frame's accessibility nodes on their way to rows."""

    def __init__(
        self,
        ax_nodes: Sequence[AxNode],
        nodes: OutlineNodes,
        document: int,
        excluded: NDArray[np.bool_] | None,
    ) -> None:
        # those with a negative id never print: they only count as children, and make up half of a text page
        signed = [ax for ax in ax_nodes if ax.nodeId[:1] == "-"]
        hidden = [ax for ax in signed if not ax.properties and _is_negative(ax.nodeId)]
        if len(hidden) == len(signed):
            ax_nodes = [ax for ax in ax_nodes if ax.nodeId[:1] != "-"] if hidden else ax_nodes
        else:
            gone = set(map(id, hidden))
            ax_nodes = [ax for ax in ax_nodes if id(ax) not in gone]
        self.has_negative = len(hidden) != len(signed)
        ids = np.array([-1 if (i := ax.backendDOMNodeId) is None else i for ax in ax_nodes], np.int64)
        found = nodes.find(ids, document)
        if excluded is not None:
            kept = np.nonzero((found < 0) | ~excluded[found])[0]
            ax_nodes = [ax_nodes[i] for i in kept.tolist()]
            found = found[kept]
        self.ax_nodes = ax_nodes
        self.nodes = nodes
        self.places: list[int] = found.tolist()
        self.flags: dict[int, int] = {}
        self.out = FrameRows()
        self._decorate()
        self.children: list[list[int] | None] = [None] * len(ax_nodes)
        for ax in hidden:
            parent = self.kept.get(ax.parentId)
            if parent is not None and self.children[parent] is None and _counts(ax):
                self.children[parent] = []
        self.roots: list[int] = []
        self._link()

    def _decorate(self) -> None:
        ax_nodes, places = self.ax_nodes, self.places
        roles = self.roles = ["" if (held := ax.role) is None else held.value for ax in ax_nodes]
        names = self.names = ["" if (held := ax.name) is None else held.value for ax in ax_nodes]
        for i, ax in enumerate(ax_nodes):
            if ax.properties:
                self._properties(i, ax)
        special = self.nodes.special
        if special:
            for i, place in enumerate(places):
                if place in special:
                    roles[i] = self._special_role(place, roles[i])
        known = {role: role.lower() in STRUCTURAL for role in set(roles)}
        structural = self.structural = [known[role] for role in roles]
        # a node is left out here if nothing will ever print for it
        self.kept = {
            ax.nodeId: i
            for i, (ax, bare, name) in enumerate(zip(ax_nodes, structural, names, strict=True))
            if not bare or ax.childIds or (name and trim(name))
        }

    def _special_role(self, place: int, role: str) -> str:
        nodes = self.nodes
        tag = nodes.tag(place)
        if (nodes.tree.scrollable[place] or tag == "html") and tag != "#document":
            role = ", ".join(part for part in ("scrollable", tag.removeprefix("#") or role) if part)
        return tag if tag == "input, file" else role

    def _properties(self, i: int, ax: AxNode) -> None:
        url_seen = False
        for held in ax.properties:
            name = held.name
            if name == "url":
                value = held.value.value if held.value is not None else None
                if not url_seen and ax.backendDOMNodeId is not None and isinstance(value, str) and trim(value):
                    self.out.urls.append((ax.backendDOMNodeId, trim(value)))
                url_seen = True
            elif name in ("selected", "checked") and held.value is not None and _is_true(held.value.value):
                self.flags[i] = self.flags.get(i, 0) | (SELECTED if name == "selected" else CHECKED)

    def _link(self) -> None:
        kept, children, roots = self.kept, self.children, self.roots
        place_of = kept.get
        parents = [ax.parentId for ax in self.ax_nodes]
        for i in sorted(kept.values()) if len(kept) != len(parents) else range(len(parents)):
            parent_id = parents[i]
            if not parent_id:
                roots.append(i)
                continue
            parent = place_of(parent_id)
            if parent is not None:
                siblings = children[parent]
                if siblings is None:
                    children[parent] = [i]
                else:
                    siblings.append(i)

    def rows(self) -> FrameRows:
        """Prune from the leaves up, then print from the roots down."""
        order = list(self.roots)
        children = self.children
        for i in order:  # it grows while it is walked: every node comes after its parent
            found = children[i]
            if found is not None:
                order += found
        stands_for = [-1] * len(children)
        self._prune(order, stands_for)
        self._print([k for root in self.roots if (k := stands_for[root]) >= 0])
        return self.out

    def _prune(self, order: list[int], stands_for: list[int]) -> None:
        """What each node ends as: itself, its only child, or nothing (-1)."""
        children, structural, names, roles = self.children, self.structural, self.names, self.roles
        places, has_negative = self.places, self.has_negative
        for i in reversed(order):
            if has_negative and _is_negative(self.ax_nodes[i].nodeId):
                continue
            linked = children[i]
            if linked is None:
                if not structural[i]:
                    stands_for[i] = i
                continue
            if len(linked) == 1:
                only = stands_for[linked[0]]
                if structural[i] and not names[i]:
                    stands_for[i] = only
                    continue
                left = [only] if only >= 0 else []
            else:
                left = [k for child in linked if (k := stands_for[child]) >= 0]
            if left and names[i]:
                left = self._without_repeated_text(names[i], left)
            if structural[i] and len(left) < 2:
                if left:
                    stands_for[i] = left[0]
                continue
            children[i] = left
            stands_for[i] = i
            role = roles[i]
            if role == "generic" or role == "none":
                if places[i] >= 0:
                    roles[i] = self.nodes.tag(places[i])
            elif role == "combobox" and places[i] >= 0 and self.nodes.tag(places[i]) == "select":
                roles[i] = "select"

    def _without_repeated_text(self, name: str, children: list[int]) -> list[int]:
        """The children without their texts, if those say just what the name says."""
        roles, names = self.roles, self.names
        if len(children) == 1 and names[children[0]] == name:  # as of most links, buttons and paragraphs
            return [] if roles[children[0]] == "StaticText" else children
        texts = [names[k] for k in children if roles[k] == "StaticText"]
        if not texts:
            return children
        if texts != [name] and "".join([trim(collapse(text)) for text in texts]) != trim(collapse(name)):
            return children
        return [k for k in children if roles[k] != "StaticText"]

    def _print(self, roots: list[int]) -> None:
        children, out = self.children, self.out
        order: list[int] = []
        depths = out.depth
        stack = roots[::-1]
        levels = [0] * len(stack)
        while stack:
            i = stack.pop()
            depth = levels.pop()
            order.append(i)
            depths.append(depth)
            found = children[i]
            if found:
                if len(found) == 1:
                    stack.append(found[0])
                    levels.append(depth + 1)
                else:
                    stack += found[::-1]
                    levels += [depth + 1] * len(found)
        if not order:
            return
        pick = itemgetter(*order) if len(order) > 1 else lambda held: (held[order[0]],)
        printed: tuple[AxNode, ...] = pick(self.ax_nodes)
        out.ax_id = [ax.nodeId for ax in printed]
        out.backend_node_id = [ax.backendDOMNodeId for ax in printed]
        out.node = list(pick(self.places))
        places = np.array(out.node, np.int64)
        out.control_part = (self.nodes.control_parts[places] & (places >= 0)).tolist()
        out.role = list(pick(self.roles))
        out.name = [clean(name) if name else None for name in pick(self.names)]
        flags = self.flags
        out.flags = [flags.get(i, 0) for i in order] if flags else [0] * len(order)


_PRIVATE = re.compile("[\ue000-\uf8ff]+")
_NO_BREAK = re.compile("( ?)[\u00a0\u202f\u2007\ufeff]+")


def clean(name: str) -> str:
    """A name as it is printed: without private-use letters, no-break spaces as spaces; new lines stay."""
    if not name.isascii():
        name = _NO_BREAK.sub(" ", _PRIVATE.sub("", name))
    return name.strip(JS_WHITESPACE)


def _counts(ax: AxNode) -> bool:
    """Whether a node without an element of its own is one of its parent's children."""
    if ax.childIds or (ax.name is not None and trim(ax.name.value)):
        return True
    return ax.role is not None and ax.role.value.lower() not in STRUCTURAL


def _text_of(value: object) -> str:
    """JavaScript's `String(value || "")` of what may stand for a role."""
    if isinstance(value, bool):
        return "true" if value else ""
    if isinstance(value, int | float):
        return f"{value:g}" if value else ""
    return value if isinstance(value, str) else ""


def _is_true(value: object) -> bool:
    if isinstance(value, str):
        return value.lower() == "true"
    return isinstance(value, bool | int | float) and value == 1


def _is_negative(node_id: str) -> bool:
    try:
        return float(node_id) < 0
    except ValueError:
        return False
