"""Prints how soon a killed worker's batch is at work again, on Redis and on RabbitMQ: `make bench-lost`.

A worker is killed with SIGKILL in the middle of a batch whose pages take their time; another stands by. Two times are
printed: from the kill to the redelivery (Redis: the visibility timeout, which is given here; RabbitMQ: at once), and
from there to the first page that is asked for again, which is to be at most 40 s: the dead one's claim must lapse.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from servers import BUCKET, S3, Killable, RabbitMQ, Redis, wait_until

from workers.browser.find import find_browser

CLI = [sys.executable, "-m", "scheduler.cli"]
PAGE_SECONDS = 3.0
PAGES = 20
PATIENCE_SECONDS = 300.0
WANTED_SECONDS = 40.0


@contextmanager
def slow_site(hits: list[float]) -> Iterator[str]:
    """A site whose pages take their time, and which notes when each was asked for."""

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/page"):
                hits.append(time.monotonic())
                time.sleep(PAGE_SECONDS)
            body = b"<!doctype html><title>slow</title><p>Slow."
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A browser that was killed breaks its connections off."""

    server = Server(("127.0.0.1", 0), Slow)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def measure(broker: Redis | RabbitMQ, s3: S3, folder: Path, visibility: float) -> tuple[float, float]:
    """Seconds from the kill to the redelivery, and from the redelivery to the first page."""
    hits: list[float] = []
    environment = s3.environment(s3.port) | {
        "PAGESTATE_BROWSER": str(find_browser(os.environ.get("PAGESTATE_BROWSER", "")))
    }
    name = type(broker).__name__
    with slow_site(hits) as site, ExitStack() as stack:
        seeds = folder / f"{name}.txt"
        seeds.write_text("".join(f"{site}/page/{n}\n" for n in range(PAGES)))
        both = ["--broker", broker.url, "--store", f"s3://{BUCKET}/{name}"]
        work = [*CLI, "worker", *both, "--allow-private", "--visibility-timeout", str(visibility), "--concurrency", "1"]

        def started(command: list[str], log: str) -> Killable:
            process = Killable(command, folder / f"{name}-{log}.log", environment)
            process.start()
            stack.callback(process.end)
            return process

        first = started(work, "first")
        crawl = started([*CLI, "crawl", str(seeds), "--engine", "celery", *both], "crawl")
        wait_until(lambda: len(hits) >= 2, "the first worker is at work", PATIENCE_SECONDS)
        second = started(work, "second")
        wait_until(lambda: " ready" in second.tail(50), "the second worker is ready", PATIENCE_SECONDS)
        first.kill()
        killed, seen = time.monotonic(), len(hits)
        wait_until(lambda: " received" in second.tail(50), "the batch is delivered again", PATIENCE_SECONDS)
        delivered = time.monotonic()
        wait_until(lambda: len(hits) > seen, "a page is asked for again", PATIENCE_SECONDS)
        working = hits[seen]
        wait_until(lambda: crawl.exit_code is not None, "the crawl has ended", PATIENCE_SECONDS)
        if crawl.exit_code:
            raise SystemExit(f"the crawl failed: {crawl.tail(5)}")
    return delivered - killed, working - delivered


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--visibility-timeout", type=float, default=30.0, metavar="SECONDS")
    given = parser.parse_args()
    slowest = 0.0
    for kind in (Redis, RabbitMQ):
        with tempfile.TemporaryDirectory(prefix="pagestate-bench-") as name:
            folder = Path(name)
            broker, s3 = kind(folder), S3(folder)
            try:
                broker.start()
                s3.start()
                again, work = measure(broker, s3, folder, given.visibility_timeout)
            finally:
                broker.end()
                s3.end()
        print(f"{kind.__name__}: delivered again {again:.1f} s after the kill, at work {work:.1f} s after that")
        slowest = max(slowest, work)
    print(f"at work at most {slowest:.1f} s after the redelivery (wanted: at most {WANTED_SECONDS:g})")
    return 0 if slowest <= WANTED_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
