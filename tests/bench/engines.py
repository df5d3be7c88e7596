"""Prints what a page costs on a worker with Redis and S3, against the local engine on a folder: `make bench-engines`.

Each crawls the same pages in a store of its own, in turns (A B A B), with the same settings. The figure is CPU-seconds
of all processes of ours, browsers and the start of everything included; what Redis and the S3 server take is said
apart. Pages per CPU-second of the worker are to be at least 0.95 of the local engine's.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "chaos"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "oracle"))

from servers import BUCKET, S3, Killable, Redis
from visited import copies, sites

from workers.browser.find import find_browser
from workers.store import open_store, read_table

CLI = [sys.executable, "-m", "scheduler.cli"]
SHAPE = ["--lanes", "16"]
PACE = ["--allow-private", "--concurrency", "4", "--host-concurrency", "4", "--host-delay", "0"]
_PR_SET_CHILD_SUBREAPER = 36


def reaped_cpu() -> float:
    """CPU-seconds of all processes below this one that have ended, by now waited for."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                break
        except ChildProcessError:
            break
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def running_cpu(process: Killable) -> float:
    """CPU-seconds of a server so far."""
    assert process.process is not None
    times = psutil.Process(process.process.pid).cpu_times()
    return times.user + times.system


def local(seeds: Path, store: str, environment: dict[str, str]) -> None:
    """The local engine, on a folder."""
    command = [*CLI, "crawl", str(seeds), "--store", store, *SHAPE, *PACE]
    subprocess.run(command, env=environment, capture_output=True, check=True)


def fleet(seeds: Path, store: str, environment: dict[str, str], broker: str, log: Path) -> None:
    """A scheduler and a worker, on Redis and S3."""
    both = ["--broker", broker, "--store", store]
    worker = Killable([*CLI, "worker", *both, *PACE], log, environment)
    worker.start()
    try:
        command = [*CLI, "crawl", str(seeds), "--engine", "celery", *both, *SHAPE]
        subprocess.run(command, env=environment, capture_output=True, check=True)
    finally:
        worker.end()


def captured(store: str) -> int:
    """How many pages a store holds that were captured."""
    return sum(
        outcome == "ok"
        for outcome in read_table(open_store(store, reading=True), "listings", ["outcome"])["outcome"].to_pylist()
    )


def measure(urls: Sequence[str], folder: Path, repeats: int, said: Callable[[str], None]) -> float:
    """Pages per CPU-second of the worker over those of the local engine."""
    seeds = folder / "seeds.txt"
    seeds.write_text("\n".join(urls) + "\n")
    redis, s3 = Redis(folder), S3(folder)
    redis.start()
    s3.start()
    os.environ.update(s3.environment(s3.port))
    environment = os.environ | {"PAGESTATE_BROWSER": str(find_browser(os.environ.get("PAGESTATE_BROWSER", "")))}
    cpu: dict[str, list[float]] = {"local": [], "worker": []}
    try:
        for repeat in range(repeats):
            for name in cpu:
                before, servers = reaped_cpu(), running_cpu(redis) + running_cpu(s3)
                if name == "local":
                    store = str(folder / f"store-{repeat}")
                    local(seeds, store, environment)
                else:
                    store = f"s3://{BUCKET}/crawl-{repeat}"
                    fleet(seeds, store, environment, redis.url, folder / f"worker-{repeat}.log")
                used = reaped_cpu() - before
                apart = running_cpu(redis) + running_cpu(s3) - servers
                pages = captured(store)
                cpu[name].append(used / pages)
                each = used / pages * 1000
                said(f"{name:7} {pages} pages, {used:.1f} s of CPU, {each:.0f} ms a page; servers {apart:.1f} s")
    finally:
        redis.end()
        s3.end()
    return sum(cpu["local"]) / sum(cpu["worker"])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pages", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=2)
    given = parser.parse_args()
    # what outlives its parent is waited for here, so that its CPU counts
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pagestate-bench-")))
        known = stack.enter_context(sites(not os.environ.get("PAGESTATE_SHARED"), folder))
        ratio = measure(copies(known.urls, given.pages), folder, given.repeats, print)
    print(f"pages per CPU-second, worker with Redis and S3 over local engine: {ratio:.3f} (wanted: at least 0.95)")
    return 0 if ratio >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
