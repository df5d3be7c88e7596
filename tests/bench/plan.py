"""Prints how long a large plan takes, and the most memory it used: `make bench-plan N=10000000`.

The seeds are made on the way, each as text that is parsed into its key as a seed file's line is: N URLs of N / 2,000
hosts, one in ten given twice.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator

from scheduler.large_plan import plan_large
from schemas.batch import PlannedPage
from schemas.settings import CrawlSettings
from schemas.urls import url_key
from workers.store import FolderStore


def seeds(count: int) -> Iterator[PlannedPage]:
    """`count` pages and a tenth of them again, in an order that has nothing to do with hosts."""
    hosts = max(1, count // 2000)
    step = 7_368_787  # prime, so that every number comes once
    for number in range(count + count // 10):
        n = number * step % count
        path = f"section/{n % 97}/an-article-with-a-long-name-{n}.html?page={n % 13}"
        text = f"https://www.site-{n % hosts}.example.org/{path}"
        yield PlannedPage(url_key(text), text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", nargs="?", type=int, default=1_000_000)
    count = parser.parse_args().count
    with tempfile.TemporaryDirectory(prefix="pagestate-bench-") as folder:
        begun, cpu = time.perf_counter(), time.process_time()
        batches = plan_large(FolderStore.for_run(folder), "bench", 0, seeds(count), CrawlSettings())
        wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{count:,} URLs: {batches:,} batches in {wall:.0f} s ({cpu:.0f} s of CPU), at most {memory:,.0f} MB")


if __name__ == "__main__":
    main()
