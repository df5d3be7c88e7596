"""Compares the real browser-use with our serializers on captures of ours: `make differential ARGS=--corpus`.

Pages are captured by `pagestate crawl` into a store; then both sides read the same stored, masked payloads. The
listing, the ordered indices with all that is known of what they point to (attributes and rectangles too), the eval
listing, the statistics and the page state must be identical, byte for byte. A page that browser-use cannot answer about
(it takes too long, or fails) is named as such. In the group `tabs` each side takes its own payloads, of own pages that
both see in the same tab.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from embedded_pages import write_embedded_pages
from limit_pages import limit_site
from raw_trees import raw_of, write_job
from sites import corpus_site, folder_site, own_pages, write_fuzz_pages

from scheduler.example.server import serve_example
from schemas.capture import Capture
from schemas.settings import CrawlSettings, ListingSettings
from workers.browser.find import find_browser
from workers.merge import PageTree, merge
from workers.serialize.eval_listing import serialize_eval_listing
from workers.serialize.indices import FinalTree, final_tree
from workers.serialize.listing import SelectorMap, serialize_listing
from workers.serialize.options import ListingOptions
from workers.serialize.page_state import serialize_page_state
from workers.serialize.rows import listing_rows, text_of
from workers.serialize.why import Why, with_backend_node_id, with_text
from workers.store import FolderStore, latest_listings, load_capture

ROOT = Path(__file__).resolve().parents[2]
ORACLE_PYTHON = ROOT / ".cache" / "oracle" / "bin" / "python"
SHOWN = 160
MAX_TOLD = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """The first thing that differs about a page: `what` it is in, where, and both sides of it."""

    what: str
    place: int
    theirs: str
    ours: str

    def __str__(self) -> str:
        return f"{self.what}, {self.place}:\n    browser-use {self.theirs!r}\n    pagestate   {self.ours!r}"


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """How one page compares: `difference` None is identical, `failure` says why there is no answer to compare with."""

    name: str
    nodes: int
    difference: Difference | None = None
    failure: str | None = None
    history: tuple[str, ...] = ()


def crawl(urls: Sequence[str], store: Path, *arguments: str) -> None:
    """Captures pages into a store as a user would."""
    seeds = store.with_suffix(".txt")
    seeds.write_text("\n".join(urls) + "\n")
    program = [str(Path(sys.executable).parent / "pagestate"), "crawl", str(seeds), "--store", str(store), *arguments]
    program.append("--allow-private")
    done = subprocess.run([*program, "--concurrency", "3"], capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise RuntimeError(f"pagestate crawl ended with {done.returncode}: {done.stderr[-1000:]}")


def captures(store: Path) -> Iterable[tuple[str, str | None, Capture | None]]:
    """(URL key, stored listing, capture) of each page of a store; no capture where the page has no listing."""
    folder = FolderStore.for_reading(str(store))
    for row in latest_listings(folder, ["url_key", "page_id", "listing"]).to_pylist():
        has = row["listing"] is not None
        yield row["url_key"], row["listing"], load_capture(folder, row["page_id"]) if has else None


def options_of(settings: ListingSettings) -> dict[str, Any]:
    """The settings as `ask.py` reads them."""
    return dataclasses.asdict(settings)


def ask(jobs: Path, shared: Path, seconds: float, processes: int = 2) -> None:
    """Has browser-use answer all jobs of a folder."""
    program = [str(ORACLE_PYTHON), str(Path(__file__).with_name("ask.py")), str(shared / "oracle" / "browser_use")]
    quiet = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    limits = ["--seconds", str(seconds), "--processes", str(processes)]
    subprocess.run([*program, str(jobs), *limits], check=True, env=quiet)


def compared(
    name: str,
    capture: Capture,
    said: dict[str, Any],
    settings: ListingSettings,
    stored: str | None = None,
    previous: Capture | None = None,
) -> Verdict:
    """Our answers about a capture against browser-use's."""
    options = ListingOptions.of(settings)
    seen = serialize_listing(merge(previous), options).seen if previous is not None else None
    tree = merge(capture)
    if "error" in said:
        return Verdict(name, len(tree), failure=said["error"])
    final = final_tree(tree, options, seen)
    listing = serialize_listing(tree, final=final)
    ours = {
        "listing": listing.text.split("\n"),
        "elements": elements_of(listing.selector_map, tree),
        "eval listing": serialize_eval_listing(tree, final=final).split("\n"),
        "statistics": sorted(dataclasses.asdict(listing.stats).items()),
        "page state": serialize_page_state(tree, listing, settings.max_chars).split("\n"),
        "stored listing": (listing.text if stored is None else stored).split("\n"),
        "rows": text_of(listing_rows(final)).split("\n"),
    }
    theirs = {
        "listing": said["text"].split("\n"),
        "elements": said["elements"],
        "eval listing": said["eval"].split("\n"),
        "statistics": sorted(said["statistics"].items()),
        "page state": said["page_state"].split("\n"),
        "stored listing": said["text"].split("\n"),
        "rows": said["text"].split("\n"),
    }
    for what, wanted in theirs.items():
        difference = first_difference(what, wanted, ours[what])
        if difference is not None:
            place = difference.place
            lines = [str(side[place]) for side in (wanted, ours[what]) if place < len(side)]
            return Verdict(name, len(tree), difference, history=history(final, settings.max_chars, lines))
    return Verdict(name, len(tree))


def elements_of(found: SelectorMap, tree: PageTree) -> list[list[Any]]:
    """The selector map in the shape of `ask.py`: one list an element."""
    targets = [tree.targets[target].target_id for target in found.target]
    known = zip(
        found.index, found.backend_node_id, found.tag, found.xpath, targets, found.role, found.name, strict=True
    )
    rectangles = (
        [None if rect is None else list(rect) for rect in pair]
        for pair in zip(found.bounds, found.absolute, strict=True)
    )
    attributes = ([list(pair) for pair in pairs] for pairs in found.attributes)
    return [[*k, *r, a] for k, r, a in zip(known, rectangles, attributes, strict=True)]


def first_difference(what: str, theirs: Sequence[Any], ours: Sequence[Any]) -> Difference | None:
    """Where two sequences part, None if they are equal; long lines are shown around the byte that differs."""
    for place in range(max(len(theirs), len(ours))):
        one, other = (str(side[place]) if place < len(side) else "<nothing>" for side in (theirs, ours))
        if one == other:
            continue
        start = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
        cut = slice(max(0, start - SHOWN // 2), start + SHOWN // 2)
        return Difference(what, place, one[cut], other[cut])
    return None


def history(final: FinalTree, max_chars: int, lines: Sequence[str]) -> tuple[str, ...]:
    """What became of the elements that the differing lines are about, step by step."""
    tree = final.view.tree
    why = Why(final, max_chars)
    nodes: dict[int, None] = {}
    for line in lines:
        for number in re.findall(r"\[(?:i_)?(\d+)[\],]", line):
            nodes.update(dict.fromkeys(n for n, index in final.index_of.items() if index == int(number)))
            nodes.update(dict.fromkeys(with_backend_node_id(tree, int(number))))
        if not nodes and len(line.strip()) > 1:
            nodes.update(dict.fromkeys(with_text(tree, line.strip()[:SHOWN])[:1]))
    told = []
    for story in map(why.story, list(nodes)[:MAX_TOLD]):
        told.append(f"    {story.summary()}")
        told += [f"      {'+' if step.stood else '-'} {step.asked}: {step.found}" for step in story.steps]
    return tuple(told)


def print_report(verdicts: Sequence[Verdict]) -> int:
    """Prints a table of identical and different pages by group; returns how many differ."""
    groups: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault(verdict.name.partition("/")[0], []).append(verdict)
    print(f"{'pages':10}{'compared':>10}{'identical':>11}{'different':>11}{'no answer':>11}{'nodes':>11}")
    for group, members in groups.items():
        different = sum(v.difference is not None for v in members)
        failed = sum(v.failure is not None for v in members)
        nodes = sum(v.nodes for v in members)
        same = len(members) - different - failed
        print(f"{group:10}{len(members):>10}{same:>11}{different:>11}{failed:>11}{nodes:>11,}")
    for verdict in verdicts:
        if verdict.failure is not None:
            print(f"\n{verdict.name}: browser-use has no answer: {verdict.failure}")
        if verdict.difference is not None:
            print(f"\n{verdict.name} differs in the {verdict.difference}", *verdict.history, sep="\n")
    return sum(v.difference is not None for v in verdicts)


def compare_store(
    group: str, store: Path, shared: Path, seconds: float, settings: ListingSettings, names: dict[str, str]
) -> list[Verdict]:
    """Compares every page of a store."""
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory(prefix="pagestate-oracle-") as folder:
        jobs = Path(folder)
        waiting = []
        for number, (url, _, capture) in enumerate(captures(store)):
            name = f"{group}/{names.get(url, url)}"
            if capture is None:
                verdicts.append(Verdict(name, 0, failure="the page has no listing"))
                continue
            raw = raw_of(capture, settings.max_chars)
            write_job(jobs / f"{number}.job.json.gz", raw, None, options_of(settings))
            waiting.append((name, jobs / f"{number}.said.json", url))
        ask(jobs, shared, seconds)
        named = {url: (name, said) for name, said, url in waiting}
        for url, stored, capture in captures(store):
            if capture is not None:
                name, said = named[url]
                verdicts.append(compared(name, capture, json.loads(said.read_text()), settings, stored))
    return verdicts


def tabs(shared: Path, corpus: bool) -> list[Verdict]:
    """The own pages, each in a tab that both look at; the real pages too if asked."""
    from same_tab import compare_tabs  # it needs this module

    browser = find_browser(os.environ.get("PAGESTATE_BROWSER", ""))
    settings = dataclasses.replace(CrawlSettings(), site_per_process=True)
    with folder_site(shared / "corpus" / "own" / "browser_use") as origin, corpus_site(shared) as real:
        urls = {f"tabs/{name}": f"{origin}/{name}" for name in own_pages(shared)}
        urls |= {f"tabs/{name}": url for name, url in real.items()} if corpus else {}
        return asyncio.run(compare_tabs(urls, browser, settings))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fuzz", type=int, default=30, metavar="N", help="fuzz pages of the seeds 0 to N")
    parser.add_argument("--corpus", action="store_true", help="the real pages too")
    parser.add_argument(
        "--only", action="append", choices=["example", "own", "embedded", "limits", "fuzz", "corpus", "tabs"]
    )
    parser.add_argument("--page", action="append", help="only pages of this name; not for tabs")
    parser.add_argument("--seconds", type=float, default=900, help="how long browser-use may take for a page")
    parser.add_argument("--keep", type=Path, help="a folder that keeps the stores; one that is there is not made again")
    arguments = parser.parse_args()
    given = os.environ.get("PAGESTATE_SHARED", "")
    if not given or not ORACLE_PYTHON.exists():
        print("Set PAGESTATE_SHARED to the shared folder and run `make oracle` first.", file=sys.stderr)
        return 2
    shared = Path(given)
    groups = arguments.only or [
        "example",
        "own",
        "embedded",
        "limits",
        "fuzz",
        "tabs",
        *(["corpus"] if arguments.corpus else []),
    ]
    settings = ListingSettings()
    verdicts: list[Verdict] = []
    with ExitStack() as stack:
        folder = arguments.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pagestate-oracle-")))
        folder.mkdir(parents=True, exist_ok=True)
        for group in groups:
            if group == "tabs":
                verdicts += tabs(shared, arguments.corpus)
                continue
            if group == "example":
                urls = {url.rpartition("/")[2] or "index": url for url in stack.enter_context(serve_example()).urls}
            elif group == "own":
                origin = stack.enter_context(folder_site(shared / "corpus" / "own" / "browser_use"))
                urls = {name: f"{origin}/{name}" for name in own_pages(shared)}
            elif group == "embedded":
                names = write_embedded_pages(folder / "documents")
                origin = stack.enter_context(folder_site(folder / "documents"))
                urls = {name: f"{origin}/{name}" for name in names}
            elif group == "limits":
                urls = stack.enter_context(limit_site())
            elif group == "fuzz":
                names = write_fuzz_pages(shared, arguments.fuzz, folder / "pages")
                origin = stack.enter_context(folder_site(folder / "pages"))
                urls = {name: f"{origin}/{name}" for name in names}
            else:
                urls = stack.enter_context(corpus_site(shared))
            if arguments.page:
                urls = {name: url for name, url in urls.items() if name in arguments.page}
            store = folder / group
            if not store.exists():
                crawl(list(urls.values()), store, "--site-per-process")
            names_of = {url: name for name, url in urls.items()}
            verdicts += compare_store(group, store, shared, arguments.seconds, settings, names_of)
    return 1 if print_report(verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
