"""Permission is asked before a page is fetched: robots.txt by RFC 9309, kept for a day and shared through the store."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from protego import Protego

from schemas.errors import StoreError
from schemas.identifiers import host_hash
from schemas.policy import AGENT, MAX_DELAY_SECONDS
from schemas.settings import RobotsMode
from schemas.urls import host_of, is_loopback
from schemas.urls import url_key as key_of
from workers.fetching import Fetcher, FetchFailed, TooManyRedirects
from workers.store.layout import robots_of_host, robots_path
from workers.store.objects import ObjectStore

MAX_ROBOTS_BYTES: Final = 512 * 1024
"""RFC 9309 section 2.5: at least 500 KiB are parsed."""
KEPT: Final = timedelta(hours=24)
"""RFC 9309 section 2.4: a robots.txt should not be used for longer than that."""
ASKED_AGAIN: Final = timedelta(minutes=10)
"""After so long a host that could not be asked is asked once more."""
MAX_HOSTS_KEPT: Final = 5000
MAX_ASKING: Final = 16
"""Hosts asked at a time."""

Verdict = Literal["allowed", "denied", "unreachable", "not_asked"]

_LOG = logging.getLogger("pagestate.permission")


@dataclass(frozen=True, slots=True)
class Permission:
    """Whether a page may be fetched, by which rule, and what else robots.txt says to us.

    crawl_delay     between two pages of the host, 0 where nothing is asked; an extension of RFC 9309
    content_signal  of the group that counts for us, such as "search=yes, ai-train=no"; recorded, not enforced
    """

    verdict: Verdict
    reason: str
    crawl_delay: timedelta = timedelta(0)
    content_signal: str | None = None

    @property
    def granted(self) -> bool:
        """Only a host that answered, or that need not be asked, permits; RFC 9309 section 2.3.1.4."""
        return self.verdict in ("allowed", "not_asked")


@dataclass(frozen=True, slots=True)
class RobotsAnswer:
    """What a host said when it was asked for its robots.txt; `asked_at` in seconds since 1970, UTC.

    text    the file; None where there is none, which permits everything
    said    how that came, for the row
    """

    origin: str
    asked_at: float
    said: str
    text: str | None

    def encode(self) -> bytes:
        """The answer as JSON, for the store."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> RobotsAnswer:
        """The answer of a stored file. Raises ValueError or TypeError for anything else."""
        answer = cls(**json.loads(data))
        if not isinstance(answer.asked_at, int | float) or not isinstance(answer.text, str | None):
            raise TypeError("asked_at is no number, or text is no text")
        return answer


@dataclass(frozen=True, slots=True)
class _Rules:
    """A host's answer, parsed; good until a time in seconds since 1970."""

    verdict: Verdict
    said: str
    until: float
    parsed: Any = None
    content_signal: str | None = None


class Robots:
    """The robots.txt of every host of a run, each asked for once a day; `now` tells the time, with its zone."""

    def __init__(
        self,
        mode: RobotsMode,
        budget: timedelta,
        fetcher: Fetcher,
        *,
        agent: str = AGENT,
        store: ObjectStore | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._mode = mode
        self._budget = budget
        self._fetcher = fetcher
        self._agent = agent
        self._store = store
        self._now = now
        self._rules: OrderedDict[str, asyncio.Task[_Rules]] = OrderedDict()
        self._asking = asyncio.Semaphore(MAX_ASKING)

    async def permission(self, url_key: str) -> Permission:
        """Whether `url_key` may be fetched."""
        if self._mode == "remote" and is_loopback(url_key):
            return Permission("not_asked", "this machine's own host")
        rules = await self._of(f"{url_key.split(':', 1)[0]}://{host_of(key_of(url_key))}")
        if rules.parsed is None:
            return Permission(rules.verdict, rules.said)
        return _judged(rules, url_key, self._agent)

    async def _of(self, origin: str) -> _Rules:
        known = self._rules.get(origin)
        if known is None or (known.done() and (known.cancelled() or self._is_over(known.result()))):
            self._rules[origin] = known = asyncio.ensure_future(self._ask(origin))
            while len(self._rules) > MAX_HOSTS_KEPT and next(iter(self._rules.values())).done():
                self._rules.popitem(last=False)
        self._rules.move_to_end(origin)
        # shielded: a page that gives up must not take the answer away from its neighbours
        return await asyncio.shield(known)

    def _is_over(self, rules: _Rules) -> bool:
        return self._now().timestamp() >= rules.until

    async def _ask(self, origin: str) -> _Rules:
        async with self._asking:
            answer = await asyncio.to_thread(self._stored, origin)
            if answer is None:
                url = f"{origin}/robots.txt"
                try:
                    answer = await self._fetched(origin, url)
                except FetchFailed as error:
                    until = self._now() + ASKED_AGAIN
                    return _Rules("unreachable", f"{url} {error}", until.timestamp())
                await asyncio.to_thread(self._keep, answer)
        until_seconds = answer.asked_at + KEPT.total_seconds()
        if answer.text is None:
            return _Rules("allowed", answer.said, until_seconds)
        parsed = Protego.parse(answer.text)
        return _Rules("allowed", answer.said, until_seconds, parsed, _content_signal(answer.text, parsed, self._agent))

    async def _fetched(self, origin: str, url: str) -> RobotsAnswer:
        """What the host answers. Raises FetchFailed where it cannot be asked, 5xx included."""
        asked_at = self._now().timestamp()
        try:
            fetched = await self._fetcher.fetch(url, MAX_ROBOTS_BYTES, self._budget)
        except TooManyRedirects as error:
            # RFC 9309 section 2.3.1.2: may be taken as unavailable
            return RobotsAnswer(origin, asked_at, f"{url} {error}", None)
        if 400 <= fetched.status < 500:
            return RobotsAnswer(origin, asked_at, f"{url} answered {fetched.status}", None)
        if not 200 <= fetched.status < 300:
            raise FetchFailed(f"answered {fetched.status}")
        # a byte order mark hides the first group from the parser (measured with protego 0.7.0)
        text = fetched.body.decode("utf-8", "replace").removeprefix("\ufeff").replace("\x00", "")
        return RobotsAnswer(origin, asked_at, url, text.replace("\r\n", "\n").replace("\r", "\n"))

    def _stored(self, origin: str) -> RobotsAnswer | None:
        """The newest answer of the store that is not over. The cache is an extra: without it the host is asked."""
        if self._store is None:
            return None
        least = self._now().timestamp() - KEPT.total_seconds()
        try:
            for path in reversed(list(self._store.list(robots_of_host(host_hash(origin))))):
                data = self._store.read(path)
                answer = RobotsAnswer.decode(data) if data is not None else None
                if answer is not None and answer.origin == origin and answer.asked_at > least:
                    return answer
        except (StoreError, ValueError, TypeError) as error:
            _LOG.warning("the kept robots.txt of %s cannot be used: %s", origin, error)
        return None

    def _keep(self, answer: RobotsAnswer) -> None:
        """Stores an answer for the other workers and the next run, in place of those that are over."""
        if self._store is None:
            return
        of_host = host_hash(answer.origin)
        try:
            older = list(self._store.list(robots_of_host(of_host)))
            self._store.put_if_absent(robots_path(of_host, answer.asked_at), answer.encode())
            for path in older:
                self._store.delete(path)
        except StoreError as error:
            _LOG.warning("the robots.txt of %s was not kept: %s", answer.origin, error)

    async def close(self) -> None:
        """Ends what is under way."""
        for task in self._rules.values():
            task.cancel()
        await asyncio.gather(*self._rules.values(), return_exceptions=True)


def _judged(rules: _Rules, url_key: str, agent: str) -> Permission:
    parsed = rules.parsed
    delay = parsed.crawl_delay(agent) or 0.0
    if delay > MAX_DELAY_SECONDS:
        reason = f"Crawl-delay: {delay:g} in {rules.said} is more than the {MAX_DELAY_SECONDS:g} s that are waited"
        return Permission("denied", reason, content_signal=rules.content_signal)
    allowed = bool(parsed.can_fetch(url_key, agent))
    reason = f"{_matched_rule(parsed, url_key, agent)} in {rules.said}"
    return Permission(
        "allowed" if allowed else "denied", reason, timedelta(seconds=delay), content_signal=rules.content_signal
    )


def _matched_rule(parsed: Any, url_key: str, agent: str) -> str:
    """The rule that decided, as `Disallow: /a`.

    The parser keeps it to itself, so that its own rules are gone through once more, in the order of their length; the
    version is pinned, and a test holds what is read here.
    """
    from protego._utils import _quote_path

    group = parsed._get_matching_rule_set(agent)
    path = _quote_path(url_key)
    for rule in group._rules if group is not None else ():
        if rule.value.match(path):
            return f"{rule.field.capitalize()}: {rule.value._pattern}"
    return "no rule"


def _content_signal(text: str, parsed: Any, agent: str) -> str | None:
    """The Content-Signal lines of the group that counts for an agent, joined; the parser does not know them.

    Source: contentsignals.org; a group starts where a User-agent line follows another line (RFC 9309 section 2.2.1).
    """
    if "content-signal" not in text.lower():
        return None
    group = parsed._get_matching_rule_set(agent)
    ours = group.user_agent if group is not None else "*"
    signals: list[str] = []
    agents: set[str] = set()
    in_agents = False
    for line in text.split("\n"):
        name, colon, value = line.partition("#")[0].partition(":")
        name, value = name.strip().lower(), value.strip()
        if name == "user-agent":
            agents = agents | {value.lower()} if in_agents else {value.lower()}
            in_agents = True
        elif colon and name:
            in_agents = False
            if name == "content-signal" and value and ours in agents:
                signals.append(value)
    return ", ".join(signals) or None
