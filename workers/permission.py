"""Permission is asked before a page is fetched: robots.txt by RFC 9309.

This is the only module that talks HTTP itself, and the only one that translates that library's errors.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import httpx
from protego import Protego

from schemas.settings import RobotsMode
from schemas.urls import host_of, is_loopback

AGENT = "pagestate"
"""The product token that robots.txt groups are matched against."""
MAX_ROBOTS_BYTES = 512 * 1024
"""RFC 9309 section 2.5: at least 500 KiB are parsed."""
MAX_REDIRECTS = 5
"""RFC 9309 section 2.3.1.2: at least five redirects are followed."""

Verdict = Literal["allowed", "denied", "unreachable", "not_asked"]


@dataclass(frozen=True, slots=True)
class Permission:
    """Whether a page may be fetched, and who said so."""

    verdict: Verdict
    reason: str

    @property
    def granted(self) -> bool:
        """Only a host that answered, or that need not be asked, permits; RFC 9309 section 2.3.1.4."""
        return self.verdict in ("allowed", "not_asked")


@dataclass(frozen=True, slots=True)
class _Rules:
    verdict: Verdict
    reason: str
    parsed: Protego | None = None


class Robots:
    """The robots.txt of every host of a run, each fetched once."""

    def __init__(self, mode: RobotsMode, budget: timedelta, user_agent: str) -> None:
        self._mode = mode
        self._budget = budget
        self._client = httpx.AsyncClient(
            headers={"User-Agent": user_agent}, max_redirects=MAX_REDIRECTS, follow_redirects=True, trust_env=False
        )
        self._rules: dict[str, asyncio.Task[_Rules]] = {}

    async def permission(self, url_key: str) -> Permission:
        """Whether `url_key` may be fetched."""
        if self._mode == "remote" and is_loopback(url_key):
            return Permission("not_asked", "this machine's own host")
        origin = f"{url_key.split(':', 1)[0]}://{host_of(url_key)}"
        if origin not in self._rules:
            self._rules[origin] = asyncio.ensure_future(self._fetch(f"{origin}/robots.txt"))
        # shielded: a page that gives up must not take the answer away from its neighbours
        rules = await asyncio.shield(self._rules[origin])
        if rules.parsed is None:
            return Permission(rules.verdict, rules.reason)
        allowed = bool(rules.parsed.can_fetch(url_key, AGENT))
        return Permission("allowed" if allowed else "denied", rules.reason)

    async def _fetch(self, url: str) -> _Rules:
        try:
            async with asyncio.timeout(self._budget.total_seconds()), self._client.stream("GET", url) as answer:
                if answer.status_code >= 500:
                    return _Rules("unreachable", f"{url} answered {answer.status_code}")
                if answer.status_code >= 400:
                    return _Rules("allowed", f"{url} answered {answer.status_code}")
                body = await _read(answer)
        except httpx.TooManyRedirects:
            # RFC 9309 section 2.3.1.2: may be taken as unavailable
            return _Rules("allowed", f"{url} redirects more than {MAX_REDIRECTS} times")
        except (TimeoutError, httpx.TimeoutException):
            return _Rules("unreachable", f"{url} did not answer within {self._budget.total_seconds():g} s")
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return _Rules("unreachable", f"{url} could not be fetched: {type(error).__name__}")
        # a byte order mark hides the first group from the parser (measured with protego 0.7.0)
        text = body.decode("utf-8", "replace").removeprefix("\ufeff").replace("\x00", "")
        return _Rules("allowed", url, Protego.parse(text.replace("\r\n", "\n").replace("\r", "\n")))

    async def close(self) -> None:
        """Ends what is under way."""
        for task in self._rules.values():
            task.cancel()
        await self._client.aclose()


async def _read(answer: httpx.Response) -> bytes:
    """The body, at most MAX_ROBOTS_BYTES of it, counted after decompression."""
    body = bytearray()
    async for part in answer.aiter_bytes(65536):
        body += part
        if len(body) >= MAX_ROBOTS_BYTES:
            break
    return bytes(body[:MAX_ROBOTS_BYTES])
