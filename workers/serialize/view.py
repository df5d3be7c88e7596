"""A view is what the passes over one page tree share: tags, styles, frames, and who is visible."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.capture import COMPUTED_STYLES
from workers.merge.tree import DOCUMENT, ELEMENT, LINK_CONTENT, PageTree
from workers.serialize.options import ListingOptions

Flags = NDArray[np.bool_]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

_STYLE = {name: i for i, name in enumerate(COMPUTED_STYLES)}
SCROLLING_OVERFLOWS = frozenset({"auto", "scroll", "overlay"})
SCROLLABLE_TAGS = frozenset({"div", "main", "section", "article", "aside", "body", "html"})
TRANSPARENT = "rgba(0, 0, 0, 0)"
OCCLUDING_OPACITY = 0.8
MIN_REMOTE_FRAME_PX = 10.0
"""Rules of browser-use 0.13.14: dom/views.py (scrolling), serializer/paint_order.py, dom/service.py (frame size)."""


@dataclass(frozen=True, slots=True)
class FrameContext:
    """Where a run of nodes lives: its frame chain (nodes, outermost first) and its offset in the top viewport."""

    chain: tuple[int, ...]
    offset_x: float
    offset_y: float


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """Columns by node that every pass reads."""

    tree: PageTree
    options: ListingOptions
    tags: tuple[str, ...]
    has_record: Flags
    has_bounds: Flags
    css_hidden: Flags
    visible: Flags
    scrollable: Flags
    content: I64
    detached: Flags
    context: I64
    contexts: tuple[FrameContext, ...]

    def tag(self, node: int) -> str:
        """The node's name in lower case."""
        return self.tags[int(self.tree.name[node])]

    def named(self, names: Collection[str]) -> Flags:
        """The elements with one of these lower-case names."""
        return named(self.tree, self.tags, names)

    def style(self, node: int, name: str) -> str | None:
        """One computed style, None if unknown."""
        row = int(self.tree.style[node])
        return _style(self.tree.style_rows[row], name) if row >= 0 else None

    def by_style(self, test: Sequence[bool], unknown: bool) -> Flags:
        """A per-node flag from a per-style-row flag."""
        flags: Flags = np.array([*test, unknown], np.bool_)[self.tree.style]  # row -1 is the last entry
        return flags


def named(tree: PageTree, tags: Sequence[str], names: Collection[str]) -> Flags:
    """The elements with one of these lower-case names."""
    flags: Flags = np.array([tag in names for tag in tags], np.bool_)[tree.name] & (tree.kind == ELEMENT)
    return flags


def nest(count: int, spans: Sequence[tuple[int, int]]) -> tuple[I64, list[int]]:
    """For nested spans in pre-order: by node the innermost span around it, by span the one around that; -1: none."""
    inside = np.full(count, -1, np.int64)
    around = []
    stack: list[int] = []
    filled = 0
    for number, (start, _) in enumerate(spans):
        while stack and spans[stack[-1]][1] <= start:
            end = spans[stack[-1]][1]
            if end > filled:
                inside[filled:end] = stack[-1]
                filled = end
            stack.pop()
        if stack and start > filled:
            inside[filled:start] = stack[-1]
        filled = max(filled, start)
        around.append(stack[-1] if stack else -1)
        stack.append(number)
    while stack:
        end = spans[stack[-1]][1]
        if end > filled:
            inside[filled:end] = stack[-1]
            filled = end
        stack.pop()
    return inside, around


def covered(count: int, starts: NDArray[Any], ends: NDArray[Any]) -> Flags:
    """The nodes inside any of these spans."""
    depth = np.zeros(count + 1, np.int64)
    np.add.at(depth, starts, 1)
    np.add.at(depth, ends, -1)
    return np.cumsum(depth[:-1]) > 0


def subtree_any(tree: PageTree, flags: Flags) -> Flags:
    """The nodes that are flagged or hold a flagged node."""
    before = np.concatenate(([0], np.cumsum(flags)))
    held: Flags = before[tree.subtree_end] > before[:-1]
    return held


def look(tree: PageTree, options: ListingOptions) -> View:
    """The view of a page tree under these options."""
    tags = tuple(name.lower() for name in tree.names)
    has_record = tree.has_record
    if len(tree.document) and int(tree.document.max()) >= options.max_iframes:
        has_record = has_record & (tree.document < options.max_iframes)
    has_bounds = has_record & ~np.isnan(tree.bounds[:, 0])
    hidden_rows = np.array([*(_hides(row) for row in tree.style_rows), False], np.bool_)
    css_hidden = hidden_rows[tree.style]
    context, contexts = _frame_contexts(tree, has_record, has_bounds)
    visible = _visible(tree, options, has_bounds & ~css_hidden, context, contexts)
    content, detached = _contents(tree, options, tags, visible, has_bounds)
    return View(
        tree=tree,
        options=options,
        tags=tags,
        has_record=has_record,
        has_bounds=has_bounds,
        css_hidden=css_hidden,
        visible=visible,
        scrollable=_scrollable(tree, tags, has_record),
        content=content,
        detached=detached,
        context=context,
        contexts=contexts,
    )


def _style(row: tuple[str | None, ...], name: str) -> str | None:
    place = _STYLE[name]
    return row[place] if place < len(row) else None


def _opacity(row: tuple[str | None, ...]) -> float:
    try:
        return float(_style(row, "opacity") or "1")
    except ValueError:
        return 1.0


def _hides(row: tuple[str | None, ...]) -> bool:
    display = (_style(row, "display") or "").lower()
    visibility = (_style(row, "visibility") or "").lower()
    return display == "none" or visibility == "hidden" or _opacity(row) <= 0


def occludes(row: tuple[str | None, ...]) -> bool:
    """True if a rectangle with these styles hides what was painted before it."""
    background = _style(row, "background-color")
    return (background or TRANSPARENT) != TRANSPARENT and not _opacity(row) < OCCLUDING_OPACITY


def _scrolls(row: tuple[str | None, ...]) -> bool:
    overflow = (_style(row, "overflow") or "visible").lower()
    both = ((_style(row, name) or overflow).lower() for name in ("overflow-x", "overflow-y"))
    return overflow in SCROLLING_OVERFLOWS or any(o in SCROLLING_OVERFLOWS for o in both)


def _scrollable(tree: PageTree, tags: Sequence[str], has_record: Flags) -> Flags:
    scroll, client = tree.scroll_rect, tree.client_rect
    with np.errstate(invalid="ignore"):
        larger = (scroll[:, 3] > client[:, 3] + 1) | (scroll[:, 2] > client[:, 2] + 1)
    rows = np.array([*(_scrolls(row) for row in tree.style_rows), False], np.bool_)
    known = tree.style >= 0
    by_tag = np.array([tag in SCROLLABLE_TAGS for tag in tags], np.bool_)[tree.name]
    scrolls: Flags = tree.scrollable | (has_record & larger & np.where(known, rows[tree.style], by_tag))
    return scrolls


def _frame_contexts(tree: PageTree, has_record: Flags, has_bounds: Flags) -> tuple[I64, tuple[FrameContext, ...]]:
    is_html = np.array([n == "HTML" for n in tree.names], np.bool_)
    is_frame = np.array([n.upper() in ("IFRAME", "FRAME") for n in tree.names], np.bool_)
    element = tree.kind == ELEMENT
    roots = {t.root for t in tree.targets if t.root > 0}
    marks = np.nonzero(element & is_frame[tree.name] & has_bounds)[0].tolist()
    marks += [n for n in tree.frame_ids if element[n] and is_html[tree.name[n]]]
    marks = sorted({*marks, *roots})
    # a frame counts for what is below it, a target's document starts anew with itself
    spans = [(n if n in roots else n + 1, int(tree.subtree_end[n])) for n in marks]
    inside, around = nest(len(tree), spans)
    contexts = [FrameContext((), 0.0, 0.0)]
    for node, outer in zip(marks, around, strict=True):
        above = contexts[outer + 1]
        if node in roots:
            contexts.append(FrameContext((), above.offset_x, above.offset_y))
            continue
        x, y = above.offset_x, above.offset_y
        if is_html[tree.name[node]]:
            if has_record[node] and not np.isnan(tree.scroll_rect[node, 0]):
                x -= float(tree.scroll_rect[node, 0])
                y -= float(tree.scroll_rect[node, 1])
        else:
            x += float(tree.bounds[node, 0])
            y += float(tree.bounds[node, 1])
        contexts.append(FrameContext((*above.chain, node), x, y))
    return inside + 1, tuple(contexts)


def _visible(
    tree: PageTree, options: ListingOptions, drawn: Flags, context: I64, contexts: tuple[FrameContext, ...]
) -> Flags:
    """Drawn nodes that lie in the viewport of every frame around them, or within the threshold above or below."""
    threshold = options.viewport_threshold
    if threshold is None:
        return drawn
    visible = np.zeros(len(tree), np.bool_)
    nodes = np.nonzero(drawn)[0]
    of = context[nodes]
    order = np.argsort(of, kind="stable")
    nodes, of = nodes[order], of[order]
    cuts = np.nonzero(np.diff(of))[0] + 1
    for part in np.split(nodes, cuts):
        if not len(part):
            continue
        x, y, width, height = (tree.bounds[part, k] for k in range(4))
        for frame in reversed(contexts[context[part[0]]].chain):
            if tree.names[tree.name[frame]] != "HTML":
                x, y = x + tree.bounds[frame, 0], y + tree.bounds[frame, 1]
                continue
            scroll, client = tree.scroll_rect[frame], tree.client_rect[frame]
            if np.isnan(scroll[0]) or np.isnan(client[0]):
                continue
            x, y = x - scroll[0], y - scroll[1]
            inside = (x < client[2]) & (x + width > 0) & (y < client[3] + threshold) & (y + height > -threshold)
            part, x, y, width, height = part[inside], x[inside], y[inside], width[inside], height[inside]
        visible[part] = True
    return visible


def _contents(
    tree: PageTree, options: ListingOptions, tags: Sequence[str], visible: Flags, has_bounds: Flags
) -> tuple[I64, Flags]:
    """By frame element the content document it shows (-1: none), and the nodes of documents that are not shown."""
    content = np.full(len(tree), -1, np.int64)
    documents = np.nonzero((tree.kind == DOCUMENT) & (tree.link == LINK_CONTENT))[0]
    content[tree.parent[documents]] = documents
    hidden = []
    depth = {0: 0}
    shown = 0
    for target, root in sorted(((i, t.root) for i, t in enumerate(tree.targets) if t.root > 0), key=lambda p: p[1]):
        frame = int(tree.parent[root])
        above = depth.get(int(tree.target[frame]), options.max_iframe_depth)
        depth[target] = above + 1
        large = has_bounds[frame] and bool(np.all(tree.bounds[frame, 2:] >= MIN_REMOTE_FRAME_PX))
        if above < options.max_iframe_depth and visible[frame] and large and shown < options.max_iframes:
            shown += 1
        else:
            hidden.append(root)
            content[frame] = -1
    if not hidden:
        return content, np.zeros(len(tree), np.bool_)
    roots = np.array(hidden, np.int64)
    return content, covered(len(tree), roots, tree.subtree_end[roots])
