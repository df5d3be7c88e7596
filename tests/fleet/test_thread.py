"""One batch's way through the fleet: planned, sent by name, captured by a worker, committed in S3, read back."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from scheduler.local import run_local
from schemas.batch import Batch
from schemas.settings import CrawlSettings, RunSettings, ScreenshotSettings
from workers.engine import EngineLoop
from workers.store import (
    FolderStore,
    ObjectStore,
    load_capture,
    markers,
    open_crawl,
    open_store,
    read_table,
    selector_map_of,
    stages_of,
    verify_markers,
)
from workers.store.layout import journals_of

pytestmark = pytest.mark.browser

SAME = (
    *("url_key", "page_id", "profile", "batch_id", "outcome", "outcome_detail", "retryable", "status", "title"),
    *("final_url", "redirects", "nodes", "links", "iframes", "interactive_elements", "images", "text_chars"),
    *("settings_hash", "browser_version", "serializer_version", "robots_verdict"),
)
"""Columns that do not depend on who captured a page or when."""


STEADY_PAGES = (
    ("adminlte", "pages/examples/invoice.html"),
    ("cppref", "en/cpp/language/operator_precedence.html"),
    ("jqueryui", "examples/checkboxradio/product-selector.html"),
    ("jqueryui", "examples/dialog/default.html"),
    ("jsoup", "bom16le.html"),
    ("lighthouse", "f/a11y/a11y_tester.html"),
    ("nokogiri", "2ch.html"),
    ("policy", "policy.html/ch-archive.html"),
    ("sbadmin", "buttons.html"),
    ("sqlite", "fileformat2.html"),
    ("watir", "nested_iframes.html"),
    ("watir", "shadow_dom.html"),
)
VOLATILE = ("index", "backend_node_id", "encoded_id", "frame_id", "attempt")
"""Columns of an element that are the browser's or the attempt's own."""


@pytest.fixture
def store(s3_url: str) -> ObjectStore:
    return open_store(s3_url)


@pytest.fixture
def capture_locally(tmp_path: Path, browser_path: Path) -> Callable[..., FolderStore]:
    """Captures the same URLs with the local engine."""

    def capture(plan_batch: Callable[..., Batch], urls: Sequence[str]) -> FolderStore:
        store = FolderStore.for_run(tmp_path / "local")
        batch = plan_batch(store, urls)
        settings = CrawlSettings.from_json(open_crawl(store, None, None).settings)

        async def capture_all() -> None:
            lanes, run = {batch.lane: [batch]}, RunSettings(allow_private=True)
            quiet: Any = lambda _: None  # noqa: E731  # two callbacks that say nothing
            await run_local(store, settings, run, browser_path, lanes, asyncio.Event(), quiet, quiet)

        with asyncio.Runner(loop_factory=EngineLoop) as runner:
            runner.run(capture_all())
        return store

    return capture


@pytest.fixture
def corpus(
    shared: Path, tmp_path: Path, free_ports: Callable[[int], list[int]], running: Callable[..., Any]
) -> Iterator[list[str]]:
    """Twelve real pages that do not change by themselves (some of the corpus draw lots or print times)."""
    pages = shared / "corpus" / "pages"
    hosts = json.loads((pages / "hosts.json").read_text())
    (port,) = free_ports(1)

    def answers() -> bool:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/__manifest", timeout=5) as answer:
            return answer.status == 200
        return False

    command = [sys.executable, str(shared / "corpus" / "serve.py"), str(pages), "--port", str(port)]
    with running(command, tmp_path / "corpus.log", answers):
        yield [f"http://{hosts[site]}:{port}/{path}" for site, path in STEADY_PAGES]


def rows(store: ObjectStore) -> list[dict[str, Any]]:
    return sorted(read_table(store, "listings").to_pylist(), key=lambda row: row["url_key"])


def without_ids(listing: str | None) -> str | None:
    """A listing whose backend node ids are replaced by their order, since they differ between browsers."""
    order: dict[str, int] = {}
    return listing and re.sub(r"\[(\d+)\]<", lambda found: f"[{order.setdefault(found[1], len(order))}]<", listing)


def without(names: Sequence[str], row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def assert_same_pages(one: ObjectStore, other: ObjectStore) -> None:
    """The same rows, listings, selector maps and kinds of payloads in both."""
    ours, theirs = rows(one), rows(other)
    assert [[row[name] for name in SAME] for row in ours] == [[row[name] for name in SAME] for row in theirs]
    for row, counterpart in zip(ours, theirs, strict=True):
        assert without_ids(row["listing"]) == without_ids(counterpart["listing"]), row["url_key"]
        maps = [[without(VOLATILE, e) for e in selector_map_of(store, row["page_id"])] for store in (one, other)]
        assert maps[0] == maps[1], row["url_key"]
        stages = [Counter(s["stage"] for s in stages_of(store, row["page_id"])) for store in (one, other)]
        assert stages[0] == stages[1]
        if row["listing"]:
            kinds = [Counter(p.kind for p in load_capture(store, row["page_id"]).payloads) for store in (one, other)]
            assert kinds[0] == kinds[1]


def assert_whole(store: ObjectStore, batch: Batch) -> None:
    """Exactly one marker, every page of the batch once, and no file that the marker does not name."""
    (marker,) = markers(store)
    assert marker.batch_id == batch.batch_id
    assert list(verify_markers(store, hashes=True)) == []
    assert [row["url_key"] for row in rows(store)] == sorted(page.url_key for page in batch.pages)
    assert set(store.list("data")) == {file.path for file in marker.files}


def test_the_example_site_is_captured_as_the_local_engine_does(
    store, broker, start_worker, plan_batch, wait_until, capture_locally, example_site
):
    batch = plan_batch(store, example_site.urls)
    broker.send(store.where, batch)
    worker = start_worker()
    wait_until(lambda: markers(store) and broker.is_empty, "the batch is committed and acknowledged")
    assert worker.end() == 0
    assert_whole(store, batch)
    assert markers(store)[0].outcomes == {"http_error": 1, "ok": 11}
    assert_same_pages(store, capture_locally(plan_batch, example_site.urls))


def test_real_pages_are_captured_as_the_local_engine_does(
    store, broker, start_worker, plan_batch, wait_until, capture_locally, corpus
):
    batch = plan_batch(store, corpus)
    broker.send(store.where, batch)
    start_worker()
    wait_until(lambda: markers(store) and broker.is_empty, "the batch is committed and acknowledged")
    assert_whole(store, batch)
    assert markers(store)[0].outcomes == {"ok": len(STEADY_PAGES)}
    assert_same_pages(store, capture_locally(plan_batch, corpus))


def test_a_second_delivery_captures_nothing(store, broker, start_worker, plan_batch, wait_until, site):
    """The same message twice, one after the other and then to another worker (pain 37)."""
    urls = [site.page(f"/{n}", f"<button>{n}</button>") for n in range(3)]
    batch = plan_batch(store, urls)
    broker.send(store.where, batch)
    first = start_worker()
    wait_until(lambda: markers(store) and broker.is_empty, "the batch is committed and acknowledged")
    hits, before = Counter(site.hits), markers(store)
    broker.send(store.where, batch)
    wait_until(lambda: first.said(": duplicate") == 1 and broker.is_empty, "the second delivery is acknowledged")
    first.end()
    second = start_worker()
    broker.send(store.where, batch)
    wait_until(lambda: second.said(": duplicate") == 1 and broker.is_empty, "the third delivery is acknowledged")
    assert Counter(site.hits) == hits
    assert markers(store) == before
    assert_whole(store, batch)


class Held:
    """A page that is answered when it is let go, and says when it is asked for."""

    def __init__(self, site: Any) -> None:
        self.asked, self.let_go = threading.Event(), threading.Event()
        self._closing = site.closing
        self.url: str = site.answer("/-held", self._answer)  # sorts before /0, so it is the first of its batch

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.asked.set()
        while not self.let_go.wait(0.05) and not self._closing.is_set():
            continue
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.end_headers()
        handler.wfile.write(b"<button>held</button>")


def test_a_killed_worker_s_batch_is_captured_by_another(store, broker, start_worker, plan_batch, wait_until, site):
    """Given a worker that is killed while it captures, then another has the batch after the visibility timeout."""
    held = Held(site)
    urls = [*(site.page(f"/{n}", f"<button>{n}</button>") for n in range(3)), held.url]
    batch = plan_batch(store, urls)
    broker.send(store.where, batch)
    first = start_worker(visibility_timeout="15")
    assert held.asked.wait(120)
    first.kill()
    assert (markers(store), broker.waiting, broker.in_hand) == ([], 0, 1)
    held.let_go.set()
    second = start_worker(visibility_timeout="15")
    wait_until(lambda: markers(store) and broker.is_empty, "the batch is committed and acknowledged")
    assert second.said(": won") == 1
    assert second.end() == 0
    assert_whole(store, batch)


def test_a_batch_on_two_workers_at_once_is_one_s(store, broker, start_worker, plan_batch, wait_until, site):
    """Given the same message twice, then one captures and the other leaves it to that one."""
    held = Held(site)
    batch = plan_batch(store, [site.page("/0", "<button>0</button>"), held.url])
    workers = [start_worker(claim_lapse="3"), start_worker(claim_lapse="3")]
    broker.send(store.where, batch)
    broker.send(store.where, batch)
    wait_until(lambda: sum(worker.said(": held") for worker in workers) == 1, "one has left it to the other")
    assert held.asked.wait(120)
    held.let_go.set()
    wait_until(lambda: markers(store) and broker.is_empty, "both deliveries are acknowledged")
    assert sum(worker.said(": won") for worker in workers) == 1
    assert site.hits.count("/-held") == site.hits.count("/0") == 1
    assert_whole(store, batch)


def test_a_page_that_kills_its_workers_is_quarantined_and_its_neighbours_are_not(
    store, broker, start_worker, plan_batch, wait_until, site
):
    """Given a page at which a worker dies three times, first in company, then alone, and alone again (pain 40)."""
    held = Held(site)
    batch = plan_batch(store, [held.url, site.page("/0", "<button>zero</button>"), site.page("/1", "<p>one</p>")])
    broker.send(store.where, batch)
    journals = journals_of(0, batch.batch_id)
    for death in range(1, 4):
        worker = start_worker(visibility_timeout="8", claim_lapse="3")
        assert held.asked.wait(120)
        if death > 1:  # alone: it comes first, and the others wait for it
            wait_until(lambda: in_flight(store, journals)[-1:] == [[f"{held.url}#desktop"]], "it is alone on record")
        held.asked.clear()
        worker.kill()
        wait_until(lambda n=death: len(in_flight(store, journals)) == n, "each loss has left a journal")
    start_worker(visibility_timeout="8", claim_lapse="3")
    wait_until(lambda: markers(store) and broker.is_empty, "the batch is committed and acknowledged")
    found = {row["url_key"]: row["outcome"] for row in rows(store)}
    assert found.pop(held.url) == "quarantined"
    assert set(found.values()) == {"ok"}
    (bundle,) = store.list("quarantine")
    told = json.loads(store.read(bundle) or b"")
    assert (told["url_key"], told["losses"]) == (held.url, 2)
    assert told["settings"]["batch_size"] == CrawlSettings().batch_size


def in_flight(store: ObjectStore, journals: str) -> list[list[str]]:
    """What each journal of a batch names, the shortest last."""
    read = (store.read(path) for path in store.list(journals))
    return sorted((json.loads(data)["in_flight"] for data in read if data), key=len, reverse=True)


def test_a_worker_that_is_asked_to_end_commits_what_it_has(store, broker, start_worker, plan_batch, wait_until, site):
    """Given a TERM in the middle of a batch, then its pages in flight are finished and the others are deferred."""
    held = Held(site)
    urls = [held.url, *(site.page(f"/{n}", f"<button>{n}</button>") for n in range(6))]
    batch = plan_batch(store, urls)
    broker.send(store.where, batch)
    worker = start_worker(concurrency="1")
    assert held.asked.wait(120)
    worker.process.terminate()
    wait_until(lambda: worker.said("Warm shutdown"), "the worker has heard it")
    held.let_go.set()
    assert worker.process.wait(90) == 0
    assert_whole(store, batch)
    outcomes = Counter(row["outcome"] for row in rows(store))
    assert outcomes == {"ok": 1, "deferred": 6}
    assert broker.is_empty


def test_a_store_that_is_away_costs_a_retry_and_nothing_else(
    store, broker, start_worker, plan_batch, wait_until, site, free_ports
):
    """Given an S3 endpoint at which nobody answers, then the message comes back until another worker has it."""
    batch = plan_batch(store, [site.page("/0", "<button>0</button>")])
    (port,) = free_ports(1)
    away = start_worker(s3_endpoint_url=f"http://127.0.0.1:{port}")
    broker.send(store.where, batch)
    wait_until(lambda: away.said("does not answer"), "the worker has met the missing store")
    assert away.end() == 0
    start_worker(visibility_timeout="15")
    wait_until(lambda: markers(store) and broker.is_empty, "the batch is committed and acknowledged")
    assert_whole(store, batch)


def test_a_message_of_another_version_is_dropped_with_a_word(broker, start_worker, wait_until):
    from schemas.delivery import CAPTURE_BATCH

    worker = start_worker()
    broker.app.send_task(CAPTURE_BATCH, [{"version": 0, "batch": "old"}])
    wait_until(lambda: worker.said("A message of version 0 came to") and broker.is_empty, "the message is dropped")
    assert worker.end() == 0


def test_settings_reach_the_worker_by_the_crawl_alone(store, broker, start_worker, plan_batch, wait_until, site):
    batch = plan_batch(
        store,
        [site.page("/0", "<button>0</button>")],
        store_captures=False,
        batch_deadline=timedelta(seconds=77),
        screenshot=ScreenshotSettings(area="full", boxes=True),
    )
    broker.send(store.where, batch)
    start_worker()
    wait_until(lambda: markers(store) and broker.is_empty, "the batch is committed and acknowledged")
    assert read_table(store, "captures").num_rows == 0
    assert rows(store)[0]["settings_hash"] == open_crawl(store, None, None).settings_hash
    (picture,) = read_table(store, "screenshots").to_pylist()
    assert (picture["area"], picture["boxes"], picture["image"][8:12]) == ("full", 1, b"WEBP")
