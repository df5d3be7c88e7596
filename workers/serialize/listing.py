"""The listing is browser-use's text form of a page, with the selector map that its indices point into."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from workers.merge.tree import PageTree
from workers.serialize.indices import FinalTree, final_tree
from workers.serialize.interactivity import InteractiveReason
from workers.serialize.options import ListingOptions
from workers.serialize.printing import Printer
from workers.serialize.statistics import PageStatistics, page_statistics
from workers.serialize.xpath import XPaths

NAME = "browser-use-listing"
VERSION = "1"


@dataclass(frozen=True, slots=True)
class SelectorMap:
    """The indexed elements in traversal order, as columns; rectangles are (x, y, width, height), None without layout.

    `bounds` is in the owning document's coordinates, `absolute` in the top viewport's.
    """

    index: tuple[int, ...]
    backend_node_id: tuple[int, ...]
    target: tuple[int, ...]
    frame_id: tuple[str, ...]
    tag: tuple[str, ...]
    role: tuple[str | None, ...]
    name: tuple[str | None, ...]
    xpath: tuple[str, ...]
    bounds: tuple[tuple[float, float, float, float] | None, ...]
    absolute: tuple[tuple[float, float, float, float] | None, ...]
    attributes: tuple[list[tuple[str, str]], ...]
    interactive_reason: tuple[InteractiveReason, ...]
    is_new: tuple[bool, ...]
    printed: tuple[bool, ...]

    def __len__(self) -> int:
        return len(self.index)


@dataclass(frozen=True, slots=True)
class Listing:
    """One listing.

    text        what an agent reads; equals browser-use 0.13.14's `llm_representation()`
    seen        (session id, backend node id) of each indexed element: `previous` of the next listing of this tab
    nodes       nodes of the page tree, all frames
    forged_lines   lines of the text that the page made and that may pass for elements: those begun by a line break in
                its own texts and values, whatever they hold, and texts that look like a line of the listing from their
                start, as `[12]<button />` does; `workers.serialize.rows` is the form that a page cannot forge
    """

    text: str
    selector_map: SelectorMap
    seen: frozenset[tuple[str, int]]
    nodes: int
    interactive: int
    forged_lines: int
    _final: FinalTree = field(repr=False, compare=False)

    @property
    def stats(self) -> PageStatistics:
        """The page statistics, counted when asked for."""
        return page_statistics(self._final)


def serialize_listing(
    tree: PageTree,
    options: ListingOptions | None = None,
    previous: frozenset[tuple[str, int]] | None = None,
    *,
    final: FinalTree | None = None,
) -> Listing:
    """The listing of a page tree; `final` spares the passes if the caller has run them already."""
    final = final or final_tree(tree, options, previous)
    printer = Printer(final)
    text = printer.text()
    selector_map = _selector_map(final, printer.printed)
    sessions = [tree.targets[t].session_id for t in selector_map.target]
    return Listing(
        text=text,
        selector_map=selector_map,
        seen=frozenset(zip(sessions, selector_map.backend_node_id, strict=True)),
        nodes=len(tree),
        interactive=len(selector_map),
        forged_lines=printer.forged_lines,
        _final=final,
    )


def _selector_map(final: FinalTree, printed: set[int]) -> SelectorMap:
    view, tree = final.view, final.view.tree
    nodes = list(final.index_of)
    rows = np.array(nodes, np.int64)
    paths = XPaths(view)
    bounds: list[tuple[float, float, float, float] | None] = []
    absolute: list[tuple[float, float, float, float] | None] = []
    contexts = view.context[rows].tolist()
    for node, box, context in zip(nodes, tree.bounds[rows].tolist(), contexts, strict=True):
        if not view.boxed[node]:
            bounds.append(None)
            absolute.append(None)
            continue
        x, y, width, height = box
        frame = view.contexts[context]
        bounds.append((x, y, width, height))
        absolute.append((x + frame.offset_x, y + frame.offset_y, width, height))
    frame_ids = {context: _frame_id(final, context) for context in set(contexts)}
    return SelectorMap(
        index=tuple(final.index_of.values()),
        backend_node_id=tuple(tree.backend_node_id[rows].tolist()),
        target=tuple(tree.target[rows].tolist()),
        frame_id=tuple([frame_ids[context] for context in contexts]),
        tag=tuple([tree.plain.tag[n] for n in nodes]),
        role=tuple([tree.ax_role(n) for n in nodes]),
        name=tuple([tree.ax_name(n) for n in nodes]),
        xpath=tuple([paths.of(n) for n in nodes]),
        bounds=tuple(bounds),
        absolute=tuple(absolute),
        attributes=tuple([list(tree.attributes(n).items()) for n in nodes]),
        interactive_reason=tuple([final.reasons[n] for n in nodes]),
        is_new=tuple([n in final.new for n in nodes]),
        printed=tuple([n in printed for n in nodes]),
    )


def _frame_id(final: FinalTree, context: int) -> str:
    """The frame in which the element lives: the id on the HTML element of its document, else on the frame around."""
    tree = final.view.tree
    for frame in reversed(final.view.contexts[context].chain):
        if frame in tree.frame_ids:
            return tree.frame_ids[frame]
    return ""
