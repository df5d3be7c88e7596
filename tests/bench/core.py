"""Measures the CPU of merge, listing and selector map against browser-use's own build and serialize, in one run.

Each page is measured in turns, A B A B, on the same payloads; the least of each side's times counts. Our figure
includes decoding the payloads' JSON; browser-use's does not, unless the column says so. A page's ratio is theirs
divided by ours. browser-use stands in a venv of its own (`make oracle`), with its garbage collector as it runs there;
ours runs without, as in the pool's processes.

Pages: two that are made here, the recordings of the folder that PAGESTATE_SHARED names, and the folders given, each
holding NAME.raw.json.gz (raw trees) with NAME.json or NAME.expected.json.gz (what browser-use said) beside.

    python tests/bench/core.py RECORDED_PAGES
"""

from __future__ import annotations

import argparse
import gc
import gzip
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from schemas.capture import Capture
from workers.merge import merge
from workers.serialize.listing import serialize_listing

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PEER_PYTHON = ROOT / ".cache" / "oracle" / "bin" / "python"
ROUNDS = 2
ENOUGH_SECONDS = 0.1
MAX_RUNS = 20
"""A page is run until this much CPU has gone into a round, at least once, at most so often."""
LINEAR_NODES = (5_000, 20_000, 100_000)
SMALL, MIDDLE = 200, 1_000
"""Bounds of the groups by number of nodes."""


def neighbour(name: str) -> ModuleType:
    """A module of the serializers' tests."""
    path = HERE.parent / "serialize" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"bench_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


pages = neighbour("pages")
recording = neighbour("recording")


@dataclass(frozen=True, slots=True)
class Measured:
    """One page: nodes of its tree, CPU milliseconds of each side, whether both printed the same."""

    group: str
    name: str
    nodes: int
    ours: float
    theirs: float
    decoding: float
    same: bool

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours


def rows_page(nodes: int) -> Capture:
    """A table-like page of about so many nodes: rows of a text, a link, an opaque button and an opaque field."""
    rows = []
    for i in range(nodes // 9):
        y = i * 30.0
        opaque = {"background-color": "rgb(239, 239, 239)", "cursor": "pointer"}
        rows.append(
            pages.Node(
                "DIV",
                {"class": f"row r{i % 7}", "id": f"row-{i}"},
                [
                    pages.Node("SPAN", {}, [pages.text(f"Row {i} of many", box=(8, y, 150, 18))], (8, y, 150, 18)),
                    pages.Node(
                        "A",
                        {"href": f"/item/{i}", "title": f"Item {i}"},
                        [pages.text(f"Item number {i}", box=(170, y, 200, 18), styles={"cursor": "pointer"})],
                        (170, y, 200, 18),
                        styles={"cursor": "pointer"},
                        role="link",
                        ax_name=f"Item number {i}",
                    ),
                    pages.Node(
                        "BUTTON",
                        {"type": "button", "class": "btn btn-small"},
                        [pages.text("Change", box=(390, y + 2, 80, 18), styles=opaque, paint_order=3)],
                        (380, y, 100, 22),
                        styles=opaque,
                        paint_order=3,
                        role="button",
                        ax_name="Change",
                    ),
                    pages.Node(
                        "INPUT",
                        {"type": "text", "name": f"field{i}", "value": str(i)},
                        [],
                        (490, y, 150, 22),
                        styles={"background-color": "rgb(255, 255, 255)"},
                        paint_order=3,
                        role="textbox",
                    ),
                ],
                (0, y, 1280, 28),
                role="generic",
            )
        )
    return pages.capture(pages.document(*rows))


def cards_page(cards: int) -> Capture:
    """Opaque cards that overlap their neighbours, each painted above the one before."""
    made = []
    for i in range(cards):
        box = (float(i % 50 * 22), float(i // 50 * 33), 90.0, 70.0)
        style = {"background-color": "rgb(250, 250, 250)", "position": "absolute"}
        text = pages.text(f"Card {i}", box=(box[0] + 4, box[1] + 4, 50, 18), styles=style, paint_order=i + 2)
        made.append(pages.Node("DIV", {"class": "card"}, [text], box, styles=style, paint_order=i + 2, role="generic"))
    return pages.capture(pages.document(*made))


def raw_trees(capture: Capture) -> dict[str, Any]:
    """A made-up page's payloads in the form of a recording."""
    trees = {p.kind: json.loads(bytes(p.data)) for p in capture.payloads}
    return {
        "url": "http://x/",
        "focus_target_id": "T0",
        "bs_id": "B0",
        "all_frames": None,
        "targets": [
            {
                "target_id": "T0",
                "session_id": "S0",
                "snapshot": trees["layout_snapshot"],
                "dom_tree": trees["dom_document"],
                "ax_tree": trees["ax_tree"],
                "device_pixel_ratio": 1.0,
                "js_click_listener_backend_ids": [],
            }
        ],
    }


def recorded(folder: Path) -> Iterator[tuple[str, dict[str, Any], Capture]]:
    """The recorded pages of a folder, those left out of which browser-use said nothing."""
    for path in sorted(folder.glob("*.raw.json.gz")):
        name = path.name.removesuffix(".raw.json.gz")
        if (folder / f"{name}.json").exists() or (folder / f"{name}.expected.json.gz").exists():
            with gzip.open(path, "rt") as file:
                raw = json.load(file)
            yield name, raw, recording.load(name, folder)[0]


def our_costs(capture: Capture, runs: int) -> tuple[list[float], str, int]:
    """CPU milliseconds of each run, the text, and the number of nodes."""
    costs = []
    text, nodes = "", 0
    gc.collect()
    gc.disable()
    for _ in range(runs):
        started = time.process_time()
        tree = merge(capture)
        listing = serialize_listing(tree)
        costs.append((time.process_time() - started) * 1000)
        text, nodes = listing.text, listing.nodes
        del tree, listing
    gc.enable()
    return costs, text, nodes


class Peer:
    """browser-use in its side venv, one process for all pages."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [PEER_PYTHON, HERE / "core_peer.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def costs(self, path: Path, runs: int) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{path} {runs}\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def measure(peer: Peer, group: str, name: str, raw: dict[str, Any], capture: Capture) -> Measured:
    """One page, in turns."""
    ours: list[float] = []
    theirs: list[float] = []
    decoding: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "raw.json"
        path.write_text(json.dumps(raw))
        our_runs = their_runs = 1
        for turn in range(ROUNDS + 1):  # the first turn warms both up and tells how long a run takes
            costs, text, nodes = our_costs(capture, our_runs)
            answer = peer.costs(path, their_runs)
            if turn == 0:
                our_runs, their_runs = (
                    max(1, min(MAX_RUNS, int(ENOUGH_SECONDS * 1000 / max(cost, 0.01))))
                    for cost in (costs[0], answer["costs"][0])
                )
            ours += costs
            theirs += answer["costs"]
            decoding.append(answer["decoding"])
    return Measured(group, name, nodes, min(ours), min(theirs), min(decoding), text == answer["text"])


def report(measured: Iterable[Measured]) -> list[Measured]:
    """Print each page as it comes."""
    done = []
    for m in measured:
        with_decoding = (m.theirs + m.decoding) / m.ours
        flag = "" if m.same else "  DIFFERENT TEXT"
        print(
            f"{m.group:10} {m.name:48.48} {m.nodes:7} nodes  {m.ours:9.2f} ms  {m.theirs:9.2f} ms  "
            f"{m.ratio:6.1f}x  with decoding {with_decoding:6.1f}x{flag}",
            flush=True,
        )
        done.append(m)
    return done


def summary(name: str, among: list[Measured]) -> None:
    """One line about a group of pages."""
    if among:
        ratios = [m.ratio for m in among]
        decoded = [(m.theirs + m.decoding) / m.ours for m in among]
        print(
            f"{name:34} {len(among):3} pages  median {statistics.median(ratios):5.1f}x  least {min(ratios):5.1f}x  "
            f"median with decoding {statistics.median(decoded):5.1f}x"
        )


def linearity() -> None:
    """Time per node over sizes; the last may be at most 1.5 times the first."""
    per_node = []
    for size in LINEAR_NODES:
        capture = rows_page(size)
        costs, _, nodes = our_costs(capture, 5)
        per_node.append(min(costs) / nodes * 1000)
        print(f"{nodes:7} nodes  {min(costs):8.1f} ms  {per_node[-1]:6.2f} us a node")
    print(f"time per node at {LINEAR_NODES[-1]} nodes is {per_node[-1] / per_node[0]:.2f} times that at 5000")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path, help="folders of recorded pages")
    arguments = parser.parse_args()
    linearity()
    if not PEER_PYTHON.exists():
        print(f"no comparison: {PEER_PYTHON.relative_to(ROOT)} is missing (make oracle)")
        return
    peer = Peer()

    def all_pages() -> Iterator[Measured]:
        for name, capture in (("rows-20000", rows_page(20_000)), ("cards-1500", cards_page(1_500))):
            yield measure(peer, "made", name, raw_trees(capture), capture)
        shared = os.environ.get("PAGESTATE_SHARED")
        folders = [("recordings", Path(shared) / "oracle" / "recordings" / "browser_use")] if shared else []
        for group, folder in [*folders, *((f.name, f) for f in arguments.folders)]:
            for name, raw, capture in recorded(folder):
                yield measure(peer, group, name, raw, capture)

    done = report(all_pages())
    peer.close()
    for group in dict.fromkeys(m.group for m in done):
        among = [m for m in done if m.group == group]
        summary(group, among)
        summary(f"  up to {SMALL} nodes", [m for m in among if m.nodes <= SMALL])
        summary(f"  {SMALL} to {MIDDLE} nodes", [m for m in among if SMALL < m.nodes <= MIDDLE])
        summary(f"  above {MIDDLE} nodes", [m for m in among if m.nodes > MIDDLE])


if __name__ == "__main__":
    main()
