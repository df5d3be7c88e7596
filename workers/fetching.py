"""Fetching is how small files are asked for without a browser: robots.txt and sitemaps, under a cap and a budget.

This is the only module that talks HTTP itself, and the only one that translates that library's errors.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import httpcore
import httpx

from workers.egress.guard import Guard, NotConnected

MAX_REDIRECTS: Final = 5
"""RFC 9309 section 2.3.1.2: at least five redirects are followed."""
PART_BYTES: Final = 65536


class FetchFailed(Exception):
    """A file could not be fetched; the text says why, in a few words that follow its URL."""


class TooManyRedirects(FetchFailed):
    """A file redirects more often than MAX_REDIRECTS."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer. `body` is decompressed and cut at the cap, which `is_cut` tells; empty where the status is not 2xx."""

    status: int
    body: bytes
    is_cut: bool


class _GuardedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to addresses that the guard has judged, as the browser's connections are."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(self, host: str, port: int, *options: Any, **named: Any) -> httpcore.AsyncNetworkStream:
        try:
            addresses = await self._guard.judged(host, port)
        except NotConnected as error:
            raise httpcore.ConnectError(str(error)) from error
        for number, address in enumerate(addresses, start=1):
            try:
                return await self._network.connect_tcp(str(address), port, *options, **named)
            except httpcore.ConnectError:
                if number == len(addresses):
                    raise
        raise httpcore.ConnectError("no address")

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)


class _GuardedTransport(httpx.AsyncHTTPTransport):
    """The library's own transport, with the guard below; it offers no other way to say how to connect."""

    def __init__(self, guard: Guard) -> None:
        super().__init__(trust_env=False)
        # were it not there any more, what is set here would be ignored, and nothing guarded
        assert isinstance(self._pool, httpcore.AsyncConnectionPool)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=httpx.create_ssl_context(trust_env=False), network_backend=_GuardedNetwork(guard)
        )


class Fetcher:
    """Fetches with one user agent, only from addresses that a guard lets through, where one is given."""

    def __init__(self, user_agent: str, guard: Guard | None = None) -> None:
        # what is compressed all the same is unpacked under the cap below, not by the library, which knows none
        headers = {"User-Agent": user_agent, "Accept-Encoding": "identity"}
        self._client = httpx.AsyncClient(
            headers=headers,
            max_redirects=MAX_REDIRECTS,
            follow_redirects=True,
            trust_env=False,
            timeout=None,
            transport=_GuardedTransport(guard) if guard is not None else None,
        )

    async def fetch(self, url: str, max_bytes: int, budget: timedelta) -> Fetched:
        """The answer of `url`, redirects followed. Raises FetchFailed."""
        try:
            async with asyncio.timeout(budget.total_seconds()), self._client.stream("GET", url) as answer:
                if not answer.is_success:
                    return Fetched(answer.status_code, b"", False)
                encoding = answer.headers.get("content-encoding", "identity").strip().lower()
                body, is_cut = await _unpacked(answer.aiter_raw(PART_BYTES), encoding, max_bytes)
                return Fetched(answer.status_code, body, is_cut)
        except httpx.TooManyRedirects as error:
            raise TooManyRedirects(f"redirects more than {MAX_REDIRECTS} times") from error
        except TimeoutError as error:
            raise FetchFailed(f"did not answer within {budget.total_seconds():g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError, zlib.error, ValueError) as error:
            raise FetchFailed(f"could not be fetched: {type(error).__name__}") from error

    async def close(self) -> None:
        """Ends what is under way."""
        await self._client.aclose()


async def _unpacked(parts: AsyncIterator[bytes], encoding: str, max_bytes: int) -> tuple[bytes, bool]:
    """The body, at most `max_bytes` of it, and whether there is more."""
    if encoding in ("gzip", "x-gzip", "deflate"):
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
    elif encoding in ("", "identity"):
        unpacker = None
    else:
        raise ValueError(f"the encoding {encoding} was not asked for")
    body = bytearray()
    async for part in parts:
        body += part if unpacker is None else unpacker.decompress(part, max_bytes + 1 - len(body))
        if len(body) > max_bytes:
            return bytes(body[:max_bytes]), True
    return bytes(body), False
