"""Serves what is compared on loopback: the own pages, fuzz pages written by seed, the real pages of the corpus."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PORT_TRIES = 50
NOT_PAGES = frozenset({"iframe_inner.html", "iframe_inner2.html", "xo_inner.html", "xo_nested.html"})
"""Own pages that only stand in others."""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@contextmanager
def folder_site(folder: Path) -> Iterator[str]:
    """A folder on two consecutive free ports, so that a page finds another site beside its own; gives the origin."""
    with ExitStack() as stack:
        for _ in range(PORT_TRIES):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            try:
                servers = [
                    ThreadingHTTPServer(("127.0.0.1", p), partial(_Quiet, directory=str(folder)))
                    for p in (port, port + 1)
                ]
                break
            except OSError:
                continue
        else:
            raise OSError("no two consecutive free ports")
        for server in servers:
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{port}"


def own_pages(shared: Path) -> list[str]:
    """The names of the own pages that are compared."""
    folder = shared / "corpus" / "own" / "browser_use"
    return sorted(p.name for p in folder.glob("*.html") if p.name not in NOT_PAGES)


def write_fuzz_pages(shared: Path, count: int, folder: Path) -> list[str]:
    """The names of the pages of the seeds 0 to `count`, written into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    script = shared / "oracle" / "browser_use" / "fuzz.py"
    subprocess.run([sys.executable, str(script), "0", str(count), str(folder)], check=True)
    return [f"f{seed}.html" for seed in range(count)]


@contextmanager
def corpus_site(shared: Path, port: int = 8671, log: Path | None = None) -> Iterator[dict[str, str]]:
    """The real pages on loopback: name -> URL, the smallest first. `log` gets a JSON object for each request."""
    folder = shared / "corpus"
    entries = [json.loads(line) for line in (folder / "pages" / "manifest.jsonl").read_text().splitlines()]
    hosts = json.loads((folder / "pages" / "hosts.json").read_text())
    entries.sort(key=lambda entry: (entry["bytes"], entry["id"]))
    with socket.socket() as probe:
        # the same one if it is free, so that kept stores name the same pages
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            with socket.socket() as other:
                other.bind(("127.0.0.1", 0))
                port = other.getsockname()[1]
    server = subprocess.Popen(
        [
            *(sys.executable, str(folder / "serve.py"), str(folder / "pages"), "--port", str(port)),
            *(["--log", str(log)] if log else []),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(100):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/__sites", timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        urls = {}
        for entry in entries:
            _, site, path = entry["path"].split("/", 2)
            query = f"?{entry['query']}" if entry["query"] else ""
            urls[entry["id"]] = f"http://{hosts[site]}:{port}/{path}{query}"
        yield urls
    finally:
        server.terminate()
        server.wait()


def write_stagehand_pages(shared: Path, folder: Path, port: int) -> list[str]:
    """The own pages for the outline, with the two ports that they leave open filled in; gives the names."""
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for source in sorted((shared / "corpus" / "own" / "stagehand").glob("*.html")):
        text = source.read_text("utf-8").replace("__PORT__", str(port)).replace("__PORT2__", str(port + 1))
        (folder / source.name).write_text(text, "utf-8")
        if source.name[0].isdigit():
            names.append(source.name)
    return names
