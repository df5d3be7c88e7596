"""A real broker, crawls in S3, and worker processes that leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
from celery import Celery
from servers import RabbitMQ, Redis

from scheduler.rounds import plan_round
from schemas.batch import Batch, PlannedPage
from schemas.delivery import CAPTURE_BATCH, QUEUE, BatchReference, DeliverySettings, celery_settings
from schemas.settings import CrawlSettings
from workers.store import ObjectStore, open_crawl

MARK = "PAGESTATE_TEST_PROCESS"
"""A variable by which a worker's descendants are recognised, wherever they have moved to."""


class Broker:
    """A Redis of the tests' own: `url` is where it is."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.redis = redis.Redis.from_url(url)
        self.app = Celery("test", set_as_current=False)
        self.app.conf.update(celery_settings(DeliverySettings(url)))

    def send(self, store: str, batch: Batch) -> None:
        """Sends a batch by the task's name, as a scheduler does that has no browser."""
        self.app.send_task(CAPTURE_BATCH, [BatchReference.to(store, batch).encode()])

    @property
    def waiting(self) -> int:
        """Messages that no worker has in hand."""
        return sum(int(self.redis.llen(name)) for name in (QUEUE, *(f"{QUEUE}\x06\x16{step}" for step in (3, 6, 9))))

    @property
    def in_hand(self) -> int:
        """Messages that a worker has taken and not acknowledged."""
        return int(self.redis.hlen("unacked"))

    @property
    def is_empty(self) -> bool:
        return self.waiting == self.in_hand == 0

    def close(self) -> None:
        self.app.close()
        self.redis.close()


def started(server: type[Redis] | type[RabbitMQ], folder: Path) -> Iterator[str]:
    """The URL of a broker of one's own; the test skips where it is not installed."""
    try:
        broker = server(folder)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    with broker.up():
        yield broker.url


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from started(Redis, tmp_path_factory.mktemp("redis"))


@pytest.fixture(scope="session")
def rabbitmq_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from started(RabbitMQ, tmp_path_factory.mktemp("rabbitmq"))


@pytest.fixture
def broker(redis_url: str) -> Iterator[Broker]:
    """An empty broker."""
    made = Broker(redis_url)
    made.redis.flushall()
    yield made
    made.close()


@pytest.fixture
def make_broker() -> Callable[[str], Broker]:
    """Makes the link to a Redis that a test has started itself, which closes it."""
    return Broker


@dataclass(frozen=True)
class Worker:
    """A worker process and what it wrote."""

    process: subprocess.Popen[bytes]
    log: Path

    def end(self) -> int:
        """Asks it to end, as Kubernetes does, and gives its exit code."""
        self.process.terminate()
        return self.process.wait(90)

    def kill(self) -> None:
        """Ends it at once, as a machine that is lost does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def said(self, text: str) -> int:
        """How many lines of its log hold a text."""
        return sum(text in line for line in self.log.read_text("utf-8", "replace").splitlines())


@pytest.fixture
def start_worker(start_process: Callable[..., Worker], broker: Broker, s3_url: str) -> Callable[..., Worker]:
    """Starts workers as Celery does, with settings from the environment."""

    def start(**settings: str) -> Worker:
        command = [sys.executable, "-m", "celery", "-A", "workers.app", "worker", "--pool=threads", "--concurrency=2"]
        command += ["--without-gossip", "--without-mingle", "--loglevel=INFO", "-n", f"{uuid.uuid4().hex}@localhost"]
        variables = {f"PAGESTATE_WORKER_{name.upper()}": value for name, value in settings.items()}
        return start_process(command, variables | {"PAGESTATE_WORKER_BROKER": broker.url})

    return start


@pytest.fixture
def start_pagestate_worker(start_process: Callable[..., Worker]) -> Callable[..., Worker]:
    """Starts workers by the command line."""

    def start(broker_url: str, store: str, *arguments: str) -> Worker:
        command = [sys.executable, "-m", "scheduler.cli", "worker", "--broker", broker_url, "--store", store]
        return start_process([*command, *arguments], {})

    return start


@pytest.fixture
def start_process(browser_path: Path, tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    """Starts worker processes; after the test they are ended, and nothing that they started may remain."""
    workers: list[Worker] = []
    mark = uuid.uuid4().hex

    def start(command: list[str], variables: dict[str, str]) -> Worker:
        log = tmp_path / f"worker-{len(workers)}.log"
        own = {"PAGESTATE_BROWSER": str(browser_path), MARK: mark}
        variables = {"PAGESTATE_WORKER_ALLOW_PRIVATE": "1"} | variables
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                env=os.environ | variables | own,
                cwd=tmp_path,
                start_new_session=True,
            )
        workers.append(Worker(process, log))
        return workers[-1]

    yield start
    for worker in workers:
        if worker.process.poll() is None:
            try:
                worker.end()
            except subprocess.TimeoutExpired:
                worker.kill()
    wait_until(lambda: not marked(mark), "what the workers started has ended", 30)


def marked(mark: str) -> list[psutil.Process]:
    """The living processes that a worker of this test started, and the workers themselves."""
    found = []
    for process in psutil.process_iter():
        # a process that just ended, or is another user's, is none of ours
        with suppress(psutil.Error, OSError):
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == mark:
                found.append(process)
    return found


@pytest.fixture(name="wait_until")
def wait_until_fixture() -> Callable[..., None]:
    return wait_until


def wait_until(true: Callable[[], Any], what: str, seconds: float = 180) -> None:
    """Waits for something that has no event; generous, because machines are slow and shared."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            pytest.fail(f"not within {seconds:g} s: {what}")
        time.sleep(0.1)


@pytest.fixture
def plan_batch() -> Callable[..., Batch]:
    """Starts a crawl of some URLs in a store, as one batch."""

    def make(store: ObjectStore, urls: Sequence[str], **changes: Any) -> Batch:
        settings = CrawlSettings(**{"lanes": 1, "batch_deadline": timedelta(seconds=120)} | changes)
        open_crawl(store, "fleet", settings, now=datetime.now(UTC))
        (batch,) = plan_round(store, "fleet", 0, [PlannedPage(url, url) for url in urls], settings)
        return batch

    return make
