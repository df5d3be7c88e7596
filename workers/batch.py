"""capture_batch runs the URLs of one batch with bounded concurrency, writes their records and commits them."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from schemas.batch import Batch, PlannedPage
from schemas.errors import StoreDamaged
from schemas.identifiers import attempt_id
from schemas.outcomes import Outcome
from schemas.profiles import Profile
from schemas.records import PageRecord
from schemas.settings import CrawlSettings, RunSettings
from schemas.urls import host_of
from workers.back_off import BackOff
from workers.page import PageCapturer
from workers.politeness import HostGate, Pace, pace_of
from workers.store.commit import commit_batch
from workers.store.layout import CRAWL_FILE
from workers.store.objects import ObjectStore

POLITE_PAGE_SECONDS = 5.0
"""What a page of a host that is visited one page at a time is reckoned to take, for the batch's deadline."""
MAX_DEADLINE_SECONDS = 480.0
"""No politeness makes a batch longer: a broker would give it to another worker. What is left is `deferred`. It is
above schemas.policy.MAX_DELAY_SECONDS, so that every round captures some page of the slowest host."""


STOPPED = "the run was stopped"

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
    """A batch has ended: `won` committed it, `duplicate` found it committed, `unstarted` has nothing to commit."""

    batch_id: str
    result: Literal["won", "duplicate", "unstarted"]
    outcomes: dict[Outcome, int]


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

    async def capture_batch(self, batch: Batch) -> BatchDone:
        """Captures and commits one batch.

        Pages not started before the deadline or the stop are committed as `deferred`; a batch of which nothing was
        started is left alone. Raises BrowserMissing, StoreError.
        """
        begun = time.monotonic()
        looks = [(page, look) for page in batch.pages for look in page.looks(self.settings.profiles)]
        pages = Counter(host_of(planned.url_key) for planned, _ in looks)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._page(batch, planned, profile, begun, pages[host_of(planned.url_key)]))
                for planned, profile in looks
            ]
        records = [task.result() for task in tasks]
        outcomes = Counter(record.outcome for record in records)
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
            attempt_id(secrets.token_bytes(16)),
            records,
            now=datetime.now(UTC),
        )
        return BatchDone(batch.batch_id, committed.result, dict(outcomes))

    async def _page(
        self, batch: Batch, planned: PlannedPage, profile: Profile, begun: float, pages_of_host: int
    ) -> PageRecord:
        if self.stop.is_set():
            return self.capturer.deferred(batch, planned, profile, STOPPED)
        crawl_delay = await self.capturer.crawl_delay(planned.url_key)
        pace = pace_of(planned.url_key, self.run, self.run.policy, crawl_delay)
        deadline = begun + self._deadline_seconds(pace, pages_of_host)
        if not await self._host_is_ready(planned.url_key, deadline):
            return self.capturer.deferred(batch, planned, profile, LEFT_ALONE)
        async with self.gate.entered(planned.url_key, pace, deadline) as in_time, self.slots:
            if self.stop.is_set():
                return self.capturer.deferred(batch, planned, profile, STOPPED)
            if not in_time:
                return self.capturer.deferred(batch, planned, profile, "the delay of its host goes beyond the deadline")
            if time.monotonic() > deadline:
                return self.capturer.deferred(batch, planned, profile, "the batch's deadline had passed")
            if self.back_off.seconds_left(planned.url_key):
                return self.capturer.deferred(batch, planned, profile, LEFT_ALONE)
            record = await self.capturer.capture(batch, planned, profile)
        row = record.listing
        self.back_off.note(planned.url_key, record.outcome, row["retry_after_seconds"])
        self.told(
            PageDone(record.url_key, record.profile, record.outcome, tuple(row["degradations"]), row["duration_ms"])
        )
        return record

    async def _host_is_ready(self, url_key: str, deadline: float) -> bool:
        """Whether a host is no longer left alone, at once or after a wait that the batch has time for."""
        while left := self.back_off.seconds_left(url_key):
            if time.monotonic() + left > deadline or self.stop.is_set():
                return False
            await asyncio.sleep(min(left, 1.0))
        return True

    def _deadline_seconds(self, pace: Pace | None, pages_of_host: int) -> float:
        """The batch's deadline for the pages of one host, longer where politeness to it needs more."""
        seconds = self.settings.batch_deadline.total_seconds()
        if pace is None:
            return seconds
        a_page = max(pace.delay.total_seconds(), POLITE_PAGE_SECONDS / pace.concurrency)
        return max(seconds, min(MAX_DEADLINE_SECONDS, pages_of_host * a_page))
