"""Launching a browser and ending it again, with everything that belongs to it: driver, processes, folder, connections.

Playwright launches and navigates; a second, raw connection to the same browser carries the payloads. Playwright's
`launch()` refuses a profile folder of ours, without which the debugging port is unknown, so the browser is launched
as a persistent context and pages live in contexts of their own beside it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from playwright.async_api import Browser, BrowserContext, Playwright, async_playwright
from playwright.async_api import Error as PlaywrightError

from schemas.errors import BrowserLost, BrowserMissing, ChannelError
from schemas.policy import NO_POLICY, Policy, user_agent_of
from schemas.settings import CrawlSettings
from workers.browser.channel import Channel, forget
from workers.browser.orphans import own_folder
from workers.browser.processes import driver_of, end_group, group_of, kill_group, limit_memory, reap

PORT_FILE = "DevToolsActivePort"
PORT_FILE_PATIENCE_SECONDS = 10.0
GUARDED = (
    # what is no TCP would go past the guard
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--dns-prefetch-disable",
)
LAUNCH_PATIENCE_SECONDS = 60.0
TERM_PATIENCE_SECONDS = 2.0
"""A browser that was told to end, or whose driver is gone, has so long before it is killed."""


@dataclass(frozen=True, slots=True)
class BrowserFacts:
    """What a row records of the browser that made it."""

    browser_version: str
    playwright_version: str
    user_agent: str
    """The browser's own, with our name and version behind it: who we are is never hidden."""


@dataclass(slots=True)
class Launched:
    """A running browser and both connections to it."""

    playwright: Playwright
    persistent: BrowserContext
    browser: Browser
    channel: Channel
    folder: Path
    facts: BrowserFacts
    process: psutil.Process
    group: int | None
    """The process group of the browser; None where it is in ours and has to be ended process by process."""
    driver: psutil.Process | None
    launched_at: float = field(default_factory=time.monotonic)
    new_targets: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue)
    known_contexts: set[str] = field(default_factory=set)
    sessions: int = 0
    pages: int = 0
    crash_score: float = 0.0
    proven_at: float = field(default_factory=time.monotonic)
    """When it last showed that it works."""
    measured_at: float = field(default_factory=time.monotonic)
    broken: str = ""
    """Why no page may be asked of it any more, and it is not even asked to close itself."""
    retired: str = ""
    """Why the next page gets another browser; this one ends with its last session."""

    def usable(self) -> bool:
        """Whether a new page may be asked of it."""
        return not (self.broken or self.retired or self.channel.is_lost) and self.browser.is_connected()

    def kill(self) -> None:
        """Kills its processes at once; may be called from any thread."""
        if self.group is not None:
            kill_group(self.group)
        else:
            with suppress(psutil.Error):
                self.process.kill()


async def launch(
    executable: Path,
    settings: CrawlSettings,
    renderer_memory_bytes: int,
    *,
    policy: Policy = NO_POLICY,
    proxy: str | None = None,
) -> Launched:
    """A new browser with a profile folder and a process group of its own.

    Raises BrowserMissing, with nothing left behind.
    """
    folder = own_folder()
    profile_folder = folder / "profile"
    profile_folder.mkdir()
    playwright = await async_playwright().start()
    try:
        persistent = await playwright.chromium.launch_persistent_context(
            profile_folder,
            executable_path=executable,
            headless=True,
            # Chromium refuses to run as root with its sandbox on; everybody else keeps it
            chromium_sandbox=os.geteuid() != 0,
            # a Ctrl-C is ours to handle: the pages in flight are finished first
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
            args=[
                "--remote-debugging-port=0",
                *(GUARDED if proxy else []),
                # of the headless shell; another Chromium opens popups, and they are closed
                "--block-new-web-contents",
                *(["--site-per-process"] if settings.site_per_process else []),
            ],
            # Playwright hides scrollbars; an agent's browser shows them, and they take room from the page
            ignore_default_args=["--hide-scrollbars"],
            accept_downloads=False,
            # else the driver makes a folder of its own, which it leaves behind where it is killed
            artifacts_dir=folder / "artifacts",
            # Playwright takes loopback through it too, which Chromium's own switch would not
            proxy={"server": proxy} if proxy else None,
            timeout=LAUNCH_PATIENCE_SECONDS * 1000,
        )
        browser = persistent.browser
        assert browser is not None, "a persistent context of Chromium has a browser"
        channel = await Channel.connect(await endpoint(profile_folder), folder, settings.max_reply_bytes)
        user_agent, pid = await _introduced(channel)
        process = psutil.Process(pid)
        limit_memory(process, renderer_memory_bytes)
        facts = BrowserFacts(
            browser_version=browser.version,
            playwright_version=version("playwright"),
            user_agent=user_agent_of(user_agent, "", policy),
        )
        made = Launched(
            playwright,
            persistent,
            browser,
            channel,
            folder,
            facts,
            process,
            group_of(process.pid),
            driver_of(process),
        )
        channel.on("Target.targetCreated", lambda event, _: made.new_targets.put_nowait(event["targetInfo"]))
    except (PlaywrightError, BrowserLost, ChannelError, psutil.NoSuchProcess) as error:
        await playwright.stop()
        shutil.rmtree(folder, ignore_errors=True)
        first_line = str(error).strip().splitlines()[0]
        raise BrowserMissing(
            f"The browser {executable} could not be started: {first_line}; try it by hand with --version,"
            " or configure another."
        ) from error
    return made


async def end(launched: Launched, close_seconds: float) -> None:
    """Ends a browser: asked, where it can still answer, then by TERM, then by KILL; and its driver, and its folder."""
    # one that is broken is not asked to close itself
    asked = [] if launched.broken else [launched.persistent.close]
    for step in (launched.channel.close, *asked):
        await _bounded(step(), close_seconds)
    # whatever it was told, it must not outlive this; the driver would wait half a minute for it
    if launched.group is not None:
        await asyncio.to_thread(end_group, launched.group, TERM_PATIENCE_SECONDS)
    with suppress(psutil.Error):
        launched.process.kill()
    await _bounded(launched.playwright.stop(), close_seconds)
    driver = launched.driver
    if driver is not None and driver.is_running():
        # it has a group of its own in an engine's loop; elsewhere only the process itself may be killed
        with suppress(psutil.Error):
            driver.kill()
    if launched.group is not None:
        reap({launched.group})
    shutil.rmtree(launched.folder, ignore_errors=True)


async def _bounded(step: Coroutine[Any, Any, Any], seconds: float) -> None:
    """A step of an end, given up when its time is over, even where it does not let itself be cancelled."""
    task = asyncio.ensure_future(step)
    await asyncio.wait({task}, timeout=seconds)
    if not task.done():
        task.cancel()
    task.add_done_callback(forget)


async def _introduced(channel: Channel) -> tuple[str, int]:
    """The browser's user agent and process id, as it tells them itself: it is the driver's child, not ours."""
    try:
        async with asyncio.timeout(LAUNCH_PATIENCE_SECONDS):
            about = await channel.ask("Browser.getVersion")
            told = await channel.ask("SystemInfo.getProcessInfo")
            await channel.ask("Target.setDiscoverTargets", {"discover": True})
    except TimeoutError as error:
        raise BrowserLost(f"it said nothing on its debugging port for {LAUNCH_PATIENCE_SECONDS:g} s") from error
    return about["userAgent"], next(int(p["id"]) for p in told["processInfo"] if p["type"] == "browser")


async def endpoint(profile_folder: Path) -> str:
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
