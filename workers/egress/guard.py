"""The guard is a SOCKS proxy on this machine through which the browser and our own client reach the network.

It resolves a name once, judges every address, and connects to one that it has judged: a name that is bound to another
address between the two gains nothing. If it is gone or fails, there is no network: its door is the only one.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

import psutil

from schemas.outcomes import Outcome
from schemas.urls import hostname_of, port_of
from workers.browser.orphans import PREFIX
from workers.egress import socks
from workers.egress.rules import Address, EgressRules, plain

CONNECT_SECONDS: Final = 30.0
RESOLVE_SECONDS: Final = 15.0
MAX_RESOLVING: Final = 64
FAILURES_KEPT: Final = 4096
INTERFACES_SECONDS: Final = 60.0
"""How long the addresses of this machine are taken for the same."""
PORT_FILES: Final = f"{PREFIX}*/profile/DevToolsActivePort"

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a name. Raises OSError."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a connection was not made; the browser only learns that it was not."""

    outcome: Outcome
    detail: str


class NotConnected(Exception):
    """No connection was made."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


_REPLIES: Final[dict[Outcome, int]] = {
    "private_address": socks.NOT_ALLOWED,
    "dns_error": socks.HOST_UNREACHABLE,
    "connection_error": socks.REFUSED,
}


class Guard:
    """A running guard; it listens on 127.0.0.1 only."""

    def __init__(self, rules: EgressRules, resolve: Resolve | None = None) -> None:
        self._rules = rules
        self._resolve = resolve or _resolved
        self._resolving = asyncio.Semaphore(MAX_RESOLVING)
        self._server: asyncio.Server | None = None
        self._ends: set[socks.End] = set()
        self._failures: OrderedDict[tuple[str, int], Failure] = OrderedDict()
        self._own: frozenset[Address] = frozenset()
        self._own_at = float("-inf")
        self._closed_names: set[tuple[str, int]] = set()
        self.port = 0
        self.connections = 0
        """Connections made so far."""
        self.refusals = 0
        """Connections refused by the rules."""

    @classmethod
    async def start(
        cls, rules: EgressRules, closed: Sequence[tuple[str, int]] = (), resolve: Resolve | None = None
    ) -> Self:
        """A guard that listens. `closed` are hosts and ports that no rule opens; host "" is this machine."""
        found: set[tuple[Address, int]] = set()
        for host, port in closed:
            if host:
                with suppress(OSError):  # a name that nobody knows yet is still closed as a name
                    found |= {(plain(address), port) for address in await _addresses(host, port, resolve or _resolved)}
        ports = {port for host, port in closed if not host} | {port for address, port in found if address.is_loopback}
        guard = cls(replace(rules, closed_ports=frozenset(ports), closed=frozenset(found)), resolve)
        guard._closed_names = {(_named(host), port) for host, port in closed}
        loop = asyncio.get_running_loop()
        guard._server = await loop.create_server(
            lambda: socks.Client(guard._connect, guard._ends), "127.0.0.1", 0, backlog=512
        )
        guard.port = guard._server.sockets[0].getsockname()[1]
        return guard

    @property
    def proxy(self) -> str:
        """The proxy's URL, for a browser or a client; names are resolved here, not there."""
        return f"socks5://127.0.0.1:{self.port}"

    @property
    def open_ends(self) -> int:
        """Sockets of connections that are under way, two for each that was made."""
        return len(self._ends)

    def failure(self, url: str) -> Failure | None:
        """Why the last connection to the host of a URL key was not made; None where it was, or none was asked for."""
        return self._failures.get((_named(hostname_of(url)), port_of(url)))

    async def close(self) -> None:
        """Ends every connection, and waits until they are gone."""
        if self._server is not None:
            self._server.close()
        while self._ends:
            for end in tuple(self._ends):
                if end.transport is not None:
                    end.transport.abort()
            await asyncio.sleep(0)
        if self._server is not None:
            await self._server.wait_closed()

    async def judged(self, host: str, port: int) -> list[Address]:
        """The addresses of a host that may be connected to, at least one. Raises NotConnected."""
        try:
            async with asyncio.timeout(RESOLVE_SECONDS), self._resolving:
                addresses = await _addresses(host, port, self._resolve)
        except (OSError, UnicodeError, TimeoutError) as error:
            raise self._failed(host, port, Failure("dns_error", "ERR_NAME_NOT_RESOLVED")) from error
        by_name = "is closed to pages" if (_named(host), port) in self._closed_names else ""
        reasons = {address: by_name or self._refusal(address, port) for address in addresses}
        permitted = [address for address in addresses if not reasons[address]]
        if permitted:
            return permitted
        self.refusals += 1
        address = addresses[0]
        of = "" if _is_address(host) else f"{host} is "
        raise self._failed(host, port, Failure("private_address", f"{of}{address}, which {reasons[address]}"))

    async def _connect(self, client: socks.Client, host: str, port: int) -> None:
        try:
            remote = await self._connected(host, port)
        except NotConnected as error:
            client.refuse(_REPLIES[error.failure.outcome])
            return
        if client.transport is None or client.transport.is_closing():
            if remote.transport is not None:
                remote.transport.abort()
            return
        client.accept(remote)

    async def _connected(self, host: str, port: int) -> socks.End:
        failure = Failure("connection_error", "ERR_CONNECTION_FAILED")
        for address in await self.judged(host, port):
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    # by its number: nothing is resolved a second time
                    _, remote = await asyncio.get_running_loop().create_connection(
                        lambda: socks.End(self._ends), str(address), port
                    )
            except (OSError, TimeoutError) as error:
                failure = Failure("connection_error", _code(error))
                continue
            self._failures.pop((_named(host), port), None)
            self.connections += 1
            return remote
        raise self._failed(host, port, failure)

    def _failed(self, host: str, port: int, failure: Failure) -> NotConnected:
        self._failures[_named(host), port] = failure
        self._failures.move_to_end((_named(host), port))
        while len(self._failures) > FAILURES_KEPT:
            self._failures.popitem(last=False)
        return NotConnected(failure)

    def _refusal(self, address: Address, port: int) -> str:
        own = self._own_addresses()
        # public addresses that are no interface of this machine are the rule, and need no look at any file
        target = plain(address)
        is_own = target in own or target.is_loopback or target.is_unspecified
        return self._rules.refusal(address, port, own, {self.port, *_debugging_ports()} if is_own else ())

    def _own_addresses(self) -> frozenset[Address]:
        now = time.monotonic()
        if now - self._own_at > INTERFACES_SECONDS:
            names = [one.address.partition("%")[0] for found in psutil.net_if_addrs().values() for one in found]
            self._own, self._own_at = frozenset(_parsed(name) for name in names if _is_address(name)), now
        return self._own


async def _addresses(host: str, port: int, resolve: Resolve) -> list[Address]:
    """The addresses of a host, each once, in the resolver's order. Raises OSError where there is none."""
    if _is_address(host):
        return [_parsed(host)]
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        # RFC 6761: never asked of a server, and browsers do not
        return [_parsed("127.0.0.1"), _parsed("::1")]
    found = list(dict.fromkeys(_parsed(text) for text in await resolve(host, port)))
    if not found:
        raise OSError("no address")
    return found


async def _resolved(host: str, port: int) -> Sequence[str]:
    """What the system's resolver says, asked on a thread of its own that nobody waits for at the end.

    The event loop's own threads are few and for the store, and a resolver that hangs would hold them, and a stop.
    """
    loop = asyncio.get_running_loop()
    told: asyncio.Future[Sequence[str]] = loop.create_future()

    def tell(found: Sequence[str] | Exception) -> None:
        if told.done():
            return
        if isinstance(found, Exception):
            told.set_exception(found)
        else:
            told.set_result(found)

    def ask() -> None:
        found: Sequence[str] | Exception
        try:
            found = [str(one[4][0]) for one in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
        except (OSError, UnicodeError) as error:
            found = error
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(tell, found)

    threading.Thread(target=ask, name="pagestate-resolve", daemon=True).start()
    return await told


def _debugging_ports() -> set[int]:
    """The debugging ports of every browser of ours on this machine: who reaches one, drives that browser."""
    ports: set[int] = set()
    for file in Path(tempfile.gettempdir()).glob(PORT_FILES):
        with suppress(OSError, ValueError, IndexError):  # another user's, or about to be written or removed
            ports.add(int(file.read_text("utf-8").split()[0]))
    return ports


def _parsed(text: str) -> Address:
    return ipaddress.ip_address(text.partition("%")[0])


def _named(host: str) -> str:
    """One spelling of a host: names in lower case without the root's dot, addresses in their shortest form."""
    return str(_parsed(host)) if _is_address(host) else host.rstrip(".").lower()


def _is_address(text: str) -> bool:
    try:
        _parsed(text)
    except ValueError:
        return False
    return True


def _code(error: OSError | TimeoutError) -> str:
    """The code that the browser itself would have given."""
    if isinstance(error, TimeoutError) or error.errno == errno.ETIMEDOUT:
        return "ERR_CONNECTION_TIMED_OUT"
    if error.errno == errno.ECONNREFUSED:
        return "ERR_CONNECTION_REFUSED"
    if error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EADDRNOTAVAIL):
        return "ERR_ADDRESS_UNREACHABLE"
    return "ERR_CONNECTION_RESET" if error.errno == errno.ECONNRESET else "ERR_CONNECTION_FAILED"
