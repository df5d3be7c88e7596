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
from schemas.records import PageRecord
from schemas.settings import CrawlSettings, RunSettings
from schemas.urls import host_of, is_loopback
from workers.back_off import BackOff
from workers.page import PageCapturer
from workers.politeness import HostGate
from workers.store.commit import commit_batch
from workers.store.layout import CRAWL_FILE
from workers.store.objects import ObjectStore

POLITE_PAGE_SECONDS = 5.0
"""What a page of a host that is visited one page at a time is reckoned to take, for the batch's deadline."""

LEFT_ALONE = "its host is left alone for a while: it showed a challenge, or said when to come again"


@dataclass(frozen=True, slots=True)
class PageDone:
    """A page has its outcome; told as it happens, before the batch is committed."""

    url_key: str
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
        deadline = time.monotonic() + self._deadline_seconds(batch)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._page(batch, planned, deadline)) for planned in batch.pages]
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

    async def _page(self, batch: Batch, planned: PlannedPage, deadline: float) -> PageRecord:
        if not await self._host_is_ready(planned.url_key, deadline):
            return self.capturer.deferred(batch, planned, LEFT_ALONE)
        async with self.gate.entered(planned.url_key), self.slots:
            if self.stop.is_set():
                return self.capturer.deferred(batch, planned, "the run was stopped")
            if time.monotonic() > deadline:
                return self.capturer.deferred(batch, planned, "the batch's deadline had passed")
            if self.back_off.seconds_left(planned.url_key):
                return self.capturer.deferred(batch, planned, LEFT_ALONE)
            record = await self.capturer.capture(batch, planned)
        row = record.listing
        self.back_off.note(planned.url_key, record.outcome, row["retry_after_seconds"])
        self.told(PageDone(record.url_key, record.outcome, tuple(row["degradations"]), row["duration_ms"]))
        return record

    async def _host_is_ready(self, url_key: str, deadline: float) -> bool:
        """Whether a host is no longer left alone, at once or after a wait that the batch has time for."""
        while left := self.back_off.seconds_left(url_key):
            if time.monotonic() + left > deadline or self.stop.is_set():
                return False
            await asyncio.sleep(min(left, 1.0))
        return True

    def _deadline_seconds(self, batch: Batch) -> float:
        """The batch's deadline, longer where politeness to one host needs more."""
        seconds = self.settings.batch_deadline.total_seconds()
        remote = Counter(host_of(p.url_key) for p in batch.pages if not is_loopback(p.url_key))
        if not remote:
            return seconds
        a_page = max(self.run.host_delay.total_seconds(), POLITE_PAGE_SECONDS / self.run.host_concurrency)
        return max(seconds, max(remote.values()) * a_page)
