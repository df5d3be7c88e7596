"""The supervisor owns one browser: it launches it, gives out page sessions, and replaces it when it is lost or worn.

Driver and browser are replaced together: both keep more of every page than they should.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import BrowserContext, Page
from playwright.async_api import Error as PlaywrightError

from schemas.errors import BrowserLost, ChannelError, PageFailed
from schemas.policy import NO_POLICY, Policy, user_agent_of
from schemas.profiles import Profile
from schemas.settings import BrowserLimits, CrawlSettings
from workers.browser.channel import forget
from workers.browser.launch import BrowserFacts, Launched, end, launch
from workers.browser.launch import endpoint as endpoint_of
from workers.browser.orphans import sweep_orphans
from workers.browser.processes import adopt_orphans, reap, resident_bytes
from workers.browser.session import PageSession

PROBE_AFTER_SECONDS = 30.0
"""A browser that nobody has used for so long shows first that it, and its driver, still answer."""
MEASURE_AFTER_SECONDS = 10.0
"""Looking at the memory of all processes costs some milliseconds, so that it is not done for every page."""
CRASHES: dict[str, float] = {"renderer_crash": 1.0, "capture_timeout": 0.5}
"""What a page adds to the crash score of its browser, by its outcome; each other page takes CRASH_RELIEF off."""
CRASH_RELIEF = 0.1
LOST_PATIENCE_SECONDS = 2.0
MADE_ERRORS = (PlaywrightError, ChannelError, TimeoutError)

Made = tuple[BrowserContext, Page, str, str, str]
"""A context, its page, the page's target id, the raw session attached to it, the context's id."""


class Supervisor:
    """One browser at a time, launched at the first need."""

    def __init__(
        self,
        executable: Path,
        settings: CrawlSettings,
        limits: BrowserLimits | None = None,
        *,
        policy: Policy = NO_POLICY,
        proxy: str | None = None,
    ) -> None:
        self._policy = policy
        self._proxy = proxy
        self._executable = executable
        self._settings = settings
        self._limits = limits or BrowserLimits()
        self._launched: Launched | None = None
        self._retired: list[Launched] = []
        self._launching = asyncio.Lock()
        self._creating = asyncio.Lock()
        self.launches = 0
        self.leaked = 0
        """Contexts that did not close in time and were given up."""
        self.recycled: list[str] = []
        """Why browsers were replaced, in order."""

    async def facts(self) -> BrowserFacts:
        """The facts of the browser in use; launches it if need be."""
        return (await self._running()).facts

    async def endpoint(self) -> str:
        """The websocket address at which the browser in use is debugged, for whoever looks at the same pages."""
        return await endpoint_of((await self._running()).folder / "profile")

    async def _running(self) -> Launched:
        async with self._launching:
            launched = self._launched
            if launched is not None:
                await self._judge(launched)
                if launched.usable():
                    return launched
                self.recycled.append(launched.broken or launched.retired or "lost")
                if launched.sessions and not launched.channel.is_lost:
                    # its pages may still finish, each within its budgets
                    self._retired.append(launched)
                else:
                    await self._end(launched)
                self._launched = None
            await asyncio.to_thread(sweep_orphans)
            adopt_orphans()
            self._launched = await launch(
                self._executable,
                self._settings,
                self._limits.renderer_memory_mib * 1024 * 1024,
                policy=self._policy,
                proxy=self._proxy,
            )
            self.launches += 1
            return self._launched

    async def _judge(self, launched: Launched) -> None:
        """Retires a browser that is worn, and breaks off with one that does not answer any more."""
        if not launched.usable():
            return
        now, limits = time.monotonic(), self._limits
        if launched.pages >= limits.pages:
            launched.retired = "pages"
        elif now - launched.launched_at >= limits.age.total_seconds():
            launched.retired = "age"
        elif launched.crash_score >= limits.crash_score:
            launched.retired = "crashes"
        elif now - launched.measured_at >= MEASURE_AFTER_SECONDS and launched.group is not None:
            launched.measured_at = now
            if await asyncio.to_thread(resident_bytes, launched.group) > limits.memory_mib * 1024 * 1024:
                launched.retired = "memory"
        if launched.usable() and now - launched.proven_at >= PROBE_AFTER_SECONDS:
            await self.probe(launched, self._settings.budgets.context.total_seconds())

    async def probe(self, launched: Launched, seconds: float) -> None:
        """Asks browser and driver something small; one that does not answer within the time is broken."""
        try:
            async with asyncio.timeout(seconds):
                await launched.channel.ask("Browser.getVersion")
                await launched.persistent.cookies("http://127.0.0.1/")
        except (*MADE_ERRORS, BrowserLost) as error:
            launched.broken = f"no answer: {type(error).__name__}"
        else:
            launched.proven_at = time.monotonic()

    @asynccontextmanager
    async def page_session(self, profile: Profile) -> AsyncIterator[PageSession]:
        """A fresh context with one page in it, and the raw session attached to that page.

        Raises BrowserLost. Leaving it closes the context, or gives it up after the close budget.
        """
        try:
            launched, made = await self._made(profile)
        except BrowserLost:
            # nothing has been navigated yet, so that a new browser may be asked in its place
            launched, made = await self._made(profile)
        context, page, target_id, session_id, context_id = made
        launched.sessions += 1
        launched.pages += 1
        outcome = ""
        try:
            session = PageSession(
                launched.channel, context, page, target_id, session_id, context_id, self._settings.caps
            )
            try:
                await self._start(launched, session)
                yield session
            except PageFailed as failed:
                outcome = failed.outcome
                if outcome == "page_closed" and await self._is_lost(launched):
                    raise BrowserLost("The browser ended while it showed the page.") from failed
                raise
            finally:
                session.detach()
        finally:
            launched.crash_score += CRASHES.get(outcome, -min(CRASH_RELIEF, launched.crash_score))
            await self._close_context(launched, context, context_id)
            launched.sessions -= 1
            if launched in self._retired and not launched.sessions:
                self._retired.remove(launched)
                await self._end(launched)

    async def _start(self, launched: Launched, session: PageSession) -> None:
        """Starts a session; a browser that does not answer even that is broken, which is raised as BrowserLost."""
        seconds = self._settings.budgets.context.total_seconds()
        try:
            async with asyncio.timeout(seconds):
                await session.start()
        except TimeoutError as error:
            launched.broken = "started no session: TimeoutError"
            raise BrowserLost(f"The browser started no session within {seconds:g} s.") from error

    async def _is_lost(self, launched: Launched) -> bool:
        """Whether a page closed because its browser, or the driver, is at its end."""
        await self.probe(launched, LOST_PATIENCE_SECONDS)
        return bool(launched.broken)

    async def _made(self, profile: Profile) -> tuple[Launched, Made]:
        """A browser and a page in it; raises BrowserLost where it makes none."""
        launched = await self._running()
        try:
            return launched, await self._create(launched, profile)
        except (PlaywrightError, ChannelError) as error:
            raise BrowserLost(f"The browser made no page: {str(error).strip().splitlines()[0]}") from error
        except TimeoutError as error:
            seconds = self._settings.budgets.context.total_seconds()
            raise BrowserLost(f"The browser made no page within {seconds:g} s.") from error

    async def _create(self, launched: Launched, profile: Profile) -> Made:
        """One at a time: the target is recognised as the first page of a browser context never seen before."""
        async with self._creating:
            if not launched.usable():
                raise BrowserLost("The browser was lost before it made a page.")
            try:
                async with asyncio.timeout(self._settings.budgets.context.total_seconds()):
                    made = await self._create_now(launched, profile)
            except MADE_ERRORS as error:
                # whatever it says of itself, it makes no pages
                launched.broken = f"made no page: {type(error).__name__}"
                raise
            launched.proven_at = time.monotonic()
            return made

    async def _create_now(self, launched: Launched, profile: Profile) -> Made:
        while not launched.new_targets.empty():
            launched.new_targets.get_nowait()
        context = await launched.browser.new_context(
            viewport={"width": profile.viewport_width, "height": profile.viewport_height},
            device_scale_factor=profile.scale,
            locale=profile.locale,
            timezone_id=profile.time_zone,
            user_agent=user_agent_of(launched.facts.user_agent, profile.user_agent, self._policy),
            has_touch=profile.touch,
            is_mobile=profile.mobile,
            accept_downloads=False,
        )
        try:
            page = await context.new_page()
            target_id = context_id = ""
            while not target_id:
                target = await launched.new_targets.get()
                # popups of other pages are pages too, but their contexts are known
                if target["type"] == "page" and target.get("browserContextId") not in launched.known_contexts:
                    target_id, context_id = target["targetId"], target["browserContextId"]
                    launched.known_contexts.add(context_id)
            attached = await launched.channel.ask("Target.attachToTarget", {"targetId": target_id, "flatten": True})
        except BaseException:
            await self._close_context(launched, context, "")
            raise
        return context, page, target_id, attached["sessionId"], context_id

    async def _close_context(self, launched: Launched, context: BrowserContext, context_id: str) -> None:
        """Closes a context; one that never closes must not keep its slot, and wears its browser down."""
        closing = asyncio.ensure_future(_close(context))
        await asyncio.wait({closing}, timeout=self._settings.budgets.close.total_seconds())
        if not closing.done():
            closing.add_done_callback(forget)
            self.leaked += 1
            launched.crash_score += 1.0
            if context_id:
                # past the driver, if that is what stands still
                launched.channel.send("Target.disposeBrowserContext", {"browserContextId": context_id})
        launched.known_contexts.discard(context_id)
        if launched.group is not None:
            reap({launched.group})

    def kill(self) -> None:
        """Kills the browsers at once; the pages in flight end as `browser_crash`. May be called from any thread."""
        for launched in (self._launched, *self._retired):
            if launched is not None:
                launched.kill()

    async def close(self) -> None:
        """Ends the browser and removes its folder."""
        left = [*self._retired, *([self._launched] if self._launched else [])]
        self._launched, self._retired = None, []
        for launched in left:
            await self._end(launched)

    async def _end(self, launched: Launched) -> None:
        await end(launched, self._settings.budgets.close.total_seconds())


async def _close(context: BrowserContext) -> None:
    try:
        await context.close()
    except PlaywrightError:
        # the browser is gone, and the context with it
        return
