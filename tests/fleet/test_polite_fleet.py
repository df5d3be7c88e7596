"""Politeness across the fleet: the delay of a host holds from worker to worker, and who lost a lane leaves it alone."""

from __future__ import annotations

import os
import signal
import threading
from datetime import UTC, datetime, timedelta
from itertools import cycle, pairwise
from typing import Any

import pytest

from scheduler.rounds import plan_round
from schemas.batch import PlannedPage
from schemas.delivery import BatchReference
from schemas.policy import Policy, SitePolicy
from schemas.settings import CrawlSettings, RunSettings
from workers.claims import ClaimTimes
from workers.engine import EngineThread
from workers.store import FolderStore, markers, open_crawl, read_table

pytestmark = pytest.mark.browser

DELAY = timedelta(seconds=1)
TOLERANCE = 0.9
"""Delays are kept to a tenth: the site's clock is not the worker's."""


@pytest.mark.parametrize("concurrency", [1, 3])
def test_the_delay_of_a_host_holds_from_worker_to_worker(tmp_path, browser_path, site, concurrency):
    """Given two workers that take a lane's batches in turns, then the site's log shows the delay between all pages."""
    store = FolderStore.for_run(tmp_path / "store")
    settings = CrawlSettings(lanes=1, batch_size=2)
    open_crawl(store, "polite", settings, now=datetime.now(UTC))
    urls = [site.page(f"/{n}", f"<p>{n}</p>") for n in range(8)]
    batches = plan_round(store, "polite", 0, [PlannedPage(url, url) for url in urls], settings)
    assert len(batches) == 4
    own = SitePolicy(("127.0.0.1:*",), "ours", delay=DELAY, concurrency=concurrency)
    run = RunSettings(policy=Policy(sites=(own,)), allow_private=True)
    engines = [EngineThread(run, lambda: browser_path, FolderStore.for_run, ClaimTimes()) for _ in range(2)]
    try:
        for engine, batch in zip(cycle(engines), batches, strict=False):
            assert engine.capture(BatchReference.to(store.where, batch)).result == "won"
    finally:
        for engine in engines:
            engine.close()
    assert sorted(path for path in site.hits if path != "/favicon.ico") == [f"/{n}" for n in range(8)]
    gaps = [after - before for before, after in pairwise(site.times)]
    assert min(gaps) >= TOLERANCE * DELAY.total_seconds(), gaps


def test_who_wakes_from_a_standstill_leaves_the_hosts_of_a_lost_lane_alone(
    tmp_path, broker, start_pagestate_worker, plan_batch, wait_until, site
):
    """Given a worker that stands still until another has its batch, then it asks that batch's host for nothing."""
    asked, let_go = threading.Event(), threading.Event()

    def hold(handler: Any) -> None:
        asked.set()
        while not let_go.wait(0.05) and not site.closing.is_set():
            continue
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.end_headers()
        handler.wfile.write(b"<button>held</button>")

    policy = tmp_path / "policy.toml"
    policy.write_text('[[sites]]\nhosts = ["127.0.0.1:*"]\nbasis = "ours"\nconcurrency = 1\n')
    # it sorts before the others, which wait for it
    urls = [site.answer("/-held", hold), *(site.page(f"/{n}", f"<button>number {n}</button>") for n in range(3))]
    store = FolderStore.for_run(tmp_path / "store")
    batch = plan_batch(store, urls)
    options = ["--visibility-timeout", "15", "--claim-lapse", "9", "--policy", str(policy), "--allow-private"]
    first = start_pagestate_worker(broker.url, store.where, *options)
    broker.send(store.where, batch)
    assert asked.wait(120)
    os.kill(first.process.pid, signal.SIGSTOP)
    try:
        let_go.set()
        second = start_pagestate_worker(broker.url, store.where, *options)
        wait_until(lambda: markers(store), "another worker has committed the batch")
        hits = list(site.hits)
    finally:
        os.kill(first.process.pid, signal.SIGCONT)
    wait_until(lambda: first.said(": lost") + first.said(": duplicate") == 1, "the one that woke has given it up")
    wait_until(lambda: broker.is_empty, "both deliveries are acknowledged")
    assert site.hits == hits
    assert second.end() == 0
    assert [row["outcome"] for row in read_table(store, "listings", ["outcome"]).to_pylist()] == ["ok"] * 4
