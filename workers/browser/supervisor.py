"""The supervisor owns one browser: it launches it, gives out page sessions, and replaces it when it is lost.

Playwright launches and navigates; a second, raw connection to the same browser carries the payloads. Playwright's
`launch()` refuses a profile folder of ours, without which the debugging port is unknown, so the browser is launched
as a persistent context and pages live in contexts of their own beside it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from playwright.async_api import Browser, BrowserContext, Page, Playwright, async_playwright
from playwright.async_api import Error as PlaywrightError

from schemas.errors import BrowserLost, BrowserMissing, ChannelError
from schemas.policy import NO_POLICY, Policy, user_agent_of
from schemas.profiles import Profile
from schemas.settings import CrawlSettings
from workers.browser.channel import Channel
from workers.browser.orphans import own_folder, sweep_orphans
from workers.browser.session import PageSession

GUARDED = (
    # what is no TCP would go past the guard
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--dns-prefetch-disable",
)
PORT_FILE = "DevToolsActivePort"
PORT_FILE_PATIENCE_SECONDS = 10.0
LAUNCH_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class BrowserFacts:
    """What a row records of the browser that made it."""

    browser_version: str
    playwright_version: str
    user_agent: str
    """The browser's own, with our name and version behind it: who we are is never hidden."""


@dataclass(slots=True)
class _Launched:
    """A running browser and both connections to it."""

    playwright: Playwright
    persistent: BrowserContext
    browser: Browser
    channel: Channel
    folder: Path
    facts: BrowserFacts
    process: psutil.Process
    new_targets: asyncio.Queue[dict[str, Any]]
    known_contexts: set[str]
    sessions: int = 0
    given_up: bool = False
    """It made no page in time: the next page gets another browser, and this one ends with its last session."""

    def usable(self) -> bool:
        """Whether a new page may be asked of it."""
        return not self.given_up and not self.channel.is_lost and self.browser.is_connected()


class Supervisor:
    """One browser at a time, launched at the first need."""

    def __init__(
        self, executable: Path, settings: CrawlSettings, *, policy: Policy = NO_POLICY, proxy: str | None = None
    ) -> None:
        self._policy = policy
        self._proxy = proxy
        self._executable = executable
        self._settings = settings
        self._launched: _Launched | None = None
        self._given_up: list[_Launched] = []
        self._launching = asyncio.Lock()
        self._creating = asyncio.Lock()
        self.launches = 0

    async def facts(self) -> BrowserFacts:
        """The facts of the browser in use; launches it if need be."""
        return (await self._running()).facts

    async def endpoint(self) -> str:
        """The websocket address at which the browser in use is debugged, for whoever looks at the same pages."""
        return await _endpoint((await self._running()).folder / "profile")

    async def _running(self) -> _Launched:
        async with self._launching:
            launched = self._launched
            if launched is not None and launched.usable():
                return launched
            self._launched = None
            if launched is not None and launched.given_up and launched.sessions:
                # its pages may still finish, each within its budgets
                self._given_up.append(launched)
            elif launched is not None:
                await self._end(launched)
            self._launched = await self._launch()
            return self._launched

    async def _launch(self) -> _Launched:
        await asyncio.to_thread(sweep_orphans)
        folder = own_folder()
        profile_folder = folder / "profile"
        profile_folder.mkdir()
        playwright = await async_playwright().start()
        self.launches += 1
        try:
            persistent = await playwright.chromium.launch_persistent_context(
                profile_folder,
                executable_path=self._executable,
                headless=True,
                # Chromium refuses to run as root with its sandbox on; everybody else keeps it
                chromium_sandbox=os.geteuid() != 0,
                # a Ctrl-C is ours to handle: the pages in flight are finished first
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
                args=[
                    "--remote-debugging-port=0",
                    *(GUARDED if self._proxy else []),
                    *(["--site-per-process"] if self._settings.site_per_process else []),
                ],
                # Playwright hides scrollbars; an agent's browser shows them, and they take room from the page
                ignore_default_args=["--hide-scrollbars"],
                accept_downloads=False,
                # Playwright takes loopback through it too, which Chromium's own switch would not
                proxy={"server": self._proxy} if self._proxy else None,
                timeout=LAUNCH_PATIENCE_SECONDS * 1000,
            )
            browser = persistent.browser
            assert browser is not None, "a persistent context of Chromium has a browser"
            channel = await Channel.connect(await _endpoint(profile_folder), folder, self._settings.max_reply_bytes)
            about = await channel.ask("Browser.getVersion")
            process = psutil.Process(await _pid(channel))
            new_targets: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
            channel.on("Target.targetCreated", lambda event, _: new_targets.put_nowait(event["targetInfo"]))
            await channel.ask("Target.setDiscoverTargets", {"discover": True})
        except (PlaywrightError, BrowserLost, ChannelError, psutil.NoSuchProcess) as error:
            await playwright.stop()
            shutil.rmtree(folder, ignore_errors=True)
            first_line = str(error).strip().splitlines()[0]
            raise BrowserMissing(
                f"The browser {self._executable} could not be started: {first_line}; try it by hand with --version,"
                " or configure another."
            ) from error
        facts = BrowserFacts(
            browser_version=browser.version,
            playwright_version=version("playwright"),
            user_agent=user_agent_of(about["userAgent"], "", self._policy),
        )
        return _Launched(playwright, persistent, browser, channel, folder, facts, process, new_targets, set())

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
        context, page, target_id, session_id = made
        launched.sessions += 1
        try:
            session = PageSession(launched.channel, context, page, target_id, session_id)
            try:
                yield session
            finally:
                session.detach()
        finally:
            await self._close_context(context)
            launched.sessions -= 1
            if launched in self._given_up and not launched.sessions:
                self._given_up.remove(launched)
                await self._end(launched)

    async def _made(self, profile: Profile) -> tuple[_Launched, tuple[BrowserContext, Page, str, str]]:
        """A browser and a page in it; raises BrowserLost where it makes none."""
        launched = await self._running()
        try:
            return launched, await self._create(launched, profile)
        except PlaywrightError as error:
            raise BrowserLost(f"The browser made no page: {_first_line(error)}") from error
        except TimeoutError as error:
            seconds = self._settings.budgets.context.total_seconds()
            raise BrowserLost(f"The browser made no page within {seconds:g} s.") from error

    async def _create(self, launched: _Launched, profile: Profile) -> tuple[BrowserContext, Page, str, str]:
        """A context, its page, that page's target id and the id of the raw session attached to it.

        One at a time: the target is recognised as the first page of a browser context never seen before.
        """
        async with self._creating:
            if not launched.usable():
                raise BrowserLost("The browser was lost before it made a page.")
            try:
                async with asyncio.timeout(self._settings.budgets.context.total_seconds()):
                    return await self._create_now(launched, profile)
            except TimeoutError:
                launched.given_up = True
                raise

    async def _create_now(self, launched: _Launched, profile: Profile) -> tuple[BrowserContext, Page, str, str]:
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
            service_workers="block",
        )
        try:
            page = await context.new_page()
            target_id = ""
            while not target_id:
                target = await launched.new_targets.get()
                # popups of other pages are pages too, but their contexts are known
                if target["type"] == "page" and target.get("browserContextId") not in launched.known_contexts:
                    launched.known_contexts.add(target["browserContextId"])
                    target_id = target["targetId"]
            attached = await launched.channel.ask("Target.attachToTarget", {"targetId": target_id, "flatten": True})
        except BaseException:
            await self._close_context(context)
            raise
        return context, page, target_id, attached["sessionId"]

    async def _close_context(self, context: BrowserContext) -> None:
        """Closes a context; one that never closes must not keep its slot, and the browser forgets it with its pages."""
        closing = asyncio.ensure_future(_close(context))
        await asyncio.wait({closing}, timeout=self._settings.budgets.close.total_seconds())

    async def close(self) -> None:
        """Ends the browser and removes its folder."""
        left = [*self._given_up, *([self._launched] if self._launched else [])]
        self._launched, self._given_up = None, []
        for launched in left:
            await self._end(launched)

    async def _end(self, launched: _Launched) -> None:
        # a browser that was given up is not asked to close itself
        asked = [] if launched.given_up else [launched.persistent.close]
        for step in (launched.channel.close, *asked):
            await self._bounded(step())
        # whatever it was told, it must not outlive this; the driver would wait half a minute for it
        with suppress(psutil.NoSuchProcess):
            launched.process.kill()
        await self._bounded(launched.playwright.stop())
        shutil.rmtree(launched.folder, ignore_errors=True)

    async def _bounded(self, step: Coroutine[Any, Any, None]) -> None:
        try:
            async with asyncio.timeout(self._settings.budgets.close.total_seconds()):
                await step
        except (TimeoutError, PlaywrightError):
            # it is being ended because it is broken or done
            return


async def _close(context: BrowserContext) -> None:
    try:
        await context.close()
    except PlaywrightError:
        # the browser is gone, and the context with it
        return


async def _pid(channel: Channel) -> int:
    """The process id of the browser, as it tells it itself: it is the driver's child, not ours."""
    told = await channel.ask("SystemInfo.getProcessInfo")
    return next(int(process["id"]) for process in told["processInfo"] if process["type"] == "browser")


async def _endpoint(profile_folder: Path) -> str:
    """The browser's own debugging endpoint, which it writes into its profile folder."""
    file = profile_folder / PORT_FILE
    waited = 0.0
    while waited < PORT_FILE_PATIENCE_SECONDS:
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
        if len(lines) >= 2:
            return f"ws://127.0.0.1:{int(lines[0])}{lines[1]}"
        await asyncio.sleep(0.02)
        waited += 0.02
    raise BrowserLost(f"the browser wrote no {PORT_FILE} into its profile folder")


def _first_line(error: PlaywrightError) -> str:
    return error.message.strip().splitlines()[0] if error.message.strip() else type(error).__name__
