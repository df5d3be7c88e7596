"""Measures what a worker takes that has nothing to do, with a real Redis: at its start, and with a browser at hand.

    python tests/bench/idle.py --seconds 60

The figure is the CPU of all its processes, browser and driver included, as a share of one core; wanted: under 1 %. Exit
code 1 where it takes more, or starts a browser or opens a page by itself.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from scheduler.example.server import serve_example

LIMIT_PERCENT = 1.0
PATIENCE_SECONDS = 120.0
SETTLE_SECONDS = 5.0
"""What the last page left to do is not idleness yet."""


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """A Redis on a free port, until the end; gives its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.terminate()
        server.wait()


@contextmanager
def worker(broker: str, store: Path, log: Path) -> Iterator[psutil.Process]:
    """A worker of the product, ready for batches, until the end."""
    command = [sys.executable, "-m", "scheduler.cli", "worker", "--broker", broker, "--store", str(store)]
    with log.open("wb") as file:
        process = psutil.Popen([*command, "--allow-private"], stdout=file, stderr=file)
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while b"ready" not in log.read_bytes():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"the worker did not start: {log.read_text('utf-8', 'replace')}")
                time.sleep(0.1)
            yield process
        finally:
            process.terminate()
            process.wait()


def family(process: psutil.Process) -> list[psutil.Process]:
    """A process and all below it."""
    return [process, *process.children(recursive=True)]


def share(process: psutil.Process, seconds: float) -> float:
    """The CPU of a process and all below it over so many seconds, in percent of a core."""
    begun, before = time.monotonic(), _cpu(process)
    time.sleep(seconds)
    return 100 * (_cpu(process) - before) / (time.monotonic() - begun)


def _cpu(process: psutil.Process) -> float:
    total = 0.0
    for each in family(process):
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def browsers(process: psutil.Process) -> int:
    """How many processes of a browser are below a process."""
    return sum(each.name().startswith("chrom") for each in family(process))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    seconds = parser.parse_args().seconds
    if not shutil.which("redis-server"):
        print("redis-server is not installed; infra/servers.sh installs it.", file=sys.stderr)
        return 2
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).parents[2]))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="idle-")))
        broker = stack.enter_context(redis_server(folder))
        site = stack.enter_context(serve_example((0, 0)))
        process = stack.enter_context(worker(broker, folder / "store", folder / "log"))
        time.sleep(SETTLE_SECONDS)
        fresh, started = share(process, seconds), browsers(process)
        print(
            f"a worker that was just started: {fresh:.2f} % of a core over {seconds:g} s, {started} browser processes"
        )
        (folder / "urls.txt").write_text("\n".join(site.urls), "utf-8")
        command = [sys.executable, "-m", "scheduler.cli", "crawl", str(folder / "urls.txt"), "--allow-private"]
        command += ["--store", str(folder / "store"), "--engine", "celery", "--broker", broker]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(SETTLE_SECONDS)
        before = browsers(process)
        after, left = share(process, seconds), browsers(process)
        print(f"one with a browser, after {len(site.urls)} pages: {after:.2f} % of a core, {left} browser processes")
    # a page would be one more
    return 1 if started or left > before or max(fresh, after) >= LIMIT_PERCENT else 0


if __name__ == "__main__":
    sys.exit(main())
