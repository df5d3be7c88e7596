"""Crawls many pages, every fifth of them a fault, and looks at what the crawl leaves behind: `make soak N=2000`.

Reported, and asked for: no process 10 s after the end, nor 10 s after a `kill -9` in the middle; a slope of the
resident memory of our processes over the last half (1,000 pages of 2,000) under 20 KB a page; no temporary folder,
after the killed crawl once its store was crawled to the end; every URL with one outcome. Exit code 1 where one does not
hold.

Faults that eat the machine's memory are left to `make faults`, and those that make a host wait to their own tests.
Without PAGESTATE_SHARED there are no faults: then only the example site is crawled, and that is said.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from types import ModuleType

import numpy as np
import psutil

from scheduler.example.server import serve_example
from scheduler.verify import verify
from workers.store import FolderStore, read_table

HERE = Path(__file__).parent
MARK = "PAGESTATE_SOAK"
PATIENCE_SECONDS = 10.0
SLOPE_LIMIT_KB = 20.0
SLOPE_PAGES = 1000
CORPUS_PAGES = 24
LEFT_OUT = ("oom", "oom-string", "status-429", "status-429-long", "status-503", "status-503-long", "flaky")


@dataclass(slots=True)
class Crawl:
    """What one crawl left behind. Memory in bytes, one sample a page."""

    urls: int
    seconds: float = 0.0
    ended: str = ""
    processes: list[str] = field(default_factory=list)
    """Command lines of what still ran when the patience was over."""
    folders: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    """What `verify` found, and URLs without exactly one row."""
    python: list[int] = field(default_factory=list)
    driver: list[int] = field(default_factory=list)

    def slope_kb(self) -> float:
        """By so much the memory of our processes grows with a page, in KB: Python and the driver, the browser apart."""
        return _slope_kb([ours + driver for ours, driver in zip(self.python, self.driver, strict=True)])

    def python_slope_kb(self) -> float:
        """That of Python alone; the driver is replaced with its browser every so many pages."""
        return _slope_kb(self.python)

    def wrong(self) -> list[str]:
        """In words, whatever should not be."""
        found = [] if self.ended in ("0", "killed") else [f"the crawl ended with {self.ended}"]
        found += [f"still running: {line}" for line in self.processes]
        found += [f"left behind: {folder}" for folder in self.folders]
        return found + self.problems


def _slope_kb(resident: Sequence[int]) -> float:
    """Least squares over the last half of the pages, or the last thousand."""
    last = np.array(resident[-min(SLOPE_PAGES, len(resident) // 2) :])
    return float(np.polyfit(np.arange(len(last)), last, 1)[0]) / 1024


def soak(urls: Sequence[str], folder: Path) -> Crawl:
    """Crawls the URLs to the end."""
    crawl = Crawl(len(urls))
    with _crawler(urls, folder) as child:
        begun = time.monotonic()
        crawl.ended = str(child.wait())
        crawl.seconds = time.monotonic() - begun
        crawl.processes = _still_running(folder)
    crawl.folders = sorted(path.name for path in (folder / "tmp").iterdir())
    _look_into(crawl, urls, folder)
    return crawl


def killed(urls: Sequence[str], folder: Path) -> Crawl:
    """Crawls the URLs, kills the crawl without warning in the middle, and crawls what is left."""
    with _crawler(urls, folder) as child:
        while child.poll() is None and len(_samples(folder)) < len(urls) // 2:
            time.sleep(0.05)
        os.kill(child.pid, signal.SIGKILL)
        ended = child.wait()
        processes = _still_running(folder)
    crawl = soak(urls, folder)
    crawl.processes += processes
    if ended != -signal.SIGKILL:
        crawl.problems.append(f"it was not killed in the middle: it had ended with {ended}")
    return crawl


@contextmanager
def _crawler(urls: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    (folder / "tmp").mkdir(exist_ok=True)
    (folder / "urls.txt").write_text("\n".join(urls), "utf-8")
    command = [sys.executable, str(HERE / "crawler.py"), str(folder / "store")]
    command += [str(folder / "urls.txt"), str(folder / "samples.txt")]
    environment = os.environ | {"TMPDIR": str(folder / "tmp"), MARK: _mark(folder)}
    with (folder / "log.txt").open("ab") as log:
        child = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            yield child
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()


def _mark(folder: Path) -> str:
    """A word in the environment of every process of a crawl, by which it is found wherever it went."""
    file = folder / "mark"
    if not file.exists():
        file.write_text(uuid.uuid4().hex, "utf-8")
    return file.read_text("utf-8")


def _still_running(folder: Path) -> list[str]:
    """The command lines of the crawl's processes that have not ended when the patience is over."""
    mark, deadline = _mark(folder), time.monotonic() + PATIENCE_SECONDS
    while True:
        found = [" ".join(process.cmdline())[:120] for process in _processes(mark)]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.2)


def _processes(mark: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                yield process
        except psutil.Error:
            continue


def _samples(folder: Path) -> list[list[int]]:
    file = folder / "samples.txt"
    if not file.exists():
        return []
    lines = file.read_text("utf-8").splitlines(keepends=True)
    # of a killed process the last one may be cut
    return [[int(number) for number in line.split()] for line in lines if line.endswith("\n")]


def _look_into(crawl: Crawl, urls: Sequence[str], folder: Path) -> None:
    store = FolderStore.for_reading(folder / "store")
    rows = read_table(store, "listings", columns=["url_key", "outcome"]).to_pylist()
    crawl.outcomes = Counter(row["outcome"] for row in rows)
    seen = Counter(row["url_key"] for row in rows)
    crawl.problems += [f"{url} has {count} rows" for url, count in seen.items() if count != 1]
    if len(seen) != len(set(urls)):
        crawl.problems.append(f"{len(set(urls)) - len(seen)} URLs have no row")
    crawl.problems += verify(store).problems
    samples = _samples(folder)
    crawl.python = [sample[1] for sample in samples]
    crawl.driver = [sample[2] for sample in samples]


def _module(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@contextmanager
def sites(count: int) -> Iterator[list[str]]:
    """So many different URLs: the example site and small real pages, every fifth a fault."""
    shared = os.environ.get("PAGESTATE_SHARED", "")
    with ExitStack() as stack:
        pages = [url for url in stack.enter_context(serve_example((0, 0))).urls if "slow" not in url]
        bad: list[str] = []
        if shared:
            corpus = _module("soak_sites", HERE.parent / "oracle" / "sites.py").corpus_site(Path(shared))
            pages += list(stack.enter_context(corpus).values())[:CORPUS_PAGES]
            faults = _module("soak_faults", HERE.parent / "faults" / "run.py")
            port = stack.enter_context(faults.fault_site(Path(shared)))
            bad = [
                f"http://{row.host}:{port}{row.path}"
                for row in faults.table()
                if not (row.heavy or row.name in LEFT_OUT) and row.host == faults.FAULT_HOST
            ]
        good = (f"{url}{'&' if '?' in url else '?'}soak={n}" for n, url in enumerate(cycle(pages)))
        faulty = (f"{url}?soak={n}" for n, url in enumerate(cycle(bad)))
        yield [next(faulty) if bad and n % 5 == 4 else next(good) for n in range(count)]


def report(name: str, crawl: Crawl) -> None:
    """Prints what a person wants to know of a crawl."""
    print(
        f"{name}: {crawl.urls} URLs in {crawl.seconds:.0f} s; "
        + ", ".join(f"{o} {n}" for o, n in crawl.outcomes.most_common())
    )
    if crawl.python:
        print(f"{'pages':>8}{'Python, MB':>20}{'the driver, MB':>17}")
        for at in sorted({*range(0, len(crawl.python), max(1, len(crawl.python) // 8)), len(crawl.python) - 1}):
            print(f"{at + 1:8}{crawl.python[at] / 2**20:20.1f}{crawl.driver[at] / 2**20:17.1f}")
    for line in crawl.wrong():
        print(f"  -- {line}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", type=int, nargs="?", default=2000)
    count = parser.parse_args().pages
    if not os.environ.get("PAGESTATE_SHARED"):
        print("PAGESTATE_SHARED is not set: no faults, the example site only.")
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name)
        (folder / "whole").mkdir()
        (folder / "killed").mkdir()
        with sites(count) as urls:
            whole = soak(urls, folder / "whole")
            report("to the end", whole)
            broken = killed(list(islice(urls, 0, 200)), folder / "killed")
            report("killed in the middle, then to the end", broken)
    wrong = [*whole.wrong(), *broken.wrong()]
    slope = whole.slope_kb()
    pages = min(SLOPE_PAGES, len(whole.python) // 2)
    print(f"memory of our processes over the last {pages} pages: {slope:+.1f} KB a page (limit {SLOPE_LIMIT_KB:g})")
    print(f"without the driver, which is replaced with its browser: {whole.python_slope_kb():+.1f} KB a page")
    if pages < SLOPE_PAGES:
        print(f"which says little: {2 * SLOPE_PAGES} pages and more are judged")
    elif slope >= SLOPE_LIMIT_KB:
        wrong.append("memory grows")
    print("nothing was left behind" if not wrong else f"{len(wrong)} things are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
