"""Takes the payloads of one CDP target: each under its budget, in the order that decides backend node ids.

Without the DOM document there is no page; everything else degrades and says so.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from schemas.capture import COMPUTED_STYLES, PayloadKind
from schemas.errors import BrowserLost, ChannelError, CommandFailed, DiskFull, PageFailed, ReplyTooLarge
from schemas.outcomes import Stage, StageOutcome
from schemas.records import StageResult
from schemas.settings import Budgets
from workers.browser.channel import SESSION_ENDED, Reply
from workers.browser.session import PageSession
from workers.browser.spool import Spooled, buffer_of, size_of
from workers.capture.ladder import DOCUMENT_DEPTHS, SUBTREE_DEPTHS, cut_off_nodes, is_too_deep
from workers.capture.replies import frame_ids, give_up
from workers.capture.taken import Taken, Taking

MAX_ELEMENTS_FOR_LISTENERS = 10_000
"""Above this many elements browser-use 0.13.14 does not look for listeners."""

EXTRAS_SPARE_SECONDS = 1.0
"""Before the page's deadline the accessibility trees are given up so early that frames can still be looked for."""

SNAPSHOT_PARAMS: dict[str, Any] = {
    "computedStyles": list(COMPUTED_STYLES),
    "includePaintOrder": True,
    "includeDOMRects": True,
    "includeBlendedBackgroundColors": False,
    "includeTextColorOpacities": False,
}


@dataclass(frozen=True, slots=True)
class Place:
    """The target that is taken from: 0 is the page itself, others are frames in processes of their own."""

    ordinal: int
    session_id: str
    elements: int | None
    """Elements of its document; None when its thread was blocked."""
    target_id: str


class TargetTaker:
    """One target's taking. `started` is the page's start on the clock of `time.perf_counter`."""

    def __init__(self, session: PageSession, place: Place, budgets: Budgets, started: float, taking: Taking) -> None:
        self._session = session
        self._place = place
        self._budgets = budgets
        self._started = started
        self._taking = taking
        self._arrived: dict[asyncio.Future[Reply], float] = {}
        self._is_late = False

    async def take(self) -> None:
        """Fills the taking.

        Raises PageFailed (capture_timeout, renderer_crash, page_closed) where a needed payload cannot be had,
        BrowserLost, and DiskFull.
        """
        frames = await self._frames()
        await self._listeners()
        begun = time.perf_counter()
        # sent in this order and at once: the order decides which node gets which backend id
        snapshot = self._post("DOMSnapshot.captureSnapshot", SNAPSHOT_PARAMS)
        document = self._post("DOM.getDocument", {"depth": DOCUMENT_DEPTHS[0], "pierce": True})
        metrics = self._post("Page.getLayoutMetrics")
        trees = [(frame, self._post("Accessibility.getFullAXTree", {"frameId": frame})) for frame in frames]
        others = [document, metrics, *(reply for _, reply in trees)]
        try:
            await self._snapshot(snapshot, begun)
            await self._document(document, begun)
            await self._metrics(metrics)
            await self._accessibility(trees, begun)
        finally:
            kept = {id(taken.data) for taken in self._taking.payloads}
            for reply in (snapshot, *others):
                give_up(reply, kept)

    # the payloads

    async def _frames(self) -> list[str]:
        """The ids of the target's frames; without a frame tree only its root frame is known."""
        try:
            tree = await self._within(self._post("Page.getFrameTree"), self._patience())
            frames = frame_ids(tree)
        except (TimeoutError, ChannelError, ValueError, LookupError, TypeError) as error:
            self._is_late |= isinstance(error, TimeoutError)
            self._taking.degradations.add("frame_lost")
            return [self._place.target_id]
        self._add("frame_tree", tree)
        return frames

    async def _listeners(self) -> None:
        begun = time.perf_counter()
        elements = self._place.elements
        if elements is None or elements > MAX_ELEMENTS_FOR_LISTENERS:
            detail = "the page's thread was blocked" if elements is None else f"{elements} elements"
            self._stage("listeners", "skipped", begun, detail)
            if elements is None:
                self._taking.degradations.add("listeners_skipped")
            return
        deadline = begun + self._budgets.payload.total_seconds()
        try:
            # `document` is an unforgeable property, so that the page cannot put another object in its place
            document = await self._within(self._post("Runtime.evaluate", {"expression": "document"}), deadline - begun)
            handle = json.loads(bytes(buffer_of(document)))["result"]["objectId"]
            reply = await self._within(
                self._post("DOMDebugger.getEventListeners", {"objectId": handle, "depth": -1}),
                deadline - time.perf_counter(),
            )
            # the handle goes with its page anyway, so that a failed release costs nothing
            self._session.channel.send("Runtime.releaseObject", {"objectId": handle}, self._place.session_id)
        except (TimeoutError, ChannelError, ValueError, LookupError, TypeError) as error:
            self._taking.degradations.add("listeners_skipped")
            late = isinstance(error, TimeoutError)
            self._stage("listeners", "timeout" if late else "error", begun, None if late else str(error))
            return
        data = b'{"element_count":%d,%b' % (elements, bytes(buffer_of(reply))[1:])
        if isinstance(reply, Spooled):
            reply.delete()
        self._add("listeners", data)
        self._stage("listeners", "ok", begun, size=len(data))

    async def _snapshot(self, reply: asyncio.Future[Reply], begun: float) -> None:
        """The layout snapshot, which may be late; without it there is no listing, but still an outline."""
        left = self._patience()
        for attempt in (0, 1):
            try:
                data = await self._within(reply, left)
            except (TimeoutError, ChannelError) as error:
                if isinstance(error, CommandFailed) and not attempt:
                    reply = self._post("DOMSnapshot.captureSnapshot", SNAPSHOT_PARAMS)
                    left = self._budgets.retry.total_seconds()
                    continue
                self._is_late |= isinstance(error, TimeoutError) and not attempt
                self._taking.degradations.add("snapshot_failed")
                late = isinstance(error, TimeoutError)
                detail = f"no layout_snapshot within {left:.1f} s" if late else str(error)
                self._stage("layout_snapshot", "timeout" if late else "error", begun, detail)
                return
            self._add("layout_snapshot", data)
            self._in_time("layout_snapshot", begun, self._arrival(reply), size_of(data), retried=bool(attempt))
            return

    async def _document(self, reply: asyncio.Future[Reply], begun: float) -> None:
        try:
            data = await self._reply(reply, self._patience(), "dom_document")
        except CommandFailed as error:
            try:
                data = await self._climb_down(begun, error)
            except PageFailed as failed:
                if not any(stage.stage == "dom_document" for stage in self._taking.stages):
                    self._stage("dom_document", "error", begun, str(failed))
                raise
            detail = f"depth {self._taking.document_depth}, {self._taking.subtrees} subtrees filled in"
            self._stage("dom_document", "fallback", begun, detail, size=size_of(data))
        else:
            self._add("dom_document", data)
            self._taking.document_depth = DOCUMENT_DEPTHS[0]
            self._in_time("dom_document", begun, self._arrival(reply), size_of(data))
        stages, taking = self._taking.stages, self._taking
        stages[-1] = replace(stages[-1], depth=taking.document_depth, hydrated_nodes=taking.subtrees)

    async def _climb_down(self, begun: float, why: CommandFailed) -> Reply:
        """The document by the depth ladder: a shallower one, and its cut-off nodes filled in.

        An error in other words than those known, as another browser might use, is worth one rung, and no more.
        """
        deadline = begun + self._budgets.needed.total_seconds()
        for depth in DOCUMENT_DEPTHS[1:]:
            try:
                data = await self._reply(
                    self._post("DOM.getDocument", {"depth": depth, "pierce": True}),
                    deadline - time.perf_counter(),
                    "dom_document",
                )
            except CommandFailed as error:
                if not is_too_deep(error.message):
                    raise PageFailed("capture_timeout", str(why)) from error
                continue
            self._add("dom_document", data)
            self._taking.document_depth = depth
            await self._hydrate(data, deadline)
            return data
        raise PageFailed("capture_timeout", f"the document is too deep even at depth {DOCUMENT_DEPTHS[-1]}")

    async def _hydrate(self, data: Reply, deadline: float) -> None:
        stack = (await asyncio.to_thread(cut_off_nodes, memoryview(buffer_of(data))))[::-1]
        seen: set[int] = set()
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            subtree = await self._describe(node, deadline)
            if subtree is None:
                self._taking.degradations.add("depth_limited")
                continue
            below, data = subtree
            self._add("dom_subtree", data)
            self._taking.subtrees += 1
            stack.extend(below[::-1])

    async def _describe(self, node: int, deadline: float) -> tuple[list[int], Reply] | None:
        """One subtree at the greatest depth that comes, and where it is cut off; None where it does not come."""
        for depth in SUBTREE_DEPTHS:
            left = min(deadline - time.perf_counter(), self._budgets.payload.total_seconds())
            if left <= 0:
                return None
            reply = self._post("DOM.describeNode", {"backendNodeId": node, "depth": depth, "pierce": True})
            try:
                data = await self._within(reply, left)
                return await asyncio.to_thread(cut_off_nodes, memoryview(buffer_of(data))), data
            except ReplyTooLarge:
                continue
            except CommandFailed as error:
                if not is_too_deep(error.message):
                    return None
            except (TimeoutError, msgspec.DecodeError):
                return None
        return None

    async def _metrics(self, reply: asyncio.Future[Reply]) -> None:
        """Layout metrics, for the device pixel ratio and the page's size; without them the ratio counts as 1."""
        patience = self._session.left(self._budgets.payload.total_seconds(), EXTRAS_SPARE_SECONDS)
        try:
            self._add("layout_metrics", await self._within(reply, patience))
        except (TimeoutError, ChannelError):
            self._taking.degradations.add("snapshot_truncated")

    async def _accessibility(self, trees: list[tuple[str, asyncio.Future[Reply]]], begun: float) -> None:
        """The AX trees of the frames that answered in time; late or failed ones never cost the page.

        Their budget runs from now, when the needed payloads are here: the renderer makes one payload after the other.
        """
        patience = self._session.left(self._budgets.payload.total_seconds(), EXTRAS_SPARE_SECONDS)
        await self._or_gone([reply for _, reply in trees], patience)
        came, failed, late = 0, 0, 0
        size = 0
        detail: str | None = None
        for position, (frame, reply) in enumerate(trees):
            if reply.done() and isinstance(reply.exception(), CommandFailed) and position == 0:
                # The root frame's tree is most of the page, so it is asked for once more, without its id: then the
                # browser takes the root frame of the moment. For another frame that would be the root's tree again.
                reply = self._post("Accessibility.getFullAXTree")
                await self._or_gone(
                    [reply], self._session.left(self._budgets.retry.total_seconds(), EXTRAS_SPARE_SECONDS)
                )
            if not reply.done():
                late += 1
                give_up(reply)
                continue
            error = reply.exception()
            if isinstance(error, BrowserLost | DiskFull):
                raise error
            if error is not None:
                failed += 1
                detail = str(error)
                continue
            came += 1
            data = reply.result()
            size += size_of(data)
            self._add("ax_tree", data, frame)
        if came == len(trees):
            self._stage("ax_tree", "ok", begun, size=size, ended=max(self._arrival(reply) for _, reply in trees))
            return
        counts = f"{came} of {len(trees)} frames, {late} late, {failed} failed"
        if came:
            self._taking.degradations.add("ax_partial")
            self._stage("ax_tree", "fallback", begun, counts, size=size)
        else:
            self._taking.degradations.add("ax_timeout" if late else "ax_failed")
            self._stage("ax_tree", "timeout" if late else "error", begun, detail or counts)

    # waiting

    def _post(self, method: str, params: dict[str, Any] | None = None) -> asyncio.Future[Reply]:
        reply = self._session.channel.post(method, params, self._place.session_id)
        reply.add_done_callback(self._note_arrival)
        return reply

    def _note_arrival(self, reply: asyncio.Future[Reply]) -> None:
        self._arrived[reply] = time.perf_counter()

    def _arrival(self, reply: asyncio.Future[Reply]) -> float:
        """When a reply came; one that came in this very turn of the loop has not been noted yet."""
        return self._arrived.get(reply) or time.perf_counter()

    def _patience(self) -> float:
        """How long something needed is waited for; when one has not come in that time, the next hardly is."""
        needed = self._budgets.needed.total_seconds()
        return min(needed, self._budgets.retry.total_seconds()) if self._is_late else needed

    def _in_time(self, stage: Stage, begun: float, ended: float, size: int, retried: bool = False) -> None:
        late = ended - begun > self._budgets.payload.total_seconds()
        detail = "late" if late else "second try" if retried else None
        self._stage(stage, "fallback" if detail else "ok", begun, detail, size, ended)

    async def _reply(self, reply: asyncio.Future[Reply], seconds: float, stage: Stage) -> Reply:
        """The reply to what the page cannot do without; raises PageFailed, or CommandFailed for the next rung."""
        try:
            return await self._within(reply, seconds)
        except TimeoutError as error:
            self._stage(stage, "timeout", time.perf_counter() - seconds)
            raise PageFailed("capture_timeout", f"no {stage} within {seconds:.1f} s") from error
        except ReplyTooLarge as error:
            raise PageFailed("too_large", str(error)) from error

    async def _within(self, reply: asyncio.Future[Reply], seconds: float) -> Reply:
        """The reply; TimeoutError where the time is up first, PageFailed where the renderer dies or the page closes."""
        try:
            await self._or_gone([reply], seconds)
        except BaseException:
            give_up(reply)
            raise
        if not reply.done():
            give_up(reply)
            raise TimeoutError
        try:
            return reply.result()
        except CommandFailed as error:
            if SESSION_ENDED in error.message or "Target closed" in error.message:
                raise PageFailed("page_closed", str(error)) from error
            raise

    async def _or_gone(self, replies: list[asyncio.Future[Reply]], seconds: float) -> None:
        """Waits until all replies are there, the time is up, or the page is gone (which is raised)."""
        gone = self._session.gone
        pending = {reply for reply in replies if not reply.done()}
        deadline = time.perf_counter() + max(seconds, 0.0)
        while pending:
            left = deadline - time.perf_counter()
            if left <= 0:
                return
            watched: set[asyncio.Future[Any]] = {*pending, gone}
            done, _ = await asyncio.wait(watched, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if gone in done:
                raise gone.result()
            pending -= done

    # noting

    def _add(self, kind: PayloadKind, data: Reply, frame_id: str = "") -> None:
        self._taking.payloads.append(Taken(kind, data, self._place.ordinal, frame_id))

    def _stage(
        self,
        stage: Stage,
        outcome: StageOutcome,
        begun: float,
        detail: str | None = None,
        size: int | None = None,
        ended: float | None = None,
    ) -> None:
        """Notes a stage; it ended when its payload arrived, not when its turn came to be looked at."""
        took = (ended or time.perf_counter()) - begun
        self._taking.stages.append(
            StageResult(stage, outcome, (begun - self._started) * 1000, took * 1000, detail, bytes=size)
        )
