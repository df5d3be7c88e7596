"""Prints how long a large plan takes, what is left of it, and a worker's next batch, and the most memory each used.

    make bench-plan N=10000000

The seeds are made on the way, each as text that is parsed into its key as a seed file's line is: N URLs of N / 2,000
hosts, one in ten given twice.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from scheduler.large_plan import plan_large
from scheduler.rounds import remaining
from schemas.batch import PlannedPage
from schemas.settings import CrawlSettings
from schemas.urls import url_key
from workers.store import FolderStore, StoredPlan

LOOKUPS = 50


def seeds(count: int) -> Iterator[PlannedPage]:
    """`count` pages and a tenth of them again, in an order that has nothing to do with hosts."""
    hosts = max(1, count // 2000)
    step = 7_368_787  # prime, so that every number comes once
    for number in range(count + count // 10):
        n = number * step % count
        path = f"section/{n % 97}/an-article-with-a-long-name-{n}.html?page={n % 13}"
        text = f"https://www.site-{n % hosts}.example.org/{path}"
        yield PlannedPage(url_key(text), text)


def read(store: FolderStore) -> None:
    """What a scheduler and a worker read of a plan."""
    sizes = [store.size_of(path) or 0 for path in store.list("plan")]
    print(f"the plan: {len(sizes):,} parts, {sum(sizes) / 1e6:,.0f} MB; before reading it {memory():,.0f} MB of memory")
    begun, cpu = time.perf_counter(), time.process_time()
    left = remaining(store, 0)
    wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
    batches = sum(map(len, left.values()))
    print(f"what is left: {batches:,} batches in {wall:.1f} s ({cpu:.1f} s of CPU), at most {memory():,.0f} MB")
    stored = StoredPlan(store, 0)
    wanted = [next(each.references("")) for each in list(left.values())[:LOOKUPS]]
    begun = time.perf_counter()
    for each in wanted:
        stored.batch(each.lane, each.sequence, each.batch_id)
        next(stored.places_after(each.lane, each.sequence), None)
    wall = 1000 * (time.perf_counter() - begun) / len(wanted)
    print(f"a worker's batch and the one after it: {wall:.0f} ms, the footers of the parts included")


def memory() -> float:
    """The most memory that this process has had, in MB; what `getrusage` says begins with the parent's."""
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--read", metavar="FOLDER", help="read this one; used by the program itself")
    given = parser.parse_args()
    count: int = given.count
    if given.read:
        read(FolderStore.for_reading(given.read))
        return
    with tempfile.TemporaryDirectory(prefix="pagestate-bench-") as folder:
        begun, cpu = time.perf_counter(), time.process_time()
        batches = plan_large(FolderStore.for_run(folder), "bench", 0, seeds(count), CrawlSettings())
        wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
        print(f"{count:,} URLs: {batches:,} batches in {wall:.0f} s ({cpu:.0f} s of CPU), at most {memory():,.0f} MB")
        # in a process of its own, for its memory
        subprocess.run([sys.executable, __file__, "--read", folder], check=True)


if __name__ == "__main__":
    main()
