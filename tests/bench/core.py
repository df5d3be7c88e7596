"""Measures the CPU of merge, listing and selector map against browser-use's own build and serialize, in one run.

Pages are captured by `pagestate crawl`, then both sides start from the same stored payload bytes: ours decodes,
merges and serializes, browser-use's decodes them as its CDP client does, builds and serializes. (The figure in which
only ours decodes stands beside.) They take turns, A B A B; the least of each side's times counts, and a page's ratio
is theirs divided by ours. browser-use stands in a venv of its own (`make oracle`), with its garbage collector as it
runs there; ours runs without, as in the pool's processes.

Pages: rows of ordinary controls, overlapping cards, and, where PAGESTATE_SHARED names the shared folder, its real
pages. Or none of these but the recordings of the folders given, each holding NAME.raw.json.gz (raw trees) with
NAME.json or NAME.expected.json.gz (what browser-use said) beside; nothing is captured then.

    python tests/bench/core.py --keep STORES
"""

from __future__ import annotations

import argparse
import gc
import gzip
import importlib
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from heavy_pages import write_cards, write_rows

from schemas.capture import Capture
from workers.merge import merge
from workers.serialize.listing import serialize_listing

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PEER_PYTHON = ROOT / ".cache" / "oracle" / "bin" / "python"
ROUNDS = 4
ENOUGH_SECONDS = 0.1
MAX_RUNS = 20
"""A page is run until this much CPU has gone into a round, at least once, at most so often."""
LONG_MS = 5_000
"""What takes longer is run once."""
ROWS = (5_000, 20_000, 100_000)
COMPARED_ROWS = 20_000
CARDS = 1_500
SMALL, MIDDLE = 200, 1_000
"""Bounds of the groups by number of nodes."""
ASKED_REAL, ASKED_HEAVY, ASKED_LINEAR = 6, 25, 1.5
"""The ratios aimed at: the median over real pages, the heavy pages, time per node at the most against the least."""
REAL = "real pages"


def neighbour(folder: str, name: str) -> ModuleType:
    """A module of other tests: they are no package."""
    sys.path.insert(0, str(HERE.parent / folder))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


differential = neighbour("oracle", "differential")
raw_trees = neighbour("oracle", "raw_trees")
sites = neighbour("oracle", "sites")
recording = neighbour("serialize", "recording")


@dataclass(frozen=True, slots=True)
class Measured:
    """One page: nodes of its tree, CPU milliseconds of each side, whether both printed the same.

    `theirs` is with decoding, which `decoding` is a part of.
    """

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

    @property
    def undecoded(self) -> float:
        return (self.theirs - self.decoding) / self.ours


Page = tuple[str, str, dict[str, Any], Capture]
"""Group, name, raw trees, capture."""


def recorded(folder: Path) -> Iterator[Page]:
    """The recorded pages of a folder, those left out of which browser-use said nothing."""
    for path in sorted(folder.glob("*.raw.json.gz")):
        name = path.name.removesuffix(".raw.json.gz")
        if (folder / f"{name}.json").exists() or (folder / f"{name}.expected.json.gz").exists():
            with gzip.open(path, "rt") as file:
                raw = json.load(file)
            yield folder.name, name, raw, recording.load(name, folder)[0]


def captured(group: str, urls: dict[str, str], store: Path) -> Iterator[Page]:
    """The pages at these URLs, by name, captured into the store unless that is there already."""
    if not store.exists():
        differential.crawl(list(urls.values()), store)
    names = {url: name for name, url in urls.items()}
    for url, _, capture in differential.captures(store):
        if capture is None:
            print(f"{group:12} {names.get(url, url):46.46} was captured without a listing", flush=True)
        else:
            yield group, names.get(url, url), raw_trees.raw_of(capture), capture


def all_pages(keep: Path | None) -> Iterator[Page]:
    """The heavy pages and the real ones."""
    shared = os.environ.get("PAGESTATE_SHARED")
    with ExitStack() as stack:
        stores = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pagestate-bench-")))
        stores.mkdir(parents=True, exist_ok=True)
        written = stores / "pages"
        files = [write_cards(written, CARDS), *(write_rows(written, nodes) for nodes in ROWS)]
        origin = stack.enter_context(sites.folder_site(written))
        yield from captured("heavy pages", {name: f"{origin}/{name}" for name in files}, stores / "heavy")
        if shared:
            yield from captured(REAL, stack.enter_context(sites.corpus_site(Path(shared))), stores / "real")


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
    """browser-use in its side venv, one process for all pages, a new one after a page that took too long."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[str] | None = None

    def costs(self, folder: Path, runs: int) -> dict[str, Any] | None:
        """What a run cost, in the words of `core_peer.py`; None if it took too long or died."""
        if self._process is None:
            program = [PEER_PYTHON, HERE / "core_peer.py"]
            self._process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{folder} {runs}\n")
        self._process.stdin.flush()
        line = ""
        if select.select([self._process.stdout], [], [], self._seconds * runs)[0]:
            line = self._process.stdout.readline()
        if not line:
            self._process.kill()
            self.close()
            return None
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None


def write_job(folder: Path, raw: dict[str, Any], capture: Capture) -> None:
    """What `core_peer.py` reads: the raw trees, and the payloads that they were decoded from."""
    (folder / "raw.json").write_text(raw_trees.deeply(lambda: json.dumps(raw)))
    kinds = ("layout_snapshot", "dom_document", "dom_subtree", "ax_tree")
    for number, payload in enumerate(p for p in capture.payloads if p.kind in kinds and p.data):
        (folder / f"{number}.payload").write_bytes(payload.data)


def measure(peer: Peer, page: Page) -> Measured | None:
    """One page, in turns; None where browser-use has no answer."""
    group, name, raw, capture = page
    ours: list[float] = []
    theirs: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        write_job(Path(folder), raw, capture)
        our_runs = their_runs = 1
        for turn in range(ROUNDS + 1):  # the first turn warms both up and tells how long a run takes
            costs, text, nodes = our_costs(capture, our_runs)
            answer = peer.costs(Path(folder), their_runs)
            if answer is None:
                return None
            ours += costs
            theirs += zip(answer["costs"], answer["decoding"], strict=True)
            if turn == 0:
                our_runs, their_runs = (
                    max(1, min(MAX_RUNS, int(ENOUGH_SECONDS * 1000 / max(cost, 0.01))))
                    for cost in (costs[0], answer["costs"][0])
                )
            if answer["costs"][0] > LONG_MS:
                break
    cost, decoding = min(theirs)
    return Measured(group, name, nodes, min(ours), cost, decoding, text == answer["text"])


def report(peer: Peer, pages: Iterable[Page]) -> tuple[list[Measured], list[tuple[str, int, float]]]:
    """Print each page as it comes; of rows of controls also (name, nodes, microseconds a node) of our side."""
    done = []
    linear = []
    for page in pages:
        group, name, _, capture = page
        if name.startswith("rows-"):
            costs, _, nodes = our_costs(capture, 5)
            linear.append((name, nodes, min(costs) / nodes * 1000))
            print(f"{group:12} {name:46.46} {nodes:7} nodes  {min(costs):9.2f} ms  {linear[-1][2]:6.2f} us a node")
            if name != f"rows-{COMPARED_ROWS}.html":
                continue
        m = measure(peer, page)
        if m is None:
            print(f"{group:12} {name:46.46} browser-use has no answer", flush=True)
            continue
        flag = "" if m.same else "  DIFFERENT TEXT"
        print(
            f"{group:12} {name:46.46} {m.nodes:7} nodes  {m.ours:9.2f} ms  {m.theirs:9.2f} ms  "
            f"{m.ratio:6.1f}x  (only ours decodes {m.undecoded:5.1f}x){flag}",
            flush=True,
        )
        done.append(m)
    return done, linear


def summary(name: str, among: list[Measured], asked: str = "") -> None:
    """One line about a group of pages."""
    if among:
        ratio = statistics.median(m.ratio for m in among)
        undecoded = statistics.median(m.undecoded for m in among)
        least = min(m.ratio for m in among)
        print(
            f"{name:30} {len(among):3} pages  median {ratio:5.1f} times less CPU{asked}  "
            f"least {least:5.1f}  only ours decodes {undecoded:5.1f}"
        )


def summaries(done: list[Measured], linear: list[tuple[str, int, float]]) -> None:
    """The measured values beside those asked for."""
    for group in dict.fromkeys(m.group for m in done if m.group != "heavy pages"):
        among = [m for m in done if m.group == group]
        summary(group, among, f" (asked: {ASKED_REAL})" if group == REAL else "")
        summary(f"  up to {SMALL} nodes", [m for m in among if m.nodes <= SMALL])
        summary(f"  {SMALL} to {MIDDLE} nodes", [m for m in among if SMALL < m.nodes <= MIDDLE])
        summary(f"  above {MIDDLE} nodes", [m for m in among if m.nodes > MIDDLE])
    for m in done:
        if m.group == "heavy pages":
            print(f"{m.name:30} {m.nodes:7} nodes     {m.ratio:5.1f} times less CPU (asked: {ASKED_HEAVY})")
    if linear:
        linear.sort(key=lambda row: row[1])
        (_, few, at_least), (_, many, at_most) = linear[0], linear[-1]
        ratio = at_most / at_least
        print(f"time per node at {many} nodes is {ratio:.2f} times that at {few} (asked: at most {ASKED_LINEAR})")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path, help="folders of recorded pages, instead of captured ones")
    parser.add_argument("--keep", type=Path, help="a folder that keeps the stores; one that is there is not made again")
    parser.add_argument("--seconds", type=float, default=300, help="how long browser-use may take for a page")
    arguments = parser.parse_args()
    if not PEER_PYTHON.exists():
        print(f"The core is not compared: {PEER_PYTHON.relative_to(ROOT)} is missing; run `make oracle` first.")
        return 0
    core = sys.modules[merge.__module__].__file__ or ""
    print(f"Our core is {'compiled' if core.endswith('.so') else 'not compiled'}.", flush=True)
    peer = Peer(arguments.seconds)
    pages = (page for folder in arguments.folders for page in recorded(folder))
    try:
        done, linear = report(peer, pages if arguments.folders else all_pages(arguments.keep))
    finally:
        peer.close()
    summaries(done, linear)
    if not arguments.folders and not os.environ.get("PAGESTATE_SHARED"):
        print(f"{REAL}: not measured, because PAGESTATE_SHARED names no folder that holds them")
    return 1 if any(not m.same for m in done) else 0


if __name__ == "__main__":
    sys.exit(main())
