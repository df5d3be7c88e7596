"""Compares the real Stagehand with our outline, tab by tab in one browser: `make differential ARGS=--corpus`.

Tree, XPath map and URL map, the order of the maps included, must be identical, byte for byte. Both sides look at the
same tab, ours first; if it has changed meanwhile, our capture after Stagehand's is compared too.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from limit_pages import limit_site
from outline_peer import Tabs, Verdict, compared, missing
from sites import corpus_site, folder_site, own_pages, write_fuzz_pages, write_stagehand_pages

from scheduler.example.server import serve_example
from workers.browser.find import find_browser

__all__ = ["ExitStack", "compare_all", "compared", "corpus_site", "missing", "told", "urls_of"]
GROUPS = ("example", "own", "limits", "fuzz", "corpus")


def urls_of(group: str, shared: Path, fuzz: int, folder: Path, stack: ExitStack) -> dict[str, str]:
    """Name -> URL of the pages of a group, which is served until the stack closes."""
    if group == "example":
        return {url.rpartition("/")[2] or "index": url for url in stack.enter_context(serve_example()).urls}
    if group == "own":
        origin = stack.enter_context(folder_site(shared / "corpus" / "own" / "browser_use"))
        other = stack.enter_context(folder_site(folder / "own"))
        names = write_stagehand_pages(shared, folder / "own", int(other.rpartition(":")[2]))
        return {name: f"{origin}/{name}" for name in own_pages(shared)} | {name: f"{other}/{name}" for name in names}
    if group == "limits":
        return stack.enter_context(limit_site())
    if group == "fuzz":
        names = write_fuzz_pages(shared, fuzz, folder / "fuzz")
        origin = stack.enter_context(folder_site(folder / "fuzz"))
        return {name: f"{origin}/{name}" for name in names}
    return stack.enter_context(corpus_site(shared))


async def compare_all(
    group: str, urls: dict[str, str], executable: Path, *, site_per_process: bool, seconds: float
) -> list[Verdict]:
    """The verdicts about the pages of a group."""
    tabs = Tabs(executable, site_per_process=site_per_process, seconds=seconds)
    verdicts = []
    try:
        for name, url in urls.items():
            verdict = await tabs.compare(f"{group}/{name}", url)
            verdicts.append(verdict)
            print(told(verdict), flush=True)
    finally:
        await tabs.close()
    return verdicts


def told(verdict: Verdict) -> str:
    """What is said of one page."""
    if verdict.failure is not None:
        return f"{verdict.name}: nothing to compare: {verdict.failure}"
    size = f"{verdict.nodes} nodes, {verdict.lines} lines"
    notes = [note for note, holds in (("changed meanwhile", verdict.again), ("unsteady", verdict.unsteady)) if holds]
    if verdict.secrets:
        notes.append(f"{verdict.secrets} secrets")
    if verdict.difference is None:
        return f"{verdict.name}: identical ({', '.join([size, *notes])})"
    return f"{verdict.name} ({', '.join([size, *notes])}) differs in the {verdict.difference}"


def print_report(verdicts: Sequence[Verdict]) -> int:
    """The table; returns how many pages differ."""
    print(f"\n{'pages':10}{'compared':>10}{'identical':>11}{'different':>11}{'no answer':>11}{'nodes':>11}")
    for group in dict.fromkeys(v.name.partition("/")[0] for v in verdicts):
        members = [v for v in verdicts if v.name.startswith(f"{group}/")]
        different = sum(v.difference is not None for v in members)
        failed = sum(v.failure is not None for v in members)
        same = len(members) - different - failed
        nodes = sum(v.nodes for v in members)
        print(f"{group:10}{len(members) - failed:>10}{same:>11}{different:>11}{failed:>11}{nodes:>11,}")
    return sum(v.difference is not None for v in verdicts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fuzz", type=int, default=30, metavar="N", help="fuzz pages of the seeds 0 to N")
    parser.add_argument("--corpus", action="store_true", help="the real pages too")
    parser.add_argument("--only", action="append", choices=[*GROUPS, "tabs"])
    parser.add_argument("--seconds", type=float, default=900, help="how long Stagehand may take for a page")
    parser.add_argument("--page", action="append", help="only pages of this name")
    parser.add_argument("--one-process", action="store_true", help="frames of other sites in the process of their page")
    arguments, _ = parser.parse_known_args()
    given = os.environ.get("PAGESTATE_SHARED", "")
    why_not = missing() or (None if given else "set PAGESTATE_SHARED to the shared folder")
    if why_not:
        print(f"The outline is not compared: {why_not}.", file=sys.stderr)
        return 0 if given else 2
    chosen = arguments.only or [group for group in GROUPS if group != "corpus" or arguments.corpus]
    # here every group is compared in tabs, so that `tabs` has no pages of its own
    groups = [group for group in chosen if group != "tabs"]
    executable = find_browser(os.environ.get("PAGESTATE_BROWSER", ""))
    verdicts: list[Verdict] = []
    for group in groups:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pagestate-oracle-")))
            urls = urls_of(group, Path(given), arguments.fuzz, folder, stack)
            if arguments.page:
                urls = {name: url for name, url in urls.items() if name in arguments.page}
            compare = compare_all(
                group, urls, executable, site_per_process=not arguments.one_process, seconds=arguments.seconds
            )
            verdicts += asyncio.run(compare)
    return 1 if print_report(verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
