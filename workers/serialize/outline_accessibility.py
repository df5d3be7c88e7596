"""The accessibility nodes of one frame are pruned and collapsed into the rows of its outline (Stagehand 3.7.3).

The tree comes as a flat list that names parents; whatever it says, every node hangs in one place at most, so that no
list makes the walk endless. What can be is done to columns; node by node go those alone that have children.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from workers.merge.payloads import NO_ID, AxNode
from workers.serialize.js_whitespace import JS_WHITESPACE, collapse, trim
from workers.serialize.outline_decoding import EMPTY, FrameNodes, Properties, has_children
from workers.serialize.outline_nodes import OutlineNodes

STRUCTURAL = frozenset({"generic", "none", "inlinetextbox"})
SELECTED, CHECKED = 1, 2
_ROOT, _LOST = -1, -2
"""Where a parent's row would stand: the node has no parent, or one that is not there."""

I64 = NDArray[np.int64]


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


def frame_rows(
    ax: FrameNodes, nodes: OutlineNodes, document: int, excluded: NDArray[np.bool_] | None = None
) -> FrameRows:
    """The rows of a frame; `excluded` marks the nodes of the tree that it is to be without."""
    return _Frame(ax, nodes, document, excluded).rows()


class _Frame:
    """The columns of a frame's accessibility nodes on their way to rows."""

    def __init__(
        self,
        ax: FrameNodes,
        nodes: OutlineNodes,
        document: int,
        excluded: NDArray[np.bool_] | None,
    ) -> None:
        # those with a negative id never print: they only count as children, and make up half of a text page
        ids, keys = [one.nodeId for one in ax.nodes], ax.keys
        signed = [i for i, node_id in enumerate(ids) if node_id[:1] == "-"]
        hidden = [i for i in signed if len(ax.nodes[i].properties) <= EMPTY]
        if not _all_negative([ids[i] for i in hidden]):
            hidden = [i for i in hidden if _is_negative(ids[i])]
        self.has_negative = len(hidden) != len(signed)
        left = np.ones(len(ids), np.bool_)
        left[hidden] = False
        found = nodes.find(np.where(keys == NO_ID, -1, keys), document)
        if excluded is not None:
            left &= (found < 0) | ~excluded[found]
        rows = np.nonzero(left)[0]
        self.ax_nodes, self.ids = ax.nodes, ids
        if len(rows) < len(ids):
            kept = rows.tolist()
            self.ax_nodes, self.ids = [ax.nodes[i] for i in kept], [ids[i] for i in kept]
        self.nodes = nodes
        self.keys: I64 = keys[rows]
        self.places: I64 = found[rows]
        self.shown = ax.shown
        self.flags: dict[int, int] = {}
        self.out = FrameRows()
        self._decorate()
        self.children: list[list[int] | None] = [None] * len(rows)
        self.roots: list[int] = []
        self._link()
        if "combobox" in self.roles:
            self._count([ax.nodes[i] for i in hidden])

    def _decorate(self) -> None:
        ax_nodes, nodes = self.ax_nodes, self.nodes
        roles = self.roles = ["" if (held := ax.role) is None else held.value or "" for ax in ax_nodes]
        names = self.names = ["" if (held := ax.name) is None else held.value or "" for ax in ax_nodes]
        self._properties()
        for i, place in self._where(nodes.special):
            roles[i] = self._special_role(place, roles[i])
        for i, place in self._where(nodes.inputs):
            raw = bytes(nodes.tree.attributes_raw[place])
            if b'"file"' in raw or b"\\" in raw:  # the others need no decoding
                roles[i] = self._special_role(place, roles[i])
        known = {role: role.lower() in STRUCTURAL for role in set(roles)}
        structural = self.structural = list(map(known.__getitem__, roles))
        # a node is left out here if nothing will ever print for it
        kept = [
            i
            for i, bare in enumerate(structural)
            if not bare or has_children(ax_nodes[i]) or (names[i] and trim(names[i]))
        ]
        ids = self.ids if len(kept) == len(ax_nodes) else [self.ids[i] for i in kept]
        self.row_of = dict(zip(ids, kept, strict=True))
        self.kept = kept if len(self.row_of) == len(kept) else sorted(self.row_of.values())

    def _where(self, mask: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
        """The rows whose node is marked, and the node."""
        rows = np.nonzero((self.places >= 0) & mask[self.places])[0]
        return zip(rows.tolist(), self.places[rows].tolist(), strict=True)

    def _special_role(self, place: int, role: str) -> str:
        nodes = self.nodes
        tag = nodes.tag(place)
        if (tag == "html" or nodes.tree.scrollable[place]) and tag != "#document":
            role = ", ".join(part for part in ("scrollable", tag.removeprefix("#") or role) if part)
        return tag if tag == "input, file" else role

    def _properties(self) -> None:
        shown = self.shown
        for i, properties in [(i, ax.properties) for i, ax in enumerate(self.ax_nodes) if id(ax.properties) in shown]:
            self._show(i, shown[id(properties)])

    def _show(self, i: int, properties: Properties) -> None:
        url_seen = False
        for name, value in properties:
            if name == "url":
                key = self.ax_nodes[i].backendDOMNodeId
                if not url_seen and key != NO_ID and isinstance(value, str) and (url := trim(value)):
                    self.out.urls.append((key, url))
                url_seen = True
            elif name in ("selected", "checked") and _is_true(value):
                self.flags[i] = self.flags.get(i, 0) | (SELECTED if name == "selected" else CHECKED)

    def _link(self) -> None:
        rows, row_of = self.kept, self.row_of
        if not rows:
            return
        ax_nodes, children = self.ax_nodes, self.children
        nameless = row_of.pop("", None)
        row_of[""] = _ROOT
        parents = np.frombuffer(
            array("q", map(row_of.get, [ax_nodes[i].parentId for i in rows], repeat(_LOST))), np.int64
        )
        del row_of[""]
        if nameless is not None:
            row_of[""] = nameless
        order = parents.argsort(kind="stable")
        ordered = parents[order]
        linked: list[int] = np.array(rows, np.int64)[order].tolist()
        starts = np.nonzero(np.append(True, ordered[1:] != ordered[:-1]))[0]
        ends = [*starts[1:].tolist(), len(linked)]
        for parent, start, end in zip(ordered[starts].tolist(), starts.tolist(), ends, strict=True):
            if parent >= 0:
                children[parent] = linked[start:end]
            elif parent == _ROOT:
                self.roots = linked[start:end]

    def _count(self, hidden: Sequence[AxNode]) -> None:
        """A list box that has nothing but hidden nodes in it has children all the same."""
        children, roles = self.children, self.roles
        for ax in hidden:
            parent = self.row_of.get(ax.parentId, _LOST)
            if parent >= 0 and children[parent] is None and roles[parent] == "combobox" and _counts(ax):
                children[parent] = []

    def rows(self) -> FrameRows:
        """Prune from the leaves up, then print from the roots down."""
        order = list(self.roots)
        children = self.children
        for i in order:  # it grows while it is walked: every node comes after its parent
            found = children[i]
            if found is not None:
                order += found
        stands_for = [-1 if bare else i for i, bare in enumerate(self.structural)]
        self._prune(order, stands_for)
        self._print([k for root in self.roots if (k := stands_for[root]) >= 0])
        return self.out

    def _prune(self, order: list[int], stands_for: list[int]) -> None:
        """What each node ends as: itself, its only child, or nothing (-1); a node without children is there already."""
        children, structural, names, roles = self.children, self.structural, self.names, self.roles
        places: list[int] = self.places.tolist()
        nodes, has_negative = self.nodes, self.has_negative
        for i in reversed(order):
            linked = children[i]
            if has_negative and _is_negative(self.ids[i]):
                stands_for[i] = -1
                continue
            if linked is None:
                continue
            if len(linked) == 1:
                only = stands_for[linked[0]]
                if structural[i] and not names[i]:
                    stands_for[i] = only
                    continue
                left = [only] if only >= 0 else []
            else:
                left = [k for child in linked if (k := stands_for[child]) >= 0]
            name = names[i]
            if name and left:
                if len(left) > 1 or names[left[0]] != name:
                    left = self._without_repeated_text(name, left)
                elif roles[left[0]] == "StaticText":  # as of most links, buttons and paragraphs
                    left = []
            if structural[i] and len(left) < 2:
                if left:
                    stands_for[i] = left[0]
                continue
            children[i] = left
            stands_for[i] = i
            role = roles[i]
            if role == "generic" or role == "none":
                if places[i] >= 0:
                    roles[i] = nodes.tag(places[i])
            elif role == "combobox" and places[i] >= 0 and nodes.tag(places[i]) == "select":
                roles[i] = "select"

    def _without_repeated_text(self, name: str, children: list[int]) -> list[int]:
        """The children without their texts, if those say just what the name says."""
        roles, names = self.roles, self.names
        texts = [names[k] for k in children if roles[k] == "StaticText"]
        if not texts:
            return children
        if texts != [name] and "".join([trim(collapse(text)) for text in texts]) != trim(collapse(name)):
            return children
        return [k for k in children if roles[k] != "StaticText"]

    def _print(self, roots: list[int]) -> None:
        children, out = self.children, self.out
        order: list[int] = []
        row, depth = iter(roots), 0
        above = []
        while True:
            for i in row:
                order.append(i)
                out.depth.append(depth)
                found = children[i]
                if found:
                    above.append(row)
                    row, depth = iter(found), depth + 1
                    break
            else:
                if not above:
                    break
                row, depth = above.pop(), depth - 1
        if not order:
            return
        pick = itemgetter(*order) if len(order) > 1 else lambda held: (held[order[0]],)
        keys = self.keys[order]
        out.ax_id = list(pick(self.ids))
        out.backend_node_id = keys.tolist()
        for at in np.nonzero(keys == NO_ID)[0].tolist():
            out.backend_node_id[at] = None
        places = self.places[order]
        out.node = places.tolist()
        out.control_part = (self.nodes.control_parts[places] & (places >= 0)).tolist()
        out.role = list(pick(self.roles))
        out.name = [
            (name.strip(JS_WHITESPACE) if name.isascii() else clean(name)) if name else None
            for name in pick(self.names)
        ]
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
    if has_children(ax) or (ax.name is not None and trim(ax.name.value or "")):
        return True
    return ax.role is not None and (ax.role.value or "").lower() not in STRUCTURAL


def _is_true(value: object) -> bool:
    if isinstance(value, str):
        return value.lower() == "true"
    return isinstance(value, bool | int | float) and value == 1


def _all_negative(signed: list[str]) -> bool:
    """Whether all these ids, which begin with a minus, are plainly negative numbers; in doubt False."""
    text = "".join(signed)
    digits = text.replace("-", "")
    if len(text) - len(digits) != len(signed) or "--" in text or "-0" in text or text.endswith("-"):
        return False
    return not signed or (digits.isascii() and digits.isdecimal())


def _is_negative(node_id: str) -> bool:
    try:
        return float(node_id) < 0
    except ValueError:
        return False
