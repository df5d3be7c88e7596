"""Takes the capture of a settled page: the page's own target first, then its frames in processes of their own.

Only the page itself is needed; a frame that cannot be had is left out and said so (`frame_lost`).
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from typing import Any

from schemas.errors import BrowserLost, ChannelError, DiskFull, PageFailed
from schemas.settings import Budgets, CrawlSettings
from workers.browser.session import PageSession
from workers.browser.spool import buffer_of
from workers.capture.replies import frames_in
from workers.capture.taken import Taken, Taking
from workers.capture.target import Place, TargetTaker

FRAMES_SPARE_SECONDS = 0.2
"""Before the page's deadline frames in processes of their own are given up."""


async def take(session: PageSession, settings: CrawlSettings, started: float, taking: Taking) -> None:
    """Fills the taking of a page. `started` is the page's start on the clock of `time.perf_counter`.

    Frames in processes of their own are taken as far as the listing may show them: `listing.max_iframes` of them,
    `listing.max_iframe_depth` levels deep.

    Raises PageFailed (capture_timeout, renderer_crash, page_closed) where a needed payload cannot be had, BrowserLost,
    and DiskFull.
    """
    budgets, limits = settings.budgets, settings.listing
    place = Place(0, session.session_id, session.visit.elements, session.target_id)
    await TargetTaker(session, place, budgets, started, taking).take()
    targets = [{"target_id": session.target_id, "session_id": session.session_id}]
    deadline = time.perf_counter() + session.left(budgets.needed.total_seconds(), FRAMES_SPARE_SECONDS)
    # breadth first, so that a cap cuts off the deepest frames
    above = [(place, 0)]
    while above:
        parent, depth = above.pop(0)
        found = await _frames_below(session, parent.session_id, budgets.payload.total_seconds(), deadline, taking)
        if len(targets) + len(found) > limits.max_iframes:
            found = _in_document_order(found, parent, taking)
        for target_id, session_id in found:
            if len(targets) > limits.max_iframes or depth >= limits.max_iframe_depth:
                taking.degradations.add("frames_capped")
                break
            frame = Place(len(targets), session_id, None, target_id)
            if await _take_frame(session, target_id, frame, budgets, started, deadline, taking):
                targets.append({"target_id": target_id, "session_id": session_id})
                above.append((frame, depth + 1))
    taking.payloads.append(Taken("targets", _targets(session, targets, taking)))


async def _frames_below(
    session: PageSession, parent: str, seconds: float, deadline: float, taking: Taking
) -> list[tuple[str, str]]:
    try:
        async with asyncio.timeout(min(deadline - time.perf_counter(), seconds)):
            return await session.out_of_process_frames(parent)
    except (TimeoutError, ChannelError, PageFailed):
        # what is here already is whole, even if the page has gone meanwhile
        taking.degradations.add("frame_lost")
        return []


def _in_document_order(found: list[tuple[str, str]], parent: Place, taking: Taking) -> list[tuple[str, str]]:
    """The frames as they stand in the document above them, since a listing shows the first of too many.

    A frame's target has the id of the frame. One that the document does not name comes last.
    """
    for taken in taking.payloads:
        if taken.kind == "dom_document" and taken.target == parent.ordinal:
            data = bytes(buffer_of(taken.data))
            places = {target_id: data.find(b'"frameId":"%b"' % target_id.encode()) for target_id, _ in found}
            return sorted(found, key=lambda frame: (places[frame[0]] < 0, places[frame[0]]))
    return found


async def _take_frame(
    session: PageSession,
    target_id: str,
    place: Place,
    budgets: Budgets,
    started: float,
    deadline: float,
    taking: Taking,
) -> bool:
    """Adds one frame's payloads; False, with nothing added, where it is gone or late."""
    own = Taking()
    try:
        async with asyncio.timeout(min(deadline - time.perf_counter(), budgets.payload.total_seconds() * 2)):
            elements = await session.elements_of(target_id, place.session_id)
            place = replace(place, elements=elements)
            await TargetTaker(session, place, budgets, started, own).take()
    except (BrowserLost, DiskFull):
        own.discard()
        raise
    except (TimeoutError, ChannelError, PageFailed, LookupError) as error:
        own.discard()
        if isinstance(error, PageFailed) and error.outcome == "renderer_crash":
            raise
        taking.degradations.add("frame_lost")
        return False
    taking.payloads += own.payloads
    taking.degradations |= own.degradations
    taking.subtrees += own.subtrees
    return True


def _targets(session: PageSession, targets: list[dict[str, str]], taking: Taking) -> bytes:
    """The `targets` payload: who is who among the targets, and which frame lives where."""
    frames: dict[str, dict[str, str]] = {}
    for taken in taking.payloads:
        if taken.kind == "frame_tree":
            for frame in frames_in(taken.data):
                frames[frame["id"]] = {"target_id": targets[taken.target]["target_id"], "url": frame.get("url", "")}
    visit = session.visit
    about: dict[str, Any] = {"url": visit.final_url or "", "title": visit.title or ""}
    return json.dumps({**about, "targets": targets, "frames": frames}).encode()
