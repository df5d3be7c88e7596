"""A scroll container tells how much of it lies above and below, in pages of its own height."""

from __future__ import annotations

from dataclasses import dataclass

from workers.merge.tree import DOCUMENT, ELEMENT
from workers.serialize.view import View


@dataclass(frozen=True, slots=True)
class ScrollInfo:
    """Where a scroll container stands, rounded to one digit as browser-use 0.13.14 does."""

    pages_above: float
    pages_below: float
    vertical_percent: float
    horizontal_percent: float
    scrolls_vertically: bool
    scrolls_horizontally: bool


def scroll_info(view: View, node: int) -> ScrollInfo | None:
    """The position of a scroll container, None for anything else."""
    tree = view.tree
    if not (view.scrolls[node] and view.recorded[node]):
        return None
    row = tree.plain.layout[node]
    scroll, client = tree.scroll[row], tree.client[row]
    if scroll is None or client is None:
        return None
    left, top, width, height = scroll
    client_width, client_height = client[2:]
    below = max(0.0, height - client_height - top)
    vertical = round(top / (height - client_height) * 100, 1) if height > client_height else 0.0
    horizontal = round(left / (width - client_width) * 100, 1) if width > client_width else 0.0
    pages_above = round(max(0.0, top) / client_height, 1) if client_height > 0 else 0.0
    pages_below = round(below / client_height, 1) if client_height > 0 else 0.0
    return ScrollInfo(pages_above, pages_below, vertical, horizontal, height > client_height, width > client_width)


def shows_scroll(view: View, node: int) -> bool:
    """True if the element's line tells about scrolling: frames, pages, and the outermost of nested containers."""
    tag = view.tag(node)
    if tag == "iframe":
        return True
    if not view.scrolls[node]:
        return False
    parent = view.tree.plain.parent[node]
    return tag in ("body", "html") or parent < 0 or not view.scrolls[parent]


def scroll_text(view: View, node: int) -> str:
    """The text in parentheses at the end of a scroll container's line, maybe empty."""
    if view.tag(node) == "iframe":
        return _frame_text(view, node)
    info = scroll_info(view, node)
    if info is None:
        return ""
    parts = []
    if info.scrolls_vertically:
        parts.append(f"{info.pages_above:.1f} pages above, {info.pages_below:.1f} pages below")
    if info.scrolls_horizontally:
        parts.append(f"horizontal {info.horizontal_percent:.0f}%")
    return " ".join(parts)


def _frame_text(view: View, node: int) -> str:
    """The first node named `html` in the frame's document decides, and a doctype is named so too."""
    tree = view.tree
    document = int(view.content[node])
    if document >= 0:
        page = document if view.tag(document) == "html" else -1
        if page < 0:
            page = next((c for c in tree.children(document) if view.tag(c) == "html"), -1)
        if page >= 0 and tree.plain.kind[page] in (ELEMENT, DOCUMENT):
            info = scroll_info(view, page)
            if info is not None and (info.pages_below > 0 or info.pages_above > 0):
                return f"scroll: {info.pages_above:.1f}↑ {info.pages_below:.1f}↓ {int(info.vertical_percent)}%"
    return "scroll"
