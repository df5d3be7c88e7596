"""A crawl runs round after round, on whichever engine; signals end it gracefully."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeAlias

import click

from scheduler.cli.engine_options import EngineGiven
from scheduler.cli.follow_options import tell_links
from scheduler.fleet import FleetTimes, run_fleet
from scheduler.follow_rules import FollowSettings
from scheduler.following import Follow, StoppedPlanning, next_round_following
from scheduler.links_found import LinksFound
from scheduler.local import run_local
from scheduler.pauses import Idleness, pause_seconds
from scheduler.rounds import LaneLeft, remaining
from schemas.delivery import DeliverySettings
from schemas.errors import PagestateError, SettingError
from schemas.policy import Policy
from schemas.settings import CrawlSettings, RunSettings
from workers.batch import BatchDone, PageDone
from workers.browser.find import check_starts, find_browser
from workers.engine import EngineLoop
from workers.store import FolderStore, ObjectStore, committed_batch_ids, locked

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


@contextmanager
def engine_of(given: EngineGiven, store: ObjectStore, settings: CrawlSettings, run: RunSettings) -> Iterator[RunLanes]:
    """The engine that was asked for, after what it needs was looked at.

    Raises BrowserMissing, BrokerError, StoreError, SettingError.
    """
    if given.engine == "celery":
        from workers.broker import Broker

        with Broker(DeliverySettings(given.broker), given.priority) as broker:
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
    store: ObjectStore,
    crawl: str,
    settings: CrawlSettings,
    policy: Policy,
    engine: RunLanes,
    given: EngineGiven,
    links: FollowSettings,
    progress: Any,
) -> bool:
    """Runs round after round until nothing is left; True if it was stopped before."""

    async def rounds_one_by_one() -> bool:
        stop = asyncio.Event()
        _stop_on_signals(stop)
        number = 0
        idle = Idleness()
        follow = Follow(links, policy, stop.is_set, _tell)
        outcomes: Counter[str] = Counter()

        def told(batch: BatchDone) -> None:
            outcomes.update(batch.outcomes)
            progress.batch_done(batch)

        while not stop.is_set():
            lanes = remaining(store, number)
            progress.start_round(number, sum(left.looks(len(settings.profiles)) for left in lanes.values()))
            if lanes:
                await engine(lanes, stop, progress.page_done, told)
                idle.note(outcomes)
                outcomes.clear()
            if remaining(store, number):
                return True
            # asked even where r+1 has a plan: a later seed list may have left more of round r to take up
            try:
                # the loop goes on listening to signals
                following = await asyncio.to_thread(
                    next_round_following, store, crawl, number, settings, given.retries, follow
                )
            except StoppedPlanning:
                return True
            if not following:
                return False
            if idle.is_over:
                click.echo(
                    f"pagestate: the last {idle.rounds} rounds captured nothing: hosts ask to be left alone; the same"
                    " command tries the pages that are left again.",
                    err=True,
                )
                return False
            times = max(idle.rounds, following.most_tries())
            # a round that has begun was waited for
            if times and not committed_batch_ids(store, number + 1):
                await _pause(pause_seconds(given.retry_pause, times, random.random()), stop)
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


def _tell(found: LinksFound) -> None:
    click.echo(f"pagestate: {tell_links(found)}", err=True)


async def _pause(seconds: float, stop: asyncio.Event) -> None:
    click.echo(f"pagestate: pages that failed or were put off are tried again in {seconds:.1f} s", err=True)
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
