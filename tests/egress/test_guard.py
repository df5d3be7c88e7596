"""The guard by itself: a proxy that judges, connects to what it has judged, and passes bytes on as they are."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import os
import socket
import struct
import tempfile
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from python_socks import ProxyError
from python_socks.async_.asyncio import Proxy

from workers.browser.orphans import PREFIX
from workers.egress.guard import Failure, Guard
from workers.egress.rules import EgressRules
from workers.fetching import Fetcher, FetchFailed

ONE = EgressRules(allow=(ipaddress.ip_network("127.0.0.1/32"),))


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No browser of another run has its debugging port at a server of these tests."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


class Server:
    """A server that notes who came, and answers with what it was sent, twice."""

    def __init__(self) -> None:
        self.visits = 0
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.visits += 1
        data = await reader.read()
        writer.write(data + data)
        await writer.drain()
        writer.close()


@pytest_asyncio.fixture
async def servers() -> AsyncIterator[dict[str, Server]]:
    """Servers on two addresses of this machine, on one port."""
    one, two = Server(), Server()
    first = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    one.port = two.port = first.sockets[0].getsockname()[1]
    second = await asyncio.start_server(two.serve, "127.0.0.2", two.port)
    yield {"127.0.0.1": one, "127.0.0.2": two}
    for server in (first, second):
        server.close()
        await server.wait_closed()


@pytest_asyncio.fixture
async def start() -> AsyncIterator[object]:
    """Starts guards, which are closed after the test."""
    guards: list[Guard] = []

    async def start_one(rules: EgressRules, closed=(), resolve=None) -> Guard:
        guards.append(await Guard.start(rules, closed, resolve))
        return guards[-1]

    yield start_one
    for guard in guards:
        await guard.close()


async def through(guard: Guard, host: str, port: int, data: bytes = b"ping") -> bytes:
    sock = await Proxy.from_url(guard.proxy, rdns=True).connect(host, port, timeout=10)
    reader, writer = await asyncio.open_connection(sock=sock)
    writer.write(data)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


async def refused(guard: Guard, host: str, port: int) -> Failure:
    with pytest.raises(ProxyError):
        await through(guard, host, port)
    failure = guard.failure(f"http://{f'[{host}]' if ':' in host else host}:{port}/")
    assert failure is not None
    return failure


async def test_bytes_pass_as_they_are_in_both_directions(start, servers):
    """Also many, also after one side has said its last."""
    guard = await start(ONE)
    data = os.urandom(8_000_000)
    answer = await through(guard, "127.0.0.1", servers["127.0.0.1"].port, data)
    assert hashlib.sha256(answer).digest() == hashlib.sha256(data + data).digest()


@pytest.mark.parametrize("who_first", ["client", "server"])
async def test_a_connection_that_both_sides_have_ended_is_over(start, servers, who_first):
    """Each says its last by itself, as browsers and servers do; one that stayed would stay with every page."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"answer")
        writer.write_eof()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port = servers["127.0.0.1"].port if who_first == "client" else server.sockets[0].getsockname()[1]
    guard = await start(ONE)
    sock = await Proxy.from_url(guard.proxy, rdns=True).connect("127.0.0.1", port, timeout=10)
    reader, writer = await asyncio.open_connection(sock=sock)
    if who_first == "client":
        writer.write_eof()
    await reader.read()
    if who_first == "server":
        writer.write_eof()
    # the client keeps its socket, so that only the two ends can tell
    async with asyncio.timeout(10):
        while guard.open_ends:  # noqa: ASYNC110  # it tells nobody
            await asyncio.sleep(0.01)
    writer.close()
    server.close()
    await server.wait_closed()


async def test_what_is_closed_is_refused_at_the_connection(start, servers):
    guard, port = await start(ONE), servers["127.0.0.1"].port
    assert await refused(guard, "127.0.0.2", port) == Failure("private_address", "127.0.0.2, which is loopback")
    assert (await refused(guard, "::ffff:127.0.0.2", port)).outcome == "private_address"
    assert (await refused(guard, "169.254.169.254", 80)).detail == "169.254.169.254, which is metadata"
    assert servers["127.0.0.2"].visits == 0
    assert guard.refusals == 3
    assert await through(guard, "127.0.0.1", port) == b"pingping"
    assert guard.failure(f"http://127.0.0.1:{port}/") is None


async def test_a_name_is_resolved_once_and_its_judged_address_is_connected_to(start, servers):
    """A name that is bound to a closed address between the two gains nothing; nor later (pain 56)."""
    bindings = iter([["127.0.0.1"], ["127.0.0.2"], ["127.0.0.2", "127.0.0.1"], []])
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return next(bindings)

    guard, port = await start(ONE, resolve=resolve), servers["127.0.0.1"].port
    assert await through(guard, "rebind.test", port) == b"pingping"
    assert asked == ["rebind.test"]
    assert await refused(guard, "rebind.test", port) == Failure(
        "private_address", "rebind.test is 127.0.0.2, which is loopback"
    )
    assert await through(guard, "rebind.test", port) == b"pingping", "the address that is open is taken"
    assert await refused(guard, "rebind.test", port) == Failure("dns_error", "ERR_NAME_NOT_RESOLVED")
    assert (servers["127.0.0.1"].visits, servers["127.0.0.2"].visits) == (2, 0)


async def test_what_nobody_answers_is_said_in_the_browsers_words(start, free_ports):
    guard = await start(ONE)
    (port,) = free_ports(1)
    assert await refused(guard, "127.0.0.1", port) == Failure("connection_error", "ERR_CONNECTION_REFUSED")


async def test_names_of_this_machine_are_its_addresses(start, servers):
    guard, port = await start(ONE), servers["127.0.0.1"].port
    for name in ("localhost", "Site.LOCALHOST."):
        assert await through(guard, name, port) == b"pingping"


async def test_own_ports_are_closed_whatever_is_open(start, servers):
    """The guard's own port, the broker's and the metrics', and the debugging port of every browser of ours."""
    port = servers["127.0.0.1"].port
    everything = EgressRules(allow_private=True)
    assert await through(await start(everything), "127.0.0.1", port) == b"pingping"
    for closed in ([("127.0.0.1", port)], [("localhost", port)], [("", port)]):
        guard = await start(everything, closed)
        for host in ("127.0.0.1", "127.0.0.2", "localhost", "0.0.0.0", "::ffff:127.0.0.1"):
            assert "closed to pages" in (await refused(guard, host, port)).detail
    guard = await start(everything)
    assert "closed to pages" in (await refused(guard, "127.0.0.1", guard.port)).detail
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        (Path(folder) / "profile").mkdir()
        (Path(folder) / "profile" / "DevToolsActivePort").write_text(f"{port}\n/devtools/browser/x")
        assert "closed to pages" in (await refused(guard, "127.0.0.1", port)).detail
    assert await through(guard, "127.0.0.1", port) == b"pingping"


async def test_a_broker_of_another_machine_is_closed_by_name_and_by_address(start):
    async def resolve(host: str, port: int) -> list[str]:
        return ["10.1.2.3"]

    guard = await start(EgressRules(allow_private=True), [("Broker.test", 5672)], resolve)
    for host in ("broker.test", "BROKER.TEST.", "10.1.2.3", "other.test"):
        assert "closed to pages" in (await refused(guard, host.rstrip("."), 5672)).detail


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00",
        b"\x05\x01\x02",
        b"\x05\x01\x00\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50",
        b"\x05\x01\x00\x05\x03\x00\x01\x7f\x00\x00\x01\x00\x50",
        b"\x05\x01\x00\x05\x01\x00\x09\x7f\x00\x00\x01\x00\x50",
        b"\x05\x01\x00\x05\x01\x00\x03\x00\x00\x50",
        b"\x05\x00" + b"\xff" * 600,
    ],
    ids=["http", "socks 4", "password", "bind", "udp", "address type", "no name", "garbage"],
)
async def test_whoever_speaks_otherwise_is_shown_out(start, servers, said):
    guard = await start(EgressRules(allow_private=True))
    reader, writer = await asyncio.open_connection("127.0.0.1", guard.port)
    writer.write(said)
    async with asyncio.timeout(20):
        answer = await reader.read()
    writer.close()
    assert b"\x05\x00\x00" not in answer
    assert guard.connections == 0


async def test_a_slow_client_is_understood_byte_by_byte(start, servers):
    guard = await start(ONE)
    port = servers["127.0.0.1"].port
    reader, writer = await asyncio.open_connection("127.0.0.1", guard.port)
    for byte in b"\x05\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01" + port.to_bytes(2, "big") + b"ping":
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0)
    writer.write_eof()
    assert await reader.read() == b"\x05\x00" + b"\x05\x00\x00\x01" + bytes(6) + b"pingping"
    writer.close()


async def test_our_own_client_goes_through_the_guard_too(start, servers):
    """To robots.txt and sitemaps, redirects included: should the library change inside, this fails (pain 56)."""
    port = servers["127.0.0.1"].port
    guard = await start(ONE)
    fetcher = Fetcher("test", guard)
    with pytest.raises(FetchFailed, match="could not be fetched: ConnectError"):
        await fetcher.fetch(f"http://127.0.0.2:{port}/robots.txt", 1000, timedelta(seconds=5))
    with pytest.raises(FetchFailed):
        await fetcher.fetch(f"https://127.0.0.2:{port}/robots.txt", 1000, timedelta(seconds=5))
    assert servers["127.0.0.2"].visits == 0
    failure = guard.failure(f"http://127.0.0.2:{port}/")
    assert failure is not None
    assert failure.outcome == "private_address"
    await fetcher.close()


async def test_a_reset_is_passed_on_as_one(start, servers):
    """An answer that broke off must not look like one that ended."""

    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    server = await asyncio.start_server(reset, "127.0.0.1", 0)
    guard = await start(ONE)
    with pytest.raises(ConnectionResetError):
        await through(guard, "127.0.0.1", server.sockets[0].getsockname()[1])
    server.close()
    await server.wait_closed()
