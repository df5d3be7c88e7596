"""A fleet in simulated time: the product's planner, scheduler, tasks, claims, journal and commit, nothing else of it.

What is made up: the broker, the bucket's server, the capture of a page (a while, and a row), and who dies when.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bucket import Bucket, Dead, Faults, store_of
from celery.exceptions import Reject
from clock import PROCESS, SimulatedLoop, in_greenlet, simulated_time, step_aside

from scheduler.fleet import FleetTimes, run_fleet
from scheduler.rounds import remaining
from scheduler.seed_plan import seeds_for_plan
from schemas.batch import Batch, PlannedPage
from schemas.delivery import BatchReference
from schemas.errors import PageFailed, PagestateError
from schemas.identifiers import attempt_id, page_id
from schemas.marker import CommittedFile, Marker
from schemas.records import PageRecord
from schemas.settings import CrawlSettings, RunSettings
from schemas.tables import TableName
from schemas.urls import host_of
from workers import delivered, tasks
from workers.batch import BatchDone, BatchRunner, Execution
from workers.claims import ClaimTimes
from workers.delivered import carry_out, following
from workers.engine import _first
from workers.politeness import HostGate
from workers.store import ObjectStore, StoredPlan, commit_batch, open_crawl, read_marker, s3
from workers.store import commit as commits
from workers.store.layout import CRAWL_FILE, data_path
from workers.tasks import register

CRAWL = "simulated"
TABLES: tuple[TableName, ...] = ("listings", "selector_maps", "outline_maps", "stage_metrics", "captures")


@dataclass(frozen=True)
class Scenario:
    """What is simulated; times in simulated seconds."""

    pages: int = 2000
    pages_per_host: int = 40
    workers: int = 8
    slots: int = 2
    """Batches that a worker has in hand at a time."""
    page_slots: int = 4
    """Pages that a worker has in flight at a time."""
    seed: int = 1
    lanes: int = 64
    batch_size: int = 25
    window: int = 64
    page_seconds: float = 3.0
    host_delay: float = 1.0
    deaths: float = 0.0
    """A worker's, per hour; another one takes its place."""
    pauses: float = 0.0
    """A worker that stands still for a minute, per hour."""
    scheduler_deaths: float = 0.0
    schedulers: int = 1
    broker_losses: float = 0.0
    """The broker comes back empty, per hour."""
    redelivered: float = 0.0
    """The share of messages that are delivered twice at once."""
    poison: int = 0
    """Pages that kill their worker, each time."""
    faults: Faults = field(default_factory=Faults)
    slowness: float = 1.0
    """Of the bucket: how many times longer than usual a request takes."""
    visibility: float = 600.0
    restart: float = 10.0
    hours: float = 200.0
    """When to give up."""
    in_detail: bool = True
    """Every page by the product's own runner, with its journal and its gate for hosts; else a batch at a time."""


@dataclass
class Seen:
    """What came about, and what must not have."""

    violations: list[str] = field(default_factory=list)
    started: Counter[str] = field(default_factory=Counter)
    """Pages that were started, by URL; in detail only."""
    results: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    host_started: dict[str, float] = field(default_factory=dict)
    lane_of: dict[int, str] = field(default_factory=dict)
    superseded: set[str] = field(default_factory=set)
    most_waiting: int = 0
    most_busy: int = 0
    busy: int = 0
    half_at: float = 0.0

    def page_starts(self, attempt: str, lane: int, host: str, now: float, delay: float) -> None:
        """A navigation: it must be of the lane's newest execution, and not too soon for its host."""
        holder = self.lane_of.get(lane)
        if holder != attempt:
            if holder is not None:
                self.superseded.add(holder)
            if attempt in self.superseded:
                self.violations.append(f"lane {lane} at {now:.2f}: an execution that another had taken over went on")
            self.lane_of[lane] = attempt
        last = self.host_started.get(host)
        if last is not None and now - last < 0.9 * delay:
            self.violations.append(f"{host} at {now:.2f}: visited {now - last:.2f} s after the last time")
        self.host_started[host] = now


class Broker:
    """Messages, each with one worker at a time until its visibility timeout is over."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._waiting: deque[object] = deque()
        self._wanted: deque[asyncio.Future[object]] = deque()
        self._era = 0

    def send(self, reference: BatchReference, *, urgent: bool = False) -> None:
        """As a scheduler sends; there is one crawl here, and nothing to be more urgent than."""
        del urgent
        self.put(reference.encode())

    def waiting(self) -> int:
        """Messages that no worker has in hand."""
        return len(self._waiting)

    def put(self, message: object) -> None:
        """Give a message to whoever waits for one."""
        twice = self._fleet.chance.random() < self._fleet.scenario.redelivered
        for _ in range(2 if twice else 1):
            self._waiting.append(message)
        self._fleet.seen.most_waiting = max(self._fleet.seen.most_waiting, len(self._waiting))
        self._match()

    def lose_everything(self) -> None:
        """Come back empty: what is in hand is not redelivered either."""
        self._waiting.clear()
        self._era += 1

    async def take(self) -> tuple[object, Callable[[], None]]:
        """A message and what acknowledges it."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()
        self._wanted.append(future)
        self._match()
        message, era = await future, self._era

        def over() -> None:
            if era == self._era:
                self._fleet.seen.events["redelivered after its timeout"] += 1
                self.put(message)

        # the broker's own clock, whatever becomes of who took it
        token = PROCESS.set(None)
        timer = loop.call_later(self._fleet.scenario.visibility, over)
        PROCESS.reset(token)
        return message, timer.cancel

    def _match(self) -> None:
        while self._waiting and self._wanted:
            future = self._wanted.popleft()
            if not future.done():
                future.set_result(self._waiting.popleft())


class _Retried(Exception):
    """A task asked for another try."""


class Worker:
    """A process: what it has in hand, one connection to the bucket, one gate for hosts."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.store, self.client = store_of(fleet.bucket)
        self.wakes_at, self.killed_at = 0.0, math.inf
        self.gate = HostGate(fleet.loop.time)
        self.pages = asyncio.Semaphore(fleet.scenario.page_slots)
        self.conf = SimpleNamespace(broker_url="redis://simulated:6379/0")
        register(self, self)  # type: ignore[arg-type]  # stands in for the Celery application and for the engine
        token = PROCESS.set(self)
        self._tasks = [fleet.loop.create_task(self._serve()) for _ in range(fleet.scenario.slots)]
        PROCESS.reset(token)

    def kill(self) -> None:
        """As SIGKILL does: not a word to anybody."""
        self.client.is_dead, self.killed_at = True, self.fleet.loop.time()
        for task in self._tasks:
            task.cancel()

    def task(self, **_: Any) -> Callable[[Callable[..., None]], None]:
        """Takes the place of Celery's decorator."""

        def taken(function: Callable[..., None]) -> None:
            self._function = function

        return taken

    def send_task(self, _: str, arguments: list[object], **__: Any) -> None:
        """Takes the place of Celery's sending."""
        if self.client.is_dead:
            raise Dead
        self.fleet.broker.put(arguments[0])

    async def _serve(self) -> None:
        while True:
            message, acknowledge = await self.fleet.broker.take()
            self.fleet.seen.busy += 1
            self.fleet.seen.most_busy = max(self.fleet.seen.most_busy, self.fleet.seen.busy)
            try:
                await self._served(message)
            finally:
                self.fleet.seen.busy -= 1
            acknowledge()

    async def _served(self, message: object) -> None:
        for retries in range(20):
            try:
                task = SimpleNamespace(request=SimpleNamespace(retries=retries, get=lambda _: None), retry=_retry)
                await in_greenlet(self._function, task, message)
            except _Retried as again:
                await asyncio.sleep(again.args[0])
            except PagestateError:
                # Celery acknowledges what fails; whoever looks after the lane sends it again
                self.fleet.seen.events["given up"] += 1
                return
            except Reject as refused:
                if refused.requeue:
                    self.fleet.broker.put(message)
                return
            else:
                return

    def capture(self, reference: BatchReference) -> BatchDone:
        """Takes the place of the engine; as it, looks at the marker first."""
        if read_marker(self.store, reference.round, reference.batch_id) is not None:
            done = BatchDone(reference.batch_id, "duplicate", {})
        else:
            batch = self.fleet.plan.batch(reference.lane, reference.sequence, reference.batch_id)
            capture = self._in_detail(batch) if self.fleet.scenario.in_detail else self._at_once(batch)
            try:
                done = step_aside(carry_out(self.store, batch, self.fleet.times, capture))
            except BaseExceptionGroup as group:
                raise _first(group) from group
        self.fleet.batch_ended(done)
        return done

    def following(self, reference: BatchReference) -> BatchReference | None:
        """Takes the place of the engine's."""
        return following(self.store, self.fleet.plan, reference)  # type: ignore[arg-type]  # stands in for the plan

    def _in_detail(self, batch: Batch) -> Callable[[Execution], Coroutine[Any, Any, BatchDone]]:
        async def capture(execution: Execution) -> BatchDone:
            fleet = self.fleet
            return await BatchRunner(
                store=self.store,
                settings=fleet.settings,
                run=fleet.run_settings,
                capturer=_Capturer(self, execution),  # type: ignore[arg-type]  # stands in for one with a browser
                gate=self.gate,
                slots=self.pages,
                stop=asyncio.Event(),
                told=lambda _: None,
            ).capture_batch(batch, execution)

        return capture

    def _at_once(self, batch: Batch) -> Callable[[Execution], Coroutine[Any, Any, BatchDone]]:
        async def capture(execution: Execution) -> BatchDone:
            fleet, scenario = self.fleet, self.fleet.scenario
            begun = fleet.loop.time()
            seconds = scenario.page_seconds * fleet.chance.uniform(0.8, 1.2)
            side_by_side = max(1, scenario.page_slots // scenario.slots)
            free: dict[str, float] = {}
            starts = []
            for number, page in enumerate(batch.pages):
                host = host_of(page.url_key)
                held = begun + scenario.host_delay if execution.follows else begun
                start = max(begun + number // side_by_side * seconds, free.get(host, held))
                free[host] = start + max(seconds, scenario.host_delay)
                starts.append((start, host))
            assert execution.claim is not None
            lost = False
            try:
                await asyncio.wait_for(execution.claim.lost.wait(), max(starts)[0] + seconds - begun)
                lost = True
            except TimeoutError:
                pass
            for start, host in sorted(starts):
                if start <= min(fleet.loop.time(), self.killed_at):
                    fleet.seen.page_starts(execution.attempt, batch.lane, host, start, scenario.host_delay)
            if lost:
                return BatchDone(batch.batch_id, "lost", {})
            records = [_record(batch, page.url_key, "ok") for page in batch.pages]
            await asyncio.to_thread(self.store.size_of, CRAWL_FILE)
            committed = await asyncio.to_thread(
                commit_batch, self.store, batch, execution.attempt, records, now=datetime.now(UTC)
            )
            return BatchDone(batch.batch_id, committed.result, {"ok": len(records)})

        return capture


def _retry(exc: Exception, countdown: float) -> Exception:
    del exc
    return _Retried(countdown)


class _Capturer:
    """Takes the place of a browser: a page takes a while; some kill their worker."""

    def __init__(self, worker: Worker, execution: Execution) -> None:
        self._worker = worker
        self._execution = execution

    async def crawl_delay(self, _: str) -> timedelta:
        return timedelta(0)

    async def capture(
        self, batch: Batch, planned: PlannedPage, _: object, come: Callable[[], Awaitable[None]]
    ) -> PageRecord:
        fleet = self._worker.fleet
        # a browser makes its context
        await asyncio.sleep(fleet.chance.uniform(0.05, 0.3))
        try:
            await come()
        except PageFailed as failed:
            return _record(batch, planned.url_key, failed.outcome)
        now, host = fleet.loop.time(), host_of(planned.url_key)
        fleet.seen.started[planned.url_key] += 1
        fleet.seen.page_starts(self._execution.attempt, batch.lane, host, now, fleet.scenario.host_delay)
        await asyncio.sleep(fleet.scenario.page_seconds * fleet.chance.uniform(0.05, 2.0))
        if planned.url_key in fleet.poison:
            fleet.kill(self._worker)
            await asyncio.Event().wait()
        return _record(batch, planned.url_key, "ok")

    def deferred(self, batch: Batch, planned: PlannedPage, _: object, __: str) -> PageRecord:
        return _record(batch, planned.url_key, "deferred")

    def quarantined(self, batch: Batch, planned: PlannedPage, _: object, __: int) -> PageRecord:
        return _record(batch, planned.url_key, "quarantined")


def _record(batch: Batch, url_key: str, outcome: Any) -> PageRecord:
    row = {"retry_after_seconds": None, "degradations": [], "duration_ms": 0.0}
    return PageRecord(url_key, page_id(batch.crawl, batch.round, url_key, "desktop"), "desktop", outcome, row)


class Fleet:
    """All of it; `run` gives what is wrong at the end, nothing if all is well."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self.scenario = scenario
        self.chance = random.Random(scenario.seed)
        self.bucket = Bucket(
            folder, self.chance, scenario.faults, slowness=scenario.slowness, keeps_data=scenario.in_detail
        )
        self.seen = Seen()
        self.times = ClaimTimes()
        self.settings = CrawlSettings(lanes=scenario.lanes, batch_size=scenario.batch_size)
        self.run_settings = RunSettings(
            concurrency=scenario.page_slots, host_delay=timedelta(seconds=scenario.host_delay)
        )
        self.loop = SimulatedLoop()
        self.loop.set_exception_handler(_unless_dead)
        self.broker = Broker(self)
        self.workers: list[Worker] = []
        self.poison: frozenset[str] = frozenset()
        self.seconds = 0.0

    def urls(self) -> Iterator[str]:
        """The URLs of the crawl, in an order that has nothing to do with hosts."""
        count = self.scenario.pages
        hosts = max(1, count // self.scenario.pages_per_host)
        for number in range(count):
            yield f"https://www.site-{number % hosts}.example.org/{number // hosts}"

    def prepare(self) -> None:
        """Plan the crawl into the bucket."""
        store, _ = store_of(self.bucket)
        open_crawl(store, CRAWL, self.settings, now=datetime(2026, 1, 2, tzinfo=UTC))
        with seeds_for_plan(PlannedPage(url, url) for url in self.urls()) as plan:
            plan(store, CRAWL, 0, self.settings)
        self.plan = LanesInMemory(store)
        urls = list(self.urls()) if self.scenario.poison else []
        self.poison = frozenset(self.chance.sample(urls, self.scenario.poison))

    def run(self) -> list[str]:
        """Simulate to the end; what is wrong with it."""
        self.requests_to_plan = Counter(self.bucket.requests)
        with simulated_time(self.loop), _made_up_files(), _attempts_by(self.chance):
            try:
                self.loop.run_until_complete(self._until_done())
            finally:
                self.seconds = self.loop.time()
                for worker in self.workers:
                    worker.kill()
                left = asyncio.all_tasks(self.loop)
                for task in left:
                    task.cancel()
                self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
                self.loop.close()
        return [*self.seen.violations, *self._wrong_at_the_end()]

    def kill(self, worker: Worker) -> None:
        """A worker dies, and after a while there is another one."""
        if worker.client.is_dead:
            return
        self.seen.events["worker killed"] += 1
        worker.kill()
        # by the machine's clock, and not by that of who was killed
        token = PROCESS.set(None)
        self.loop.call_later(self.scenario.restart, lambda: self._replace(worker))
        PROCESS.reset(token)

    def batch_ended(self, done: BatchDone) -> None:
        """Count it."""
        self.seen.results[done.result] += 1
        if done.result == "won" and self.seen.results["won"] == len(self.plan) // 2:
            self.seen.half_at = self.loop.time()

    def _replace(self, worker: Worker) -> None:
        self.workers[self.workers.index(worker)] = Worker(self)

    async def _until_done(self) -> None:
        self.workers = [Worker(self) for _ in range(self.scenario.workers)]
        disturbing = [self.loop.create_task(each) for each in self._disturbances()]
        schedulers = [self.loop.create_task(self._scheduled()) for _ in range(self.scenario.schedulers)]
        try:
            async with asyncio.timeout(3600 * self.scenario.hours):
                await asyncio.gather(*schedulers)
        except TimeoutError:
            self.seen.violations.append(f"the crawl is not over after {self.scenario.hours:g} hours")
        for task in disturbing:
            task.cancel()

    async def _scheduled(self) -> None:
        """A scheduler, which is started again whenever it was killed."""
        while True:
            store, client = store_of(self.bucket)
            lanes = remaining(store, 0)
            work = run_fleet(
                store, self.broker, lanes, asyncio.Event(), lambda _: None, FleetTimes(), self.scenario.window
            )
            rate = self.scenario.scheduler_deaths / 3600
            try:
                async with asyncio.timeout(self.chance.expovariate(rate) if rate else None):
                    await work
                return
            except TimeoutError:
                client.is_dead = True
                self.seen.events["scheduler killed"] += 1
                await asyncio.sleep(self.scenario.restart)

    def _disturbances(self) -> Iterator[Coroutine[Any, Any, None]]:
        def pause() -> None:
            self.seen.events["worker paused"] += 1
            self.chance.choice(self.workers).wakes_at = self.loop.time() + 60

        def lose() -> None:
            self.seen.events["broker lost"] += 1
            self.broker.lose_everything()

        workers = self.scenario.workers
        yield self._now_and_then(self.scenario.deaths * workers, lambda: self.kill(self.chance.choice(self.workers)))
        if self.scenario.in_detail:
            # a batch at once is not a thing that stands still in between
            yield self._now_and_then(self.scenario.pauses * workers, pause)
        yield self._now_and_then(self.scenario.broker_losses, lose)

    async def _now_and_then(self, per_hour: float, happens: Callable[[], None]) -> None:
        while per_hour:
            await asyncio.sleep(self.chance.expovariate(per_hour / 3600))
            happens()

    def _wrong_at_the_end(self) -> Iterator[str]:
        """Every planned URL has one committed row, and no file but those of markers and of who died is there."""
        for key in self.bucket.overwritten:
            yield f"{key} was written twice"
        store, _ = store_of(self.bucket)
        named: set[str] = set()
        for batch in StoredPlan(store, 0).batches():
            marker = read_marker(store, 0, batch.batch_id)
            if marker is None:
                yield f"batch {batch.batch_id} of lane {batch.lane} is not committed"
                continue
            named.update(file.path for file in marker.files)
            yield from self._wrong_rows(store, batch, marker)
        strays = set(self.bucket.names("data/")) - named
        self.seen.events["files of who died"] = len(strays)
        for path in strays if self.seen.events["worker killed"] + self.seen.results["lost"] == 0 else ():
            if not self.scenario.faults.lost_answers:
                yield f"{path} is part of nothing, and nobody died"

    def _wrong_rows(self, store: ObjectStore, batch: Batch, marker: Marker) -> Iterator[str]:
        if sum(marker.outcomes.values()) != len(batch.pages):
            yield f"the marker of {batch.batch_id} counts {sum(marker.outcomes.values())} of {len(batch.pages)} pages"
        if not self.scenario.in_detail:
            return
        rows: list[str] = []
        for file in marker.files:
            data = store.read(file.path)
            if data is None:
                yield f"{file.path} is gone, and a marker names it"
            elif file.table == "listings":
                rows += json.loads(data)
        if sorted(rows) != sorted(page.url_key for page in batch.pages):
            yield f"the rows of batch {batch.batch_id} are not its pages"


class LanesInMemory:
    """The plan, a lane at a time: decoding a row group for each batch is what workers do, slow, and not at issue."""

    def __init__(self, store: ObjectStore) -> None:
        self._plan = StoredPlan(store, 0)
        self._lanes: dict[int, dict[int, Batch]] = {}
        self._batches = len(self._plan.columns())

    def __len__(self) -> int:
        return self._batches

    def batch(self, lane: int, sequence: int, batch_id: str) -> Batch:
        """As `StoredPlan.batch`."""
        found = self._of(lane)[sequence]
        assert found.batch_id == batch_id
        return found

    def places_after(self, lane: int, sequence: int) -> Iterator[tuple[int, str]]:
        """As `StoredPlan.places_after`."""
        batches = self._of(lane)
        if sequence + 1 not in batches:
            # the lane is done; who still asks reads it again
            self._lanes.pop(lane, None)
        while (sequence := sequence + 1) in batches:
            yield sequence, batches[sequence].batch_id

    def refresh(self) -> bool:
        """As `StoredPlan.refresh`; the plan does not grow here."""
        return False

    def _of(self, lane: int) -> dict[int, Batch]:
        if lane not in self._lanes:
            self._lanes[lane] = {batch.sequence: batch for batch in self._plan.batches_of_lane(lane)}
        return self._lanes[lane]


@contextmanager
def _made_up_files() -> Iterator[None]:
    """Files of data are a list of URLs, put as they are; Parquet would be all that a simulation does."""

    def tables(batch: Batch, attempt: str, records: Any) -> dict[TableName, Any]:
        del batch, attempt
        known = defaultdict(lambda: SimpleNamespace(num_rows=0))
        known.update({name: SimpleNamespace(num_rows=1, records=records) for name in TABLES})
        return _Tables(known)  # type: ignore[return-value]

    def write(store: Any, batch: Batch, attempt: str, name: TableName, table: Any) -> CommittedFile:
        path = data_path(name, batch.crawl, batch.round, batch.batch_id, attempt)
        data = json.dumps([record.url_key for record in table.records]).encode() if name == "listings" else b"rows"
        with s3._translated("write to", store.where, path):
            store.client.put_object(Key=path, Body=data)
        return CommittedFile(name, path, len(table.records), len(data), "0" * 64)

    before = commits.batch_tables, commits._write_file
    commits.batch_tables, commits._write_file = tables, write  # type: ignore[assignment]
    try:
        yield
    finally:
        commits.batch_tables, commits._write_file = before


@contextmanager
def _attempts_by(chance: random.Random) -> Iterator[None]:
    """Ids of executions are as random as all else here, so that a seed is a run."""
    before = delivered.new_attempt, s3.random, tasks.random
    delivered.new_attempt = lambda: attempt_id(chance.randbytes(16))
    s3.random = tasks.random = chance  # type: ignore[assignment]
    try:
        yield
    finally:
        delivered.new_attempt, s3.random, tasks.random = before


class _Tables:
    """What `commit_batch` takes its tables out of."""

    def __init__(self, known: defaultdict[Any, Any]) -> None:
        self._known = known

    def pop(self, name: str) -> Any:
        return self._known[name]


def _unless_dead(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Nobody waits for what a dead process asked for, nor for a thread whose caller was cancelled."""
    if not isinstance(context.get("exception"), (Dead, PagestateError)):
        loop.default_exception_handler(context)
