"""One page's way: permission, context, navigate, settle, capture, then merge and serializing in another process.

Whatever happens, it ends in exactly one record with exactly one outcome.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Final

from schemas.batch import Batch, PlannedPage
from schemas.errors import BrowserLost, BrowserMissing, ChannelError, DiskFull, PageFailed
from schemas.identifiers import page_id
from schemas.outcomes import Degradation, Outcome, Stage, is_retryable
from schemas.policy import NO_POLICY, Policy, user_agent_of
from schemas.profiles import Profile
from schemas.records import PageRecord, Row, StageResult
from schemas.settings import CrawlSettings
from schemas.urls import host_of, site_of, without_userinfo
from schemas.version import PAGESTATE_VERSION, SCHEMA_VERSION
from workers.back_off import retry_after_seconds
from workers.browser.doorkeeper import Doorkeeper, Turn
from workers.browser.launch import LAUNCH_PATIENCE_SECONDS, BrowserFacts
from workers.browser.session import PageSession
from workers.browser.spool import size_of
from workers.browser.supervisor import Supervisor
from workers.browser.visit import Visit, outcome_of_status
from workers.browser.watchdog import Watchdog
from workers.capture.screenshot import take_screenshot
from workers.capture.take import take
from workers.capture.taken import Taking
from workers.credentials import Credentials, without_secrets
from workers.egress.guard import Guard
from workers.permission import Permission, Robots
from workers.pool import ProcessPool
from workers.process import Processed, process_page
from workers.screenshot.finish import finish_screenshot
from workers.serialize import listing as listing_serializer
from workers.serialize.rights import PageSignals, signal_columns

BIG_PAGE_BYTES = 20 * 1024 * 1024
"""Pages with more payload than this are processed one at a time, whatever the number of processes."""
NO_CREDENTIALS: Final[Mapping[str, Credentials]] = MappingProxyType({})
INTERRUPTIONS: frozenset[Degradation] = frozenset({"dialogs_capped", "popups_capped"})


@dataclass(slots=True)
class _Page:
    """What is known of a page so far."""

    planned: PlannedPage
    profile: Profile
    started: float
    started_at: datetime
    stages: list[StageResult] = field(default_factory=list)
    taking: Taking = field(default_factory=Taking)
    visit: Visit = field(default_factory=Visit)
    permission: Permission | None = None
    facts: BrowserFacts | None = None
    processed: Processed | None = None
    screenshots: list[Row] = field(default_factory=list)
    turn: Turn | None = None

    @asynccontextmanager
    async def stage(self, stage: Stage) -> AsyncIterator[None]:
        """Notes the stage that runs inside, however it ends."""
        begun = time.perf_counter()
        outcome, detail = "ok", None
        try:
            yield
        except PageFailed as error:
            outcome = "timeout" if error.outcome.endswith("_timeout") else "error"
            detail = str(error)
            raise
        except BaseException as error:
            outcome, detail = "error", type(error).__name__
            raise
        finally:
            self.stages.append(
                StageResult(
                    stage,
                    outcome,  # type: ignore[arg-type]  # narrowed above to members of the set
                    (begun - self.started) * 1000,
                    (time.perf_counter() - begun) * 1000,
                    detail,
                )
            )


class PageCapturer:
    """Captures pages one by one with the parts it is given; any number may run at the same time."""

    def __init__(
        self,
        settings: CrawlSettings,
        supervisor: Supervisor,
        robots: Robots,
        pool: ProcessPool,
        watchdog: Watchdog | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        *,
        policy: Policy = NO_POLICY,
        credentials: Mapping[str, Credentials] = NO_CREDENTIALS,
        guard: Guard | None = None,
    ) -> None:
        self._settings = settings
        self._settings_hash = settings.hash()
        self._supervisor = supervisor
        self._robots = robots
        self._pool = pool
        self._watchdog = watchdog
        self._now = now
        self._policy = policy
        self._credentials = credentials
        self._guard = guard
        self._big_page = asyncio.Semaphore(1)

    async def capture(
        self, batch: Batch, planned: PlannedPage, profile: Profile | None = None, turn: Turn | None = None
    ) -> PageRecord:
        """The record of one page under one profile, the crawl's first if none is given.

        `turn` is awaited just before the document is asked for. Raises BrowserMissing and DiskFull only: they say
        nothing about the page.
        """
        page = _Page(planned, profile or self._settings.profiles[0], time.perf_counter(), self._now(), turn=turn)
        detail: str | None = None
        outcome: Outcome
        try:
            await self._permission(page)
            with self._watched():
                await self._visit(page)
            outcome = await self._processed(page)
        except PageFailed as error:
            outcome, detail = error.outcome, error.detail
        except BrowserLost as error:
            outcome, detail = "browser_crash", str(error)
        except ChannelError as error:
            outcome, detail = "protocol_error", str(error)
        except (BrowserMissing, DiskFull):
            raise
        except Exception as error:  # noqa: BLE001  # one page must not end a crawl; the row says what it was
            outcome, detail = "protocol_error", f"unexpected {type(error).__name__}: {error}"
        finally:
            page.taking.discard()
        if page.processed is not None and page.processed.error is not None:
            outcome, detail = "protocol_error", page.processed.error
        elif detail is None and "listing" not in (page.processed or Processed()).listing:
            detail = _why_no_listing(page.stages)
        return self._record(batch, page, outcome, detail)

    def deferred(self, batch: Batch, planned: PlannedPage, profile: Profile, detail: str) -> PageRecord:
        """The record of a page that was not started."""
        return self._record(batch, _Page(planned, profile, time.perf_counter(), self._now()), "deferred", detail)

    def quarantined(self, batch: Batch, planned: PlannedPage, profile: Profile, losses: int) -> PageRecord:
        """The record of a page that is not fetched any more, because it was alone in flight at so many losses."""
        detail = f"it was alone in flight when a worker was lost, {losses} times"
        return self._record(batch, _Page(planned, profile, time.perf_counter(), self._now()), "quarantined", detail)

    async def crawl_delay(self, url_key: str) -> timedelta:
        """What the robots.txt of a URL's host asks for between two pages; no host that the policy refuses is asked."""
        if self._policy.refusal(url_key):
            return timedelta(0)
        return (await self._robots.permission(url_key)).crawl_delay

    async def _permission(self, page: _Page) -> None:
        async with page.stage("permission"):
            failed = await self._judge(page, page.planned.url_key)
            if failed is not None:
                raise failed

    async def _judge(self, page: _Page, url: str) -> PageFailed | None:
        """Why a main document of a page may not be fetched; both the policy and robots.txt have to permit it."""
        refusal = self._policy.refusal(url)
        if refusal:
            page.permission = Permission("not_asked", refusal)
            return PageFailed("policy_denied", refusal)
        page.permission = await self._robots.permission(url)
        if page.permission.granted:
            return None
        said = self._guard.failure(url) if self._guard is not None else None
        if page.permission.verdict == "unreachable" and said is not None and said.outcome != "connection_error":
            # nobody has refused: there is no such host, or none that a page may reach
            return PageFailed(said.outcome, said.detail)
        return PageFailed("robots_denied", page.permission.reason)

    def _explained(self, failed: PageFailed, url: str) -> PageFailed:
        """The failure in the guard's words, where the browser only knows that the guard made no connection."""
        if self._guard is None or not failed.detail.startswith("ERR_SOCKS_"):
            return failed
        said = self._guard.failure(url)
        return PageFailed(said.outcome, said.detail) if said is not None else failed

    def _credentials_for(self, page: _Page) -> Credentials | None:
        site = self._policy.site_of(page.planned.url_key)
        return self._credentials.get(site.name) if site is not None else None

    def _watched(self) -> AbstractContextManager[None]:
        if self._watchdog is None:
            return nullcontext()
        budgets = self._settings.budgets
        # a browser may be launched, twice; all of it ends within its budgets while the event loop runs
        own = (2 * budgets.context + budgets.page + budgets.close).total_seconds()
        return self._watchdog.page(own + 2 * LAUNCH_PATIENCE_SECONDS)

    async def _visit(self, page: _Page) -> None:
        settings = self._settings
        begun = time.perf_counter()
        page.facts = await self._supervisor.facts()
        key = page.planned.url_key
        async with self._supervisor.page_session(page.profile) as session:
            own = self._credentials_for(page)
            door = Doorkeeper(session, key, partial(self._judge, page), self._policy, own, page.turn)
            page.visit = session.visit
            page.stages.append(
                StageResult("context", "ok", (begun - page.started) * 1000, (time.perf_counter() - begun) * 1000)
            )
            seconds = settings.budgets.page.total_seconds()
            session.must_end_in(seconds)
            try:
                async with asyncio.timeout(seconds), door:
                    await self._drive(page, session, door)
            except TimeoutError as error:
                committed = session.visit.settle_reason is not None or session.has_document
                outcome: Outcome = "capture_timeout" if committed else "navigation_timeout"
                raise PageFailed(outcome, f"the page took more than {seconds:g} s") from error

    async def _processed(self, page: _Page) -> Outcome:
        await self._process(page)
        await self._picture(page)
        if page.visit.challenge is not None:
            raise PageFailed("challenge", page.visit.challenge)
        outcome = outcome_of_status(page.visit.status)
        is_html = page.visit.content_type in (None, "text/html", "application/xhtml+xml", "text/plain")
        if outcome == "ok" and is_html and page.processed is not None and page.processed.is_empty:
            return "empty"
        return outcome

    async def _drive(self, page: _Page, session: PageSession, door: Doorkeeper) -> None:
        budgets = self._settings.budgets
        async with page.stage("navigate"):
            try:
                await session.navigate(page.planned.url_key, budgets)
            except PageFailed as failed:
                raise self._explained(failed, door.last_document) from failed
        async with page.stage("settle"):
            await session.settle(budgets)
        # what keeps the renderer from answering is ended once the payloads are late, and they come after all
        late = asyncio.get_running_loop().call_later(budgets.payload.total_seconds(), session.unblock)
        try:
            await take(session, self._settings, page.started, page.taking)
            late.cancel()
            session.check_stayed()
            if self._settings.screenshot.area != "off":
                await take_screenshot(session, self._settings, page.profile, page.started, page.taking)
        finally:
            late.cancel()
            page.stages.extend(page.taking.stages)

    async def _process(self, page: _Page) -> None:
        payloads = page.taking.payloads
        begun = time.perf_counter()
        if sum(size_of(taken.data) for taken in payloads) > BIG_PAGE_BYTES:
            async with self._big_page:
                page.processed = await self._in_pool(page)
        else:
            page.processed = await self._in_pool(page)
        shift = (begun - page.started) * 1000
        page.stages.extend(replace(s, started_ms=s.started_ms + shift) for s in page.processed.stages)

    async def _picture(self, page: _Page) -> None:
        if page.processed is not None and page.processed.error is None:
            secrets = self._secrets_of(page)
            made = await finish_screenshot(self._pool, page.taking, page.processed, self._settings, secrets)
            page.screenshots, stages = made
            page.stages.extend(stages)

    def _secrets_of(self, page: _Page) -> tuple[str, ...]:
        own = self._credentials_for(page)
        return own.secrets() if own is not None else ()

    async def _in_pool(self, page: _Page) -> Processed:
        seconds = self._settings.budgets.process.total_seconds()
        secrets = self._secrets_of(page)
        try:
            return await self._pool.run(seconds, process_page, page.taking.payloads, self._settings, secrets)
        except TimeoutError as error:
            raise PageFailed("capture_timeout", f"merge and serializing took more than {seconds:g} s") from error
        except BrokenProcessPool as error:
            raise PageFailed("too_large", "the process that merged the page died, twice") from error

    def _permission_columns(self, page: _Page) -> Row:
        """What permits the page, and what it says itself about its use."""
        permission, visit = page.permission, page.visit
        site = self._policy.site_of(page.planned.url_key)
        signal = permission.content_signal if permission else None
        columns: Row = {
            "robots_verdict": permission.verdict if permission else None,
            "robots_rule": permission.reason if permission else None,
            "crawl_delay_seconds": permission.crawl_delay.total_seconds() if permission else None,
            "policy_basis": site.basis if site is not None else None,
            "policy_sha256": self._policy.digest or None,
            "content_signal": signal,
        }
        if visit.status is not None:
            signals = page.processed.signals if page.processed is not None else PageSignals()
            base = visit.final_url or page.planned.url_key
            columns |= signal_columns(visit.headers, signals, base, signal, self._policy.agent)
        return columns

    def _record(self, batch: Batch, page: _Page, outcome: Outcome, detail: str | None) -> PageRecord:
        profile, visit, processed = page.profile, page.visit, page.processed
        key = page.planned.url_key
        # what never was captured did without nothing; how often it was interrupted stays of interest
        degradations: set[Degradation] = visit.degradations & INTERRUPTIONS
        if processed is not None:
            degradations = visit.degradations | page.taking.degradations | processed.degradations
        if visit.title_is_cut:
            degradations.add("text_truncated")
        facts = page.facts
        row: Row = {
            "seed": page.planned.seed,
            "host": host_of(key),
            "site": site_of(key),
            "lane": batch.lane,
            "batch_id": batch.batch_id,
            "outcome": outcome,
            "outcome_detail": detail,
            "retryable": is_retryable(outcome, visit.status),
            "degradations": sorted(degradations),
            "settle_reason": visit.settle_reason,
            "final_url": without_userinfo(visit.final_url) if visit.final_url else None,
            "status": visit.status,
            "content_type": visit.content_type,
            "redirects": [without_userinfo(url) for url in visit.redirects],
            "title": visit.title,
            "started_at": page.started_at,
            "duration_ms": (time.perf_counter() - page.started) * 1000,
            "viewport_width": profile.viewport_width,
            "viewport_height": profile.viewport_height,
            "scale": profile.scale,
            "locale": profile.locale,
            "time_zone": profile.time_zone,
            "user_agent": user_agent_of(facts.user_agent, profile.user_agent, self._policy) if facts else None,
            "pagestate_version": PAGESTATE_VERSION,
            "schema_version": SCHEMA_VERSION,
            "settings_hash": self._settings_hash,
            "serializer": listing_serializer.NAME,
            "serializer_version": listing_serializer.VERSION,
            "playwright_version": facts.playwright_version if facts else None,
            "browser_version": facts.browser_version if facts else None,
            "document_depth": page.taking.document_depth,
            "hydrated_nodes": page.taking.subtrees,
            "surrogates_replaced": 0,
            "secrets_masked": 0,
            "payload_bytes": 0,
            "retry_after_seconds": retry_after_seconds(visit.status, visit.headers, page.started_at),
            "dialogs": visit.dialogs,
            "popups": visit.popups,
            "downloads": visit.downloads,
            **self._permission_columns(page),
            "files": visit.files,
            "service_workers": visit.service_workers,
            "client_redirects": visit.client_redirects,
            "requests": visit.requests,
            "response_bytes": visit.response_bytes,
            "pending": [without_userinfo(url) for url in visit.pending],
        }
        if processed is not None:
            row |= processed.listing
        secrets = self._secrets_of(page)
        row = {name: without_secrets(value, secrets) for name, value in row.items()}
        return PageRecord(
            url_key=key,
            page_id=page_id(batch.crawl, batch.round, key, profile.name),
            profile=profile.name,
            outcome=outcome,
            listing=row,
            selector_map=processed.selector_map if processed else [],
            stages=[replace(stage, detail=without_secrets(stage.detail, secrets)) for stage in page.stages],
            captures=processed.captures if processed else [],
            outline_map=processed.outline_map if processed else [],
            screenshots=page.screenshots,
        )


def _why_no_listing(stages: list[StageResult]) -> str:
    """Why a page that was captured has no listing: its layout snapshot did not come, or made no sense."""
    said = (s.detail for s in stages if s.outcome != "ok" and s.stage in ("layout_snapshot", "merge"))
    return f"no listing: {next((detail for detail in said if detail), 'no layout_snapshot')}"
