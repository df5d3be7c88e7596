"""A crawl on several workers: every page once, whoever is killed, with either broker and either kind of store."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from scheduler.fleet import FleetTimes, run_fleet
from scheduler.rounds import plan_round, remaining
from schemas.batch import PlannedPage
from schemas.delivery import BatchReference, DeliverySettings, broker_name
from schemas.errors import BrokerError, SettingError
from schemas.marker import Marker
from schemas.settings import CrawlSettings
from workers.broker import Broker
from workers.queues import queue_names
from workers.store import FolderStore, ObjectStore, markers, open_crawl, open_store, read_table, verify_markers
from workers.store.layout import marker_path

TIMES = FleetTimes(poll=timedelta(seconds=0.3), stall=timedelta(seconds=6))
QUICK = ["--visibility-timeout", "10", "--claim-lapse", "3", "--allow-private"]


@pytest.fixture(params=["redis", "rabbitmq"])
def broker_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(f"{request.param}_url")
    with Broker(DeliverySettings(url)) as broker, broker._connection() as connection:
        broker.waiting()  # makes the queue
        for name in queue_names(broker._app):
            broker._app.amqp.queues[name](connection.default_channel).purge()
    return url


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "folder":
        return FolderStore.for_run(tmp_path / "store")
    return open_store(request.getfixturevalue("s3_url"))


@contextmanager
def scheduled(store: ObjectStore, broker_url: str, done: Callable[[Any], None] = lambda _: None) -> Iterator[Any]:
    """A scheduler on a thread of its own; `join` it to wait for the round's end."""
    errors: list[BaseException] = []
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    def work() -> None:
        try:
            with Broker(DeliverySettings(broker_url)) as broker:
                loop.run_until_complete(run_fleet(store, broker, remaining(store, 0), stop, done, TIMES))
        except BaseException as error:
            errors.append(error)
            raise

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield thread
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(60)
        loop.close()
        assert errors == []


def start(store: ObjectStore, urls: list[str], lanes: int, batch_size: int) -> None:
    settings = CrawlSettings(lanes=lanes, batch_size=batch_size, batch_deadline=timedelta(seconds=120))
    open_crawl(store, "fleet", settings, now=datetime.now(UTC))
    plan_round(store, "fleet", 0, [PlannedPage(url, url) for url in urls], settings)


def assert_every_page_once(store: ObjectStore, urls: list[str]) -> None:
    rows = read_table(store, "listings", ["url_key", "outcome"]).to_pylist()
    assert sorted(row["url_key"] for row in rows) == sorted(urls)
    assert Counter(row["outcome"] for row in rows) == {"ok": len(urls)}
    assert list(verify_markers(store, hashes=True)) == []


def test_a_worker_without_a_batch_starts_no_browser(redis_url, start_pagestate_worker, wait_until, tmp_path):
    """How much it takes meanwhile is for `make idle` to print (pain 4)."""
    worker = start_pagestate_worker(redis_url, FolderStore.for_run(tmp_path / "store").where)
    wait_until(lambda: worker.said("ready"), "the worker waits for batches")
    family = [psutil.Process(worker.process.pid), *psutil.Process(worker.process.pid).children(recursive=True)]
    assert [each.name() for each in family if each.name().startswith(("chrom", "node"))] == []


@pytest.mark.browser
def test_two_workers_share_a_crawl(store, broker_url, start_pagestate_worker, site):
    # Given pages of one host, which is one lane of four batches
    urls = [site.page(f"/{n}", f"<button>page {n}</button>") for n in range(8)]
    start(store, urls, lanes=4, batch_size=2)
    # When two workers are there and a scheduler
    for _ in range(2):
        # claims lapse as late as they do in earnest: on a busy machine a living holder may be slow to renew
        start_pagestate_worker(broker_url, store.where, "--allow-private")
    with scheduled(store, broker_url) as round_of:
        round_of.join(240)
        assert not round_of.is_alive(), "the round is not over"
    # Then every page is there once, was fetched once, and nothing waits
    assert_every_page_once(store, urls)
    assert Counter(path for path in site.hits if path != "/favicon.ico") == {f"/{n}": 1 for n in range(8)}
    with Broker(DeliverySettings(broker_url)) as broker:
        assert broker.waiting() == 0


@pytest.mark.browser
def test_a_killed_worker_and_a_killed_scheduler_cost_nothing(
    store, broker_url, start_pagestate_worker, site, wait_until
):
    urls = [site.page(f"/{n}", f"<button>page {n}</button>") for n in range(8)]
    start(store, urls, lanes=2, batch_size=2)
    first = start_pagestate_worker(broker_url, store.where, *QUICK)
    with scheduled(store, broker_url):
        wait_until(lambda: markers(store), "a first batch is committed")
        first.kill()
    # the scheduler has ended too; another one, twice, and another worker go on
    start_pagestate_worker(broker_url, store.where, *QUICK)
    with scheduled(store, broker_url) as one, scheduled(store, broker_url) as other:
        one.join(240)
        other.join(240)
        assert not one.is_alive()
    assert_every_page_once(store, urls)


@pytest.mark.browser
def test_a_lost_message_is_sent_again(tmp_path, redis_url, start_pagestate_worker, site):
    """Given a broker that forgets everything, then the scheduler sends what stands still."""
    store = FolderStore.for_run(tmp_path / "store")
    urls = [site.page(f"/{n}", f"<button>page {n}</button>") for n in range(2)]
    start(store, urls, lanes=1, batch_size=2)
    with scheduled(store, redis_url) as round_of:
        with Broker(DeliverySettings(redis_url)) as broker, broker._connection() as connection:
            queue = broker._app.amqp.queues["pagestate"](connection.default_channel)
            while not queue.purge():
                continue
        start_pagestate_worker(redis_url, store.where, *QUICK)
        round_of.join(240)
        assert not round_of.is_alive()
    assert_every_page_once(store, urls)


@pytest.mark.browser
def test_a_crawl_by_the_command_line_on_workers(s3_url, redis_url, start_pagestate_worker, site):
    urls = [site.page(f"/{n}", f"<button>page {n}</button>") for n in range(3)]
    start_pagestate_worker(redis_url, s3_url, *QUICK)
    command = [sys.executable, "-m", "scheduler.cli"]
    engine = ["--engine", "celery", "--broker", redis_url]
    done = subprocess.run(
        [*command, "crawl", *urls, "--store", s3_url, *engine], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"read_json('{s3_url}/commits/*/*.json')" in done.stdout
    assert_every_page_once(open_store(s3_url), urls)
    for verb in "status", "verify":
        told = subprocess.run(
            [*command, verb, "--store", s3_url], capture_output=True, text=True, timeout=120, check=False
        )
        assert told.returncode == 0, told.stdout + told.stderr
    # the same command again has nothing to do, and needs no worker
    again = subprocess.run(
        [*command, "crawl", *urls, "--store", s3_url, *engine], capture_output=True, text=True, timeout=240, check=False
    )
    assert again.returncode == 0, again.stderr
    assert len(markers(open_store(s3_url))) == len({marker.batch_id for marker in markers(open_store(s3_url))})


@pytest.mark.browser
@pytest.mark.parametrize("broker_url", ["redis"], indirect=True)
def test_links_are_followed_on_workers(store, broker_url, start_pagestate_worker, site):
    """The scheduler reads what workers have stored, from a folder and from S3."""
    pages = [site.page("/", "<a href=/1>first</a><a href=http://g.invalid/>elsewhere</a>")]
    pages += [site.page(f"/{n}", f"<a href=/{n + 1}>next of {n}</a>") for n in range(1, 4)]
    start_pagestate_worker(broker_url, store.where, *QUICK)
    command = [sys.executable, "-m", "scheduler.cli", "crawl", pages[0], "--store", store.where, "--follow", "2"]
    engine = ["--engine", "celery", "--broker", broker_url, "--json"]
    done = subprocess.run([*command, *engine], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert_every_page_once(store, pages[:3])
    links = [(one["planned"], one["refused"]) for one in json.loads(done.stdout)["links"]]
    assert links == [(1, {"out_of_scope": 1}), (1, {}), (0, {})]


def test_the_celery_engine_needs_a_broker_and_the_local_one_a_folder(s3_url):
    command = [sys.executable, "-m", "scheduler.cli", "crawl", "http://127.0.0.1:9/", "--store", s3_url]
    for more, says in (
        (["--engine", "celery"], "needs a broker; give its URL as --broker"),
        (["--engine", "celery", "--broker", "redis://127.0.0.1:1/0"], "Cannot reach the broker redis://127.0.0.1:1/0"),
        ([], "The local engine writes to a folder, not to s3://"),
    ):
        done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 2
        assert says in done.stderr
    assert list(open_store(s3_url).list("")) == []


def test_a_message_about_another_store_is_refused(tmp_path, redis_url, start_pagestate_worker, wait_until):
    mine, other = FolderStore.for_run(tmp_path / "mine"), FolderStore.for_run(tmp_path / "other")
    for store in mine, other:
        start(store, ["http://127.0.0.1:9/"], lanes=1, batch_size=1)
    worker = start_pagestate_worker(redis_url, mine.where)
    with Broker(DeliverySettings(redis_url)) as broker:
        (batch,) = remaining(other, 0)[0]
        broker.send(BatchReference.to(other.where, batch))
        wait_until(lambda: worker.said("which this worker was not given"), "the message is refused")
    assert markers(other) == []


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis://:secret@127.0.0.1:1/0", "Cannot reach the broker redis://127.0.0.1:1/0: "),
        ("http://example.org", "does not start with one of redis://"),
        ("nonsense", "does not start with one of redis://"),
        ("redis://127.0.0.1:notaport/", "makes no sense"),
    ],
)
def test_a_wrong_broker_is_said_at_the_start(url, says, tmp_path):
    command = [sys.executable, "-m", "scheduler.cli", "worker", "--broker", url, "--store", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert says in done.stderr
    assert "secret" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_password_is_said_and_not_repeated(rabbitmq_url):
    wrong = rabbitmq_url.replace("guest:guest", "guest:hush")
    says = r"Cannot reach the broker amqp://127\.0\.0\.1"
    with Broker(DeliverySettings(wrong)) as broker, pytest.raises(BrokerError, match=says) as said:
        broker.check()
    assert "hush" not in str(said.value)


def test_a_broker_is_named_without_credentials():
    assert broker_name("amqp://user:secret@host:5672/vhost?x=y") == "amqp://host:5672/vhost"
    with pytest.raises(SettingError):
        broker_name("amqp://")


class ComesBack:
    """A sender whose broker is away for the first sends; then whoever gets the batch commits it."""

    def __init__(self, commit: Callable[[], None], away: int) -> None:
        self.sends = 0
        self._commit, self._away = commit, away

    def send(self, reference: BatchReference, *, urgent: bool = False) -> None:
        self.sends += 1
        if self.sends <= self._away:
            raise BrokerError("It is away.")
        self._commit()

    def waiting(self) -> int:
        raise BrokerError("It is away.")


def test_a_broker_that_goes_away_is_waited_for(tmp_path, caplog):
    store = FolderStore.for_run(tmp_path / "store")
    start(store, ["http://127.0.0.1:9/"], lanes=1, batch_size=1)
    ((batch,),) = remaining(store, 0).values()
    marker = Marker("fleet", 0, batch.lane, 0, batch.batch_id, "ab" * 16, (), {"ok": 1}, datetime.now(UTC).isoformat())
    sender = ComesBack(lambda: store.put_if_absent(marker_path(0, batch.batch_id), marker.encode()) and None, away=3)
    done: list[Any] = []
    asyncio.run(run_fleet(store, sender, remaining(store, 0), asyncio.Event(), done.append, TIMES))
    assert sender.sends == 4
    assert [one.batch_id for one in done] == [batch.batch_id]
    assert [record.message for record in caplog.records] == [
        "It is away. Waiting for it; workers finish what they have."
    ], "once, not at every look"
