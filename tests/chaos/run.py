"""Captures the same pages undisturbed, twice, and then on three workers while everything is killed: `make chaos`.

    make chaos ARGS="--pages 2000 --disturbances 100 --seed 1"

A seeded agent kills workers, browsers, the scheduler, Redis (which comes back empty) and S3 with SIGKILL, and cuts the
connections to both servers. It holds if the logical hash is that of the undisturbed crawls, no page is lost or there
twice, no file is an orphan, and by the sites' own logs no host was visited sooner than nine tenths of its delay after
the last time. Pages that differ between the two undisturbed crawls change by themselves: they are
named, and count by their outcome only. Pages are those of the shared corpus without the huge ones, on several ports so
that there are many hosts; else those of the example site.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import psutil

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "oracle"))

from servers import BUCKET, S3, Killable, Redis, Wire, wait_until
from visited import TOLERANCE, Sites, copies, distances, sites, watched

from scheduler.logical import LogicalPage, logical_hash, logical_pages
from scheduler.verify import remove_strays, verify
from schemas.urls import url_key
from workers.browser.find import find_browser
from workers.store import ObjectStore, open_store, planned_rounds, read_plan, read_table

MARK = "PAGESTATE_TEST_PROCESS"
__all__ = ["chaos", "copies", "watched"]
CLI = [sys.executable, "-m", "scheduler.cli"]
WORKER = ["--visibility-timeout", "20", "--claim-lapse", "8", "--concurrency", "3", "--processes", "1", "--grace", "30"]
CRAWL = ["--lanes", "24", "--batch-size", "5", "--retries", "5", "--retry-pause", "2", "--resend-after", "12"]
PATIENT = [f"--budget-{n}={s}" for n, s in (("load", 30), ("settle", 10), ("payload", 60), ("retry", 20))]
"""A machine that is busy with being disturbed loses no page's parts for want of time."""
WEIGHTS = {"worker": 4, "browser": 4, "scheduler": 2, "redis": 2, "s3": 1, "cut": 5}
Pages = dict[tuple[str, str], LogicalPage]


@dataclass
class Report:
    """What was done, and what came of it."""

    pages: int = 0
    undisturbed_hash: str = ""
    hash: str = ""
    changing: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    strays: int = 0
    orphans: int = 0
    left_processes: int = 0
    rounds: int = 0
    disturbances: Counter[str] = field(default_factory=Counter)
    scheduler_ends: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)
    delay: float = 0.0
    visits: int = 0
    shortest: float = float("inf")
    hurried: list[str] = field(default_factory=list)
    """Hosts that were visited again too soon, and how soon."""

    @property
    def holds(self) -> bool:
        wrong = (self.lost, self.twice, self.problems, self.orphans, self.left_processes, self.hurried)
        return self.hash == self.undisturbed_hash and not any(wrong)

    def lines(self) -> Iterator[str]:
        """The report for people."""
        yield f"{self.pages} pages; seconds: " + ", ".join(f"{n} {s:.0f}" for n, s in self.seconds.items())
        done = ", ".join(f"{name} {count}" for name, count in sorted(self.disturbances.items()))
        yield f"{self.disturbances.total()} disturbances: {done}; {self.rounds} rounds"
        yield "outcomes: " + ", ".join(f"{name} {count}" for name, count in self.outcomes.most_common())
        yield f"logical hash undisturbed {self.undisturbed_hash}"
        yield f"logical hash disturbed   {self.hash}"
        yield f"lost {len(self.lost)}, twice {len(self.twice)}, problems {len(self.problems)}"
        yield f"orphans {self.orphans} ({self.strays} before --gc), processes left {self.left_processes}"
        yield (
            f"{self.visits} visits, at least {self.shortest:.2f} s between two of a host (delay {self.delay:g} s),"
            f" {len(self.hurried)} too soon"
        )
        for name in ("changing", "differing", "lost", "twice", "problems", "hurried", "scheduler_ends"):
            found = getattr(self, name)
            if found:
                yield f"{name} ({len(found)}):"
                yield from (f"  {one}" for one in found[:20])
        yield "It holds." if self.holds else "IT DOES NOT HOLD."


def undisturbed(seeds: Path, store: Path, policy: Path, environment: dict[str, str]) -> Pages:
    """The pages as the local engine captures them while nothing happens."""
    command = [*CLI, "crawl", str(seeds), "--store", str(store), "--policy", str(policy), "--allow-private"]
    command += ["--concurrency", "2", *CRAWL, *PATIENT]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the undisturbed crawl failed: {done.stderr[-2000:]}")
    return logical_pages(open_store(str(store), reading=True))


class Fleet:
    """A crawl on workers, Redis and S3, every part of which can be hit."""

    def __init__(self, seeds: Path, folder: Path, policy: Path, browser: str, workers: int, mark: str) -> None:
        self.redis, self.s3 = Redis(folder), S3(folder)
        self.redis.start()
        self.s3.start()
        self.wires = {"redis": Wire(self.redis.port), "s3": Wire(self.s3.port)}
        self.store = f"s3://{BUCKET}/crawl"
        broker = f"redis://127.0.0.1:{self.wires['redis'].port}/0"
        environment = self.s3.environment(self.wires["s3"].port) | {"PAGESTATE_BROWSER": browser, MARK: mark}
        both = ["--broker", broker, "--store", self.store]
        crawl = [*CLI, "crawl", str(seeds), "--engine", "celery", *both, *CRAWL, *PATIENT]
        work = [*CLI, "worker", *both, "--policy", str(policy), "--allow-private", *WORKER]
        self.scheduler = Killable(crawl, folder / "scheduler.log", environment)
        self.workers = [Killable(work, folder / f"worker-{n}.log", environment) for n in range(workers)]
        for process in (self.scheduler, *self.workers):
            process.start()

    def hit(self, what: str, chance: random.Random) -> bool:
        """Kills or cuts one thing; False where there was nothing to hit."""
        if what == "cut":
            return self.wires[chance.choice(["redis", "s3"])].cut() > 0
        if what == "browser":
            browsers = [b for worker in self.workers if worker.process for b in browsers_of(worker.process.pid)]
            if not browsers:
                return False
            with suppress(psutil.NoSuchProcess):
                chance.choice(browsers).kill()
            return True
        one = {"scheduler": self.scheduler, "redis": self.redis, "s3": self.s3}.get(what)
        one = one or chance.choice(self.workers)
        if one.exit_code is not None:
            return False
        one.kill()
        if what in ("redis", "s3"):
            time.sleep(chance.uniform(0, 2))  # so long it is away
        one.start()
        return True

    def close(self) -> None:
        for process in (self.scheduler, *self.workers):
            process.end()
        for wire in self.wires.values():
            wire.close()
        self.redis.end()
        self.s3.end()


def browsers_of(pid: int) -> list[psutil.Process]:
    """The browsers of a worker, without their own helpers."""
    found = []
    with suppress(psutil.NoSuchProcess):
        for process in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                command = process.cmdline()
                if "--remote-debugging-port=0" in command and not any(p.startswith("--type=") for p in command):
                    found.append(process)
    return found


def disturb(fleet: Fleet, report: Report, seed: int, disturbances: int, gap: float, seconds: float) -> None:
    """Hits the fleet until the crawl has ended; who ends by itself is started again. Raises TimeoutError."""
    chance = random.Random(seed)
    # each of them once, and then by weight
    first = chance.sample(list(WEIGHTS), len(WEIGHTS))
    begun, following = time.monotonic(), time.monotonic() + gap
    while (code := fleet.scheduler.exit_code) != 0:
        if time.monotonic() - begun > seconds:
            raise TimeoutError(f"the crawl did not end within {seconds:g} s: {fleet.scheduler.tail(5)}")
        if code is not None:
            report.scheduler_ends.append(f"{code}: {fleet.scheduler.tail()}")
            fleet.scheduler.start()
        for worker in fleet.workers:
            if worker.exit_code is not None:
                worker.start()
        if time.monotonic() >= following and report.disturbances.total() < disturbances:
            what = first[-1] if first else chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            if fleet.hit(what, chance):
                report.disturbances[what] += 1
                del first[-1:]
            following = time.monotonic() + chance.uniform(gap / 2, gap * 1.5)
        time.sleep(0.2)


def look(store: ObjectStore, urls: Sequence[str], report: Report) -> Pages:
    """What lies in the store at the end."""
    report.rounds = len(planned_rounds(store))
    rows = read_table(store, "listings", ["url_key", "profile", "round"]).to_pylist()
    counted = Counter((row["round"], row["url_key"], row["profile"]) for row in rows)
    report.twice = [f"{key} of round {number}" for (number, key, _), times in counted.items() if times > 1]
    planned = [page.url_key for n in planned_rounds(store) for batch in read_plan(store, n) for page in batch.pages]
    seen = {row["url_key"] for row in rows}
    report.lost = sorted({*planned, *map(url_key, urls)} - seen)
    found = verify(store)
    report.strays = len(found.strays)
    # as if it were run long after: then nobody can be about to commit them
    remove_strays(store, found, datetime.now(UTC) + timedelta(days=1))
    report.orphans = len(found.strays)
    report.problems = [*found.problems, *([f"{found.waiting} batches are not committed"] if found.waiting else [])]
    return logical_pages(store)


@contextmanager
def environment_of(variables: dict[str, str]) -> Iterator[None]:
    """Inside, this process has these variables."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def left_of(mark: str) -> list[psutil.Process]:
    """The living processes that carry the mark."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == mark:
                found.append(process)
    return found


def policy_file(urls: Sequence[str], folder: Path, delay: float) -> Path:
    """A policy by which the hosts of the URLs are visited one page at a time, with a delay."""
    hosts = sorted({urlsplit(url).netloc for url in urls})
    path = folder / "policy.toml"
    path.write_text(
        f"[[sites]]\nhosts = {json.dumps(hosts)}\nbasis = 'our own copies'\ndelay = {delay}\nconcurrency = 1\n"
    )
    return path


def look_at_delays(known: Sites, since: float, delay: float, report: Report) -> None:
    """Whether any host was visited too soon after the visit before."""
    visits = [visit for visit in known.visits() if visit[1] >= since]
    report.delay, report.visits = delay, len(visits)
    for host, between in distances(visits).items():
        report.shortest = min(report.shortest, *between, report.shortest)
        report.hurried += [f"{host} after {gap:.2f} s" for gap in between if gap < TOLERANCE * delay]


def chaos(
    known: Sites,
    pages: int,
    folder: Path,
    browser: Path,
    *,
    seed: int,
    disturbances: int,
    gap: float,
    seconds: float,
    delay: float = 1.0,
    workers: int = 3,
    said: Callable[[str], None] = lambda _: None,
) -> Report:
    """The whole of it; the report says whether it holds. Raises TimeoutError where the crawl does not end."""
    urls = copies(known.urls, pages)
    report, mark = Report(pages=len(urls)), uuid.uuid4().hex
    seeds, policy = folder / "seeds.txt", policy_file(urls, folder, delay)
    seeds.write_text("\n".join(urls) + "\n")
    environment = {"PAGESTATE_BROWSER": str(browser), MARK: mark}
    calm: list[Pages] = []
    for name in ("first", "second"):
        begun = time.monotonic()
        calm.append(undisturbed(seeds, folder / name, policy, environment))
        report.seconds[f"{name} undisturbed"] = time.monotonic() - begun
        said(f"{name} undisturbed crawl: {report.seconds[f'{name} undisturbed']:.0f} s")
    changing = {key for key in calm[0] if calm[0][key] != calm[1][key]}
    begun, since = time.monotonic(), time.time()
    fleet = Fleet(seeds, folder, policy, str(browser), workers, mark)
    try:
        disturb(fleet, report, seed, disturbances, gap, seconds)
        report.seconds["disturbed"] = time.monotonic() - begun
        for process in fleet.workers:
            process.end()
        with environment_of(fleet.s3.environment(fleet.s3.port)):
            seen = look(open_store(fleet.store, reading=True), urls, report)
        look_at_delays(known, since, delay, report)
    finally:
        fleet.close()
    with suppress(TimeoutError):
        wait_until(lambda: not left_of(mark), "what was started has ended", 30)
    report.left_processes = len(left_of(mark))
    report.changing = sorted(key for key, _ in changing)
    report.outcomes = Counter(page.outcome for page in seen.values())
    report.undisturbed_hash, report.hash = logical_hash(calm[0], changing), logical_hash(seen, changing)
    for key in sorted(calm[0].keys() | seen.keys()):
        one, other = calm[0].get(key), seen.get(key)
        if one != other and (key not in changing or one is None or other is None or one.outcome != other.outcome):
            report.differing.append(f"{key[0]}: {one.outcome if one else None}, {other.outcome if other else None}")
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--disturbances", type=int, default=120)
    parser.add_argument("--gap", type=float, default=6.0, help="seconds between two of them, on average")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--delay", type=float, default=1.0, help="seconds between two pages of a host")
    parser.add_argument("--hours", type=float, default=6.0, help="after so long the crawl has failed")
    parser.add_argument("--example", action="store_true", help="the example site instead of the shared corpus")
    parser.add_argument("--keep", metavar="FOLDER", help="stores and logs go here and stay")
    given = parser.parse_args()
    with ExitStack() as stack:
        if given.keep:
            folder = Path(given.keep).absolute()
            folder.mkdir(parents=True)
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pagestate-chaos-")))
        report = chaos(
            stack.enter_context(sites(given.example, folder)),
            given.pages,
            folder,
            find_browser(os.environ.get("PAGESTATE_BROWSER", "")),
            seed=given.seed,
            disturbances=given.disturbances,
            gap=given.gap,
            seconds=given.hours * 3600,
            delay=given.delay,
            said=lambda text: print(text, file=sys.stderr),
        )
    print("\n".join(report.lines()))
    return 0 if report.holds else 1


if __name__ == "__main__":
    sys.exit(main())
