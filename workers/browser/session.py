"""A page session drives one page to a settled state and reports what happened on the way.

This seam has two sides only (`drive`, and the facts it returns), so that another way of driving can take its place.
It is the only module that translates Playwright's errors.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Literal, TypeVar

from playwright.async_api import BrowserContext, Page
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeout

from schemas.errors import BrowserLost, ChannelError, CommandFailed, PageFailed
from schemas.settings import Budgets, Caps
from workers.browser import looking
from workers.browser.challenge import MARKS, SUSPICIOUS_STATUSES, signal_in_headers
from workers.browser.channel import Channel, forget
from workers.browser.documents import Document, Documents
from workers.browser.net_errors import outcome_of_net_error
from workers.browser.unasked import Unasked
from workers.browser.visit import UNSETTLED, SettleReason, Visit

_Result = TypeVar("_Result")

ISOLATED_WORLD = "pagestate"
CAPTURABLE_TYPES = ("text/", "application/xhtml+xml", "application/xml", "application/json")
"""Content types whose document is the page itself; others are shown by a viewer of the browser's own."""
DOWNLOADED_TYPES = frozenset({"application/pdf"})
"""Types that some browsers save and others show in a viewer: the outcome must not depend on that."""
BLOCKED_AFTER_SECONDS = 1.0
"""So long after its own cap a script in the page that has not answered tells that the page's thread is blocked."""
BLANK = "about:blank"
DOWNLOAD = "Download is starting"
UNBLOCKED_SECONDS = 0.5
EVENT_PATIENCE_SECONDS = 2.0
"""The raw session tells a committed document about when Playwright does, not after."""


class PageSession:
    """One page in one fresh context, and the raw session attached to it."""

    def __init__(
        self,
        channel: Channel,
        context: BrowserContext,
        page: Page,
        target_id: str,
        session_id: str,
        context_id: str = "",
        caps: Caps | None = None,
    ) -> None:
        self.channel = channel
        self.target_id = target_id
        self.session_id = session_id
        self.visit = Visit()
        self._caps = caps or Caps()
        self._page = page
        self._held: Document | None = None
        self._deadline = math.inf
        self._frame_sessions: dict[str, str] = {}
        self._gone: asyncio.Future[PageFailed] = asyncio.get_running_loop().create_future()
        self.documents = Documents(channel, session_id, target_id, self._caps, self.visit, self._fail)
        self._unasked = Unasked(channel, context, page, session_id, context_id, self._caps, self.visit, self._fail)
        channel.on("Target.targetCrashed", self._on_crashed)
        channel.on("Target.detachedFromTarget", self._on_detached)

    async def start(self) -> None:
        """Switches on what the session is told by. Raises ChannelError, BrowserLost."""
        await asyncio.gather(self.documents.start(), self._unasked.start())

    def must_end_in(self, seconds: float) -> None:
        """From now on; what is only an extra then ends early enough for the rest to be kept."""
        self._deadline = time.monotonic() + seconds

    def left(self, seconds: float, spare_seconds: float) -> float:
        """So many seconds, or fewer where the page must end before, with some to spare."""
        return min(seconds, max(0.0, self._deadline - time.monotonic() - spare_seconds))

    def detach(self) -> None:
        """Stops listening on the shared channel."""
        self.documents.stop()
        self._unasked.stop()
        self.channel.off("Target.targetCrashed", self._on_crashed)
        self.channel.off("Target.detachedFromTarget", self._on_detached)
        for session in (self.session_id, *self._frame_sessions.values()):
            self.channel.session_ended(session)
        self._gone.cancel()

    def _on_crashed(self, event: dict[str, Any], _: str) -> None:
        if event.get("targetId") == self.target_id:
            self._fail(PageFailed("renderer_crash", "the renderer process died"))
        elif event.get("targetId") in self._frame_sessions:
            self.channel.session_ended(self._frame_sessions[event["targetId"]])

    def _on_detached(self, event: dict[str, Any], _: str) -> None:
        # a command that was under way when the page closed is never answered
        if event.get("sessionId") == self.session_id:
            self._fail(PageFailed("page_closed", "the page closed itself"))
        elif event.get("sessionId") in self._frame_sessions.values():
            self.channel.session_ended(event["sessionId"])

    def _fail(self, failure: PageFailed) -> None:
        if not self._gone.done():
            self._gone.set_result(failure)

    # navigating

    async def navigate(self, url: str, budgets: Budgets) -> None:
        """Goes to `url` until its document is committed.

        Raises PageFailed with the outcome, BrowserLost where the browser is gone.
        """
        visit = self.visit
        try:
            await self._or_gone(
                self._page.goto(url, wait_until="commit", timeout=budgets.navigate.total_seconds() * 1000),
            )
        except PlaywrightTimeout as error:
            raise PageFailed(
                "navigation_timeout", f"no document within {budgets.navigate.total_seconds():g} s"
            ) from error
        except PlaywrightError as error:
            if DOWNLOAD in error.message:
                # the raw session tells its name and type, a moment later
                await self._until(lambda: visit.downloads > 0, EVENT_PATIENCE_SECONDS)
            raise self._failure(error) from error
        finally:
            self.documents.note()
        await self._until(lambda: self.documents.count > 0, EVENT_PATIENCE_SECONDS)
        self.documents.note()
        visit.final_url = self._page.url
        if self._page.url.startswith("chrome-error:"):
            raise PageFailed("http_error" if (visit.status or 0) >= 400 else "empty", "no document came")
        if visit.status == 204 or visit.status == 205:
            raise PageFailed("empty", f"status {visit.status} has no document")
        kind = visit.content_type
        if kind in DOWNLOADED_TYPES:
            raise PageFailed("download", kind)
        if kind and not kind.startswith(CAPTURABLE_TYPES) and not kind.endswith("+xml"):
            raise PageFailed("unsupported_content", kind)

    # settling

    async def settle(self, budgets: Budgets) -> None:
        """Waits for load (or its cap), then for a short DOM-quiet window (or its cap); records why it ended.

        Network idleness is not asked for: polling pages never reach it. From the end on, no other document can take
        the place of this one. Raises PageFailed, BrowserLost.
        """
        documents, visit = self.documents, self.visit
        try:
            reason, seen = await self._settled(budgets)
        finally:
            documents.note()
        if reason == "blocked" and documents.current is not None and documents.current.parsed:
            # the document is whole, so that ending the script that blocks it loses nothing but that script
            seen = await self._unblock(budgets) or seen
        documents.note()
        try:
            await self._or_gone(documents.hold())
        except CommandFailed as error:
            raise PageFailed("page_closed", str(error)) from error
        if documents.refused and documents.count > self._caps.client_redirects:
            reason = "redirects_cap"
        visit.settle_reason = documents.capped or reason
        if visit.settle_reason in UNSETTLED:
            visit.degradations.add("unsettled")
        visit.final_url = self._page.url
        self._held = documents.current
        self._judge(seen)

    async def _settled(self, budgets: Budgets) -> tuple[SettleReason, looking.Seen | None]:
        documents = self.documents
        deadline = time.monotonic() + (budgets.load + budgets.settle).total_seconds()
        # a document that comes without a request cannot be refused, so that following them has an end of its own
        for _ in range(2 * self._caps.client_redirects + 2):
            document = documents.current
            if documents.count > self._caps.client_redirects:
                await self._or_gone(documents.hold())
            left = max(0.0, deadline - time.monotonic())
            is_over = partial(documents.is_over, document)
            ended = await self._until(is_over, min(budgets.load.total_seconds(), left))
            if documents.current is not document and ended:
                continue
            seen = await self._look(budgets, quiet=True)
            if documents.current is not document and time.monotonic() < deadline:
                continue
            if isinstance(seen, looking.Seen):
                if document is not None and document.failed:
                    return "document_failed", seen
                return (seen.reason if ended else "load_cap"), seen
            if seen == "blocked":
                return "blocked", None
            if not ended:
                # documents that are replaced before they have loaded are not waited for one by one
                return "load_cap", None
        # else each look failed, and not for a document that took the place of another
        return ("redirects_cap" if documents.count > self._caps.client_redirects else "blocked"), None

    async def _unblock(self, budgets: Budgets) -> looking.Seen | None:
        self.unblock()
        # one that is busy with more than a script answers the payloads first, or not at all
        seen = await self._look(budgets, quiet=False, seconds=UNBLOCKED_SECONDS)
        return seen if isinstance(seen, looking.Seen) else None

    def unblock(self) -> None:
        """Ends what keeps the renderer from answering: a navigation that never comes, else a script that never ends."""
        documents = self.documents
        if documents.is_leaving:
            self.channel.send("Page.stopLoading", None, self.session_id)
        elif documents.current is not None and documents.current.parsed:
            self.channel.send("Runtime.terminateExecution", None, self.session_id)

    def _judge(self, seen: looking.Seen | None) -> None:
        """Raises PageFailed for a document that is none of the page's own, or no page at all."""
        visit, document = self.visit, self.documents.current
        if document is not None and document.url == BLANK:
            raise PageFailed("page_closed", f"the page went to {BLANK}")
        if document is not None and document.is_error_page:
            outcome, code = outcome_of_net_error(document.failed)
            raise PageFailed(outcome, code or "the browser shows an error page")
        if seen is None:
            return
        visit.title, visit.title_is_cut, visit.elements = seen.title, seen.title_is_cut, seen.elements
        visit.challenge = signal_in_headers(visit.status, visit.headers)
        if visit.challenge is None and visit.status in SUSPICIOUS_STATUSES and seen.marks:
            visit.challenge = f"document: {seen.marks[0]}"
        if seen.is_viewer:
            raise PageFailed("unsupported_content", visit.content_type or "XML")
        if document is not None and document.failed and seen.is_bare:
            outcome, code = outcome_of_net_error(document.failed)
            raise PageFailed(outcome, code)
        if seen.elements > self._caps.elements:
            raise PageFailed("too_large", f"{seen.elements} elements; at most {self._caps.elements} are taken")

    def check_stayed(self) -> None:
        """Raises PageFailed where another document took the place of the settled one nevertheless."""
        current = self.documents.current
        if current is not self._held:
            where = current.url if current is not None else BLANK
            raise PageFailed("page_closed", f"the page went to {where} while it was captured")

    async def _look(
        self, budgets: Budgets, quiet: bool, seconds: float | None = None
    ) -> looking.Seen | Literal["replaced", "blocked"]:
        """What a look into the page shows; `replaced` when its document was replaced, `blocked` when nothing came."""
        window = budgets.quiet.total_seconds() if quiet else 0.0
        current = self.documents.current
        if quiet and current is not None and current.runs_no_scripts:
            # no timer runs in it, ours neither; and nothing but the parser changes it
            await self._or_gone(asyncio.sleep(budgets.quiet.total_seconds()))
            return await self._look(budgets, quiet=False)
        marks = MARKS if current is not None and current.status in SUSPICIOUS_STATUSES else {}
        script = looking.script(window * 1000, budgets.settle.total_seconds() * 1000, marks)
        begun = time.monotonic()
        seconds = seconds or budgets.settle.total_seconds() + BLOCKED_AFTER_SECONDS
        try:
            async with asyncio.timeout(seconds):
                # the main frame's id is the id of its target
                world = await self._or_gone(
                    self.channel.ask(
                        "Page.createIsolatedWorld",
                        {"frameId": self.target_id, "worldName": ISOLATED_WORLD},
                        self.session_id,
                    )
                )
                answer = await self._or_gone(
                    self.channel.ask(
                        "Runtime.evaluate",
                        {
                            "expression": script,
                            "contextId": world["executionContextId"],
                            "awaitPromise": True,
                            "returnByValue": True,
                        },
                        self.session_id,
                    )
                )
        except TimeoutError:
            if self.documents.is_leaving and quiet and time.monotonic() - begun >= seconds:
                # the page waits for another document, and answers nothing until it comes
                await self._or_gone(self.documents.hold())
                return await self._look(budgets, quiet=False)
            return "blocked"
        except (ChannelError, LookupError):
            return "replaced"
        value = answer.get("result", {}).get("value")
        return looking.seen_in(value) if isinstance(value, str) else "replaced"

    # frames of other processes

    async def out_of_process_frames(self, session_id: str = "") -> list[tuple[str, str]]:
        """(target id, session id) of the frames of this page that live in processes of their own.

        `session_id` names one of them, to find those below it. Raises CommandFailed, BrowserLost, PageFailed.
        """
        above = session_id or self.session_id
        found: list[tuple[str, str]] = []

        def on_attached(event: dict[str, Any], session: str) -> None:
            if session == above and event["targetInfo"]["type"] == "iframe":
                found.append((event["targetInfo"]["targetId"], event["sessionId"]))

        self.channel.on("Target.attachedToTarget", on_attached)
        try:
            # the events for the frames that are there come before the answer
            frames: dict[str, Any] = {"autoAttach": True, "waitForDebuggerOnStart": False, "flatten": True}
            frames["filter"] = [{"type": kind, "exclude": False} for kind in ("iframe", "worker")]
            await self._or_gone(self.channel.ask("Target.setAutoAttach", frames, above))
        finally:
            self.channel.off("Target.attachedToTarget", on_attached)
            self._frame_sessions.update(found)
        return found

    async def elements_of(self, target_id: str, session_id: str) -> int:
        """How many elements the document of a frame has, counted where the page's scripts cannot interfere."""
        world = await self.channel.ask(
            "Page.createIsolatedWorld", {"frameId": target_id, "worldName": ISOLATED_WORLD}, session_id
        )
        answer = await self.channel.ask(
            "Runtime.evaluate",
            {
                "expression": looking.COUNT_ELEMENTS,
                "contextId": world["executionContextId"],
                "returnByValue": True,
            },
            session_id,
        )
        return int(answer.get("result", {}).get("value", 0))

    # waiting

    async def _until(self, is_so: Callable[[], bool], seconds: float) -> bool:
        """Whether it became so within the time, as the documents change; raises where the page is gone first."""
        deadline = time.monotonic() + seconds
        changed = self.documents.changed
        while not is_so():
            changed.clear()
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            try:
                async with asyncio.timeout(left):
                    await self._or_gone(changed.wait())
            except TimeoutError:
                return bool(is_so())
        return True

    async def _or_gone(self, step: Coroutine[Any, Any, _Result]) -> _Result:
        """The step's result, unless the renderer dies or the page closes first."""
        task = asyncio.ensure_future(step)
        watched: set[asyncio.Future[Any]] = {task, self._gone}
        try:
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():
                # it may fail while it is being cancelled, which then is nobody's business
                task.add_done_callback(forget)
                task.cancel()
        if not task.done():
            raise self._gone.result()
        return task.result()

    @property
    def has_document(self) -> bool:
        """Whether a document was committed."""
        return self.documents.count > 0

    @property
    def gone(self) -> asyncio.Future[PageFailed]:
        """Done once the renderer has died or the page has closed, with the failure to raise."""
        return self._gone

    def _failure(self, error: PlaywrightError) -> PageFailed | BrowserLost:
        """Our error for one of Playwright's, by its text: it has no codes."""
        if self.channel.is_lost:
            return BrowserLost("The browser was lost during the navigation.")
        message = error.message
        lines = message.strip().splitlines()
        first = lines[0] if lines else type(error).__name__
        if DOWNLOAD in message:
            return PageFailed("download", "; ".join(self.visit.files) or first)
        if "crashed" in message:
            return PageFailed("renderer_crash", first)
        if "has been closed" in message or "was detached" in message:
            return PageFailed("page_closed", first)
        outcome, code = outcome_of_net_error(message)
        return PageFailed(outcome, code or first)
