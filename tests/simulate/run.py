"""Simulates a fleet on one crawl, with deaths, and says what it came to: `make simulate`.

    make simulate ARGS="--pages 10000000 --workers 1000 --seed 1"

The planner, the scheduler, the tasks, claims, markers and the S3 code are the product's; pages, browsers, the broker
and the server of the bucket are made up, and so is time. Beyond 100,000 pages a batch is captured at once, without its
journal; `--in-detail` and `--at-once` choose.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bucket import Faults, kind_of
from fleet import Fleet, Scenario

PRICES = {"PUT": 5.0, "LIST": 5.0, "GET": 0.4, "HEAD": 0.4, "DELETE": 0.0}
"""Dollars for a million requests: S3 Standard, us-east-1, as listed in 2025."""
DETAILED = 100_000


def report(fleet: Fleet, planning: float, simulating: float) -> Iterator[str]:
    """What it came to, line by line."""
    scenario, bucket, seen = fleet.scenario, fleet.bucket, fleet.seen
    pages, seconds = scenario.pages, max(fleet.seconds, 1e-9)
    objects = Counter(kind_of(name) for name in bucket.files)
    yield (
        f"{pages:,} pages, {objects['commits']:,} batches, {scenario.lanes:,} lanes, {scenario.workers:,} workers,"
        f" seed {scenario.seed}"
    )
    possible = scenario.workers * scenario.page_slots / scenario.page_seconds
    yield (
        f"simulated: {timedelta(seconds=round(seconds))}, {pages / seconds:,.1f} pages/s,"
        f" {pages / seconds / possible:.0%} of what the workers could take; half of the pages were there after"
        f" {timedelta(seconds=round(seen.half_at))}"
    )
    yield (
        f"at most {seen.most_busy:,} batches in hand of {scenario.workers * scenario.slots:,},"
        f" {seen.most_waiting:,} messages waiting"
    )
    yield "events: " + (", ".join(f"{name} {count:,}" for name, count in sorted(seen.events.items())) or "none")
    yield "deliveries: " + ", ".join(f"{name} {count:,}" for name, count in sorted(seen.results.items()))
    for verb, count in sorted(bucket.requests.items()):
        of = ", ".join(f"{kind} {n:,}" for (v, kind), n in sorted(bucket.by_kind.items()) if v == verb)
        yield f"{verb:6} {count:>12,}  {count / pages:.3f} a page, {count / seconds:,.1f} a second  ({of})"
    cost = sum(PRICES[verb] * count for verb, count in bucket.requests.items()) / 1e6
    requests = bucket.requests.total()
    yield f"requests: {requests / pages:.2f} a page, ${cost:,.2f}, ${cost / pages * 1e6:.2f} for a million pages"
    yield "objects: " + ", ".join(f"{kind} {count:,}" for kind, count in sorted(objects.items()))
    yield f"a marker: {bucket.bytes_of['commits'] / max(1, bucket.by_kind['PUT', 'commits']):,.0f} bytes"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield f"planned in {planning:.0f} s, simulated in {simulating:.0f} s, at most {memory:,.0f} MB"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for each in dataclasses.fields(Scenario):
        if each.name not in ("faults", "in_detail"):
            parser.add_argument(f"--{each.name.replace('_', '-')}", type=type(each.default), default=None)
    parser.add_argument("--lost-answers", type=float, default=0.0005, help="share of requests without an answer")
    parser.add_argument("--conflicts", type=float, default=0.0005, help="share of conditional writes answered by 409")
    detail = parser.add_mutually_exclusive_group()
    detail.add_argument("--in-detail", action="store_true", default=None)
    detail.add_argument("--at-once", dest="in_detail", action="store_false")
    logging.disable(logging.WARNING)
    given = {name: value for name, value in vars(parser.parse_args()).items() if value is not None}
    pages = given.get("pages", Scenario.pages)
    workers = given.get("workers", Scenario.workers)
    slots = workers * given.get("slots", Scenario.slots)
    # as many lanes as there are batches in hand, and some more, or workers stand idle
    chosen = {
        "in_detail": pages <= DETAILED,
        "lanes": min(65536, max(64, 2 * slots)),
        "window": max(64, slots + slots // 4),
        "deaths": 0.5,
        "scheduler_deaths": 0.5,
        "redelivered": 0.001,
        "pages_per_host": 200 if pages > DETAILED else Scenario.pages_per_host,
    }
    faults = Faults(given.pop("lost_answers"), given.pop("conflicts"))
    scenario = Scenario(**{**chosen, **given}, faults=faults)
    with tempfile.TemporaryDirectory(prefix="pagestate-simulated-") as folder:
        fleet = Fleet(scenario, Path(folder))
        begun = time.perf_counter()
        fleet.prepare()
        planned = time.perf_counter()
        wrong = fleet.run()
        for line in report(fleet, planned - begun, time.perf_counter() - planned):
            print(line)
    for line in wrong[:20]:
        print(f"WRONG: {line}")
    print(f"{len(wrong)} things are wrong" if wrong else "every page once, no lane twice at a time, all delays kept")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
