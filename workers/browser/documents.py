"""The documents of a page, and all that was asked for on its way, as the network tells it over the raw session.

Playwright says when a document is committed, and an error in words; that a body broke off, how much came, and what is
still under way, only these events tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from schemas.errors import PageFailed
from schemas.settings import Caps
from workers.browser.channel import Channel
from workers.browser.page_workers import NO_BODIES_KEPT, REFUSED, WORKERS, PageWorkers
from workers.browser.visit import MAX_LISTED, MAX_NAME_CHARS, SettleReason, Visit

PAUSE_DOCUMENTS: dict[str, Any] = {"patterns": [{"urlPattern": "*", "resourceType": "Document"}]}


@dataclass(slots=True)
class Document:
    """One document of the main frame, from its request on. `id` is its request's and its loader's."""

    id: str
    url: str
    redirects: list[str] = field(default_factory=list)
    status: int | None = None
    content_type: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    bytes: int = 0
    finished: bool = False
    failed: str = ""
    """The browser's code, where the request or its body failed."""
    parsed: bool = False
    loaded: bool = False
    is_error_page: bool = False
    """The browser's own page about a failure, which is no content."""

    @property
    def runs_no_scripts(self) -> bool:
        """Whether its answer puts it into a sandbox without scripts (CSP level 3, section 6.4.1)."""
        for policy in self.headers.get("content-security-policy", "").replace("\n", ",").split(","):
            for directive in policy.split(";"):
                words = directive.lower().split()
                if words[:1] == ["sandbox"] and "allow-scripts" not in words:
                    return True
        return False


class Documents:
    """Watches the network of one page. `fail` is told what ends the page at once."""

    def __init__(
        self,
        channel: Channel,
        session_id: str,
        frame_id: str,
        caps: Caps,
        visit: Visit,
        fail: Callable[[PageFailed], None],
    ) -> None:
        self._channel = channel
        self._session_id = session_id
        self._frame_id = frame_id
        self._caps = caps
        self._visit = visit
        self._fail = fail
        self._requested: Document | None = None
        self._first: Document | None = None
        self._pending: dict[str, str] = {}
        self._file_types: dict[str, tuple[str, str]] = {}
        """Of each frame the last document's URL and type, which may turn out to be a file."""
        self.current: Document | None = None
        """The one that is shown; None before the first commit."""
        self.count = 0
        """Documents committed so far."""
        self.changed = asyncio.Event()
        """Set at every step of a main document, and at every cap; whoever waits clears it."""
        self.capped: SettleReason | None = None
        self.holds = False
        """Whether no other document may take the place of the current one any more."""
        self._pauses = False
        self.door_is_kept = False
        """Whether somebody else pauses the requests for documents on this session; who does asks `refuses`."""
        self.refused = 0
        """Documents that were refused for that."""
        self._handlers: dict[str, Callable[[dict[str, Any]], None]] = {
            "Network.requestWillBeSent": self._on_request,
            "Network.responseReceived": self._on_response,
            "Network.dataReceived": self._on_data,
            "Network.loadingFinished": self._on_finished,
            "Network.loadingFailed": self._on_failed,
            "Page.frameNavigated": self._on_navigated,
            "Page.domContentEventFired": self._on_parsed,
            "Page.loadEventFired": self._on_loaded,
            "Page.downloadWillBegin": self._on_download,
            "Fetch.requestPaused": self._on_paused,
            "Network.webSocketCreated": self._on_socket,
            "Network.webSocketFrameReceived": self._on_socket_data,
        }
        self._listeners = {method: self._only_mine(handler) for method, handler in self._handlers.items()}
        for method, listener in self._listeners.items():
            channel.on(method, listener)
        self._workers = PageWorkers(
            channel,
            session_id,
            {
                "Network.requestWillBeSent": self._on_worker_request,
                "Network.dataReceived": self._on_data,
                "Network.webSocketCreated": self._on_socket,
                "Network.webSocketFrameReceived": self._on_socket_data,
            },
        )

    def _only_mine(self, handler: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any], str], None]:
        def listen(event: dict[str, Any], session: str) -> None:
            if session == self._session_id:
                handler(event)

        return listen

    async def start(self) -> None:
        """Switches the events on. Raises CommandFailed, BrowserLost."""
        await asyncio.gather(
            # bodies are not kept for us: nobody asks for them
            self._post("Network.enable", NO_BODIES_KEPT),
            self._post("Network.setBypassServiceWorker", {"bypass": True}),
            self._post("Page.enable"),
            self._post("Target.setAutoAttach", WORKERS),
        )

    def stop(self) -> None:
        """Stops listening on the shared channel."""
        self._workers.stop()
        for method, listener in self._listeners.items():
            self._channel.off(method, listener)

    @property
    def is_leaving(self) -> bool:
        """Whether another document has been asked for; until it comes, the renderer answers nothing."""
        return self._requested is not None

    def note(self) -> None:
        """Writes what is known by now into the visit."""
        document = self.current or self._requested
        if document is not None:
            visit = self._visit
            visit.status, visit.content_type, visit.headers = document.status, document.content_type, document.headers
            visit.client_redirects = max(0, self.count - 1)
            visit.redirects = list((self._first or document).redirects)
            if self.current is None:
                visit.final_url = document.url
            elif document.failed or not document.finished:
                visit.degradations.add("body_incomplete")
            else:
                visit.degradations.discard("body_incomplete")
        self._visit.pending = [url[:MAX_NAME_CHARS] for url in list(self._pending.values())[:MAX_LISTED]]

    def is_over(self, document: Document | None) -> bool:
        """Whether a document has loaded, will never load, or is not shown any more."""
        return self.current is not document or (document is not None and (document.loaded or bool(document.failed)))

    async def hold(self) -> None:
        """Keeps the current document: a navigation under way is stopped, and every further one refused.

        Raises CommandFailed, BrowserLost.
        """
        self.holds = True
        if not self._pauses and not self.door_is_kept:
            self._pauses = True
            await self._post("Fetch.enable", PAUSE_DOCUMENTS)
        if self.is_leaving:
            self.refused += 1
            # which fails in the moment of a commit, and then the document is there
            self._send("Page.stopLoading")

    # events

    def _on_request(self, event: dict[str, Any]) -> None:
        number, url = event["requestId"], event["request"]["url"]
        if self._is_main_document(event):
            if self._requested is None or self._requested.id != number:
                self._requested = Document(number, url)
            elif "redirectResponse" in event:
                self._requested.redirects.append(event["redirectResponse"]["url"])
                self._requested.url = url
        if "redirectResponse" in event:
            return
        self._pending[number] = url
        self._count_request()

    def _on_worker_request(self, event: dict[str, Any]) -> None:
        if "redirectResponse" not in event:
            self._count_request()

    def _on_socket(self, _: dict[str, Any]) -> None:
        self._count_request()

    def _count_request(self) -> None:
        self._visit.requests += 1
        if self._visit.requests > self._caps.requests:
            self._refuse_the_rest("requests_cap")

    def _is_main_document(self, event: dict[str, Any]) -> bool:
        return event.get("frameId") == self._frame_id and event["requestId"] == event["loaderId"]

    def _on_response(self, event: dict[str, Any]) -> None:
        if event.get("type") != "Document":
            return
        response = event["response"]
        headers = {name.lower(): value for name, value in response.get("headers", {}).items()}
        kind = headers.get("content-type", "").split(";")[0].strip().lower() or None
        self._file_types[event.get("frameId", "")] = (response["url"], kind or response.get("mimeType", ""))
        document = self._of(event["requestId"])
        if document is not None:
            document.status, document.headers, document.content_type = response["status"], headers, kind
            length = headers.get("content-length", "")
            if length.isdecimal() and int(length) > self._caps.document_bytes:
                self._refuse_document(f"{length} bytes, by its own account")

    def _on_data(self, event: dict[str, Any]) -> None:
        size = event["dataLength"]
        self._count_bytes(size)
        document = self._of(event["requestId"])
        if document is not None:
            document.bytes += size
            if document.bytes > self._caps.document_bytes:
                self._refuse_document(f"more than {self._caps.document_bytes} bytes, decoded")

    def _on_socket_data(self, event: dict[str, Any]) -> None:
        self._count_bytes(len(event["response"]["payloadData"]))

    def _count_bytes(self, size: int) -> None:
        self._visit.response_bytes += size
        if self._visit.response_bytes > self._caps.response_bytes:
            self._refuse_the_rest("bytes_cap")

    def _on_finished(self, event: dict[str, Any]) -> None:
        self._pending.pop(event["requestId"], None)
        document = self._of(event["requestId"])
        if document is not None:
            document.finished = True
            self.changed.set()

    def _on_failed(self, event: dict[str, Any]) -> None:
        number = event["requestId"]
        self._pending.pop(number, None)
        document = self._of(number)
        if document is None:
            return
        document.failed = event.get("errorText", "net::ERR_FAILED")
        if document is self._requested and self.current is not None:
            # the page stays where it is
            self._requested = None
        self.changed.set()

    def _on_navigated(self, event: dict[str, Any]) -> None:
        frame = event["frame"]
        if frame["id"] != self._frame_id or frame.get("parentId"):
            return
        requested = self._requested
        # about:blank and its like come without a request
        known = requested is not None and requested.id == frame["loaderId"]
        self.current = requested if known and requested is not None else Document(frame["loaderId"], frame["url"])
        if not known:
            self.current.finished = True
        if known:
            self._requested = None
        self.current.is_error_page = "unreachableUrl" in frame
        self.count += 1
        self._first = self._first or self.current
        if self.count >= self._caps.client_redirects and not self._pauses and not self.door_is_kept:
            # in time for the one that is refused, which may follow within milliseconds
            self._pauses = True
            self._send("Fetch.enable", PAUSE_DOCUMENTS)
        self.changed.set()

    def _on_parsed(self, event: dict[str, Any]) -> None:
        if self.current is not None:
            self.current.parsed = True
            self.changed.set()

    def _on_loaded(self, event: dict[str, Any]) -> None:
        if self.current is not None:
            self.current.loaded = True
            self.changed.set()

    def _on_download(self, event: dict[str, Any]) -> None:
        url, kind = self._file_types.get(event["frameId"], ("", ""))
        # a link with `download` asks for its file past the page's network: the frame's type is its document's
        self._visit.note_file(event["suggestedFilename"], kind if url == event["url"] else None)
        self.changed.set()

    def refuses(self, event: dict[str, Any]) -> bool:
        """Whether a paused request would replace a document that stays; then it has been refused here."""
        is_one_too_many = self.count > self._caps.client_redirects
        if event.get("frameId") != self._frame_id or not (self.holds or is_one_too_many):
            return False
        self.refused += 1
        # an aborted navigation leaves the document where it is
        self._send("Fetch.failRequest", {"requestId": event["requestId"], "errorReason": "Aborted"})
        return True

    def _on_paused(self, event: dict[str, Any]) -> None:
        if not self.door_is_kept and not self.refuses(event):
            self._send("Fetch.continueRequest", {"requestId": event["requestId"]})

    def _of(self, number: str) -> Document | None:
        """The main document that a request brings, if it brings one."""
        for document in (self._requested, self.current):
            if document is not None and document.id == number:
                return document
        return None

    def _refuse_document(self, what: str) -> None:
        self._send("Page.stopLoading")
        self._fail(PageFailed("too_large", f"the document has {what}"))

    def _refuse_the_rest(self, reason: SettleReason) -> None:
        if self.capped is None:
            self.capped = reason
            self._send("Network.setBlockedURLs", REFUSED)
            self._workers.refuse()
            self.changed.set()

    # commands

    async def _post(self, method: str, params: dict[str, Any] | None = None) -> None:
        await self._channel.post(method, params, self._session_id)

    def _send(self, method: str, params: dict[str, Any] | None = None) -> None:
        self._channel.send(method, params, self._session_id)
