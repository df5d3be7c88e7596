"""The page state is the block that browser-use's agent prompt shows: statistics, tabs, position, listing."""

from __future__ import annotations

from workers.merge.tree import PageTree
from workers.serialize.listing import Listing

MAX_LISTING = 40_000
"""Characters of the listing in a prompt (browser-use 0.13.14, max_clickable_elements_length)."""
NEARLY_EMPTY = 10
MAX_TITLE = 30
TAB_DIGITS = 4
HINT_ABOVE_PAGES = 0.2
"""Thresholds of browser-use 0.13.14, agent/prompts.py."""


def serialize_page_state(tree: PageTree, listing: Listing, max_listing: int = MAX_LISTING) -> str:
    """The state block of one page in one tab; equals the agent prompt's `<browser_state>` content.

    Tab id, URL and title come from the `targets` payload. Pending requests, dialogs and PDF notes are not here: they
    belong to a live session.
    """
    stats = listing.stats
    counts = f"{stats.links} links, {stats.interactive_elements} interactive, {stats.iframes} iframes"
    if stats.shadow_open or stats.shadow_closed:
        counts += f", {stats.shadow_open} shadow(open), {stats.shadow_closed} shadow(closed)"
    counts += f", {stats.images} images" if stats.images else ""
    empty = "Page appears empty - consider waiting - " if stats.total_elements < NEARLY_EMPTY else ""
    tab = tree.targets[0].target_id[-TAB_DIGITS:]
    above, below, height = _position(tree)
    pages_above = above / height if height > 0 else 0.0
    pages_below = below / height if height > 0 else 0.0
    more = " — scroll down to reveal more content" if pages_below > HINT_ABOVE_PAGES else ""
    text = listing.text
    cut = f" (truncated to {max_listing} characters)" if len(text) > max_listing else ""
    text = text[:max_listing]
    if text:
        text = f"[Start of page]\n{text}" if above <= 0 else text
        text = f"{text}\n[End of page]" if below <= 0 else text
    return (
        f"<page_stats>{empty}{counts}, {stats.total_elements} total elements</page_stats>\n"
        f"Current tab: {tab}\n"
        f"Available tabs:\nTab {tab}: {tree.url} - {tree.title[:MAX_TITLE]}\n\n"
        f"<page_info>{pages_above:.1f} pages above, {pages_below:.1f} pages below{more}</page_info>\n\n"
        f"Interactive elements{cut}:\n{text or 'empty page'}\n"
    )


def _position(tree: PageTree) -> tuple[int, int, int]:
    """CSS pixels above and below the viewport, and its height."""
    metrics = tree.metrics
    if metrics is None:
        return 0, 0, 0
    layout = metrics.cssLayoutViewport
    if layout.clientHeight is None:
        layout = metrics.layoutViewport
    height = int(layout.clientHeight or 0)
    position = metrics.cssVisualViewport.pageY
    above = int((metrics.cssLayoutViewport.pageY if position is None else position) or 0)
    page = int((metrics.contentSize.height or 0) / tree.targets[0].device_pixel_ratio)
    return above, max(0, page - height - above), height
