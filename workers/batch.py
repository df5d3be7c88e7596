"""capture_batch runs the URLs of one batch with bounded concurrency, writes their records and commits them."""

from __future__ import annotations

import asyncio
import json
import math
import secrets
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from schemas.batch import Batch, PlannedPage
from schemas.errors import PageFailed, StoreDamaged
from schemas.identifiers import attempt_id
from schemas.outcomes import Outcome
from schemas.profiles import Profile
from schemas.records import PageRecord
from schemas.settings import CrawlSettings, RunSettings
from schemas.urls import host_of
from schemas.version import PAGESTATE_VERSION
from workers.back_off import BackOff
from workers.claims import Claim
from workers.journal import Journal, Losses
from workers.page import PageCapturer
from workers.politeness import HostGate, Pace, Turn, pace_of
from workers.store.commit import commit_batch
from workers.store.layout import CRAWL_FILE, quarantine_path
from workers.store.objects import ObjectStore

POLITE_PAGE_SECONDS = 5.0
"""What a page of a host that is visited one page at a time is reckoned to take, for the batch's deadline."""
MAX_DEADLINE_SECONDS = 480.0
"""No politeness makes a batch longer: a broker would give it to another worker. What is left is `deferred`. It is
above schemas.policy.MAX_DELAY_SECONDS, so that every round captures some page of the slowest host."""


STOPPED = "the run was stopped"
CLAIM_LOST = "the batch's claim was lost"
LEFT_ALONE = "its host is left alone for a while: it showed a challenge, or said when to come again"


@dataclass(frozen=True, slots=True)
class PageDone:
    """A page has its outcome; told as it happens, before the batch is committed."""

    url_key: str
    profile: str
    outcome: Outcome
    degradations: tuple[str, ...]
    duration_ms: float


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A batch has ended: `won` committed it, `duplicate` found it committed, `unstarted` has nothing to commit, `held`
    left it to another execution that has its claim, `lost` lost its own claim on the way."""

    batch_id: str
    result: Literal["won", "duplicate", "unstarted", "held", "lost"]
    outcomes: dict[Outcome, int]


@dataclass(frozen=True, slots=True)
class Execution:
    """What one execution of a batch carries besides the batch.

    An engine whose store nobody else writes to needs no claim and no journal.
    """

    attempt: str
    claim: Claim | None = None
    journal: Journal | None = None
    losses: Losses = field(default_factory=Losses)
    follows: bool = False
    """Whether another process may have visited the lane's hosts until a moment ago."""

    @classmethod
    def alone(cls, *, follows: bool = False) -> Execution:
        """An execution that has nothing to fear from others."""
        return cls(new_attempt(), follows=follows)

    @property
    def may_not_start(self) -> bool:
        """Whether the claim may be another's already: no further navigation."""
        return self.claim is not None and self.claim.is_lost


def new_attempt() -> str:
    """The id of a new execution."""
    return attempt_id(secrets.token_bytes(16))


@dataclass(frozen=True, slots=True)
class BatchRunner:
    """The parts that every batch of a run shares."""

    store: ObjectStore
    settings: CrawlSettings
    run: RunSettings
    capturer: PageCapturer
    gate: HostGate
    slots: asyncio.Semaphore
    stop: asyncio.Event
    told: Callable[[PageDone], None]
    back_off: BackOff = field(default_factory=lambda: BackOff(time.monotonic))

    async def capture_batch(self, batch: Batch, execution: Execution | None = None) -> BatchDone:
        """Captures and commits one batch.

        Pages not started before the deadline or the stop are committed as `deferred`; a batch of which nothing was
        started is left alone, and so is one whose claim was lost. Raises BrowserMissing, DiskFull, StoreError.
        """
        execution = execution or Execution.alone()
        begun = time.monotonic()
        looks = [(page, look) for page in batch.pages for look in page.looks(self.settings.profiles)]
        pages = Counter(host_of(planned.url_key) for planned, _ in looks)
        turns = asyncio.Semaphore(1 if execution.losses.careful else len(looks))
        if execution.journal is not None:
            execution.journal.expect(len(looks))
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(
                    self._page(batch, planned, profile, begun, pages[host_of(planned.url_key)], execution, turns)
                )
                for planned, profile in looks
            ]
        records = [task.result() for task in tasks]
        outcomes = Counter(record.outcome for record in records)
        if execution.may_not_start:
            return BatchDone(batch.batch_id, "lost", {})
        if self.stop.is_set() and outcomes["deferred"] == len(records):
            return BatchDone(batch.batch_id, "unstarted", {})
        if await asyncio.to_thread(self.store.size_of, CRAWL_FILE) is None:
            raise StoreDamaged(
                f"The store {self.store.where} lost its {CRAWL_FILE} while the crawl ran; was it moved or deleted?"
                " Put it back, or start again with another --store."
            )
        committed = await asyncio.to_thread(
            commit_batch,
            self.store,
            batch,
            execution.attempt,
            records,
            now=datetime.now(UTC),
        )
        return BatchDone(batch.batch_id, committed.result, dict(outcomes))

    async def _page(
        self,
        batch: Batch,
        planned: PlannedPage,
        profile: Profile,
        begun: float,
        pages_of_host: int,
        execution: Execution,
        turns: asyncio.Semaphore,
    ) -> PageRecord:
        if self.stop.is_set():
            return self.capturer.deferred(batch, planned, profile, STOPPED)
        crawl_delay = await self.capturer.crawl_delay(planned.url_key)
        pace = pace_of(planned.url_key, self.run, self.run.policy, crawl_delay)
        deadline = begun + self._deadline_seconds(pace, pages_of_host)
        since = begun if execution.follows else -math.inf
        if not await self._host_is_ready(planned.url_key, deadline):
            return self.capturer.deferred(batch, planned, profile, LEFT_ALONE)
        async with turns, self.gate.entered(planned.url_key, pace, deadline, since) as turn, self.slots:
            if self.stop.is_set():
                return self.capturer.deferred(batch, planned, profile, STOPPED)
            if turn is None:
                return self.capturer.deferred(batch, planned, profile, "the delay of its host goes beyond the deadline")
            if time.monotonic() > deadline:
                return self.capturer.deferred(batch, planned, profile, "the batch's deadline had passed")
            if self.back_off.seconds_left(planned.url_key):
                return self.capturer.deferred(batch, planned, profile, LEFT_ALONE)
            if execution.may_not_start:
                return self.capturer.deferred(batch, planned, profile, CLAIM_LOST)
            # a URL key has no fragment, so that this is the name of one look at one page
            look = f"{planned.url_key}#{profile.name}"
            if execution.losses.quarantined(look):
                losses = execution.losses.alone[look]
                record = self.capturer.quarantined(batch, planned, profile, losses)
                await asyncio.to_thread(self._store_bundle, batch, planned, record, losses)
            else:
                if execution.journal is not None:
                    await execution.journal.enter(look)
                record = await self.capturer.capture(batch, planned, profile, partial(_comes, turn, execution))
                if execution.journal is not None:
                    execution.journal.leave(look)
        row = record.listing
        self.back_off.note(planned.url_key, record.outcome, row["retry_after_seconds"])
        self.told(
            PageDone(record.url_key, record.profile, record.outcome, tuple(row["degradations"]), row["duration_ms"])
        )
        if execution.journal is not None:
            await execution.journal.settle()  # the slot is another page's by now
        return record

    async def _host_is_ready(self, url_key: str, deadline: float) -> bool:
        """Whether a host is no longer left alone, at once or after a wait that the batch has time for."""
        while left := self.back_off.seconds_left(url_key):
            if time.monotonic() + left > deadline or self.stop.is_set():
                return False
            await asyncio.sleep(min(left, 1.0))
        return True

    def _store_bundle(self, batch: Batch, planned: PlannedPage, record: PageRecord, losses: int) -> None:
        """Writes down what is needed to open a quarantined page elsewhere, and under what settings it was fatal."""
        bundle = {
            "url_key": planned.url_key,
            "page_id": record.page_id,
            "profile": record.profile,
            "batch_id": batch.batch_id,
            "losses": losses,
            "pagestate_version": PAGESTATE_VERSION,
            "settings": self.settings.as_json(),
        }
        self.store.put_if_absent(quarantine_path(batch.round, record.page_id), json.dumps(bundle, indent=1).encode())

    def _deadline_seconds(self, pace: Pace | None, pages_of_host: int) -> float:
        """The batch's deadline for the pages of one host, longer where politeness to it needs more."""
        seconds = self.settings.batch_deadline.total_seconds()
        if pace is None:
            return seconds
        delay = pace.delay.total_seconds()
        a_page = max(delay, POLITE_PAGE_SECONDS / pace.concurrency)
        return max(seconds, min(MAX_DEADLINE_SECONDS, delay + pages_of_host * a_page))


async def _comes(turn: Turn, execution: Execution) -> None:
    """Waits for a page's turn; raises PageFailed where its batch is another's by then, as after a long standstill."""
    await turn.come()
    if execution.may_not_start:
        raise PageFailed("deferred", CLAIM_LOST)
