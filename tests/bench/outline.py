"""Measures the CPU of merge, outline and both maps against Stagehand's own code, on one capture, in one run.

Both sides have read one and the same tab. They are measured in turns, A B A B; the least of each side's times counts.
Stagehand runs its snapshot on replies of the browser that are in memory, parsed already, so that its figure is its own
JavaScript alone; ours includes decoding the payloads' JSON. Ours is shown with the layout snapshot, which the page tree
holds for the listing, and without it, as Stagehand has none; the first is the one that counts.

    python tests/bench/outline.py
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

sys.path.insert(0, str(Path(__file__).parents[1] / "oracle"))

from outline_peer import Tabs, compared, missing

from schemas.capture import Capture
from workers.browser.find import find_browser
from workers.merge import merge
from workers.serialize.outline import serialize_outline

NODES = (5_000, 20_000)
NODES_A_ROW = 16
ROUNDS = 3
RUNS = 5
"""Runs of each side in a round; Stagehand's code is compiled by the first ones."""
SECONDS = 300.0

_PAGE = """<!doctype html><html><head><title>Heavy</title><style>.row{display:inline-block;width:300px;
vertical-align:top;border:1px solid #ccc}.r1,.r4{background:#fafafa}</style></head><body><h1>Heavy</h1>%s</body></html>
"""
_ROW = (
    '<div class="row r{kind}"><div class="inner"><a href="/item/{i}" class="lnk">Item link number {i}</a>'
    "<span>Some descriptive text for item {i} that is a bit longer</span></div>"
    '<div class="act"><button type="button" id="b{i}">Buy {i}</button>'
    '<input type="text" name="q{i}" placeholder="Qty {i}"><p>Paragraph text {i}</p></div></div>'
)


def heavy_page(nodes: int) -> str:
    """Rows of a link, two texts, a button and a field, of about so many nodes."""
    return _PAGE % "".join(_ROW.format(i=i, kind=i % 7) for i in range(1, nodes // NODES_A_ROW + 1))


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        data = heavy_page(int(self.path.strip("/") if self.path.strip("/").isdigit() else 0)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


def whole(capture: Capture) -> None:
    """Everything that is compared: merge, outline, both maps."""
    outline = serialize_outline(capture)
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
        bare = Capture(tuple(p for p in capture.payloads if p.kind != "layout_snapshot"))
        theirs: list[float] = []
        parsing: list[float] = []
        ours: list[float] = []
        alone: list[float] = []
        for _ in range(ROUNDS):
            told = await peer.ask(SECONDS, do="time", target=session.target_id, runs=RUNS)
            theirs += told["own_ms"]
            parsing += told["parsing_ms"]
            ours += cpu_ms(lambda: whole(capture), RUNS)
            alone += cpu_ms(lambda: whole(bare), RUNS)
        mine, without, peers = min(ours), min(alone), min(theirs)
        share = min(cpu_ms(lambda: merge(capture), RUNS))
        print(
            f"{len(merge(capture)):7,} nodes {verdict.lines:7,} lines   Stagehand {peers:7.1f} ms"
            f" (and {min(parsing):.1f} to parse)   ours {mine:6.1f} ms (merge {share:.1f})   {mine / peers:.2f}"
            f"   without layout {without:6.1f} ms   {without / peers:.2f}",
            flush=True,
        )


async def run() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    tabs = Tabs(find_browser(os.environ.get("PAGESTATE_BROWSER", "")), seconds=SECONDS)
    try:
        for nodes in NODES:
            await measure(tabs, f"http://127.0.0.1:{server.server_port}/{nodes}")
    finally:
        await tabs.close()
        server.shutdown()
        server.server_close()


def main() -> None:
    why_not = missing()
    if why_not:
        print(f"The outline is not measured against Stagehand: {why_not}.")
        return
    print("merge, outline and maps, CPU of the best of each side's runs, in turns")
    asyncio.run(run())


if __name__ == "__main__":
    main()
