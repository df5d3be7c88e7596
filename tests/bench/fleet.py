"""Prints how throughput grows from 1 to 16 worker processes with a simulated capture: `make bench-fleet`.

Workers are processes with the product's tasks, claims, journal and commit, on a real Redis and a folder; a capture is a
sleep, so that what is measured is what the engine adds. It is to grow at least 14 times. Sixteen Python processes and
their imports share this machine: the sleep must be long enough for its cores not to be the limit, and they are said.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from idle import redis_server
from opening import records

from scheduler.fleet import FleetTimes, run_fleet
from scheduler.rounds import plan_round, remaining
from schemas.batch import PlannedPage
from schemas.delivery import BatchReference, DeliverySettings
from schemas.settings import CrawlSettings
from workers.batch import BatchDone, Execution
from workers.broker import Broker
from workers.claims import ClaimTimes
from workers.delivered import carry_out, following
from workers.store import FolderStore, StoredPlan, commit_batch, markers, open_crawl, read_marker

PATIENCE_SECONDS = 300.0


class Sleeper:
    """Takes the place of an engine with a browser."""

    def __init__(self, folder: str, seconds: float) -> None:
        self._store = FolderStore.for_run(folder)
        self._plan = StoredPlan(self._store, 0)
        self._seconds = seconds

    def capture(self, reference: BatchReference) -> BatchDone:
        """As an engine does."""
        if read_marker(self._store, reference.round, reference.batch_id) is not None:
            return BatchDone(reference.batch_id, "duplicate", {})
        batch = self._plan.batch(reference.lane, reference.sequence, reference.batch_id)

        async def asleep(execution: Execution) -> BatchDone:
            await asyncio.sleep(self._seconds)
            committed = commit_batch(self._store, batch, execution.attempt, records(batch), now=datetime.now(UTC))
            return BatchDone(batch.batch_id, committed.result, {"ok": len(batch.pages)})

        return asyncio.run(carry_out(self._store, batch, ClaimTimes(), asleep))

    def following(self, reference: BatchReference) -> BatchReference | None:
        """As an engine does."""
        return following(self._store, self._plan, reference)


def work(broker: str, folder: str, seconds: float) -> None:
    """A worker process, until it is asked to end."""
    from workers.queues import delivery_app
    from workers.tasks import register

    app = delivery_app(DeliverySettings(broker))
    register(app, Sleeper(folder, seconds))  # type: ignore[arg-type]  # stands in for an engine
    worker = app.Worker(
        hostname=f"bench-{os.getpid()}@localhost",
        pool_cls="threads",
        concurrency=1,
        loglevel="INFO",
        without_gossip=True,
        without_mingle=True,
    )
    worker.start()


def rate(workers: int, batches: int, seconds: float, pages: int) -> float:
    """Pages a second of so many workers, each with so many batches to do; they are ready when the clock starts."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pagestate-bench-")))
        broker_url = stack.enter_context(redis_server(folder))
        store, settings = FolderStore.for_run(folder / "store"), CrawlSettings(lanes=65536, batch_size=pages)
        open_crawl(store, "bench", settings, now=datetime.now(UTC))
        urls = [f"https://site-{n // pages}.example.org/{n}" for n in range(workers * batches * pages)]
        plan_round(store, "bench", 0, [PlannedPage(url, url) for url in urls], settings)
        log = folder / "log"
        arguments = [sys.executable, __file__, "--work", broker_url, str(folder / "store"), str(seconds)]
        with log.open("ab") as file:
            processes = [subprocess.Popen(arguments, stdout=file, stderr=file) for _ in range(workers)]
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while log.read_bytes().count(b" ready") < workers:
                if time.monotonic() > deadline:
                    raise SystemExit(f"the workers did not start: {log.read_text('utf-8', 'replace')[-2000:]}")
                time.sleep(0.2)
            with Broker(DeliverySettings(broker_url)) as broker:
                begun = time.perf_counter()
                times = FleetTimes(poll=timedelta(seconds=0.5))
                left = remaining(store, 0)
                asyncio.run(run_fleet(store, broker, left, asyncio.Event(), lambda _: None, times, len(left)))
                took = time.perf_counter() - begun
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()
        assert len(markers(store)) == workers * batches
    return workers * batches * pages / took


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="that a batch takes")
    parser.add_argument("--batches", type=int, default=4, help="of each worker")
    parser.add_argument("--pages", type=int, default=25, help="of each batch")
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--work", nargs=3, metavar=("BROKER", "FOLDER", "SECONDS"), help="used by the program itself")
    given = parser.parse_args()
    if given.work:
        work(given.work[0], given.work[1], float(given.work[2]))
        return 0
    if not shutil.which("redis-server"):
        print("redis-server is not installed; infra/servers.sh installs it.", file=sys.stderr)
        return 2
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).parents[2]))
    cores, load = os.cpu_count(), os.getloadavg()[0]
    one = rate(1, given.batches, given.seconds, given.pages)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    many = rate(given.workers, given.batches, given.seconds, given.pages)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"a batch of {given.pages} pages sleeps {given.seconds:g} s; {cores} cores, load {load:.1f} at the start")
    print(f"1 worker: {one:.2f} pages/s; {given.workers} workers: {many:.2f} pages/s, {many / one:.1f} times as many")
    print(f"CPU of the {given.workers} processes and Redis, their start included: {cpu:.0f} s")
    return 0 if many / one >= 14 / 16 * given.workers else 1


if __name__ == "__main__":
    sys.exit(main())
