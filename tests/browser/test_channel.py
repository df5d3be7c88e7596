"""The channel moves bytes between a debugging endpoint and whoever awaits them, against a real websocket server."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import picows
import pytest
import pytest_asyncio

from schemas.errors import BrowserLost, CommandFailed, ReplyTooLarge
from workers.browser.channel import READ_OVER_CAP, Channel
from workers.browser.spool import SPOOL_ABOVE_BYTES, Spooled, buffer_of, size_of

CAP_BYTES = 8 * 1024 * 1024
PATIENCE_SECONDS = 20.0


class Endpoint(picows.WSListener):
    """The browser's side: it keeps the commands it got, and says only what the test tells it to say."""

    def __init__(self) -> None:
        self.transport: picows.WSTransport
        self.commands: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.address = ""

    def on_ws_connected(self, transport: picows.WSTransport) -> None:
        self.transport = transport

    def on_ws_frame(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        if frame.msg_type is picows.WSMsgType.TEXT:
            self.commands.put_nowait(json.loads(frame.get_payload_as_bytes()))

    async def command(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.commands.get()

    def say(self, message: bytes) -> None:
        self.transport.send(picows.WSMsgType.TEXT, message)

    def say_in_parts(self, *parts: bytes) -> None:
        for number, part in enumerate(parts):
            kind = picows.WSMsgType.CONTINUATION if number else picows.WSMsgType.TEXT
            self.transport.send(kind, part, fin=number == len(parts) - 1)


@pytest_asyncio.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    listener = Endpoint()
    server = await picows.ws_create_server(lambda request: listener, "127.0.0.1", 0)
    listener.address = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    yield listener
    server.close()
    await server.wait_closed()


@pytest_asyncio.fixture
async def channel(endpoint: Endpoint, tmp_path: Path) -> AsyncIterator[Channel]:
    connected = await Channel.connect(endpoint.address, tmp_path, CAP_BYTES)
    yield connected
    await connected.close()


async def within_patience(reply: asyncio.Future[Any]) -> Any:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await reply


async def settled(channel: Channel, endpoint: Endpoint) -> None:
    """Returns when everything that the endpoint said before has been read."""
    reply = channel.post("Last.word")
    command = await endpoint.command()
    endpoint.say(b'{"id":%d,"result":{}}' % command["id"])
    await within_patience(reply)


ODD_BYTES = '{"a" : [1,\t2 ],"lone":"\\ud800","é":"ü","id":7,"end":"}"}'.encode()


@pytest.mark.parametrize("session", ["", "5E551011"])
async def test_a_reply_is_cut_out_of_its_envelope_byte_for_byte(channel, endpoint, session):
    """Given a command, when the browser replies as Chromium spells it, then the result comes as its very bytes."""
    reply = channel.post("DOM.getDocument", {"depth": -1}, session)
    command = await endpoint.command()
    assert command == {"id": 1, "method": "DOM.getDocument", "params": {"depth": -1}} | (
        {"sessionId": session} if session else {}
    )
    tail = b',"sessionId":"%b"' % session.encode() if session else b""
    endpoint.say(b'{"id":1,"result":%b%b}' % (ODD_BYTES, tail))
    assert await within_patience(reply) == ODD_BYTES


@pytest.mark.parametrize(
    "envelope",
    [
        '{"id":1,"sessionId":"S","result":%s}',
        '{"result":%s,"id":1,"sessionId":"S"}',
        '{"sessionId":"S","result":%s,"id":1}',
        '{ "id" : 1, "result" : %s , "sessionId" : "S" }',
    ],
)
async def test_an_envelope_in_another_order_gives_the_same_result(channel, endpoint, envelope):
    """Given a browser that spells its envelopes otherwise, then the result is the same, and nobody waits for ever."""
    reply = channel.post("Page.getFrameTree", session="S")
    await endpoint.command()
    result = '{"a" : [1, 2],"id":7}'
    endpoint.say((envelope % result).encode())
    assert await within_patience(reply) == result.encode()


async def test_an_error_reply_is_a_failed_command(channel, endpoint):
    reply = channel.post("DOM.getDocument", session="S")
    await endpoint.command()
    endpoint.say(b'{"id":1,"error":{"code":-32000,"message":"CBOR: stack limit exceeded"},"sessionId":"S"}')
    with pytest.raises(CommandFailed) as failed:
        await within_patience(reply)
    error = failed.value
    assert (error.method, error.code, error.message) == ("DOM.getDocument", -32000, "CBOR: stack limit exceeded")


async def test_replies_find_their_commands_in_any_order(channel, endpoint):
    replies = [channel.post("Runtime.evaluate", {"n": n}) for n in range(20)]
    numbers = [(await endpoint.command())["id"] for _ in replies]
    for number in reversed(numbers):
        endpoint.say(b'{"id":%d,"result":{"n":%d}}' % (number, number - 1))
    assert [json.loads(await within_patience(reply))["n"] for reply in replies] == list(range(20))


async def test_a_message_in_fragments_is_one_message(channel, endpoint):
    replies = [channel.post("Page.getFrameTree") for _ in range(2)]
    endpoint_saw = [await endpoint.command() for _ in replies]
    assert [command["id"] for command in endpoint_saw] == [1, 2]
    endpoint.say_in_parts(b'{"id":1,"res', b"", b'ult":{"frame":', b'"F"}}')
    endpoint.say(b'{"id":2,"result":{}}')
    assert await within_patience(replies[0]) == b'{"frame":"F"}'
    assert await within_patience(replies[1]) == b"{}"


async def test_events_reach_their_handlers_and_nobody_parses_the_others(channel, endpoint):
    """Given handlers, when events come, then each gets its own; an event without a handler may even be no JSON."""
    heard: list[Any] = []

    def listen(event: dict[str, Any], session: str) -> None:
        heard.append((event, session))

    channel.on("Target.targetCrashed", listen)
    channel.on("Target.targetCrashed", lambda event, session: heard.append("second"))
    endpoint.say(b'{"method":"Target.targetCrashed","params":{"targetId":"T"},"sessionId":"S"}')
    endpoint.say(b'{"method":"Network.dataReceived","params":{{{{')
    await settled(channel, endpoint)
    assert heard == [({"targetId": "T"}, "S"), "second"]
    channel.off("Target.targetCrashed", listen)
    endpoint.say(b'{"method":"Target.targetCrashed","params":{}}')
    await settled(channel, endpoint)
    assert heard[2:] == ["second"]


async def test_a_handler_may_take_itself_back(channel, endpoint):
    heard: list[dict[str, Any]] = []

    def once(event: dict[str, Any], session: str) -> None:
        heard.append(event)
        channel.off("Inspector.detached", once)

    channel.on("Inspector.detached", once)
    for _ in range(2):
        endpoint.say(b'{"method":"Inspector.detached","params":{}}')
    await settled(channel, endpoint)
    assert heard == [{}]


@pytest.mark.parametrize("more", [0, 1])
async def test_a_large_reply_lies_in_a_file(channel, endpoint, tmp_path, more):
    """Given a reply above the spool's limit, then it is in one file of the spool folder, byte for byte."""
    result = b'"' + b"x" * (SPOOL_ABOVE_BYTES - 2 + more) + b'"'
    reply = channel.post("DOMSnapshot.captureSnapshot", session="S")
    await endpoint.command()
    endpoint.say(b'{"id":1,"result":%b,"sessionId":"S"}' % result)
    data = await within_patience(reply)
    assert isinstance(data, Spooled) is bool(more)
    assert size_of(data) == len(result)
    assert bytes(buffer_of(data)) == result
    files = list(tmp_path.iterdir())
    assert files == ([Path(data.path)] if more else [])
    if isinstance(data, Spooled):
        mapped = data.map()
        data.delete()
        assert bytes(mapped) == result, "mapped memory outlives the file's name"
        assert not list(tmp_path.iterdir())


async def test_a_small_question_reads_a_spooled_answer_and_leaves_no_file(channel, endpoint, tmp_path):
    answer = asyncio.ensure_future(channel.ask("Page.getFrameTree"))
    await endpoint.command()
    endpoint.say(b'{"id":1,"result":{"pad":"%b"}}' % (b"x" * SPOOL_ABOVE_BYTES))
    assert len((await within_patience(answer))["pad"]) == SPOOL_ABOVE_BYTES
    assert not list(tmp_path.iterdir())


async def test_a_reply_over_the_cap_costs_its_command_only(channel, endpoint, tmp_path):
    """A reply above the cap fails fast, and the connection with its other sessions goes on (pain 25)."""
    big, neighbour = channel.post("DOM.getDocument"), channel.post("Page.getFrameTree")
    for _ in range(2):
        await endpoint.command()
    endpoint.say(b'{"id":1,"result":"%b"}' % (b"x" * CAP_BYTES))
    endpoint.say(b'{"id":2,"result":{}}')
    with pytest.raises(ReplyTooLarge, match=re.escape(f"at most {CAP_BYTES} are taken")):
        await within_patience(big)
    assert await within_patience(neighbour) == b"{}"
    assert not channel.is_lost
    assert not list(tmp_path.iterdir())


async def test_a_reply_far_over_the_cap_ends_the_connection(channel, endpoint):
    """What would fill this process's memory is never read: the browser is given up instead."""
    reply = channel.post("DOM.getDocument")
    await endpoint.command()
    endpoint.say(b'{"id":1,"result":"%b"}' % (b"x" * READ_OVER_CAP * CAP_BYTES))
    with pytest.raises(BrowserLost):
        await within_patience(reply)
    assert channel.is_lost


async def test_a_reply_far_over_the_cap_in_parts_ends_the_connection_too(channel, endpoint):
    """A proxy may cut a message into frames of which each is small."""
    reply = channel.post("DOM.getDocument")
    await endpoint.command()
    part = b"x" * (CAP_BYTES // 2)
    endpoint.say_in_parts(b'{"id":1,"result":"', *[part] * (2 * READ_OVER_CAP + 1), b'"}')
    with pytest.raises(BrowserLost):
        await within_patience(reply)
    assert channel.is_lost


async def test_a_reply_that_makes_no_sense_fails_its_command(channel, endpoint):
    reply = channel.post("DOM.getDocument")
    await endpoint.command()
    endpoint.say(b'{"id":1,"resu')
    with pytest.raises(CommandFailed, match="makes no sense"):
        await within_patience(reply)
    await settled(channel, endpoint)
    assert not channel.is_lost


async def test_a_reply_that_cannot_be_spooled_fails_its_command(endpoint, tmp_path):
    """A full disk, or a folder that is gone, is said in the command's own words (pain 32)."""
    channel = await Channel.connect(endpoint.address, tmp_path / "gone", CAP_BYTES)
    reply = channel.post("DOM.getDocument")
    await endpoint.command()
    endpoint.say(b'{"id":1,"result":"%b"}' % (b"x" * SPOOL_ABOVE_BYTES))
    with pytest.raises(ReplyTooLarge, match="could not be spooled"):
        await within_patience(reply)
    await channel.close()


def _breaks_off(endpoint: Endpoint) -> None:
    endpoint.transport.disconnect(graceful=False)


def _says_goodbye(endpoint: Endpoint) -> None:
    endpoint.transport.send_close(picows.WSCloseCode.GOING_AWAY)


@pytest.mark.parametrize("leave", [_breaks_off, _says_goodbye])
async def test_a_lost_connection_ends_every_wait(channel, endpoint, leave: Callable[[Endpoint], None]):
    """Nobody waits for ever on a browser that is gone, and nobody is told it still lives (pain 8)."""
    replies = [channel.post("DOM.getDocument"), channel.post("Page.getFrameTree", session="S")]
    for _ in replies:
        await endpoint.command()
    leave(endpoint)
    for reply, method in zip(replies, ("DOM.getDocument", "Page.getFrameTree"), strict=True):
        with pytest.raises(BrowserLost, match=method):
            await within_patience(reply)
    assert channel.is_lost
    with pytest.raises(BrowserLost, match=r"before Browser\.getVersion"):
        await within_patience(channel.post("Browser.getVersion"))
    await channel.close()


async def test_closing_ends_every_wait(channel):
    reply = channel.post("DOM.getDocument")
    async with asyncio.timeout(PATIENCE_SECONDS):
        await channel.close()
        await channel.close()
    with pytest.raises(BrowserLost):
        await within_patience(reply)
    assert channel.is_lost


async def test_a_cancelled_reply_that_comes_late_leaves_no_file(channel, endpoint, tmp_path):
    """Given a reply given up, when it comes after all, then it is dropped: no file, and nobody's neighbour suffers."""
    reply = channel.post("DOMSnapshot.captureSnapshot")
    await endpoint.command()
    reply.cancel()
    endpoint.say(b'{"id":1,"result":"%b"}' % (b"x" * (SPOOL_ABOVE_BYTES + 1)))
    await settled(channel, endpoint)
    with suppress(asyncio.CancelledError):
        await reply
    assert reply.cancelled()
    assert not list(tmp_path.iterdir())


async def test_what_nobody_asked_for_is_passed_over(channel, endpoint):
    for message in (
        b'{"id":99,"result":{}}',
        b'{"id":1}',
        b"{}",
        b"",
        b"[1,2]",
        b'{"id":null,"error":{}}',
        b"\xff\xfe",
    ):
        endpoint.say(message)
    await settled(channel, endpoint)
    assert not channel.is_lost


async def test_nothing_to_connect_to_is_a_lost_browser(tmp_path):
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    with pytest.raises(BrowserLost, match="does not answer"):
        await Channel.connect(f"ws://127.0.0.1:{port}/", tmp_path, CAP_BYTES)


async def test_a_server_that_is_no_endpoint_is_a_lost_browser(tmp_path):
    async def answers_otherwise(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answers_otherwise, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(BrowserLost):
        await Channel.connect(f"ws://127.0.0.1:{port}/", tmp_path, CAP_BYTES)
    server.close()
    await server.wait_closed()


async def test_an_event_with_half_a_surrogate_pair_is_an_event(channel, endpoint):
    """A page may put any text into its URL and its downloads' names (pain 26)."""
    seen: list[dict[str, Any]] = []
    channel.on("Page.x", lambda event, _: seen.append(event))
    endpoint.say(b'{"method":"Page.x","params":{"name":"\\ud800"}}')
    await settled(channel, endpoint)
    assert seen == [{"name": "\ud800"}]
