"""A page session drives one page to a settled state and reports what happened on the way.

This seam has two sides only (`drive`, and the facts it returns), so that another way of driving can take its place.
It is the only module that translates Playwright's errors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from playwright.async_api import BrowserContext, Dialog, Download, Page, Request, Response
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeout

from schemas.errors import BrowserLost, ChannelError, PageFailed
from schemas.outcomes import Outcome
from schemas.settings import Budgets
from workers.browser.channel import Channel
from workers.browser.net_errors import outcome_of_net_error

SettleReason = Literal["quiet", "quiet_cap", "load_cap", "blocked"]

_Result = TypeVar("_Result")

ISOLATED_WORLD = "pagestate"
MAX_DOCUMENTS = 5
"""How many documents of one page are followed while it settles (script and meta redirects), then it is taken as is."""

MAX_TITLE_CHARS = 4096
"""A longer title is cut (`text_truncated`); the whole one is in the captured document."""

QUIET_SCRIPT = """
new Promise((resolve) => {
  const quietMs = %d, capMs = %d, maxTitle = %d;
  const done = (reason) => resolve({
    reason, title: document.title.slice(0, maxTitle), cut: document.title.length > maxTitle,
    elements: document.querySelectorAll("*").length});
  let timer = setTimeout(() => done("quiet"), quietMs);
  setTimeout(() => done("quiet_cap"), capMs);
  new MutationObserver(() => { clearTimeout(timer); timer = setTimeout(() => done("quiet"), quietMs); })
    .observe(document, {subtree: true, childList: true, characterData: true, attributes: true});
})
"""

CAPTURABLE_TYPES = ("text/", "application/xhtml+xml", "application/xml", "application/json")
"""Content types whose document is the page itself; others are shown by a viewer of the browser's own."""


@dataclass(slots=True)
class Visit:
    """What happened on the way to a settled page; filled in as it happens, so that a failure keeps what is known."""

    status: int | None = None
    content_type: str | None = None
    redirects: list[str] = field(default_factory=list)
    final_url: str | None = None
    settle_reason: SettleReason | None = None
    title: str | None = None
    title_is_cut: bool = False
    elements: int | None = None
    """Elements of the top document, shadow trees and frames not counted; None when the page's thread was blocked."""
    dialogs: int = 0
    popups: int = 0
    downloads: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    """Of the document's answer, names in lower case; never stored as they are."""


class PageSession:
    """One page in one fresh context, and the raw session attached to it."""

    def __init__(self, channel: Channel, context: BrowserContext, page: Page, target_id: str, session_id: str) -> None:
        self.channel = channel
        self.target_id = target_id
        self.session_id = session_id
        self.visit = Visit()
        self._page = page
        self._context = context
        self._gone: asyncio.Future[PageFailed] = asyncio.get_running_loop().create_future()
        channel.on("Target.targetCrashed", self._on_crashed)
        channel.on("Target.detachedFromTarget", self._on_detached)
        page.on("dialog", self._on_dialog)
        page.on("download", self._on_download)
        context.on("page", self._on_popup)

    def detach(self) -> None:
        """Stops listening on the shared channel."""
        self.channel.off("Target.targetCrashed", self._on_crashed)
        self.channel.off("Target.detachedFromTarget", self._on_detached)
        self._gone.cancel()

    def _on_crashed(self, event: dict[str, Any], _: str) -> None:
        if event.get("targetId") == self.target_id and not self._gone.done():
            self._gone.set_result(PageFailed("renderer_crash", "the renderer process died"))

    def _on_detached(self, event: dict[str, Any], _: str) -> None:
        # a command that was under way when the page closed is never answered
        if event.get("sessionId") == self.session_id and not self._gone.done():
            self._gone.set_result(PageFailed("page_closed", "the page closed itself"))

    async def _on_dialog(self, dialog: Dialog) -> None:
        self.visit.dialogs += 1
        try:
            await dialog.dismiss()
        except PlaywrightError:
            return  # the page closed under its own dialog

    def _on_download(self, download: Download) -> None:
        self.visit.downloads += 1

    async def _on_popup(self, popup: Page) -> None:
        if popup is self._page:
            return
        self.visit.popups += 1
        try:
            await popup.close(run_before_unload=False)
        except PlaywrightError:
            return  # it closed itself

    async def navigate(self, url: str, budgets: Budgets) -> None:
        """Goes to `url` until its document is committed.

        Raises PageFailed with the outcome, BrowserLost where the browser is gone.
        """
        try:
            response = await self._or_gone(
                self._page.goto(url, wait_until="commit", timeout=budgets.navigate.total_seconds() * 1000),
            )
        except PlaywrightTimeout as error:
            raise PageFailed(
                "navigation_timeout", f"no document within {budgets.navigate.total_seconds():g} s"
            ) from error
        except PlaywrightError as error:
            raise self._failure(error) from error
        if response is not None:
            self._note_response(response)
        self.visit.final_url = self._page.url
        if self._page.url.startswith("chrome-error:"):
            raise PageFailed("http_error" if (self.visit.status or 0) >= 400 else "empty", "no document came")
        if self.visit.status == 204 or self.visit.status == 205:
            raise PageFailed("empty", f"status {self.visit.status} has no document")
        kind = self.visit.content_type
        if kind and not kind.startswith(CAPTURABLE_TYPES) and not kind.endswith("+xml"):
            raise PageFailed("unsupported_content", kind)

    async def settle(self, budgets: Budgets) -> None:
        """Waits for load (or its cap), then for a short DOM-quiet window (or its cap); records why it ended.

        Network idleness is not asked for: polling pages never reach it.
        Raises PageFailed, BrowserLost.
        """
        for _ in range(MAX_DOCUMENTS):
            loaded = await self._wait_for_load(budgets)
            reason = await self._wait_for_quiet(budgets)
            if reason is not None:
                self.visit.settle_reason = reason if loaded or reason == "blocked" else "load_cap"
                break
            if not loaded:
                # documents that are replaced before they have loaded are not waited for one by one
                self.visit.settle_reason = "load_cap"
                break
        else:
            # the page keeps replacing its document
            self.visit.settle_reason = "quiet_cap"
        self.visit.final_url = self._page.url

    async def out_of_process_frames(self, session_id: str = "") -> list[tuple[str, str]]:
        """(target id, session id) of the frames of this page that live in processes of their own.

        `session_id` names one of them, to find those below it. Raises CommandFailed, BrowserLost.
        """
        above = session_id or self.session_id
        found: list[tuple[str, str]] = []

        def on_attached(event: dict[str, Any], session: str) -> None:
            if session == above and event["targetInfo"]["type"] == "iframe":
                found.append((event["targetInfo"]["targetId"], event["sessionId"]))

        self.channel.on("Target.attachedToTarget", on_attached)
        try:
            # the events for the frames that are there come before the answer
            await self.channel.ask(
                "Target.setAutoAttach",
                {
                    "autoAttach": True,
                    "waitForDebuggerOnStart": False,
                    "flatten": True,
                    "filter": [{"type": "iframe", "exclude": False}],
                },
                above,
            )
        finally:
            self.channel.off("Target.attachedToTarget", on_attached)
        return found

    async def elements_of(self, target_id: str, session_id: str) -> int:
        """How many elements the document of a frame has, counted where the page's scripts cannot interfere."""
        world = await self.channel.ask(
            "Page.createIsolatedWorld", {"frameId": target_id, "worldName": ISOLATED_WORLD}, session_id
        )
        answer = await self.channel.ask(
            "Runtime.evaluate",
            {
                "expression": 'document.querySelectorAll("*").length',
                "contextId": world["executionContextId"],
                "returnByValue": True,
            },
            session_id,
        )
        return int(answer.get("result", {}).get("value", 0))

    async def _wait_for_load(self, budgets: Budgets) -> bool:
        try:
            await self._or_gone(self._page.wait_for_load_state("load", timeout=budgets.load.total_seconds() * 1000))
        except PlaywrightTimeout:
            return False
        except PlaywrightError as error:
            raise self._failure(error) from error
        return True

    async def _wait_for_quiet(self, budgets: Budgets) -> SettleReason | None:
        """Why the quiet window ended; None when the document was replaced meanwhile."""
        script = QUIET_SCRIPT % (
            budgets.quiet.total_seconds() * 1000,
            budgets.settle.total_seconds() * 1000,
            MAX_TITLE_CHARS,
        )
        try:
            # a second more than the script's own cap: past that, the page's thread is blocked
            async with asyncio.timeout(budgets.settle.total_seconds() + 1.0):
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
            return "blocked"
        except ChannelError:
            return None
        value = answer.get("result", {}).get("value")
        if not isinstance(value, dict):
            return None
        self.visit.title = str(value["title"])
        self.visit.title_is_cut = bool(value["cut"])
        self.visit.elements = int(value["elements"])
        return "quiet" if value["reason"] == "quiet" else "quiet_cap"

    async def _or_gone(self, step: Coroutine[Any, Any, _Result]) -> _Result:
        """The step's result, unless the renderer dies or the page closes first."""
        task = asyncio.ensure_future(step)
        watched: set[asyncio.Future[Any]] = {task, self._gone}
        try:
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():
                # it may fail while it is being cancelled, which then is nobody's business
                task.add_done_callback(_forget)
                task.cancel()
        if not task.done():
            raise self._gone.result()
        return task.result()

    @property
    def gone(self) -> asyncio.Future[PageFailed]:
        """Done once the renderer has died or the page has closed, with the failure to raise."""
        return self._gone

    def _note_response(self, response: Response) -> None:
        self.visit.status = response.status
        self.visit.headers = response.headers
        kind = response.headers.get("content-type", "").split(";")[0].strip().lower()
        self.visit.content_type = kind or None
        self.visit.redirects = _redirects(response.request)

    def _failure(self, error: PlaywrightError) -> PageFailed | BrowserLost:
        """Our error for one of Playwright's, by its text: it has no codes."""
        if self.channel.is_lost:
            return BrowserLost("The browser was lost during the navigation.")
        message = error.message
        lines = message.strip().splitlines()
        first = lines[0] if lines else type(error).__name__
        if "Download is starting" in message:
            return PageFailed("download", first)
        if "crashed" in message:
            return PageFailed("renderer_crash", first)
        if "has been closed" in message or "was detached" in message:
            return PageFailed("page_closed", first)
        outcome, code = outcome_of_net_error(message)
        return PageFailed(outcome, code or first)


def _forget(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()


def _redirects(request: Request) -> list[str]:
    """The URLs passed on the way, first one first, the last one (the answer's) left out."""
    passed: list[str] = []
    before = request.redirected_from
    while before is not None:
        passed.append(before.url)
        before = before.redirected_from
    return passed[::-1]


def outcome_of_status(status: int | None) -> Outcome:
    """The outcome of a page that was captured, by the status of its document."""
    if status == 401 or status == 407:
        return "auth_required"
    if status is not None and status >= 400:
        return "http_error"
    return "ok"
