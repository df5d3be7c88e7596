"""Prints how long a reader takes to open a crawl from its markers, in a local folder: `make bench-open N=10000`.

The crawl is written first, by the product's own commit, with small rows: N pages in batches of 25. Wanted: 10,000 pages
in under 2 s. A reader here is a new process that has its imports; the files are as likely as not in the page cache.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime

from scheduler.rounds import plan_round
from schemas.batch import Batch, PlannedPage
from schemas.identifiers import page_id
from schemas.records import PageRecord, Row, StageResult
from schemas.settings import CrawlSettings
from workers.store import FolderStore, commit_batch, latest_listings, markers, open_crawl, outcomes_by_round, read_table

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def row() -> Row:
    """The least that a listing's row holds."""
    return {
        "degradations": [],
        "redirects": [],
        **dict.fromkeys(("duration_ms", "scale"), 1.0),
        **dict.fromkeys(("viewport_width", "viewport_height", "surrogates_replaced", "secrets_masked"), 0),
        **dict.fromkeys(("payload_bytes", "dialogs", "popups", "downloads"), 0),
        **dict.fromkeys(("locale", "time_zone", "settings_hash", "serializer", "serializer_version"), ""),
        "started_at": NOW,
        "status": 200,
        "listing": "[1]<a />\n\tHome\n" * 20,
    }


def records(batch: Batch) -> list[PageRecord]:
    """A row of each page of a batch, with a stage."""
    stages = [StageResult("navigate", "ok", 0.0, 1.0)]
    return [
        PageRecord(
            page.url_key,
            page_id(batch.crawl, batch.round, page.url_key, "desktop"),
            "desktop",
            "ok",
            row(),
            stages=stages,
        )
        for page in batch.pages
    ]


def write(folder: str, count: int) -> None:
    """A committed crawl of so many pages."""
    store, settings = FolderStore.for_run(folder), CrawlSettings()
    open_crawl(store, "bench", settings, now=NOW)
    urls = [f"https://www.site-{n % 97}.example.org/{n}" for n in range(count)]
    for batch in plan_round(store, "bench", 0, [PlannedPage(url, url) for url in urls], settings):
        commit_batch(store, batch, "a" * 32, records(batch), now=NOW)


def read(folder: str) -> None:
    """Open the crawl in several ways, each with its time."""
    store = FolderStore.for_reading(folder)
    begun = time.perf_counter()
    found = markers(store)
    took = time.perf_counter() - begun
    print(f"{len(found):,} markers of {sum(sum(m.outcomes.values()) for m in found):,} pages: {took:.2f} s")
    for what, opened in (
        ("outcomes, from the markers alone", lambda: len(outcomes_by_round(store))),
        ("markers, and URL and outcome of every page", lambda: read_table(store, "listings", ["url_key", "outcome"])),
        ("markers, and every page's last row in full", lambda: latest_listings(store)),
    ):
        begun = time.perf_counter()
        opened()
        print(f"{what}: {time.perf_counter() - begun:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", nargs="?", type=int, default=10_000)
    parser.add_argument("--read", metavar="FOLDER", help="read this one; used by the program itself")
    given = parser.parse_args()
    if given.read:
        read(given.read)
        return
    with tempfile.TemporaryDirectory(prefix="pagestate-bench-") as folder:
        write(folder, given.count)
        subprocess.run([sys.executable, __file__, "--read", folder], check=True)


if __name__ == "__main__":
    main()
