"""A view is what the passes over one page tree share: tags, styles, frames, and who is visible."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.capture import COMPUTED_STYLES
from workers.merge.tree import ELEMENT, LINK_CONTENT, PageTree
from workers.serialize.options import ListingOptions

Flags = NDArray[np.bool_]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

_STYLE = {name: i for i, name in enumerate(COMPUTED_STYLES)}
_BACKGROUND = _STYLE["background-color"]
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
    """Columns by node that every pass reads; `recorded`, `seen`, `boxed` and `scrolls` are bytes for loops.

    `points` tells by row of styles, and at last for unknown styles, whether the cursor is a pointer. `printable` holds
    the names of attributes that may print with their places, `repeated` those that stand there twice.
    """

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
    occludes: Flags
    printable: dict[str, int]
    repeated: frozenset[str]
    points: list[bool]
    recorded: bytes
    seen: bytes
    boxed: bytes
    scrolls: bytes

    def tag(self, node: int) -> str:
        """The node's name in lower case."""
        return self.tree.plain.tag[node]

    def named(self, names: Collection[str]) -> Flags:
        """The elements with one of these lower-case names."""
        return named(self.tree, self.tags, names)

    def style(self, node: int, name: str) -> str | None:
        """One computed style, None if unknown."""
        row = self.tree.plain.style[node]
        return _style(self.tree.style_rows[row], name) if row >= 0 else None


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
    """The nodes inside any of these spans; spans are subtrees, so that two are apart or one lies in the other."""
    if not len(starts):
        return np.zeros(count, np.bool_)
    reach = np.zeros(count, np.int64)
    reach[starts] = ends
    flags: Flags = np.maximum.accumulate(reach) > np.arange(count)
    return flags


def subtree_any(tree: PageTree, flags: Flags) -> Flags:
    """The nodes that are flagged or hold a flagged node."""
    before = np.zeros(len(flags) + 1, np.int32)
    flags.cumsum(dtype=np.int32, out=before[1:])
    held: Flags = before[tree.subtree_end] > before[:-1]
    return held


def look(tree: PageTree, options: ListingOptions) -> View:
    """The view of a page tree under these options."""
    tags = tuple(name.lower() for name in tree.names)
    names = options.attribute_names
    printable = {name: place for place, name in enumerate(names)}
    # the last entry is for unknown styles: the node is not hidden, covers, and scrolls if its tag does
    hides, occludes, scrolls = np.array([*map(_row_flags, tree.style_rows), (False, True, True)], np.bool_).T
    has_record = tree.has_record
    if int(tree.document.max()) >= options.max_iframes:
        has_record = has_record & (tree.document < options.max_iframes)
    has_bounds = has_record & (tree.layout >= 0)
    css_hidden = hides[tree.style]
    context, contexts = _frame_contexts(tree, has_record, has_bounds)
    visible = _visible(tree, options, has_bounds & ~css_hidden, context, contexts)
    content, detached = _contents(tree, options, visible, has_bounds)
    scrollable = _scrollable(tree, has_record & scrolls[tree.style] & (tree.layout >= 0))
    return View(
        tree=tree,
        options=options,
        tags=tags,
        has_record=has_record,
        has_bounds=has_bounds,
        css_hidden=css_hidden,
        visible=visible,
        scrollable=scrollable,
        content=content,
        detached=detached,
        context=context,
        contexts=contexts,
        occludes=occludes,
        printable=printable,
        repeated=frozenset() if len(printable) == len(names) else frozenset(n for n in names if names.count(n) > 1),
        points=[*(_style(row, "cursor") == "pointer" for row in tree.style_rows), False],
        recorded=has_record.tobytes(),
        seen=visible.tobytes(),
        boxed=has_bounds.tobytes(),
        scrolls=scrollable.tobytes(),
    )


def _style(row: tuple[str | None, ...], name: str) -> str | None:
    place = _STYLE[name]
    return row[place] if place < len(row) else None


def _row_flags(row: tuple[str | None, ...]) -> tuple[bool, bool, bool]:
    """What a row of computed styles means: the element is hidden, covers what lies beneath it, can scroll."""
    if len(row) < len(COMPUTED_STYLES):
        row = (*row, *[None] * (len(COMPUTED_STYLES) - len(row)))
    display, visibility, opacity_text, overflow, overflow_x, overflow_y = row[:6]
    background = row[_BACKGROUND]
    try:
        opacity = 1.0 if opacity_text == "1" else float(opacity_text or "1")
    except ValueError:
        opacity = 1.0
    hides = opacity <= 0 or (display or "").lower() == "none" or (visibility or "").lower() == "hidden"
    occludes = (background or TRANSPARENT) != TRANSPARENT and not opacity < OCCLUDING_OPACITY
    both = overflow or "visible"
    scrolls = not both == overflow_x == overflow_y == "visible" and any(
        (text or both).lower() in SCROLLING_OVERFLOWS for text in (overflow, overflow_x, overflow_y)
    )
    return hides, occludes, scrolls


def _scrollable(tree: PageTree, may: Flags) -> Flags:
    """What CDP calls scrollable, and those of the nodes that may scroll that are larger inside than outside."""
    out = tree.scrollable.copy()
    nodes = may.nonzero()[0]
    for node, row, style in zip(nodes.tolist(), tree.layout[nodes].tolist(), tree.style[nodes].tolist(), strict=True):
        scroll, client = tree.scroll[row], tree.client[row]
        if scroll is None or client is None or not (scroll[3] > client[3] + 1 or scroll[2] > client[2] + 1):
            continue
        if style >= 0 or tree.plain.tag[node] in SCROLLABLE_TAGS:
            out[node] = True
    return out


def _frame_contexts(tree: PageTree, has_record: Flags, has_bounds: Flags) -> tuple[I64, tuple[FrameContext, ...]]:
    plain = tree.plain
    roots = {t.root for t in tree.targets if t.root > 0}
    marks = [n for n in tree.frame_ids if plain.kind[n] == ELEMENT and tree.names[tree.name[n]] == "HTML"]
    frames = [name.upper() in ("IFRAME", "FRAME") for name in tree.names]
    if any(frames):
        marks += (np.array(frames)[tree.name] & (tree.kind == ELEMENT) & has_bounds).nonzero()[0].tolist()
    marks = sorted({*marks, *roots})
    # a frame counts for what is below it, a target's document starts anew with itself
    spans = [(n if n in roots else n + 1, plain.subtree_end[n]) for n in marks]
    inside, around = nest(len(tree), spans)
    contexts = [FrameContext((), 0.0, 0.0)]
    for node, outer in zip(marks, around, strict=True):
        above = contexts[outer + 1]
        if node in roots:
            contexts.append(FrameContext((), above.offset_x, above.offset_y))
            continue
        x, y = above.offset_x, above.offset_y
        if plain.tag[node] == "html":
            scroll = tree.scroll[int(tree.layout[node])] if has_record[node] else None
            if scroll is not None:
                x -= scroll[0]
                y -= scroll[1]
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
    nodes = drawn.nonzero()[0]
    if not len(nodes):
        return visible
    of = context[nodes]
    if int(of.min()) == int(of.max()):
        parts = [nodes]
    else:
        order = np.argsort(of, kind="stable")
        nodes, of = nodes[order], of[order]
        parts = np.split(nodes, np.nonzero(np.diff(of))[0] + 1)
    for part in parts:
        x, y, width, height = tree.bounds[part].T
        for frame in reversed(contexts[int(context[part[0]])].chain):
            if tree.plain.tag[frame] != "html":
                x, y = x + tree.bounds[frame, 0], y + tree.bounds[frame, 1]
                continue
            row = int(tree.layout[frame])
            scroll, client = tree.scroll[row], tree.client[row]
            if scroll is None or client is None:
                continue
            x, y = x - scroll[0], y - scroll[1]
            inside = (x < client[2]) & (x + width > 0) & (y < client[3] + threshold) & (y + height > -threshold)
            part, x, y, width, height = part[inside], x[inside], y[inside], width[inside], height[inside]
        visible[part] = True
    return visible


def _contents(tree: PageTree, options: ListingOptions, visible: Flags, has_bounds: Flags) -> tuple[I64, Flags]:
    """By frame element the content document it shows (-1: none), and the nodes of documents that are not shown."""
    content = np.full(len(tree), -1, np.int64)
    documents = (tree.link == LINK_CONTENT).nonzero()[0]
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
