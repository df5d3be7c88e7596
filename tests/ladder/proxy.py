"""A proxy between the product's raw connection and a real browser; rules fault the answers to single commands.

Whatever no rule names passes unchanged. A command that a rule names is handed, with its answer, to the rule's fault.
"""

from __future__ import annotations

import asyncio
import json
import re
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Self

import picows

MAX_FRAME_BYTES = 1 << 31
OWN_IDS = 1_000_000_000
"""Commands of the proxy itself are numbered from here on, far above the product's."""
_REPLY = re.compile(rb'\{"id":(\d+)')
TOO_DEEP = "Failed to convert response to JSON: CBOR: stack limit exceeded at position 19568"
"""The words of Chromium 156."""


class Exchange:
    """One command that a rule named, and what becomes of it."""

    def __init__(self, line: Line, command: dict[str, Any]) -> None:
        self.line = line
        self.command = command
        self.session: str = command.get("sessionId", "")
        self._answer: asyncio.Future[bytes] | None = None

    def forward(self) -> None:
        """Sends the command to the browser; its answer stays here."""
        if self._answer is None:
            self._answer = self.line.forward(self.command)

    async def answer(self) -> bytes:
        """The browser's answer, a whole message."""
        self.forward()
        assert self._answer is not None
        return await self._answer

    def say(self, message: bytes) -> None:
        """Answers the product."""
        self.line.say(message)

    def envelope(self, member: str, value: Any) -> bytes:
        """An answer of one's own, spelt as Chromium spells it."""
        session = f',"sessionId":"{self.session}"' if self.session else ""
        return f'{{"id":{self.command["id"]},"{member}":{json.dumps(value)}{session}}}'.encode()


Fault = Callable[[Exchange], Awaitable[None]]


@dataclass
class Rule:
    """Faults the answers to `method`: of the calls for which `when` holds, the first `after` pass, `times` are hit.

    at_once   whether the command goes on to the browser in its turn, before the fault begins
    """

    method: str
    fault: Fault
    after: int = 0
    times: int = 10**9
    when: Callable[[dict[str, Any]], bool] = lambda command: True
    at_once: bool = True
    seen: int = 0
    hits: int = 0

    def takes(self, command: dict[str, Any]) -> bool:
        if command["method"] != self.method or not self.when(command):
            return False
        self.seen += 1
        if not self.after < self.seen <= self.after + self.times:
            return False
        self.hits += 1
        return True


@dataclass
class Proxy:
    """One server, on a port of its own; `through` gives the address that leads through it to a browser's."""

    rules: list[Rule] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    """Every command of the product since the last `clear`, in order."""
    lines: list[Line] = field(default_factory=list)
    _upstream: list[str] = field(default_factory=list)
    _server: asyncio.Server | None = None

    @classmethod
    async def start(cls) -> Self:
        proxy = cls()
        proxy._server = await picows.ws_create_server(
            proxy._open, "127.0.0.1", 0, max_frame_size=MAX_FRAME_BYTES, disconnect_on_exception=True
        )
        return proxy

    def through(self, endpoint: str) -> str:
        assert self._server is not None
        self._upstream.append(endpoint)
        port = self._server.sockets[0].getsockname()[1]
        return f"ws://127.0.0.1:{port}/{len(self._upstream) - 1}"

    def _open(self, request: picows.WSUpgradeRequest) -> Line:
        line = Line(self, self._upstream[int(request.path.decode().strip("/"))])
        self.lines.append(line)
        return line

    def fault(self, method: str, fault: Fault, **where: Any) -> Rule:
        """A new rule; the first that takes a command has it."""
        rule = Rule(method, fault, **where)
        self.rules.append(rule)
        return rule

    def clear(self) -> None:
        self.rules.clear()
        self.asked.clear()

    async def close(self) -> None:
        for line in self.lines:
            line.end()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()


class Line(picows.WSListener):
    """The product's side of one connection; the browser's side is connected with it."""

    def __init__(self, proxy: Proxy, upstream: str) -> None:
        self._proxy = proxy
        self._upstream = upstream
        self._product: picows.WSTransport | None = None
        self._browser: picows.WSTransport | None = None
        self._early: list[bytes] = []
        self._awaited: dict[int, asyncio.Future[bytes]] = {}
        self._next_id = OWN_IDS
        self._tasks: set[asyncio.Task[None]] = set()
        self._held_by: Exchange | None = None
        self._held: list[dict[str, Any]] = []

    def on_ws_connected(self, transport: picows.WSTransport) -> None:
        self._product = transport
        self._run(self._connect())

    async def _connect(self) -> None:
        line = self

        class Browser(picows.WSListener):
            def on_ws_frame(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
                if frame.msg_type is picows.WSMsgType.TEXT:
                    line._on_answer(frame.get_payload_as_bytes())

            def on_ws_disconnected(self, transport: picows.WSTransport) -> None:
                line.end()

        self._browser, _ = await picows.ws_connect(Browser, self._upstream, max_frame_size=MAX_FRAME_BYTES)
        for command in self._early:
            self._browser.send(picows.WSMsgType.TEXT, command)

    def on_ws_frame(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        if frame.msg_type is not picows.WSMsgType.TEXT:
            return
        command = json.loads(frame.get_payload_as_bytes())
        self._proxy.asked.append(command)
        if self._held_by is not None:
            self._held.append(command)
        else:
            self._on_command(command)

    def _on_command(self, command: dict[str, Any]) -> None:
        rule = next((rule for rule in self._proxy.rules if rule.takes(command)), None)
        if rule is None:
            self._send(command)
            return
        exchange = Exchange(self, command)
        if rule.at_once:
            exchange.forward()
        else:
            # what comes after it in the product's order comes after it in the browser's too
            self._held_by = exchange
        self._run(rule.fault(exchange))

    def on_ws_disconnected(self, transport: picows.WSTransport) -> None:
        self.end()

    def _on_answer(self, message: bytes) -> None:
        found = _REPLY.match(message)
        number = int(found[1]) if found else 0
        awaited = self._awaited.pop(number, None)
        if awaited is None:
            if number < OWN_IDS:
                self.say(message)
        elif not awaited.done():
            awaited.set_result(message)

    def _send(self, command: dict[str, Any]) -> None:
        data = json.dumps(command).encode()
        if self._browser is None:
            self._early.append(data)
        else:
            self._browser.send(picows.WSMsgType.TEXT, data)

    def forward(self, command: dict[str, Any]) -> asyncio.Future[bytes]:
        """Sends a command to the browser and keeps its answer from the product."""
        awaited = self._awaited[command["id"]] = asyncio.get_running_loop().create_future()
        self._send(command)
        if self._held_by is not None and self._held_by.command is command:
            self._held_by = None
            while self._held and self._held_by is None:
                self._on_command(self._held.pop(0))
        return awaited

    async def ask(self, method: str, params: dict[str, Any], session: str) -> Any:
        """Asks the browser something of the proxy's own, in a session of the product's."""
        return json.loads(await self.forward(self._own(method, params, session)))

    def tell(self, method: str, session: str) -> None:
        """Sends a command of the proxy's own that may never be answered."""
        self._send(self._own(method, {}, session))

    def _own(self, method: str, params: dict[str, Any], session: str) -> dict[str, Any]:
        self._next_id += 1
        return {"id": self._next_id, "method": method, "params": params, "sessionId": session}

    def say(self, message: bytes) -> None:
        if self._product is not None:
            self._product.send(picows.WSMsgType.TEXT, message)

    def break_off(self, message: bytes, share: float) -> None:
        """Closes the product's socket after this share of a message."""
        assert self._product is not None
        # RFC 6455, 5.2: a whole text message, unmasked, its length in eight bytes
        head = struct.pack("!BBQ", 0x81, 127, len(message))
        raw = self._product.underlying_transport
        raw.write(head + message[: int(len(message) * share)])
        raw.close()

    def end(self) -> None:
        for transport in (self._product, self._browser):
            if transport is not None:
                transport.disconnect()
        for awaited in self._awaited.values():
            awaited.cancel()
        for task in self._tasks:
            task.cancel()

    def _run(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


# faults


def delay(seconds: float) -> Fault:
    """The answer comes late."""

    async def fault(exchange: Exchange) -> None:
        answer = await exchange.answer()
        await asyncio.sleep(seconds)
        exchange.say(answer)

    return fault


async def drop(exchange: Exchange) -> None:
    """The answer never comes."""
    await exchange.answer()


def error(message: str, code: int = -32000) -> Fault:
    """The browser fails the command."""

    async def fault(exchange: Exchange) -> None:
        await exchange.answer()
        exchange.say(exchange.envelope("error", {"code": code, "message": message}))

    return fault


def truncate(share: float = 0.5) -> Fault:
    """A part of the answer comes, as a whole message."""

    async def fault(exchange: Exchange) -> None:
        answer = await exchange.answer()
        exchange.say(answer[: int(len(answer) * share)])

    return fault


def replace(result: Any) -> Fault:
    """Another result comes."""

    async def fault(exchange: Exchange) -> None:
        await exchange.answer()
        exchange.say(exchange.envelope("result", result))

    return fault


def enlarge(size: int) -> Fault:
    """The answer comes with a text of so many bytes in its result, which nobody asked for."""

    async def fault(exchange: Exchange) -> None:
        answer = await exchange.answer()
        head, found, rest = answer.partition(b'"result":{')
        assert found, answer[:200]
        exchange.say(b"".join((head, found, b'"padding":"', b"x" * size, b'",', rest)))

    return fault


def break_off(share: float = 0.5) -> Fault:
    """The socket closes in the middle of the answer."""

    async def fault(exchange: Exchange) -> None:
        exchange.line.break_off(await exchange.answer(), share)

    return fault


def first(step: Callable[[Exchange], Awaitable[None]]) -> Fault:
    """Something happens before the command reaches the browser; its rule is not `at_once`."""

    async def fault(exchange: Exchange) -> None:
        await step(exchange)
        exchange.say(await exchange.answer())

    return fault


async def crash(exchange: Exchange) -> None:
    """The renderer dies before it gets the command; the rule is not `at_once`."""
    exchange.line.tell("Page.crash", exchange.session)
    exchange.say(await exchange.answer())


def run_script(script: str) -> Fault:
    """A script runs in the page before the command reaches it; the rule is not `at_once`."""

    async def step(exchange: Exchange) -> None:
        told = await exchange.line.ask("Runtime.evaluate", {"expression": script}, exchange.session)
        assert "exceptionDetails" not in told["result"], told

    return first(step)
