"""The 66 real pages and the pages of our own, crawled as a user would crawl them."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from workers.store import FolderStore, latest_listings, read_table

pytestmark = pytest.mark.shared

MAX_MEMORY_MB = 900
MIN_LISTINGS = 64


@dataclass(frozen=True)
class Crawled:
    """What came of a crawl."""

    rows: list[dict[str, object]]
    peak_mb: float
    seconds: float


@pytest.fixture(scope="module")
def corpus_urls(shared: Path) -> Iterator[list[str]]:
    """The real pages, served on loopback."""
    port = _free_port()
    folder = shared / "corpus"
    server = subprocess.Popen(
        [sys.executable, str(folder / "serve.py"), str(folder / "pages"), "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(f"http://127.0.0.1:{port}/__sites", server)
        hosts = json.loads((folder / "pages" / "hosts.json").read_text("utf-8"))
        urls = []
        for line in (folder / "pages" / "manifest.jsonl").read_text("utf-8").splitlines():
            entry = json.loads(line)
            _, site, path = entry["path"].split("/", 2)
            query = f"?{entry['query'].removeprefix('?')}" if entry["query"] else ""
            urls.append(f"http://{hosts[site]}:{port}/{path}{query}")
        yield urls
    finally:
        server.terminate()
        server.wait()


@pytest.fixture
def own_urls(shared: Path) -> Iterator[list[str]]:
    """The small pages written for one feature each."""
    port = _free_port()
    folder = shared / "corpus" / "own"
    server = subprocess.Popen(
        [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(f"http://127.0.0.1:{port}/", server)
        yield [f"http://127.0.0.1:{port}/{p.relative_to(folder)}" for p in sorted(folder.rglob("*.html"))]
    finally:
        server.terminate()
        server.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(200):
        assert server.poll() is None, "the page server ended"
        with suppress(OSError):
            urllib.request.urlopen(url, timeout=2).close()
            return
        time.sleep(0.1)
    pytest.fail(f"nothing answers at {url}")


def _crawl(urls: list[str], folder: Path, browser: Path, *options: str) -> Crawled:
    """Runs `pagestate crawl` in a process of its own and watches the memory of all Python processes below it."""
    seeds = folder / "seeds.txt"
    seeds.write_text("\n".join(urls), "utf-8")
    store = folder / "store"
    command = [sys.executable, "-m", "scheduler.cli", "crawl", str(seeds), "--store", str(store)]
    command += ["--concurrency", "4", "--allow-private"]
    begun = time.monotonic()
    with (folder / "stderr.txt").open("wb") as stderr:
        process = psutil.Popen([*command, "--browser", str(browser), *options], stdout=stderr, stderr=stderr)
        peak = 0
        while process.poll() is None:
            peak = max(peak, _python_bytes(process))
            time.sleep(0.1)
    assert process.returncode == 0, (folder / "stderr.txt").read_text("utf-8")[-3000:]
    columns = ["page_id", "url_key", "round", "outcome", "outcome_detail", "degradations", "listing_sha256"]
    # all rows, not the latest ones: a URL that stands twice in a round must be seen here
    rows = read_table(FolderStore.for_reading(store), "listings", columns).to_pylist()
    assert len({(row["url_key"], row["round"]) for row in rows}) == len(rows)
    rows = latest_listings(FolderStore.for_reading(store), columns).to_pylist()
    crawled = Crawled(rows, peak / 2**20, time.monotonic() - begun)
    print(f"{len(urls)} pages in {crawled.seconds:.0f} s, Python processes at most {crawled.peak_mb:.0f} MB")
    return crawled


def _python_bytes(process: psutil.Process) -> int:
    """Resident bytes of the Python processes of a tree; what several of them share, such as libraries, counts once."""
    total = 0
    with suppress(psutil.Error):
        for one in [process, *process.children(recursive=True)]:
            with suppress(psutil.Error):
                if Path(one.exe()).name.startswith("python"):
                    total += one.memory_full_info().pss
    return total


def test_real_pages_at_default_budgets(corpus_urls: list[str], tmp_path: Path, browser_path: Path) -> None:
    """Given 66 real pages, every one ends in one outcome and at least 64 carry a listing, within the memory."""
    crawled = _crawl(corpus_urls, tmp_path, browser_path)
    assert len(crawled.rows) == len(corpus_urls) == 66
    without = [
        (row["url_key"], row["outcome"], row["outcome_detail"]) for row in crawled.rows if not row["listing_sha256"]
    ]
    assert len(crawled.rows) - len(without) >= MIN_LISTINGS, without
    assert crawled.peak_mb < MAX_MEMORY_MB


def test_huge_pages_degrade_and_none_fails(corpus_urls: list[str], tmp_path: Path, browser_path: Path) -> None:
    """Pains 19, 21: given half a second for each payload, huge pages lose their AX tree, but no page is lost."""
    crawled = _crawl(corpus_urls, tmp_path, browser_path, "--budget-payload", "0.5")
    assert len(crawled.rows) == 66
    assert [row for row in crawled.rows if not row["listing_sha256"]] == []
    assert any("ax_timeout" in row["degradations"] for row in crawled.rows)  # type: ignore[operator]
    assert crawled.peak_mb < MAX_MEMORY_MB


def test_pages_of_our_own(own_urls: list[str], tmp_path: Path, browser_path: Path) -> None:
    """Given pages of one feature each, all have a listing but the one whose renderer dies in Chromium itself."""
    crawled = _crawl(own_urls, tmp_path, browser_path)
    assert len(crawled.rows) == len(own_urls)
    without = {
        (str(row["url_key"]).rsplit("/", 1)[1], row["outcome"]) for row in crawled.rows if not row["listing_sha256"]
    }
    assert without <= {("09_deep3000.html", "renderer_crash")}
