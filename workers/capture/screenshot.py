"""Takes the picture of a page after its payloads, with what tells afterwards where on it everything lies.

The page is laid out as the profile says: a command on the raw session would otherwise undo the emulation of the other
one, and show a phone's page as a desktop's. Only a picture of the full page changes the layout, since Chromium takes
the scrollbars away for it; the payloads are in by then.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from typing import Any, Final

from schemas.capture import PLACE_STYLES
from schemas.errors import BrowserLost, ChannelError, PageFailed
from schemas.outcomes import StageOutcome
from schemas.profiles import Profile
from schemas.records import StageResult
from schemas.settings import MAX_PICTURE_SIDE, CrawlSettings, ScreenshotSettings
from workers.browser.channel import Reply
from workers.browser.session import PageSession
from workers.browser.spool import buffer_of
from workers.capture.replies import give_up
from workers.capture.taken import Clip, Picture, Taking

SPARE_SECONDS: Final = 1.0
"""Before the page's deadline the picture is given up, so that the page itself is kept."""
PLACES_PARAMS: Final[dict[str, Any]] = {"computedStyles": list(PLACE_STYLES)}
"""The least that tells where elements and frames are."""


async def take_screenshot(
    session: PageSession, settings: CrawlSettings, profile: Profile, started: float, taking: Taking
) -> None:
    """Adds the picture to the taking, or says why there is none (`screenshot_failed`), and raises nothing.

    `started` is the page's start on the clock of `time.perf_counter`.
    """
    begun = time.perf_counter()
    picture = Picture(started_ms=(begun - started) * 1000)
    outcome: StageOutcome = "ok"
    detail: str | None = None
    try:
        async with asyncio.timeout(session.left(settings.budgets.screenshot.total_seconds(), SPARE_SECONDS)):
            await _Taker(session, settings.screenshot, profile, taking).take(picture)
        session.check_stayed()
    except TimeoutError:
        outcome, detail = "timeout", f"no picture within {time.perf_counter() - begun:.1f} s"
    except (PageFailed, ChannelError, BrowserLost) as error:
        outcome, detail = "error", str(error)
    except (ValueError, KeyError, TypeError) as error:
        outcome, detail = "error", f"the browser's answer makes no sense: {type(error).__name__}: {error}"
    took = (time.perf_counter() - begun) * 1000
    if outcome == "ok":
        picture.duration_ms = took
        taking.picture = picture
        return
    picture.discard()
    taking.degradations.add("screenshot_failed")
    taking.stages.append(StageResult("screenshot", outcome, picture.started_ms, took, detail))


def clip_of(metrics: dict[str, Any], limits: ScreenshotSettings, ratio: float) -> Clip:
    """What of a page its picture shows, and how large, from its layout metrics; `ratio` is the profile's scale."""
    whole, seen = metrics["cssContentSize"], metrics["cssVisualViewport"]
    if limits.area == "full":
        x, y, width, height = 0.0, 0.0, float(whole["width"]), float(min(whole["height"], limits.max_page_height))
    else:
        x, y = float(seen["pageX"]), float(seen["pageY"])
        width, height = float(seen["clientWidth"]), float(seen["clientHeight"])
    if width <= 0 or height <= 0:
        raise ValueError(f"the page is {width:g} by {height:g} CSS pixels")
    scale = ratio * float(seen.get("scale", 1.0))
    for bound, size in ((limits.max_width, width), (MAX_PICTURE_SIDE, width), (MAX_PICTURE_SIDE, height)):
        if scale * size > bound:
            # whole pixels are made of it, up or down
            scale = (bound - 0.01) / size
    scale = min(scale, math.sqrt(limits.max_pixels / (width * height)))
    while math.ceil(width * scale) * math.ceil(height * scale) > limits.max_pixels and scale * min(width, height) > 1:
        scale *= 0.999
    if scale * min(width, height) < 1:
        raise ValueError(f"{width:g} by {height:g} CSS pixels do not fit into the picture's bounds")
    cut = limits.area == "full" and height < whole["height"]
    of_snapshots = float(metrics["visualViewport"]["clientWidth"]) / float(seen["clientWidth"])
    return Clip(x, y, width, height, scale, float(whole["width"]), float(whole["height"]), cut, of_snapshots)


class _Taker:
    def __init__(self, session: PageSession, limits: ScreenshotSettings, profile: Profile, taking: Taking) -> None:
        self._session = session
        self._limits = limits
        self._profile = profile
        self._taking = taking

    async def take(self, picture: Picture) -> None:
        """Fills the picture. Raises PageFailed, ChannelError, BrowserLost, and ValueError for odd answers."""
        limits, profile = self._limits, self._profile
        await self._ask(
            "Emulation.setDeviceMetricsOverride",
            {
                "width": profile.viewport_width,
                "height": profile.viewport_height,
                "deviceScaleFactor": profile.scale,
                "mobile": profile.mobile,
            },
        )
        is_full = limits.area == "full"
        if is_full:
            # the scrollbars go with the first such picture, which makes the page wider
            dot = {"x": 0, "y": 0, "width": 1, "height": 1, "scale": 1}
            await self._ask("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": dot})
        sessions = self._sessions()
        if is_full or not any(taken.kind == "layout_snapshot" for taken in self._taking.payloads):
            picture.before = await self._places(sessions[:1])
        picture.clip = clip = clip_of(await self._ask("Page.getLayoutMetrics"), limits, profile.scale)
        picture.reply = await self._post(
            "Page.captureScreenshot",
            {
                # the pool encodes what is drawn on, and WebP for less than the browser does
                "format": "png",
                "optimizeForSpeed": limits.boxes or limits.format == "webp",
                "captureBeyondViewport": is_full,
                "clip": {
                    "x": clip.x,
                    "y": clip.y,
                    "width": clip.width,
                    "height": clip.height,
                    "scale": clip.scale / profile.scale,
                },
            },
        )
        picture.after = await self._places(sessions)

    async def _places(self, sessions: list[str]) -> list[tuple[int, Reply]]:
        """A light layout snapshot of each target; that of a frame which has gone is left out."""
        found: list[tuple[int, Reply]] = []
        for ordinal, session_id in enumerate(sessions):
            try:
                found.append((ordinal, await self._post("DOMSnapshot.captureSnapshot", PLACES_PARAMS, session_id)))
            except BrowserLost:
                raise
            except ChannelError:
                if not ordinal:
                    raise
        return found

    def _sessions(self) -> list[str]:
        """The sessions of the page's targets, by ordinal."""
        for taken in self._taking.payloads:
            if taken.kind == "targets":
                return [target["session_id"] for target in json.loads(bytes(buffer_of(taken.data)))["targets"]]
        return [self._session.session_id]

    async def _ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        reply = await self._post(method, params)
        data = reply if isinstance(reply, bytes) else reply.read_and_delete()
        answer: dict[str, Any] = json.loads(data)
        return answer

    async def _post(self, method: str, params: dict[str, Any] | None = None, session_id: str = "") -> Reply:
        """A command's reply, unless the page is gone first."""
        reply = self._session.channel.post(method, params, session_id or self._session.session_id)
        watched: set[asyncio.Future[Any]] = {reply, self._session.gone}
        try:
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            give_up(reply)
            raise
        if not reply.done():
            give_up(reply)
            raise self._session.gone.result()
        return reply.result()
