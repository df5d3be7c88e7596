"""Measures the CPU of merge, outline and both maps against Stagehand's own code, on one capture, in one run.

Both sides have read one and the same tab. They are measured in turns, A B A B; the least of each side's times counts.
Stagehand runs its snapshot on replies of the browser that are in memory, parsed already, so that its figure is its own
JavaScript alone; what its parsing costs is measured apart. Ours are measured whole, from the payloads' bytes, and the
decoding of each payload's JSON is measured apart too, so that like can be held against like: work without decoding, and
decoding included on both sides. Two lines stand for a page. The first is merge, outline and both maps as in a crawl,
the layout snapshot merged for a listing that is made of the same tree (that listing is not in it). The second is an
outline alone, as `pagestate show --form outline` makes it of a stored capture: the layout snapshot, which Stagehand
does not take and the outline does not need, is passed by.

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
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1] / "oracle"))

from heavy_pages import write_rows
from outline_peer import Tabs, compared, missing
from sites import folder_site

from schemas.capture import Capture, Payload
from workers.browser.find import find_browser
from workers.merge import merge
from workers.merge.payloads import decode
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


Decoding = tuple[Any, Payload]


def decodings(step: Callable[[Capture], None], capture: Capture) -> list[Decoding]:
    """Every payload that a step decodes as a whole, and with which decoder."""
    found: list[Decoding] = []

    def noting(decoder: Any, payload: Payload) -> Any:
        found.append((decoder, payload))
        return decode(decoder, payload)

    users = [m for name, m in sys.modules.items() if name.startswith("workers.") and vars(m).get("decode") is decode]
    with ExitStack() as patched:
        for module in users:
            patched.enter_context(mock.patch.object(module, "decode", noting))
        step(capture)
    return found


def decode_all(pairs: list[Decoding]) -> None:
    """The decoding alone."""
    for decoder, payload in pairs:
        decode(decoder, payload)


async def measure(tabs: Tabs, url: str) -> None:
    """One page: two lines of the table."""
    async with tabs.tab(url) as (session, peer):
        capture = await tabs.capture(session)
        said = await peer.snapshot(session.target_id, SECONDS)
        verdict = compared(url, capture, said)
        assert verdict.difference is None, str(verdict.difference)
        steps = {"merge, outline, maps": beside_a_listing, "an outline alone": alone}
        pairs = {name: decodings(step, capture) for name, step in steps.items()}
        theirs: list[float] = []
        parsing: list[float] = []
        ours: dict[str, list[float]] = {name: [] for name in steps}
        decoding: dict[str, list[float]] = {name: [] for name in steps}
        for _ in range(ROUNDS):
            told = await peer.ask(SECONDS, do="time", target=session.target_id, runs=RUNS)
            theirs += told["own_ms"]
            parsing += told["parsing_ms"]
            for name, step in steps.items():
                ours[name] += cpu_ms(lambda step=step: step(capture), RUNS)
                decoding[name] += cpu_ms(lambda name=name: decode_all(pairs[name]), RUNS)
        own, parse = min(theirs), min(parsing)
        size = f"{verdict.nodes:,} nodes, {verdict.lines:,} lines"
        print(f"{size}: Stagehand's own JavaScript {own:.1f} ms, its parsing {parse:.1f}")
        for name in steps:
            whole, json = min(ours[name]), min(decoding[name])
            print(
                f"    {name:22} {whole - json:6.1f} ms, decoding {json:5.1f}   {(whole - json) / own:.2f}"
                f"   both decoding {whole / (own + parse):.2f}   only ours decoding {whole / own:.2f}",
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
    print("CPU of the best of each side's runs, in turns; ours as a share of Stagehand's")
    asyncio.run(run())


if __name__ == "__main__":
    main()
