"""The payloads of a capture become a page tree: structure from document, layout from snapshot, roles from AX."""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

from schemas.capture import Capture
from workers.merge.accessibility import AxTrees
from workers.merge.columns import int32_column, int64_column
from workers.merge.document import Flat, documents
from workers.merge.layout import Records, device_pixel_ratio, read_metrics, read_records
from workers.merge.payloads import LISTENERS_DECODER, TARGETS_DECODER, Targets, decode
from workers.merge.rows import Rectangles
from workers.merge.search import contains
from workers.merge.tree import (
    DOCUMENT,
    ELEMENT,
    LINK_CHILD,
    LINK_CONTENT,
    LINK_ROOT,
    LINK_SHADOW,
    SHADOW_KINDS,
    PageTree,
    Plain,
    Target,
)

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

MAX_PROBED_ELEMENTS = 10_000
"""A top document with more elements has no listener flags (browser-use 0.13.14, dom/service.py)."""
MAX_LISTENER_ELEMENTS = 100
"""A target with more elements that listen has no listener flags (same place)."""
EXCLUDE_ATTRIBUTE = "data-browser-use-exclude"
"""An element with this attribute, or one that begins like it, may stay out of the listing (same version)."""
LISTENER_TYPES = frozenset({"click", "mousedown", "mouseup", "pointerdown", "pointerup"})


def merge(capture: Capture, *, outlined: bool = False) -> PageTree:
    """The page tree of a capture; PayloadError if a payload that is needed is missing or malformed.

    Needed: a `dom_document` of target 0. A target without a layout snapshot has no records, without accessibility
    payloads no roles, without listeners no listener flags. `outlined` tells that an outline will be made of the tree
    too, so that one decoding of the accessibility payloads is enough for both.
    """
    targets, replaced = _targets(capture)
    flat, count = documents(capture, targets)
    replaced += count
    columns = _Columns(flat)
    nodes = flat.nodes
    values = [n.nodeValue for n in nodes]
    attributes_raw = [n.attributes for n in nodes]
    nodes.clear()  # the decoded document is the largest thing in memory; the other payloads come after it
    layout = _Layout(columns.count)
    ax = np.full(columns.count, -1, np.int32)
    ax_trees = AxTrees(capture, whole=outlined)
    listens = np.zeros(columns.count, np.bool_)
    out = []
    metrics = None
    for ordinal in sorted({p.target for p in capture.payloads}):
        mine = columns.rows_of(ordinal)
        found = read_metrics(next(capture.of("layout_metrics", ordinal), None))
        metrics = found if ordinal == 0 else metrics
        ratio = device_pixel_ratio(found)
        name = targets.targets[ordinal] if ordinal < len(targets.targets) else None
        out.append(
            Target(
                name.target_id if name else "",
                name.session_id if name else "",
                ratio,
                flat.target_roots.get(ordinal, -1),
            )
        )
        ids = columns.backend_node_id[mine]
        snapshot = next(capture.of("layout_snapshot", ordinal), None)
        if snapshot is not None:
            records, count = read_records(snapshot, ratio, layout.scroll, layout.client)
            replaced += count
            layout.add(records, mine, ids)
        before = len(ax_trees.nodes)
        rows = _last_with(ax_trees.add(ordinal), ids)
        ax[mine] = np.where(rows >= 0, rows + before, -1)
        _mark_listeners(capture, ordinal, columns, mine, listens)
    return PageTree(
        url=targets.url,
        title=targets.title,
        targets=tuple(out),
        kind=columns.kind,
        link=columns.link,
        parent=columns.parent,
        subtree_end=columns.subtree_end,
        name=columns.name,
        names=columns.names,
        backend_node_id=columns.backend_node_id,
        target=columns.target,
        shadow_kind=columns.shadow_kind,
        scrollable=columns.scrollable,
        values=values,
        attributes_raw=attributes_raw,
        frame_ids=columns.frame_ids,
        may_exclude=any(
            contains(p.data, EXCLUDE_ATTRIBUTE.encode())
            for p in capture.payloads
            if p.kind in ("dom_document", "dom_subtree")
        ),
        has_record=layout.has_record,
        document=layout.document,
        layout=layout.layout,
        bounds=layout.bounds,
        client=layout.client,
        scroll=layout.scroll,
        paint_order=layout.paint_order,
        style=layout.style,
        style_rows=tuple(layout.style_rows),
        is_clickable=layout.is_clickable,
        input_checked=layout.input_checked,
        input_values=layout.input_values,
        ax=ax,
        ax_trees=ax_trees,
        has_listener=listens,
        metrics=metrics,
        surrogates_replaced=replaced + ax_trees.replaced,
        plain=columns.plain(layout.has_record, layout.layout, layout.style, ax),
    )


def _targets(capture: Capture) -> tuple[Targets, int]:
    payload = next(capture.of("targets"), None)
    return (Targets(), 0) if payload is None else decode(TARGETS_DECODER, payload)


def _last_with(keys: I64, wanted: I64) -> I64:
    """For each wanted id the last row of `keys` that holds it, -1 if none does; 0 is no id."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    order = keys.argsort(kind="stable")
    sorted_keys = keys[order]
    place = sorted_keys.searchsorted(wanted, "right") - 1  # -1 is the last one, which is greater than what is wanted
    found = order[place]
    found[(sorted_keys[place] != wanted) | (wanted == 0)] = -1
    return found


def _mark_listeners(capture: Capture, ordinal: int, columns: _Columns, mine: I64, listens: NDArray[np.bool_]) -> None:
    """Flag the elements of the target's top document that listen, unless one of the two limits is exceeded."""
    payload = next(capture.of("listeners", ordinal), None)
    if payload is None or not payload.data:
        return
    probed = decode(LISTENERS_DECODER, payload)[0]
    if probed.element_count > MAX_PROBED_ELEMENTS:
        return
    ids = dict.fromkeys(x.backendNodeId for x in probed.listeners if x.type in LISTENER_TYPES and x.backendNodeId)
    if not ids:
        return
    rows = _last_with(columns.backend_node_id[mine], np.array(list(ids), np.int64))
    holders = []
    for node in mine[rows[rows >= 0]].tolist():
        if columns.kind[node] == ELEMENT and columns.in_top_document(node):
            holders.append(node)
            if len(holders) > MAX_LISTENER_ELEMENTS:
                return
    listens[holders] = True


class _Columns:
    """The columns that come from the document alone."""

    __slots__ = (
        "_ends",
        "_names",
        "_parents",
        "backend_node_id",
        "count",
        "frame_ids",
        "kind",
        "link",
        "name",
        "names",
        "parent",
        "scrollable",
        "shadow_kind",
        "subtree_end",
        "target",
    )

    def __init__(self, flat: Flat) -> None:
        nodes = flat.nodes
        self.count = count = len(nodes)
        self.kind = np.frombuffer(bytes([n.nodeType for n in nodes]), np.int8)
        self._parents = array("i", flat.parents)
        self._ends = array("i", flat.ends)
        self.parent = np.frombuffer(self._parents, np.int32)
        self.subtree_end = np.frombuffer(self._ends, np.int32)
        names = [n.nodeName for n in nodes]
        table = {name: number for number, name in enumerate(dict.fromkeys(names))}
        self._names = list(map(table.__getitem__, names))
        self.name = int32_column(self._names)
        self.names = tuple(table)
        self.backend_node_id = int64_column([n.backendNodeId for n in nodes])
        self.scrollable = np.zeros(count, np.bool_)
        self.shadow_kind = np.zeros(count, np.int8)
        self.link = np.full(count, LINK_CHILD, np.int8)
        self.frame_ids: dict[int, str] = {}
        for i in [i for i, n in enumerate(nodes) if n.isScrollable or n.frameId or n.shadowRootType]:
            node = nodes[i]
            self.scrollable[i] = node.isScrollable
            if node.frameId:
                self.frame_ids[i] = node.frameId
            if node.shadowRootType:
                known = node.shadowRootType in SHADOW_KINDS
                self.shadow_kind[i] = SHADOW_KINDS.index(node.shadowRootType if known else "unknown")
                self.link[i] = LINK_SHADOW
        self.link[self.kind == DOCUMENT] = LINK_CONTENT
        self.link[0] = LINK_ROOT
        self.target = np.zeros(count, np.int32)
        for ordinal, root in sorted(flat.target_roots.items(), key=lambda item: item[1]):
            self.target[root : self.subtree_end[root]] = ordinal

    def plain(self, has_record: Flags, layout: I32, style: I32, ax: I32) -> Plain:
        """The columns for loops, with those of others."""
        tags = [name.lower() for name in self.names]
        return Plain(
            kind=self.kind.tobytes(),
            link=self.link.tobytes(),
            parent=self._parents,
            subtree_end=self._ends,
            tag=list(map(tags.__getitem__, self._names)),
            has_record=has_record.tobytes(),
            layout=array("i", layout.tobytes()),
            style=array("i", style.tobytes()),
            ax=array("i", ax.tobytes()),
        )

    def rows_of(self, ordinal: int) -> I64:
        """The nodes of one target, in pre-order."""
        return np.nonzero(self.target == ordinal)[0]

    def in_top_document(self, node: int) -> bool:
        """True if `document.querySelectorAll('*')` of the node's target sees it: no shadow tree, no inner frame."""
        while self.link[node] == LINK_CHILD:
            node = int(self.parent[node])
        if self.link[node] == LINK_CONTENT:
            return bool(self.target[node] != self.target[self.parent[node]])
        return bool(self.link[node] == LINK_ROOT)


class _Layout:
    """The columns that come from the snapshots, filled target by target."""

    __slots__ = (
        "_rows",
        "bounds",
        "client",
        "document",
        "has_record",
        "input_checked",
        "input_values",
        "is_clickable",
        "layout",
        "paint_order",
        "scroll",
        "style",
        "style_rows",
    )

    def __init__(self, count: int) -> None:
        self.has_record = np.zeros(count, np.bool_)
        self.document = np.full(count, -1, np.int32)
        self.layout = np.full(count, -1, np.int32)
        self.bounds = np.full((count, 4), np.nan)
        self.client = Rectangles()
        self.scroll = Rectangles()
        self.paint_order = np.full(count, -1, np.int64)
        self.style = np.full(count, -1, np.int32)
        self.style_rows: list[tuple[str | None, ...]] = []
        self.is_clickable = np.full(count, -1, np.int8)
        self.input_checked = np.full(count, -1, np.int8)
        self.input_values: dict[int, str] = {}
        self._rows = 0

    def add(self, records: Records, nodes: I64, ids: I64) -> None:
        """Join the records of one target to its nodes by backend node id; a later document overwrites an earlier."""
        rows = _last_with(records.backend_node_id, ids)
        known = rows >= 0
        nodes, rows = nodes[known], rows[known]
        self.has_record[nodes] = True
        self.document[nodes] = records.document[rows]
        self.is_clickable[nodes] = records.is_clickable[rows]
        self.input_checked[nodes] = records.input_checked[rows]
        layout = records.layout[rows]
        # row -1, without layout, is the last of these columns
        self.bounds[nodes] = records.bounds[layout]
        self.paint_order[nodes] = records.paint_order[layout]
        style = records.style[layout]
        self.style[nodes] = np.where(style >= 0, style + len(self.style_rows), -1) if self.style_rows else style
        self.layout[nodes] = np.where(layout >= 0, layout + self._rows, -1) if self._rows else layout
        self._rows += records.layout_rows
        self.style_rows += records.style_rows
        if records.input_values:
            for node, row in zip(nodes.tolist(), rows.tolist(), strict=True):
                if row in records.input_values:
                    self.input_values[node] = records.input_values[row]
