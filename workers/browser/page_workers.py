"""A page's dedicated workers have networks of their own; they are watched as the page's is, so that its caps hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from workers.browser.channel import Channel

WORKERS: dict[str, Any] = {
    "autoAttach": True,
    "waitForDebuggerOnStart": False,
    "flatten": True,
    "filter": [{"type": "worker", "exclude": False}],
}
"""None waits for us to be there: what one asks for in its first moment is not counted, and no page can tell."""
NO_BODIES_KEPT = {"maxTotalBufferSize": 0, "maxResourceBufferSize": 0}
REFUSED: dict[str, Any] = {"urls": ["*"]}


class PageWorkers:
    """The workers below one session of a page, and those below them; `handlers` are told what their networks do."""

    def __init__(
        self, channel: Channel, session_id: str, handlers: Mapping[str, Callable[[dict[str, Any]], None]]
    ) -> None:
        self._channel = channel
        self._page = session_id
        self._sessions: set[str] = set()
        self._refused = False
        self._listeners = {method: self._only_ours(handler) for method, handler in handlers.items()}
        self._listeners |= {
            "Target.attachedToTarget": self._on_attached,
            "Target.detachedFromTarget": self._on_detached,
        }
        for method, listener in self._listeners.items():
            channel.on(method, listener)

    def refuse(self) -> None:
        """Lets no worker ask for anything any more."""
        self._refused = True
        for session in self._sessions:
            self._channel.send("Network.setBlockedURLs", REFUSED, session)

    def stop(self) -> None:
        """Stops listening on the shared channel."""
        for method, listener in self._listeners.items():
            self._channel.off(method, listener)
        for session in self._sessions:
            self._channel.session_ended(session)

    def _only_ours(self, handler: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any], str], None]:
        def listen(event: dict[str, Any], session: str) -> None:
            if session in self._sessions:
                handler(event)

        return listen

    def _on_attached(self, event: dict[str, Any], session: str) -> None:
        if event["targetInfo"]["type"] != "worker" or (session != self._page and session not in self._sessions):
            return
        worker = event["sessionId"]
        self._sessions.add(worker)
        self._channel.send("Network.enable", NO_BODIES_KEPT, worker)
        self._channel.send("Target.setAutoAttach", WORKERS, worker)
        if self._refused:
            self._channel.send("Network.setBlockedURLs", REFUSED, worker)

    def _on_detached(self, event: dict[str, Any], _: str) -> None:
        if event.get("sessionId") in self._sessions:
            self._sessions.discard(event["sessionId"])
            self._channel.session_ended(event["sessionId"])
