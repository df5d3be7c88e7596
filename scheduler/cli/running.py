"""A crawl runs round after round, on whichever engine; signals end it gracefully."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeAlias

import click

from scheduler.cli.engine_options import EngineGiven
from scheduler.fleet import FleetTimes, run_fleet
from scheduler.local import run_local
from scheduler.next_round import DEFERRED, next_round
from scheduler.rounds import LaneLeft, remaining
from schemas.delivery import DeliverySettings
from schemas.errors import PagestateError, SettingError
from schemas.outcomes import RETRYABLE_OUTCOMES, Outcome
from schemas.settings import CrawlSettings, RunSettings
from workers.batch import BatchDone, PageDone
from workers.browser.find import check_starts, find_browser
from workers.engine import EngineLoop
from workers.store import FolderStore, ObjectStore, locked, outcomes_by_round

RunLanes: TypeAlias = Callable[
    [
        Mapping[int, LaneLeft],
        asyncio.Event,
        Callable[[PageDone], None],
        Callable[[BatchDone], None],
    ],
    Any,
]
"""Runs the lanes of a round to their end or to the stop, telling of pages and batches on the way."""
LONGEST_PAUSE_SECONDS = 600.0
"""Before a round that tries failed pages again, however many there were."""


@contextmanager
def engine_of(given: EngineGiven, store: ObjectStore, settings: CrawlSettings, run: RunSettings) -> Iterator[RunLanes]:
    """The engine that was asked for, after what it needs was looked at.

    Raises BrowserMissing, BrokerError, StoreError, SettingError.
    """
    if given.engine == "celery":
        from workers.broker import Broker

        with Broker(DeliverySettings(given.broker)) as broker:
            broker.check()

            async def on_workers(
                lanes: Mapping[int, LaneLeft],
                stop: asyncio.Event,
                page_done: Callable[[PageDone], None],
                batch_done: Callable[[BatchDone], None],
            ) -> None:
                def told(batch: BatchDone) -> None:
                    for outcome, count in batch.outcomes.items():
                        for _ in range(count):
                            page_done(PageDone("", "", outcome, (), 0.0))
                    batch_done(batch)

                await run_fleet(
                    store,
                    broker,
                    lanes,
                    stop,
                    told,
                    FleetTimes(stall=timedelta(seconds=given.resend_after)),
                    given.window,
                )

            yield on_workers
        return
    if not isinstance(store, FolderStore):
        raise SettingError(
            f"The local engine writes to a folder, not to {store.where}; give a folder as --store, or --engine celery"
            " with a broker and workers."
        )
    executable = find_browser(run.browser_path)
    check_starts(executable)
    with locked(store):

        async def here(
            lanes: Mapping[int, LaneLeft],
            stop: asyncio.Event,
            page_done: Callable[[PageDone], None],
            batch_done: Callable[[BatchDone], None],
        ) -> None:
            await run_local(store, settings, run, executable, lanes, stop, page_done, batch_done)

        yield here


def run_rounds(
    store: ObjectStore, crawl: str, settings: CrawlSettings, engine: RunLanes, given: EngineGiven, progress: Any
) -> bool:
    """Runs round after round until nothing is left; True if it was stopped before."""

    async def rounds_one_by_one() -> bool:
        stop = asyncio.Event()
        _stop_on_signals(stop)
        number = 0
        while not stop.is_set():
            lanes = remaining(store, number)
            progress.start_round(number, sum(left.looks(len(settings.profiles)) for left in lanes.values()))
            if lanes:
                await engine(lanes, stop, progress.page_done, progress.batch_done)
            if remaining(store, number):
                return True
            # asked even where r+1 has a plan: a later seed list may have left more of round r to take up
            if not next_round(store, crawl, number, settings, _taken_up(number, given.retries)):
                return False
            failed = outcomes_by_round(store, number).get(number, {}).keys() & (RETRYABLE_OUTCOMES - DEFERRED)
            if number < given.retries and failed:
                await _pause(given.retry_pause * 2**number, stop)
            number += 1
        return True

    try:
        with asyncio.Runner(loop_factory=EngineLoop) as runner:
            return runner.run(rounds_one_by_one())
    except asyncio.CancelledError as error:
        # only a second Ctrl-C cancels the run; for the command line that is an interrupt like any other
        raise KeyboardInterrupt from error
    except ExceptionGroup as group:
        # several lanes fail alike when the browser or the store is gone; the first says it
        first = group.exceptions[0]
        while isinstance(first, ExceptionGroup):
            first = first.exceptions[0]
        if isinstance(first, PagestateError):
            raise first from group
        raise


def _taken_up(number: int, retries: int) -> frozenset[Outcome]:
    """The outcomes of a round that the next one takes up: while there are retries left, all that may end otherwise."""
    return RETRYABLE_OUTCOMES if number < retries else DEFERRED


async def _pause(seconds: float, stop: asyncio.Event) -> None:
    seconds = min(LONGEST_PAUSE_SECONDS, seconds)
    click.echo(f"pagestate: pages that failed are tried again in {seconds:g} s", err=True)
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


def _stop_on_signals(stop: asyncio.Event) -> None:
    """The first Ctrl-C, TERM or HUP asks for a graceful stop, the second ends the run at once."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()

    def asked() -> None:
        if stop.is_set() and task is not None:
            task.cancel()
        if not stop.is_set():
            click.echo("\npagestate: stopping; the pages in flight are finished (again: stop at once).", err=True)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, asked)
