"""An engine is what one process captures with: one event loop, one browser, one process pool, one set of page slots.

The local engine awaits it; a Celery worker's threads reach the same one through `EngineThread`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from schemas.batch import Batch
from schemas.delivery import BatchReference
from schemas.errors import MessageRefused, PagestateError, StoreDamaged, StoreError, StoreMismatch
from schemas.policy import user_agent_of
from schemas.settings import CrawlSettings, RunSettings
from workers.back_off import BackOff
from workers.batch import BatchDone, BatchRunner, Execution, PageDone, new_attempt
from workers.browser.supervisor import Supervisor
from workers.browser.watchdog import Watchdog
from workers.claims import ClaimTimes, claimed
from workers.credentials import load_credentials
from workers.egress.guard import Guard
from workers.egress.rules import EgressRules
from workers.fetching import Fetcher
from workers.journal import Journal, Losses, losses_of
from workers.page import PageCapturer
from workers.permission import Robots
from workers.politeness import HostGate
from workers.pool import ProcessPool
from workers.store import ObjectStore, batches_of_lane, open_crawl, planned_batch, read_marker
from workers.store.layout import marker_path


class EngineLoop(asyncio.SelectorEventLoop):
    """An event loop whose child processes are in sessions of their own.

    Otherwise a Ctrl-C on a terminal would also reach Playwright's driver, which takes the browser down while the pages
    in flight are still being finished.
    """

    async def subprocess_exec(self, *args: Any, **kwargs: Any) -> Any:
        kwargs.setdefault("start_new_session", True)
        return await super().subprocess_exec(*args, **kwargs)


@dataclass(slots=True)
class _Crew:
    """The browser of one crawl's settings, and what works with it; `batches` are in flight with it."""

    supervisor: Supervisor
    fetcher: Fetcher
    stores: dict[str, tuple[Robots, PageCapturer]] = field(default_factory=dict)
    """By the place of a crawl's store, which keeps the robots.txt that its workers share."""
    batches: int = 0

    async def close(self) -> None:
        for robots, _ in self.stores.values():
            await robots.close()
        await self.fetcher.close()
        await self.supervisor.close()


class Engine:
    """Runs batches; entered once, in the event loop that it is used in. `stop` ends them soon.

    A browser is launched with a crawl's settings, so crawls of other settings have another one; the idle one is ended.
    """

    def __init__(self, run: RunSettings, browser: Path, stop: asyncio.Event) -> None:
        self._run = run
        self._browser = browser
        self._stop = stop
        self._gate = HostGate(time.monotonic)
        self._back_off = BackOff(time.monotonic)
        self._credentials = load_credentials(run.policy)
        self._slots = asyncio.Semaphore(run.concurrency)
        self._pool = ProcessPool(run.processes)
        self._crews: dict[CrawlSettings, _Crew] = {}
        self._changing = asyncio.Lock()
        self._watchdog = Watchdog(run.wedged_after, self._kill_browsers)

    async def __aenter__(self) -> Self:
        self._guard = await Guard.start(EgressRules.of(self._run), self._run.closed)
        self._watchdog.start()
        return self

    def _kill_browsers(self) -> None:
        for crew in tuple(self._crews.values()):
            crew.supervisor.kill()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watchdog.stop()
        self._pool.close()
        crews, self._crews = self._crews, {}
        for crew in crews.values():
            await crew.close()
        await self._guard.close()

    @asynccontextmanager
    async def runner(
        self, store: ObjectStore, settings: CrawlSettings, told: Callable[[PageDone], None]
    ) -> AsyncIterator[BatchRunner]:
        """A runner of batches of one crawl; its browser stays as long as this is held. Raises BrowserMissing."""
        async with self._changing:
            crew = self._crews.get(settings) or await self._crew(settings)
            crew.batches += 1
        try:
            yield BatchRunner(
                store=store,
                settings=settings,
                run=self._run,
                capturer=self._capturer(crew, store, settings),
                gate=self._gate,
                slots=self._slots,
                stop=self._stop,
                told=told,
                back_off=self._back_off,
            )
        finally:
            crew.batches -= 1

    async def _crew(self, settings: CrawlSettings) -> _Crew:
        for other in [known for known, crew in self._crews.items() if crew.batches == 0]:
            await self._crews.pop(other).close()
        supervisor = Supervisor(
            self._browser, settings, self._run.limits, policy=self._run.policy, proxy=self._guard.proxy
        )
        facts = await supervisor.facts()
        agent = user_agent_of(facts.user_agent, "", self._run.policy)
        crew = _Crew(supervisor, Fetcher(agent, self._guard))
        self._crews[settings] = crew
        return crew

    def _capturer(self, crew: _Crew, store: ObjectStore, settings: CrawlSettings) -> PageCapturer:
        known = crew.stores.get(store.where)
        if known is None:
            policy = self._run.policy
            robots = Robots(settings.robots, settings.budgets.permission, crew.fetcher, agent=policy.agent, store=store)
            capturer = PageCapturer(
                settings,
                crew.supervisor,
                robots,
                self._pool,
                self._watchdog,
                policy=policy,
                credentials=self._credentials,
                guard=self._guard,
            )
            known = crew.stores[store.where] = robots, capturer
        return known[1]


class EngineThread:
    """An engine on a thread of its own, for callers on other threads; nothing is started before the first batch."""

    def __init__(
        self,
        run: RunSettings,
        browser: Callable[[], Path],
        open_store: Callable[[str], ObjectStore],
        times: ClaimTimes,
        allowed: frozenset[str] = frozenset(),
    ) -> None:
        self._run = run
        self._allowed = allowed
        self._times = times
        self._browser = browser
        self._open_store = open_store
        self._stores: dict[str, ObjectStore] = {}
        self._starting = threading.Lock()
        self._started: _Started | None = None
        self._stopping = False

    def capture(self, reference: BatchReference) -> BatchDone:
        """Claims, captures and commits a planned batch.

        Of a committed one (`duplicate`) and one that another execution has claimed (`held`) nothing is fetched.

        Raises StoreError, BrowserMissing. May be called from any number of threads at once.
        """
        store = self._store(reference.store)
        if read_marker(store, reference.round, reference.batch_id) is not None:
            return BatchDone(reference.batch_id, "duplicate", {})
        if self._stopping:
            return BatchDone(reference.batch_id, "unstarted", {})
        batch = planned_batch(store, reference.round, reference.batch_id)
        settings = _settings_of(store, batch)
        with self._starting:
            if self._started is None or not self._started.thread.is_alive():
                self._started = _Started(self._run, self._browser())
            started = self._started
        if self._stopping:
            started.stop()
        future = asyncio.run_coroutine_threadsafe(started.capture(store, settings, batch, self._times), started.loop)
        try:
            return future.result()
        except ExceptionGroup as group:
            # several pages fail alike when the browser is gone; the first says it
            raise _first(group) from group

    def following(self, reference: BatchReference) -> BatchReference | None:
        """The first uncommitted batch of the lane after a committed one. Raises StoreError."""
        store = self._store(reference.store)
        batch = planned_batch(store, reference.round, reference.batch_id)
        for sequence, batch_id in batches_of_lane(store, batch.round, batch.lane):
            if sequence > batch.sequence and store.size_of(marker_path(batch.round, batch_id)) is None:
                return replace(reference, batch_id=batch_id)
        return None

    def stop(self) -> None:
        """Asks for an end: pages in flight are finished, others deferred, and no further batch is started.

        Takes no lock, because it is called by a signal's handler, which may have interrupted who holds it.
        """
        self._stopping = True
        started = self._started
        if started is not None:
            started.stop()

    def close(self) -> None:
        """Ends the browser, the pool and the thread; batches in flight should have ended."""
        self.stop()
        with self._starting:
            if self._started is not None:
                self._started.close()
                self._started = None

    def _store(self, place: str) -> ObjectStore:
        if self._allowed and place not in self._allowed:
            raise MessageRefused(
                f"A message came about the store {place!r}, which this worker was not given; start one with it as"
                " --store, or send only what is yours."
            )
        if place not in self._stores:
            self._stores[place] = self._open_store(place)
        return self._stores[place]


class _Started:
    """The thread of a running engine."""

    def __init__(self, run: RunSettings, browser: Path) -> None:
        self._run = run
        self._browser = browser
        self._ready = threading.Event()
        self._failed: BaseException | None = None
        self.thread = threading.Thread(target=self._serve, name="pagestate-engine", daemon=True)
        self.thread.start()
        self._ready.wait()
        if self._failed is not None:
            raise self._failed

    async def capture(self, store: ObjectStore, settings: CrawlSettings, batch: Batch, times: ClaimTimes) -> BatchDone:
        attempt = new_attempt()
        async with claimed(store, batch, attempt, times) as claim:
            if claim is None:
                return BatchDone(batch.batch_id, "held", {})
            marker = marker_path(batch.round, batch.batch_id)
            if claim.number and await asyncio.to_thread(store.size_of, marker) is not None:
                # whoever held it before had committed it, and no more
                return BatchDone(batch.batch_id, "duplicate", {})
            losses = await asyncio.to_thread(losses_of, store, batch) if claim.number else Losses()
            journal = Journal(store, batch, attempt)
            follows = bool(batch.round or batch.sequence or claim.number)
            try:
                async with self._engine.runner(store, settings, lambda _: None) as runner:
                    return await runner.capture_batch(batch, Execution(attempt, claim, journal, losses, follows))
            finally:
                with suppress(StoreError):  # a journal that stays makes the next execution careful, and no more
                    await journal.close()

    def stop(self) -> None:
        if self.thread.is_alive():
            self.loop.call_soon_threadsafe(self._stop.set)

    def close(self) -> None:
        if self.thread.is_alive():
            self.loop.call_soon_threadsafe(self._over.set)
        self.thread.join()

    def _serve(self) -> None:
        try:
            with asyncio.Runner(loop_factory=EngineLoop) as runner:
                runner.run(self._until_over())
        except BaseException as error:
            self._failed = error
            raise
        finally:
            self._ready.set()

    async def _until_over(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._stop, self._over = asyncio.Event(), asyncio.Event()
        async with Engine(self._run, self._browser, self._stop) as self._engine:
            self._ready.set()
            await self._over.wait()


def _settings_of(store: ObjectStore, batch: Batch) -> CrawlSettings:
    """The settings that a batch's crawl was started with."""
    crawl = open_crawl(store, None, None)
    if batch.crawl != crawl.crawl:
        raise StoreDamaged(
            f"The plan in {store.where} is of the crawl {batch.crawl}, but the store belongs to {crawl.crawl};"
            " restore the plan from a copy."
        )
    settings = CrawlSettings.from_json(crawl.settings)
    if settings.hash() != crawl.settings_hash:
        raise StoreMismatch(
            f"The crawl in {store.where} was started by pagestate {crawl.pagestate_version}, whose settings are not"
            " this version's; run its workers in that version."
        )
    return settings


def _first(error: BaseException) -> BaseException:
    """The first of the errors in a group that is ours, else the first of all."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = [_first(inner) for inner in error.exceptions]
    return next((leaf for leaf in leaves if isinstance(leaf, PagestateError)), leaves[0])
