"""Page statistics count the nodes of the final tree, as the agent's prompt reports them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workers.serialize.indices import FinalTree
from workers.serialize.printing import shadow_hosts
from workers.serialize.view import Flags


@dataclass(frozen=True, slots=True)
class PageStatistics:
    """The numbers of browser-use 0.13.14, agent/prompts.py, under its names."""

    links: int
    iframes: int
    shadow_open: int
    shadow_closed: int
    scroll_containers: int
    images: int
    interactive_elements: int
    total_elements: int
    text_chars: int


def page_statistics(final: FinalTree) -> PageStatistics:
    """The statistics of a final tree; `total_elements` counts every node of it, text and shadow roots too."""
    view, kept = final.view, final.simplified.final
    hosts, closed = shadow_hosts(final)

    def count(flags: Flags) -> int:
        return int(np.count_nonzero(kept & flags))

    return PageStatistics(
        links=count(view.named(("a",))),
        iframes=count(view.named(("iframe", "frame"))),
        shadow_open=len(hosts - closed),
        shadow_closed=len(hosts & closed),
        scroll_containers=count(view.scrollable),
        images=count(view.named(("img",))),
        interactive_elements=len(final.index_of),
        total_elements=len(final.nodes),
        text_chars=sum([len(text) for node, text in final.simplified.texts.items() if final.simplified.remains[node]]),
    )
