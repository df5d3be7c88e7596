"""The doorkeeper looks at every main document of a page before it is fetched, and shows a site its credentials.

A redirect or a script may lead to a host that nobody has asked for permission. CDP's Fetch domain stops each such
request; Playwright's routing would not do, since headers that it adds travel along with redirects to other hosts.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Self

from schemas.errors import PageFailed
from schemas.policy import Policy
from schemas.urls import NotAWebUrl, url_key
from workers.browser.session import PageSession
from workers.credentials import Credentials

STORAGE_WORLD: Final = "pagestate-storage"

Judge = Callable[[str], Awaitable[PageFailed | None]]
"""Tells by a URL key why a document may not be fetched; None where it may."""

Turn = Callable[[], Awaitable[None]]
"""Returns when the page's host may be asked for the document. Raises PageFailed where it must not be any more."""

_STORAGE_SCRIPT: Final = """(() => {
  const items = (%s)[location.origin];
  if (items) for (const [name, value] of Object.entries(items)) localStorage.setItem(name, value);
})()"""
"""Runs in a world of its own, where no page can read it; local storage belongs to the origin, not to the world."""


class Doorkeeper:
    """Stands at the door of one page session, from before its navigation to its end; entered as a context.

    first         URL key of the page, which has its permission already
    credentials   what its site is shown; other sites never are, wherever the page leads or what it loads
    turn          awaited before the first document is asked for
    """

    def __init__(
        self,
        session: PageSession,
        first: str,
        judge: Judge,
        policy: Policy,
        credentials: Credentials | None,
        turn: Turn | None = None,
    ) -> None:
        self._session = session
        self._first = first
        self._judge = judge
        self._policy = policy
        self._credentials = credentials
        self._turn = turn
        self._judging: set[asyncio.Task[None]] = set()
        self._way: set[str] = set()
        """Requests of the page's own navigation, from hop to hop; what a script asks for later is not among them."""
        self.last_document = first
        """URL of the last main document that was asked for."""
        self.refused: list[PageFailed] = []
        """What was refused after the page had arrived; the page itself stays as it is."""

    async def __aenter__(self) -> Self:
        session, own = self._session, self._credentials
        session.documents.door_is_kept = True
        session.channel.on("Fetch.requestPaused", self._on_paused)
        patterns = [{"urlPattern": "*", "resourceType": "Document", "requestStage": "Request"}]
        if own is not None:
            if own.headers:
                # wider than the site, since `*` spans everything; who gets the headers is decided request by request
                hosts = {host.removesuffix(":*") + ("*" if host.endswith(":*") else "") for host in own.site.hosts}
                patterns += [{"urlPattern": f"*://{host}/*", "requestStage": "Request"} for host in sorted(hosts)]
            if own.cookies:
                await session.channel.ask("Network.setCookies", {"cookies": list(own.cookies)}, session.session_id)
            if own.storage:
                items = {origin: dict(values) for origin, values in own.storage.items()}
                script = {"source": _STORAGE_SCRIPT % json.dumps(items), "worldName": STORAGE_WORLD}
                await session.channel.ask("Page.enable", {}, session.session_id)
                await session.channel.ask("Page.addScriptToEvaluateOnNewDocument", script, session.session_id)
        await session.channel.ask("Fetch.enable", {"patterns": patterns}, session.session_id)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.channel.off("Fetch.requestPaused", self._on_paused)
        for task in self._judging:
            task.cancel()

    def _on_paused(self, event: dict[str, Any], session_id: str) -> None:
        if session_id != self._session.session_id:
            return
        if event.get("resourceType") == "Document" and self._session.documents.refuses(event):
            return
        # the main frame's id is the id of its target
        if event.get("resourceType") != "Document" or event.get("frameId") != self._session.target_id:
            self._let_through(event)
            return
        is_first = not self._way
        if is_first or event.get("redirectedRequestId") in self._way:
            self._way.add(event["requestId"])
        self.last_document = event["request"]["url"]
        is_asked_for = is_first and self.last_document == self._first
        if is_asked_for and self._turn is None:
            self._let_through(event)
            return
        turn = self._turn if is_first else None
        task = asyncio.ensure_future(self._decided(event, turn, is_permitted=is_asked_for))
        self._judging.add(task)
        task.add_done_callback(self._judging.discard)

    async def _decided(self, event: dict[str, Any], turn: Turn | None, *, is_permitted: bool) -> None:
        if turn is not None:
            try:
                await turn()
            except PageFailed as failed:
                self._refuse(event, failed)
                return
        if is_permitted:
            self._let_through(event)
        else:
            await self._judged(event)

    async def _judged(self, event: dict[str, Any]) -> None:
        try:
            failed = await self._judge(url_key(event["request"]["url"]))
        except NotAWebUrl as error:
            failed = PageFailed("policy_denied", f"a document is no web page: {error}")
        except Exception as error:
            # a door that cannot be judged stays closed
            self._refuse(event, PageFailed("policy_denied", f"permission could not be asked: {type(error).__name__}"))
            raise
        if failed is None:
            self._let_through(event)
        else:
            self._refuse(event, failed)

    def _refuse(self, event: dict[str, Any], failed: PageFailed) -> None:
        if event["requestId"] not in self._way:
            self.refused.append(failed)
        elif not self._session.gone.done():
            self._session.gone.set_result(failed)
        # aborted, not blocked: the page that is there stays, where the other would show the browser's error page
        self._post("Fetch.failRequest", {"requestId": event["requestId"], "errorReason": "Aborted"})

    def _let_through(self, event: dict[str, Any]) -> None:
        params: dict[str, Any] = {"requestId": event["requestId"]}
        own = self._credentials
        if own is not None and own.headers and self._is_own(event["request"]["url"]):
            ours = {name.lower() for name, _ in own.headers}
            headers = [(k, v) for k, v in event["request"]["headers"].items() if k.lower() not in ours]
            # CDP: these do not extend to the next hop of a redirect, which is stopped and looked at again
            params["headers"] = [{"name": name, "value": value} for name, value in (*headers, *own.headers)]
        self._post("Fetch.continueRequest", params)

    def _is_own(self, url: str) -> bool:
        """Whether a URL is of the credentials' site, and no less protected on its way than the page itself."""
        assert self._credentials is not None
        if self._first.startswith("https:") and not url.startswith("https:"):
            return False
        try:
            return self._policy.site_of(url_key(url)) is self._credentials.site
        except NotAWebUrl:
            return False

    def _post(self, method: str, params: dict[str, Any]) -> None:
        # the page may have gone on or closed meanwhile, and the request with it
        self._session.channel.send(method, params, self._session.session_id)
