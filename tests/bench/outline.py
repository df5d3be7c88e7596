"""Measures the CPU of merge, outline and both maps against Stagehand's own code, on one capture, in one run.

Both sides have read one and the same tab. They are measured in turns, A B A B; the least of each side's times counts.
Stagehand runs its snapshot on replies of the browser that are in memory, parsed already, so that its figure is its own
JavaScript alone; ours includes decoding the payloads' JSON. Two figures of ours stand in a line. The first is what an
outline alone costs, as `pagestate show --form outline` makes it of a stored capture: documents, accessibility and
frames are decoded and merged, and the layout snapshot, which Stagehand does not take and the outline does not need, is
passed by. The second is with the layout snapshot, decoded and merged for a listing that is made of the same tree, as in
a crawl; that listing is not in it.

    python tests/bench/outline.py
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "oracle"))

from heavy_pages import write_rows
from outline_peer import Tabs, compared, missing
from sites import folder_site

from schemas.capture import Capture
from workers.browser.find import find_browser
from workers.merge import merge
from workers.serialize.outline import serialize_outline

NODES = (5_000, 20_000)
ROUNDS = 5
RUNS = 5
"""Runs of each side in a round; Stagehand's code is compiled by the first ones."""
SECONDS = 300.0


def alone(capture: Capture) -> None:
    """Everything that is compared, of a capture of which nothing else is made."""
    outline = serialize_outline(capture)
    assert outline.xpath_map
    assert outline.url_map


def beside_a_listing(capture: Capture) -> None:
    """The same, with all that a listing needs merged too."""
    outline = serialize_outline(capture, tree=merge(capture, outlined=True))
    assert outline.xpath_map
    assert outline.url_map


def cpu_ms(step: Callable[[], object], runs: int) -> list[float]:
    """CPU milliseconds of each run, without the garbage collector, as in the pool's processes."""
    costs = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(runs):
            begun = time.process_time()
            step()
            costs.append((time.process_time() - begun) * 1000)
    finally:
        gc.enable()
    return costs


async def measure(tabs: Tabs, url: str) -> None:
    """One page: a line of the table."""
    async with tabs.tab(url) as (session, peer):
        capture = await tabs.capture(session)
        said = await peer.snapshot(session.target_id, SECONDS)
        verdict = compared(url, capture, said)
        assert verdict.difference is None, str(verdict.difference)
        theirs: list[float] = []
        parsing: list[float] = []
        ours: dict[Callable[[Capture], None], list[float]] = {alone: [], beside_a_listing: []}
        for _ in range(ROUNDS):
            told = await peer.ask(SECONDS, do="time", target=session.target_id, runs=RUNS)
            theirs += told["own_ms"]
            parsing += told["parsing_ms"]
            for step, costs in ours.items():
                costs += cpu_ms(lambda step=step: step(capture), RUNS)
        peers, only, both = min(theirs), min(ours[alone]), min(ours[beside_a_listing])
        print(
            f"{verdict.nodes:7,} nodes {verdict.lines:7,} lines   Stagehand {peers:7.1f} ms"
            f" (and {min(parsing):.1f} to parse)   ours {only:6.1f} ms   {only / peers:.2f}"
            f"   with layout for a listing {both:6.1f} ms   {both / peers:.2f}",
            flush=True,
        )


async def run() -> None:
    tabs = Tabs(find_browser(os.environ.get("PAGESTATE_BROWSER", "")), seconds=SECONDS)
    with tempfile.TemporaryDirectory(prefix="pagestate-bench-") as folder, folder_site(Path(folder)) as origin:
        try:
            for nodes in NODES:
                await measure(tabs, f"{origin}/{write_rows(Path(folder), nodes)}")
        finally:
            await tabs.close()


def main() -> None:
    why_not = missing()
    if why_not:
        print(f"The outline is not measured against Stagehand: {why_not}.")
        return
    print("merge, outline and maps, CPU of the best of each side's runs, in turns")
    asyncio.run(run())


if __name__ == "__main__":
    main()
