"""What a page opens unasked is refused and counted: dialogs, popups, service workers, permissions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.async_api import BrowserContext, Dialog, Page
from playwright.async_api import Error as PlaywrightError

from schemas.errors import PageFailed
from schemas.settings import Caps
from workers.browser.channel import Channel
from workers.browser.visit import Visit

LAST_DIALOG = 3
"""A page that opens so many times more dialogs than the cap will not come to rest."""


class Unasked:
    """Of one page: dialogs are dismissed, popups and service workers closed, permissions denied.

    `fail` is told what ends the page at once.
    """

    def __init__(
        self,
        channel: Channel,
        context: BrowserContext,
        page: Page,
        session_id: str,
        context_id: str,
        caps: Caps,
        visit: Visit,
        fail: Callable[[PageFailed], None],
    ) -> None:
        self._channel = channel
        self._page = page
        self._session_id = session_id
        self._context_id = context_id
        self._caps = caps
        self._visit = visit
        self._fail = fail
        channel.on("Target.targetCreated", self._on_target)
        channel.on("Page.windowOpen", self._on_window)
        page.on("dialog", self._on_dialog)
        context.on("page", self._on_popup)

    async def start(self) -> None:
        """Denies every permission to the page's context. Raises CommandFailed, BrowserLost."""
        # a grant of none, because a grant rejects whatever it does not name
        await self._channel.post("Browser.grantPermissions", {"permissions": [], "browserContextId": self._context_id})

    def stop(self) -> None:
        """Stops listening on the shared channel."""
        self._channel.off("Target.targetCreated", self._on_target)
        self._channel.off("Page.windowOpen", self._on_window)

    async def _on_dialog(self, dialog: Dialog) -> None:
        self._visit.dialogs += 1
        if self._visit.dialogs > self._caps.dialogs:
            self._visit.degradations.add("dialogs_capped")
        if self._visit.dialogs > LAST_DIALOG * self._caps.dialogs:
            # no command reaches a script that does nothing but open dialogs, so that only closing the page ends it
            self._fail(PageFailed("page_closed", f"closed by us after {self._visit.dialogs} dialogs"))
        try:
            await dialog.dismiss()
        except PlaywrightError:
            return  # the page closed under its own dialog

    def _on_window(self, _: dict[str, Any], session: str) -> None:
        """Counts a popup, whether the browser opens it or not."""
        if session != self._session_id:
            return
        self._visit.popups += 1
        if self._visit.popups > self._caps.popups:
            self._visit.degradations.add("popups_capped")
            # ends the script that opens them, or the next one
            self._channel.send("Runtime.terminateExecution", None, self._session_id)

    async def _on_popup(self, popup: Page) -> None:
        if popup is self._page:
            return
        try:
            await popup.close(run_before_unload=False)
        except PlaywrightError:
            return  # it closed itself

    def _on_target(self, event: dict[str, Any], _: str) -> None:
        """Closes a service worker; that its answers are passed by is a setting of the page's network."""
        target = event["targetInfo"]
        if target["type"] == "service_worker" and target.get("browserContextId") == self._context_id:
            self._visit.service_workers += 1
            self._channel.send("Target.closeTarget", {"targetId": target["targetId"]})
