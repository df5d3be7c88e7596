"""Runs every fault and every robots host of the fault site through the product, in one run, and prints how each ended.

    make faults ARGS="oom pdf"          only these
    make faults ARGS="--json faults.json"

After each fault the site's plain page is captured, and must be captured as always. Exit code 1 when anything ended
otherwise than `expected.toml` says, or later than its budget and two seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from schemas.batch import Batch, PlannedPage
from schemas.identifiers import batch_id, lane_of
from schemas.policy import Policy
from schemas.settings import Budgets, CrawlSettings, RunSettings
from schemas.urls import host_of, url_key
from workers.back_off import BackOff
from workers.browser.find import find_browser
from workers.engine import Engine, EngineLoop
from workers.store import FolderStore, open_crawl, read_table

TABLE = Path(__file__).with_name("expected.toml")
BUDGET_SECONDS = 5.0
GRACE_SECONDS = 2.0
BUDGETS = Budgets(
    permission=timedelta(seconds=BUDGET_SECONDS),
    context=timedelta(seconds=BUDGET_SECONDS),
    navigate=timedelta(seconds=BUDGET_SECONDS),
    load=timedelta(seconds=1.2),
    settle=timedelta(seconds=0.8),
    # long enough for what goes off a moment after the load event
    quiet=timedelta(seconds=0.5),
    payload=timedelta(seconds=1.5),
    retry=timedelta(seconds=1),
    needed=timedelta(seconds=4),
    process=timedelta(seconds=BUDGET_SECONDS),
    page=timedelta(seconds=BUDGET_SECONDS),
    close=timedelta(seconds=1),
)
SETTINGS = CrawlSettings(budgets=BUDGETS, robots="always", store_captures=False)
RUN = RunSettings(concurrency=1, processes=1, allow_private=True, policy=Policy(deny=("127.0.0.66/32",)))
"""The fault site is on this machine; one of its addresses stands in for one that must never be reached."""
FAULT_HOST, CONTROL = "127.0.0.10", "/faults/ok"
BY_THE_CLOCK = {"unsettled", "listeners_skipped", "ax_timeout", "frame_lost", "body_incomplete", "snapshot_truncated"}
"""What any page that is more than a slow machine does in time may be captured without: what is asked for last, and what
a snapshot leaves out that was asked for a second time."""


@dataclass(frozen=True)
class Expected:
    """What one row of the table says."""

    name: str
    path: str
    host: str = FAULT_HOST
    outcome: tuple[str, ...] = ("ok",)
    degradations: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    retryable: tuple[bool, ...] = (False,)
    detail: str = ""
    heavy: bool = False
    """A machine that is too slow for it ends it as `capture_timeout` in time, or captures it without `BY_THE_CLOCK`."""
    missing: str = ""
    """What the product does not do yet; then it must differ from the table, or the table is out of date."""
    why: str = ""


@dataclass
class Seen:
    """How one fault ended. Times in seconds."""

    expected: Expected
    outcome: str = ""
    degradations: list[str] = field(default_factory=list)
    retryable: bool = False
    detail: str = ""
    settle_reason: str = ""
    seconds: float = 0.0
    stages: str = ""
    control: str = ""
    control_seconds: float = 0.0

    def problems(self) -> list[str]:
        """In words, whatever differs from the table."""
        expected = self.expected
        found = []
        if expected.heavy and self.outcome == "capture_timeout":
            return self._always()
        if self.outcome not in expected.outcome:
            found.append(f"outcome {self.outcome}, not {' or '.join(expected.outcome)}")
        if missing := set(expected.degradations) - set(self.degradations):
            found.append(f"without {', '.join(sorted(missing))}")
        may = {*expected.degradations, *expected.may, *(BY_THE_CLOCK if expected.heavy else ())}
        if more := set(self.degradations) - may:
            found.append(f"also {', '.join(sorted(more))}")
        if self.retryable not in expected.retryable:
            found.append("retryable" if self.retryable else "not retryable")
        if expected.detail not in self.detail:
            found.append(f"detail {self.detail!r} without {expected.detail!r}")
        return found + self._always()

    def _always(self) -> list[str]:
        found = []
        if self.seconds > BUDGET_SECONDS + GRACE_SECONDS:
            found.append(f"took {self.seconds:.1f} s")
        if self.control != "ok":
            found.append(f"the page after it is {self.control}")
        return found


def table() -> list[Expected]:
    """The committed table: faults, then robots hosts."""
    read = tomllib.loads(TABLE.read_text("utf-8"))
    rows = [_row(name, {"path": f"/faults/{name}", **row}) for name, row in read["fault"].items()]
    for name, row in read["robots"].items():
        host, _, path = name.partition("/")
        rows.append(_row(name, {"host": host, "path": f"/{path}", **row}))
    return rows


def _row(name: str, row: dict[str, Any]) -> Expected:
    listed = {key: tuple(v) if isinstance(v, list) else v for key, v in row.items()}
    for key in ("outcome", "retryable"):
        if key in listed and not isinstance(listed[key], tuple):
            listed[key] = (listed[key],)
    return Expected(name=name, **listed)


@contextmanager
def fault_site(shared: Path) -> Iterator[int]:
    """The fault site on a free port, until the end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    server = subprocess.Popen(
        [sys.executable, shared / "corpus/serve.py", shared / "corpus/pages", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(300):
            try:
                faults_of(port)
                break
            except OSError:
                time.sleep(0.1)
        yield port
    finally:
        server.kill()
        server.wait()


def faults_of(port: int) -> list[str]:
    """The names of the faults that the site has."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/faults/list.json", timeout=5) as answer:
        listed = json.load(answer)
    return [entry["path"].partition("?")[0].removeprefix("/faults/") for entry in listed]


def run(rows: Sequence[Expected], port: int, browser: Path, report: Any = lambda seen: None) -> list[Seen]:
    """Captures every fault, and the plain page after each, in one run of one engine."""
    with tempfile.TemporaryDirectory(prefix="faults-") as folder, asyncio.Runner(loop_factory=EngineLoop) as runner:
        return runner.run(_run(rows, port, browser, Path(folder), report))


async def _run(rows: Sequence[Expected], port: int, browser: Path, folder: Path, report: Any) -> list[Seen]:
    store = FolderStore.for_run(folder / "store")
    open_crawl(store, "faults", SETTINGS, now=datetime.now(UTC))
    seen = []
    async with (
        Engine(RUN, browser, asyncio.Event()) as engine,
        engine.runner(store, SETTINGS, lambda _: None) as batches,
    ):
        for number, row in enumerate(rows):
            urls = [
                url_key(f"http://{row.host}:{port}{row.path}"),
                url_key(f"http://{FAULT_HOST}:{port}{CONTROL}?after={number}"),
            ]
            for sequence, url in enumerate(urls):
                # all faults are of one host, and some say that it should be left alone
                runner = replace(batches, back_off=BackOff(time.monotonic))
                await runner.capture_batch(_batch(2 * number + sequence, url))
            listed = {r["url_key"]: r for r in read_table(store, "listings").to_pylist()}
            fault, control = (listed[url] for url in urls)
            stages = [s for s in read_table(store, "stage_metrics").to_pylist() if s["url_key"] == urls[0]]
            seen.append(
                Seen(
                    row,
                    fault["outcome"],
                    fault["degradations"],
                    fault["retryable"],
                    fault["outcome_detail"] or "",
                    fault["settle_reason"] or "",
                    fault["duration_ms"] / 1000,
                    ", ".join(f"{s['stage']} {s['outcome']} {s['duration_ms'] / 1000:.1f}" for s in stages),
                    control["outcome"]
                    if "MARKER fault control ok" in (control["listing"] or "")
                    else "without its text",
                    control["duration_ms"] / 1000,
                )
            )
            report(seen[-1])
    return seen


def _batch(sequence: int, url: str) -> Batch:
    lane = lane_of(host_of(url), SETTINGS.lanes)
    return Batch("faults", 0, lane, sequence, batch_id("faults", 0, lane, sequence, [url]), (PlannedPage(url, url),))


def _print(seen: Seen) -> None:
    problems = seen.problems()
    told = f"{seen.outcome} {' '.join(seen.degradations)}{' (retryable)' if seen.retryable else ''}"
    settle = f" [{seen.settle_reason}]" if seen.settle_reason not in ("", "quiet") else ""
    print(
        f"{'--' if problems else 'ok'} {seen.expected.name:28} {seen.seconds:5.1f} s  {told}{settle} {seen.detail[:90]}"
    )
    if problems and seen.stages:
        print(f"     {seen.stages}")
    for problem in problems:
        print(f"     {problem}")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="faults and robots hosts; all without")
    parser.add_argument("--json", type=Path, help="write what was seen here too")
    arguments = parser.parse_args()
    shared = os.environ.get("PAGESTATE_SHARED", "")
    if not shared:
        print("PAGESTATE_SHARED is not set; it names the folder with the fault site.", file=sys.stderr)
        return 2
    rows = [row for row in table() if not arguments.names or row.name in arguments.names]
    browser = find_browser(os.environ.get("PAGESTATE_BROWSER", ""))
    with fault_site(Path(shared)) as port:
        seen = run(rows, port, browser, _print)
    failed = [each for each in seen if bool(each.problems()) is not bool(each.expected.missing)]
    known = [each for each in seen if each.expected.missing and each.problems()]
    for each in known:
        print(f"{each.expected.name} is not as the table says, since {each.expected.missing}.")
    right = len(seen) - len(failed) - len(known)
    print(f"{right} of {len(seen)} as the table says, {sum(s.seconds for s in seen):.0f} s.")
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(each) for each in seen], indent=1), "utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
