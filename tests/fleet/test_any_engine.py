"""One suite for every engine and store: the same crawl, by the same commands, ends as the same dataset.

Local engine and folder, Redis and RabbitMQ, folder and S3. Nothing here knows how a batch is delivered.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scheduler.logical import logical_hash, logical_pages
from schemas.urls import url_key
from workers.store import ObjectStore, markers, open_store, planned_rounds, read_plan, read_table

pytestmark = pytest.mark.browser

CLI = [sys.executable, "-m", "scheduler.cli"]
WORKER = ("--visibility-timeout", "15", "--claim-lapse", "6", "--allow-private")
ENGINES = ("local-folder", "redis-folder", "redis-s3", "rabbitmq-folder", "rabbitmq-s3")


@dataclass(frozen=True)
class Engine:
    """An engine and a store; `crawl` captures URLs as a user would."""

    where: str
    options: tuple[str, ...]

    def crawl(self, urls: Sequence[str], *more: str) -> subprocess.CompletedProcess[str]:
        command = [*CLI, "crawl", *urls, "--store", self.where, *self.options, *more]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    def verified(self) -> subprocess.CompletedProcess[str]:
        command = [*CLI, "verify", "--store", self.where]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    @property
    def store(self) -> ObjectStore:
        return open_store(self.where, reading=True)


@pytest.fixture(params=ENGINES)
def engine(
    request: pytest.FixtureRequest, tmp_path: Path, start_pagestate_worker: Callable[..., Any], browser_path: Path
) -> Engine:
    """Each of them in turn, with a worker where one is needed."""
    delivery, _, place = request.param.partition("-")
    where = request.getfixturevalue("s3_url") if place == "s3" else str(tmp_path / "store")
    if delivery == "local":
        return Engine(where, ("--allow-private",))
    broker = request.getfixturevalue(f"{delivery}_url")
    start_pagestate_worker(broker, where, *WORKER)
    return Engine(where, ("--engine", "celery", "--broker", broker))


def rows(store: ObjectStore) -> list[dict[str, Any]]:
    return read_table(store, "listings", ["url_key", "outcome", "round", "status"]).to_pylist()


def test_a_crawl_its_second_list_and_its_second_round(engine, site):
    """Every page once, what a second list adds and nothing else, and what failed for a time once more."""
    hits: Counter[str] = Counter()

    def shaky(handler: Any) -> None:
        hits["/shaky"] += 1
        if hits["/shaky"] > 1:
            handler.send_response(200)
            handler.send_header("Content-Type", "text/html")
            handler.end_headers()
            handler.wfile.write(b"<p>there at last</p>")

    pages = [site.page(f"/{n}", f"<title>{n}</title><button>page {n}</button>") for n in range(6)]
    gone = site.origin + "/gone"

    done = engine.crawl([*pages[:4], gone], "--lanes", "2", "--batch-size", "2")
    assert done.returncode == 0, done.stderr
    assert Counter(row["outcome"] for row in rows(engine.store)) == {"ok": 4, "http_error": 1}

    before = Counter(site.hits)
    done = engine.crawl([*pages, gone], "--lanes", "2", "--batch-size", "2")
    assert done.returncode == 0, done.stderr
    new = Counter(site.hits) - before
    assert {path for path in new if path != "/favicon.ico"} == {"/4", "/5"}

    done = engine.crawl(
        [site.answer("/shaky", shaky)], "--lanes", "2", "--batch-size", "2", "--retries", "2", "--retry-pause", "1"
    )
    assert done.returncode == 0, done.stderr

    store = engine.store
    found = {(row["round"], row["url_key"]): (row["outcome"], row["status"]) for row in rows(store)}
    assert len(found) == len(rows(store)) == 9
    assert found[0, url_key(gone)] == ("http_error", 404)
    assert found[0, url_key(site.origin + "/shaky")][0] == "connection_error"
    assert found[1, url_key(site.origin + "/shaky")] == ("ok", 200)
    assert {key for number, key in found if number} == {url_key(site.origin + "/shaky")}
    planned = [page.url_key for n in planned_rounds(store) for batch in read_plan(store, n) for page in batch.pages]
    assert sorted(planned) == sorted(key for _, key in found)
    assert sum(sum(marker.outcomes.values()) for marker in markers(store)) == 9
    told = engine.verified()
    assert told.returncode == 0, told.stdout + told.stderr


def test_its_dataset_is_that_of_the_local_engine(engine, site, tmp_path):
    """The logical hash is the same, whoever captured the pages and wherever they lie."""
    urls = [site.page(f"/{n}", f"<title>{n}</title><a href=/{n + 1}>next</a><input value=v{n}>") for n in range(5)]
    for one in (engine, local := Engine(str(tmp_path / "local"), ("--allow-private",))):
        done = one.crawl(urls, "--lanes", "2", "--batch-size", "2")
        assert done.returncode == 0, done.stderr
    ours, theirs = logical_pages(engine.store), logical_pages(local.store)
    assert len(ours) == 5
    assert logical_hash(ours) == logical_hash(theirs)


def test_the_same_plan_and_ids_on_every_engine(engine, site):
    """Batches are named by their pages: who plans again what is planned plans the same."""
    urls = [site.page(f"/{n}", f"<p>{n} pages</p>") for n in range(5)]
    done = engine.crawl(urls, "--lanes", "2", "--batch-size", "2", "--crawl", "named")
    assert done.returncode == 0, done.stderr
    batches = {batch.batch_id: [page.url_key for page in batch.pages] for batch in read_plan(engine.store, 0)}
    done = engine.crawl(urls[::-1], "--lanes", "2", "--batch-size", "2", "--crawl", "named")
    assert done.returncode == 0, done.stderr
    again = {batch.batch_id: [page.url_key for page in batch.pages] for batch in read_plan(engine.store, 0)}
    assert again == batches
    assert {marker.batch_id for marker in markers(engine.store)} == set(batches)
