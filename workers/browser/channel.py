"""The channel is a raw CDP connection to a browser, beside Playwright's; the heavy payloads come over it.

It only moves bytes: a reply's `result` member is cut out of its envelope, never parsed, and a large one goes straight
to a file, so that neither the event loop nor this process's memory pays for a huge page.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import msgspec
from picows import WSError, WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from schemas.errors import BrowserLost, CommandFailed, DiskFull, ReplyTooLarge
from workers.browser.spool import FULL, SPOOL_ABOVE_BYTES, Spooled

Reply = bytes | Spooled
EventHandler = Callable[[dict[str, Any], str], None]
"""Takes an event's parameters and the session it came from, "" for the browser's own."""


class _Error(msgspec.Struct):
    code: int = 0
    message: str = ""


class _Head(msgspec.Struct):
    id: int = 0
    method: str = ""


class _Envelope(msgspec.Struct):
    id: int = 0
    result: msgspec.Raw = msgspec.Raw(b"{}")
    error: _Error | None = None


_HEAD = msgspec.json.Decoder(_Head)
_ENVELOPE = msgspec.json.Decoder(_Envelope)
SESSION_ENDED = "Session with given id not found."
"""Chromium 156's words for a command to a session that has ended."""
READ_OVER_CAP = 2
"""A reply of up to so many times the cap is read and refused for itself; one beyond ends the connection, unread."""


class Channel(WSListener):
    """One websocket to the browser's own debugging endpoint; sessions are multiplexed over it (flat mode)."""

    def __init__(self, spool_folder: Path, max_reply_bytes: int) -> None:
        self._spool_folder = spool_folder
        self._max_reply_bytes = max_reply_bytes
        self._transport: WSTransport | None = None
        self._next_id = 0
        self._waiting: dict[int, tuple[asyncio.Future[Reply], str, bytes]] = {}
        self._handlers: dict[str, list[EventHandler]] = {}
        self._parts: list[bytes] = []
        self._parts_bytes = 0
        self._lost = False

    @classmethod
    async def connect(cls, endpoint: str, spool_folder: Path, max_reply_bytes: int) -> Self:
        """A channel to a `ws://` endpoint.

        Raises BrowserLost where nothing answers.
        """
        try:
            _, channel = await ws_connect(
                lambda: cls(spool_folder, max_reply_bytes), endpoint, max_frame_size=READ_OVER_CAP * max_reply_bytes
            )
        except (OSError, TimeoutError, WSError) as error:
            raise BrowserLost(f"The browser does not answer at {endpoint}: {error}.") from error
        assert isinstance(channel, cls)
        return channel

    @property
    def is_lost(self) -> bool:
        """Whether the connection is gone; nothing brings it back."""
        return self._lost

    def on(self, method: str, handler: EventHandler) -> None:
        """Calls `handler` with every such event; events without a handler are not even parsed."""
        self._handlers.setdefault(method, []).append(handler)

    def off(self, method: str, handler: EventHandler) -> None:
        """Takes a handler back."""
        self._handlers[method].remove(handler)

    def post(self, method: str, params: dict[str, Any] | None = None, session: str = "") -> asyncio.Future[Reply]:
        """Sends a command now and returns the future of its reply's `result`.

        The future ends in CommandFailed, ReplyTooLarge, DiskFull or BrowserLost; cancelling it forgets the reply.
        """
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        if self._lost or self._transport is None:
            future.set_exception(BrowserLost(f"The connection to the browser was lost before {method}."))
            return future
        self._next_id += 1
        command: dict[str, Any] = {"id": self._next_id, "method": method, "params": params or {}}
        if session:
            command["sessionId"] = session
        number = self._next_id
        self._waiting[number] = (future, method, _tail(session))
        # a reply that nobody waits for any more may never come
        future.add_done_callback(lambda _: self._waiting.pop(number, None))
        self._transport.send(WSMsgType.TEXT, json.dumps(command).encode())
        return future

    def send(self, method: str, params: dict[str, Any] | None = None, session: str = "") -> None:
        """Sends a command whose reply nobody waits for; a browser that is gone shows elsewhere."""
        self.post(method, params, session).add_done_callback(_ignore)

    def session_ended(self, session: str) -> None:
        """Fails all that a session was asked and has not answered: of one that has ended no answer comes any more."""
        own = _tail(session)
        for future, method, tail in tuple(self._waiting.values()):
            if tail == own and not future.done():
                future.set_exception(CommandFailed(method, 0, SESSION_ENDED))
                forget(future)

    async def ask(self, method: str, params: dict[str, Any] | None = None, session: str = "") -> dict[str, Any]:
        """Sends a command and returns its parsed `result`; for small replies only."""
        reply = await self.post(method, params, session)
        data = reply if isinstance(reply, bytes) else reply.read_and_delete()
        result: dict[str, Any] = json.loads(data)
        return result

    async def close(self) -> None:
        """Closes the connection; every reply still awaited ends in BrowserLost."""
        if self._transport is not None:
            self._transport.disconnect()
            # how it ended no longer matters, and picows raises it once more
            with suppress(WSError, OSError):
                await self._transport.wait_disconnected()

    # what picows calls

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._lost = True
        waiting, self._waiting = self._waiting, {}
        for future, method, _ in waiting.values():
            if not future.done():
                future.set_exception(BrowserLost(f"The connection to the browser was lost during {method}."))

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type is WSMsgType.CLOSE:
            transport.disconnect()
            return
        if frame.msg_type not in (WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.CONTINUATION):
            return
        message = frame.get_payload_as_memoryview()
        # picows goes on reading for a moment after a frame over its limit, and knows no limit for a message in parts
        if self._parts_bytes + len(message) > READ_OVER_CAP * self._max_reply_bytes:
            self._parts, self._parts_bytes = [], 0
            transport.disconnect()
            return
        if frame.fin and not self._parts:
            self._on_message(message)
            return
        # Chromium sends whole messages; a proxy in between need not
        self._parts.append(bytes(message))
        self._parts_bytes += len(message)
        if frame.fin:
            parts, self._parts, self._parts_bytes = self._parts, [], 0
            self._on_message(memoryview(b"".join(parts)))

    def _on_message(self, message: memoryview) -> None:
        number, method = _number_and_method(message)
        if number:
            awaited = self._waiting.pop(number, None)
            if awaited is not None and not awaited[0].done():
                self._on_reply(awaited, number, message)
        elif method:
            handlers = self._handlers.get(method)
            if handlers:
                event = _event(message)
                for handler in tuple(handlers):
                    handler(event.get("params", {}), event.get("sessionId", ""))

    def _on_reply(self, awaited: tuple[asyncio.Future[Reply], str, bytes], number: int, message: memoryview) -> None:
        future, method, tail = awaited
        if len(message) > self._max_reply_bytes:
            future.set_exception(
                ReplyTooLarge(f"{method} answered {len(message)} bytes; at most {self._max_reply_bytes} are taken.")
            )
            return
        prefix = b'{"id":%d,"result":' % number
        if bytes(message[: len(prefix)]) == prefix and bytes(message[-len(tail) :]) == tail:
            result = message[len(prefix) : -len(tail)]
        else:
            # an error, or an envelope spelt otherwise than Chromium 156 does
            try:
                envelope = _ENVELOPE.decode(message)
            except msgspec.DecodeError as error:
                future.set_exception(CommandFailed(method, 0, f"the reply makes no sense: {error}"))
                return
            if envelope.error is not None:
                future.set_exception(CommandFailed(method, envelope.error.code, envelope.error.message))
                return
            result = memoryview(envelope.result)
        try:
            future.set_result(
                bytes(result) if len(result) <= SPOOL_ABOVE_BYTES else Spooled.write(self._spool_folder, result)
            )
        except OSError as error:
            future.set_exception(self._not_spooled(method, len(result), error))

    def _not_spooled(self, method: str, size: int, error: OSError) -> DiskFull | ReplyTooLarge:
        if error.errno not in FULL:
            return ReplyTooLarge(f"The reply of {method} could not be spooled to disk: {error}.")
        # no fault of the page: a row about it would say what another machine would not find
        return DiskFull(
            f"A payload of {size} bytes cannot be spooled in {self._spool_folder} ({error.strerror});"
            " make room there, or point TMPDIR to another disk, and run again."
        )


def _tail(session: str) -> bytes:
    """How a reply of the session ends, as Chromium 156 spells it."""
    return b',"sessionId":"%b"}' % session.encode() if session else b"}"


def _event(message: memoryview) -> dict[str, Any]:
    """An event; one whose texts hold half a surrogate pair is read by the slower reader, which takes it."""
    try:
        event: dict[str, Any] = msgspec.json.decode(message)
    except msgspec.DecodeError:
        event = json.loads(bytes(message))
    return event


def forget(task: asyncio.Future[Any]) -> None:
    """Looks at how a task ended, so that asyncio does not complain that nobody did."""
    if not task.cancelled():
        task.exception()


def _ignore(reply: asyncio.Future[Reply]) -> None:
    """Looks at how a reply ended, so that asyncio does not complain that nobody did."""
    if not reply.cancelled() and reply.exception() is None:
        data = reply.result()
        if isinstance(data, Spooled):
            data.delete()


def _number_and_method(message: memoryview) -> tuple[int, str]:
    """The number of a reply or the method of an event, from the first bytes if they are spelt as Chromium 156 does."""
    head = bytes(message[:64])
    if head.startswith(b'{"id":'):
        digits = head[6 : head.find(b",", 6)]
        if digits.isdigit():
            return int(digits), ""
    elif head.startswith(b'{"method":"'):
        return 0, head[11 : head.find(b'"', 11)].decode("ascii", "replace")
    try:
        found = _HEAD.decode(message)
    except msgspec.DecodeError:
        return 0, ""
    return found.id, found.method
