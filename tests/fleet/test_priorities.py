"""Of crawls that share workers the one of a higher priority goes first, on each broker, and none waits for ever."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import Celery

from scheduler.fleet import FleetTimes, run_fleet
from scheduler.rounds import plan_round, remaining
from schemas.batch import PlannedPage
from schemas.delivery import (
    CAPTURE_BATCH,
    PRIORITIES,
    QUEUE,
    BatchReference,
    DeliverySettings,
    celery_settings,
    message_priority,
    priority_of,
)
from schemas.marker import Marker
from schemas.settings import CrawlSettings
from workers.broker import Broker
from workers.queues import queue_names
from workers.store import FolderStore, markers, open_crawl
from workers.store.layout import marker_path


@pytest.fixture(params=["redis", "rabbitmq"])
def broker_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(f"{request.param}_url")
    with Broker(DeliverySettings(url)) as broker, broker._connection() as connection:
        broker.waiting()  # makes the queues
        for name in queue_names(broker._app):
            broker._app.amqp.queues[name](connection.default_channel).purge()
    return url


def earlier_version(url: str) -> Celery:
    """An end of the broker as it was before there were priorities."""
    app = Celery("earlier", set_as_current=False)
    app.conf.update(celery_settings(DeliverySettings(url)))
    return app


def taken(app: Celery, count: int) -> list[str]:
    """The ids of the batches that a worker of an earlier version takes, one by one."""
    ids = []
    with app.connection_for_write() as connection, connection.channel() as channel:
        queue: Any = app.amqp.queues[QUEUE](channel)
        queue.declare()
        for _ in range(count):
            message = queue.get()
            assert message is not None
            ids.append(message.decode()[0][0]["batch_id"])
            message.ack()
    return ids


@pytest.fixture
def held_worker(tmp_path, broker_url, start_pagestate_worker, plan_batch, wait_until, site):
    """A worker that is busy with one page until it is let go, and crawls of one lane each that wait meanwhile."""
    asked, let_go = threading.Event(), threading.Event()

    def hold(handler) -> None:
        asked.set()
        while not let_go.wait(0.05) and not site.closing.is_set():
            continue
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.end_headers()
        handler.wfile.write(b"<button>held</button>")

    stores = {name: FolderStore.for_run(tmp_path / name) for name in ("held", *PRIORITIES)}
    more = [argument for store in stores.values() for argument in ("--store", store.where)]
    held = plan_batch(stores["held"], [site.answer("/held", hold)])
    worker = start_pagestate_worker(broker_url, stores["held"].where, *more, "--allow-private", "--batches", "1")
    with Broker(DeliverySettings(broker_url)) as broker:
        broker.send(BatchReference.to(stores["held"].where, held))
    assert asked.wait(120)

    def order() -> list[str]:
        """The crawls whose batches were committed, in the order in which that was."""
        lines = worker.log.read_text("utf-8", "replace").splitlines()
        said = [line for line in lines if line.endswith(": won")]
        return [next(name for name, store in stores.items() if f" in {store.where}:" in line) for line in said]

    yield stores, let_go, order
    let_go.set()


def plan(store: FolderStore, urls: list[str]) -> None:
    """One lane with a batch for each URL."""
    settings = CrawlSettings(lanes=1, batch_size=1)
    open_crawl(store, "fleet", settings, now=datetime.now(UTC))
    plan_round(store, "fleet", 0, [PlannedPage(url, url) for url in urls], settings)


@pytest.mark.browser
def test_a_worker_that_becomes_free_takes_the_higher_priority_first(broker_url, held_worker, site, wait_until):
    """Also the batches that follow in a lane: each is sent with the priority of its crawl."""
    stores, let_go, order = held_worker
    with ExitStack() as stack:
        for priority in PRIORITIES:
            plan(stores[priority], [site.page(f"/{priority}{n}", f"<button>{n}</button>") for n in range(2)])
            (batches,) = map(list, remaining(stores[priority], 0).values())
            broker = stack.enter_context(Broker(DeliverySettings(broker_url), priority))
            broker.send(BatchReference.to(stores[priority].where, batches[0]))
        assert broker.waiting() == 3
        let_go.set()
        wait_until(lambda: all(len(markers(stores[p])) == 2 for p in PRIORITIES), "all are committed")
        wait_until(lambda: len(order()) == 7, "all are told")
        assert order() == ["held", "high", "high", "normal", "normal", "low", "low"]
        wait_until(lambda: broker.waiting() == 0, "nothing is left")


@pytest.mark.browser
def test_what_waited_too_long_goes_with_the_first_and_then_waits_its_turn_again(
    broker_url, held_worker, site, wait_until
):
    stores, let_go, order = held_worker
    for priority, count in ("low", 2), ("normal", 1):
        plan(stores[priority], [site.page(f"/{priority}{n}", f"<button>{n}</button>") for n in range(count)])
    with (
        Broker(DeliverySettings(broker_url), "low") as low,
        Broker(DeliverySettings(broker_url), "normal") as normal,
    ):
        for broker, store in (low, stores["low"]), (normal, stores["normal"]):
            (batches,) = map(list, remaining(store, 0).values())
            broker.send(BatchReference.to(store.where, batches[0]))
        (batches,) = map(list, remaining(stores["low"], 0).values())
        low.send(BatchReference.to(stores["low"].where, batches[0]), urgent=True)
        let_go.set()
        wait_until(lambda: len(markers(stores["low"])) == 2 and markers(stores["normal"]), "all are committed")
        wait_until(lambda: len(order()) == 4, "all are told")
        assert order() == ["held", "low", "normal", "low"]


@pytest.mark.browser
def test_a_scheduler_of_an_earlier_version_is_served(
    broker_url, tmp_path, start_pagestate_worker, plan_batch, site, wait_until
):
    store = FolderStore.for_run(tmp_path / "store")
    batch = plan_batch(store, [site.page("/", "<button>go</button>")])
    earlier = earlier_version(broker_url)
    earlier.send_task(CAPTURE_BATCH, [BatchReference.to(store.where, batch).encode()], queue=QUEUE)
    earlier.close()
    start_pagestate_worker(broker_url, store.where, "--allow-private")
    wait_until(lambda: markers(store), "the batch is committed")


def test_workers_of_an_earlier_version_take_what_is_sent(broker_url):
    """Where they are alone; and Redis puts the higher priority first for them too."""
    earlier = earlier_version(broker_url)
    with earlier.connection_for_write() as connection, connection.channel() as channel:
        queue: Any = earlier.amqp.queues[QUEUE](channel)
        tag = queue.consume(callback=lambda message: None, no_ack=False)  # it is there, and takes nothing yet
        for priority in PRIORITIES:
            with Broker(DeliverySettings(broker_url), priority) as broker:
                broker.send(BatchReference("/store", 0, 0, 0, priority))
        queue.cancel(tag)
    ids = taken(earlier, 3)
    assert sorted(ids) == sorted(PRIORITIES)
    assert ids == ["high", "normal", "low"] or broker_url.startswith("amqp")
    earlier.close()


@pytest.mark.parametrize("url", ["redis://h/0", "rediss://h/0", "amqp://h//", "amqps://h//"])
def test_every_priority_has_a_number_of_its_own(url):
    numbers = [message_priority(url, priority) for priority in PRIORITIES]
    assert sorted(set(numbers), reverse=url.startswith("redis")) == numbers
    # kombu looks at these lists only, and at no other
    assert set(numbers) < {0, 3, 6, 9} or url.startswith("amqp")


def test_a_header_that_says_nothing_known_is_the_default():
    assert [priority_of(header) for header in ("high", None, "urgent", 9)] == ["high", "normal", "normal", "normal"]


class Crowded:
    """A sender at whose broker others always wait; a batch is committed once it was sent as urgent so often."""

    def __init__(self, commit: Any, after: int) -> None:
        self.sends: list[bool] = []
        self._commit, self._after = commit, after

    def send(self, reference: BatchReference, *, urgent: bool = False) -> None:
        self.sends.append(urgent)
        if sum(self.sends) == self._after:
            self._commit()

    def waiting(self) -> int:
        return 64


def test_a_lane_that_waits_too_long_is_sent_as_urgent(tmp_path):
    """A crawl of low priority does not wait for ever, nor one whose message was lost where others' messages wait."""
    store = FolderStore.for_run(tmp_path / "store")
    plan(store, ["http://127.0.0.1:9/"])
    ((batch,),) = remaining(store, 0).values()
    marker = Marker("fleet", 0, batch.lane, 0, batch.batch_id, "ab" * 16, (), {"ok": 1}, datetime.now(UTC).isoformat())
    sender = Crowded(lambda: store.put_if_absent(marker_path(0, batch.batch_id), marker.encode()), after=2)
    times = FleetTimes(timedelta(seconds=0.02), timedelta(seconds=0.05), longest_wait=timedelta(seconds=0.2))
    asyncio.run(run_fleet(store, sender, remaining(store, 0), asyncio.Event(), lambda _: None, times))
    assert sender.sends == [False, True, True]
