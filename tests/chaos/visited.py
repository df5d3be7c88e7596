"""What the sites of a chaos saw: every page that was asked for, of which host and when, from their own logs."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sites import corpus_site

from scheduler.example.server import ExampleSite, serve_example

HUGE_NODES = 20_000
CORPUS_PORTS = 3
TOLERANCE = 0.9
"""The share of a delay that must at least be kept."""
Visit = tuple[str, float]


@dataclass(frozen=True)
class Sites:
    """The pages to be captured, once each, and what their sites saw of those with a query: host and time (s)."""

    urls: list[str]
    visits: Callable[[], list[Visit]]


@contextmanager
def sites(example: bool, folder: Path) -> Iterator[Sites]:
    """Pages of the shared corpus without the huge ones, on several ports; else those of the example site."""
    shared = os.environ.get("PAGESTATE_SHARED", "")
    with ExitStack() as stack:
        if example or not shared:
            yield watched(stack.enter_context(serve_example(ports=(0, 0))))
            return
        manifest = (Path(shared) / "corpus" / "pages" / "manifest.jsonl").read_text("utf-8")
        nodes = {entry["id"]: entry["verify"]["dom_nodes"] for entry in map(json.loads, manifest.splitlines())}
        urls: list[str] = []
        logs: dict[int, Path] = {}
        for number in range(CORPUS_PORTS):
            log = folder / f"site-{number}.log"
            known = stack.enter_context(corpus_site(Path(shared), 8690 + number, log))
            own = [url for name, url in known.items() if nodes[name] <= HUGE_NODES]
            port = urlsplit(own[0]).port
            assert port is not None
            logs[port] = log
            urls += own
        yield Sites(urls, lambda: [visit for port, log in logs.items() for visit in _logged(port, log)])


def watched(site: ExampleSite) -> Sites:
    """The example site, whose visits are noted from now on."""
    visits: list[Visit] = []
    for server in site._servers:
        handler: Any = server.RequestHandlerClass

        class Noting(handler):
            def do_GET(self) -> None:
                if "?" in self.path:
                    visits.append((str(self.headers["Host"]), time.time()))
                super().do_GET()

        server.RequestHandlerClass = Noting
    return Sites(list(site.urls), lambda: list(visits))


def _logged(port: int, log: Path) -> Iterator[Visit]:
    for line in log.read_text("utf-8").splitlines():
        entry = json.loads(line)
        if "copy=" in entry["path"]:
            yield f"{entry['ip']}:{port}", entry["t"]


def copies(urls: Sequence[str], count: int) -> list[str]:
    """So many URLs of the pages: a query tells the copies of one page apart."""
    return [
        urls[n % len(urls)] + (f"{'&' if '?' in urls[n % len(urls)] else '?'}copy={n // len(urls)}")
        for n in range(count)
    ]


def distances(visits: Sequence[Visit]) -> dict[str, list[float]]:
    """The seconds between one page of a host and the next, by host."""
    times: defaultdict[str, list[float]] = defaultdict(list)
    for host, when in visits:
        times[host].append(when)
    return {host: [after - before for before, after in pairwise(sorted(of))] for host, of in times.items()}
