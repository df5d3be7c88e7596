"""The two ends of a guarded connection: a SOCKS 5 client on one side, where it wanted to go on the other.

Only what a browser and our own client need of RFC 1928: CONNECT, by name or address, without authentication.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Final

MAX_GREETING_BYTES: Final = 2 + 255
MAX_REQUEST_BYTES: Final = 4 + 1 + 255 + 2
HANDSHAKE_SECONDS: Final = 10.0

SUCCEEDED, FAILED, NOT_ALLOWED, NETWORK_UNREACHABLE, HOST_UNREACHABLE, REFUSED = range(6)
"""Replies of RFC 1928 section 6."""
COMMAND_UNKNOWN: Final = 7
ADDRESS_UNKNOWN: Final = 8

_RESET: Final = struct.pack("ii", 1, 0)
"""Closing does not linger, which TCP tells the other side by a reset."""

Connect = Callable[["Client", str, int], Awaitable[None]]


class End(asyncio.Protocol):
    """One end: what comes in goes out at the other, no faster than that takes it."""

    def __init__(self, ends: set[End]) -> None:
        self._ends = ends
        self.peer: End | None = None
        self.transport: asyncio.Transport | None = None
        self._has_ended = False
        """Whether nothing comes in any more; what goes out may still."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._ends.add(self)

    def data_received(self, data: bytes) -> None:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.write(data)

    def eof_received(self) -> bool:
        self._has_ended = True
        peer = self.peer.transport if self.peer is not None else None
        if self.peer is None or self.peer._has_ended or peer is None or peer.is_closing() or not peer.can_write_eof():
            # nobody has anything more to say: this end is closed, and with it the other one
            return False
        # the other direction may still have something to say
        peer.write_eof()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self._ends.discard(self)
        peer, self.peer = self.peer, None
        if peer is not None and peer.transport is not None:
            if error is not None:
                # a reset is passed on as one: an answer that broke off must not look like one that ended
                peer.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                peer.transport.abort()
            else:
                peer.transport.close()

    def pause_writing(self) -> None:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.resume_reading()


class Client(End):
    """The client's end. `connect` is called once, with where it wants to go, and ends in `accept` or `refuse`."""

    def __init__(self, connect: Connect, ends: set[End]) -> None:
        super().__init__(ends)
        self._connect = connect
        self._waiting = bytearray()
        self._greeted = False
        self._connecting: asyncio.Task[None] | None = None
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._patience = asyncio.get_running_loop().call_later(HANDSHAKE_SECONDS, transport.close)

    def data_received(self, data: bytes) -> None:
        if self.peer is not None:
            super().data_received(data)
            return
        self._waiting += data
        if self._connecting is None:
            self._shake_hands()

    def connection_lost(self, error: Exception | None) -> None:
        if self._patience is not None:
            self._patience.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
        super().connection_lost(error)

    def accept(self, remote: End) -> None:
        """Joins the client with the other end."""
        assert self.transport is not None
        self.peer, remote.peer = remote, self
        self._reply(SUCCEEDED)
        if self._waiting:
            super().data_received(bytes(self._waiting))
            self._waiting.clear()

    def refuse(self, reply: int) -> None:
        """Tells the client that there will be no connection."""
        self._reply(reply)
        if self.transport is not None:
            self.transport.close()

    def _reply(self, reply: int) -> None:
        if self.transport is not None:
            self.transport.write(bytes((5, reply, 0, 1, 0, 0, 0, 0, 0, 0)))

    def _shake_hands(self) -> None:
        data, transport = self._waiting, self.transport
        assert transport is not None
        if not self._greeted:
            if data[0] != 5:
                transport.close()
                return
            if len(data) < 2 or len(data) < 2 + data[1]:
                return
            methods = data[2 : 2 + data[1]]
            del data[: 2 + len(methods)]
            if 0 not in methods:
                transport.write(b"\x05\xff")
                transport.close()
                return
            self._greeted = True
            transport.write(b"\x05\x00")
        if len(data) < 5:
            return
        if data[0] != 5 or data[1] != 1:
            self.refuse(COMMAND_UNKNOWN)
            return
        length = {1: 4, 3: data[4], 4: 16}.get(data[3])
        if length is None:
            self.refuse(ADDRESS_UNKNOWN)
            return
        start = 5 if data[3] == 3 else 4
        end = start + length
        if len(data) < end + 2:
            return
        host, port = _host(bytes(data[start:end]), data[3]), int.from_bytes(data[end : end + 2], "big")
        del data[: end + 2]
        if self._patience is not None:
            self._patience.cancel()
        self._connecting = asyncio.ensure_future(self._connected(host, port))

    async def _connected(self, host: str, port: int) -> None:
        try:
            await self._connect(self, host, port)
        except BaseException:
            # nothing was decided, so that nothing is opened
            if self.peer is None and self.transport is not None:
                self.refuse(FAILED)
            raise


def _host(raw: bytes, kind: int) -> str:
    if kind == 3:
        return raw.decode("ascii", "replace").strip("[]")
    return ".".join(map(str, raw)) if kind == 1 else ":".join(raw[n : n + 2].hex() for n in range(0, 16, 2))
