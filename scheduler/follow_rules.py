"""Which links are followed: rules over URL keys alone, so that the same rows give the same plan whatever their order.

A link may be followed that leads to a host of the seeds, that the policy permits and that nobody asked not to follow.
Of these a crawl takes only so many: of one path with different queries, of paths that differ in digits only, of a host,
and in all. Each of these groups lies within the next, and in each the shortest URLs come first, then the alphabet; so
what is chosen does not depend on where a process was killed that began to plan it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from schemas.policy import NO_POLICY, Policy
from schemas.urls import host_of, site_of

Refusal: TypeAlias = Literal[
    "out_of_scope",
    "policy",
    "nofollow",
    "too_long",
    "repeating_path",
    "query_variants",
    "digit_variants",
    "host_budget",
    "total_budget",
]
REFUSALS: tuple[Refusal, ...] = get_args(Refusal)
"""Why a link is not followed. From `too_long` to `digit_variants` it looks like a trap: endless URLs of one page."""

MAX_URL_CHARS: Final = 2048
"""What a sitemap may name at most (sitemaps.org, `loc`)."""
MAX_SEGMENTS: Final = 20
"""Heritrix 3, TooManyPathSegmentsDecideRule."""
REPEATS: Final = 3
"""One after the other; Heritrix 3, PathologicalPathDecideRule, refuses more than two."""
_DIGITS: Final = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class FollowSettings:
    """What shapes which pages are planned, but no row.

    depth            links that lead from a seed to the last pages; 0 follows none
    scope            `host`: the hosts of the seeds; `site`: their registrable domains
    per_host, total  pages that are planned because of a link, in all rounds of the crawl
    query_variants   of these, with queries, of one path
    digit_variants   of these, of paths that differ in digits only
    """

    depth: int = 0
    scope: Literal["host", "site"] = "host"
    per_host: int = 1000
    total: int = 100_000
    query_variants: int = 50
    digit_variants: int = 200


@dataclass(frozen=True, slots=True)
class Scope:
    """Where links may lead. `hosts` are those of the seeds."""

    hosts: frozenset[str]
    sites: frozenset[str] = frozenset()
    policy: Policy = NO_POLICY

    @classmethod
    def of(cls, hosts: Iterable[str], kind: Literal["host", "site"], policy: Policy) -> Scope:
        """The scope that the hosts of the seeds make."""
        own = frozenset(hosts)
        sites = frozenset(site_of(f"http://{host}/") for host in own) if kind == "site" else frozenset()
        return cls(own, sites, policy)

    def refusal(self, key: str) -> Refusal | None:
        """Why a URL key is not followed whoever links to it."""
        if host_of(key) not in self.hosts and not (self.sites and site_of(key) in self.sites):
            return "out_of_scope"
        if self.policy.refusal(key):
            return "policy"
        return trap_of(key)


def trap_of(key: str) -> Refusal | None:
    """Whether a URL key looks like a trap by itself."""
    segments = _path(key).split("/")[1:]
    if len(key) > MAX_URL_CHARS or len(segments) > MAX_SEGMENTS:
        return "too_long"
    for size in range(1, len(segments) // REPEATS + 1):
        for start in range(len(segments) - REPEATS * size + 1):
            block = segments[start : start + size]
            # a date and an hour may well be /2026/01/01/01
            if segments[start : start + REPEATS * size] == block * REPEATS and not all(map(str.isdigit, block)):
                return "repeating_path"
    return None


def _path(key: str) -> str:
    """The path of a URL key, without its query."""
    return "/" + key.partition("?")[0].partition("://")[2].partition("/")[2]


class Seen(NamedTuple):
    """A link, or a page that is planned already; of one URL key there may be many.

    They sort so that every group stands together, and of one key what counts most first. `digits` is the path with its
    numbers taken out, `planned` is 2 for a page of the round that is being planned, 1 for one of another, 0 for a link.
    """

    host: str
    digits: str
    path: str
    length: int
    key: str
    not_planned: int
    refusal: str
    depth: int

    @classmethod
    def link(cls, key: str, refusal: Refusal | None, depth: int) -> Seen:
        """A link to a page that would have this depth."""
        return cls(*_groups(key), NOT_PLANNED, refusal or "", depth)

    @classmethod
    def page(cls, key: str, depth: int, in_this_round: bool) -> Seen:
        """A page that is planned."""
        return cls(*_groups(key), PLANNED_NOW if in_this_round else PLANNED_BEFORE, "", depth)


PLANNED_BEFORE, PLANNED_NOW, NOT_PLANNED = range(3)


@lru_cache(maxsize=65_536)
def _groups(key: str) -> tuple[str, str, str, int, str]:
    # the links that every page of a site has come back batch after batch
    path = _path(key)
    return host_of(key), _DIGITS.sub("0", path), path, len(key), key


@dataclass(slots=True)
class Found:
    """What became of the links of a round: how many there were, each URL key once, and why how many are not followed.

    `known` are planned in another round already; `examples` hold the first URL key of each refusal.
    """

    links: int = 0
    known: int = 0
    planned: int = 0
    refused: Counter[Refusal] = field(default_factory=Counter)
    examples: dict[Refusal, str] = field(default_factory=dict)

    def refuse(self, reason: Refusal, key: str) -> None:
        """Counts a link that is not followed."""
        self.refused[reason] += 1
        before = self.examples.get(reason)
        if before is None or (len(key), key) < (len(before), before):
            self.examples[reason] = key


class _Link(NamedTuple):
    """A link that may be followed; the smallest is the first. `turn` and `host` count among those of all hosts only."""

    turn: int
    host: str
    length: int
    key: str
    depth: int


class _Best:
    """The first few of many, in order; the others are counted as refused as that becomes clear."""

    def __init__(self, limit: int, reason: Refusal, found: Found) -> None:
        self._limit = limit
        self._reason: Refusal = reason
        self._found = found
        self._kept: list[_Link] = []
        self.taken = 0
        """Places that pages have which are planned already."""

    def add(self, link: _Link) -> None:
        self._kept.append(link)
        if len(self._kept) >= 2 * self._limit + 1000:
            self._cut(self._limit)

    def first(self) -> list[_Link]:
        """Those that there are places for."""
        self._cut(max(0, self._limit - self.taken))
        return self._kept

    def _cut(self, places: int) -> None:
        self._kept.sort()
        for link in self._kept[places:]:
            self._found.refuse(self._reason, link.key)
        del self._kept[places:]


def followed(seen: Iterable[Seen], settings: FollowSettings, found: Found) -> Iterator[tuple[str, int]]:
    """The URL keys to plan, each with its depth, from what was seen, sorted; what becomes of the rest goes to `found`.

    Memory is for the pages that are planned, not for those that were seen.
    """
    in_all = _Best(settings.total, "total_budget", found)
    for host, of_host in groupby(seen, key=lambda one: one.host):
        best = _Best(settings.per_host, "host_budget", found)
        for digits, of_pattern in groupby(of_host, key=lambda one: one.digits):
            alike = _Best(settings.digit_variants, "digit_variants", found) if "0" in digits else None
            wider = [alike, best, in_all] if alike else [best, in_all]
            for _, of_path in groupby(of_pattern, key=lambda one: one.path):
                variants = _Best(settings.query_variants, "query_variants", found)
                for link in _links(of_path, found, [variants, *wider]):
                    # a page without a query is no variant of its path
                    (variants if "?" in link.key else wider[0]).add(link)
                for link in variants.first():
                    wider[0].add(link)
            for link in alike.first() if alike else ():
                best.add(link)
        # turn by turn, so that no host takes the places of the others
        for turn, link in enumerate(best.first(), start=best.taken):
            in_all.add(link._replace(turn=turn, host=host))
    for link in in_all.first():
        found.planned += 1
        yield link.key, link.depth


def _links(seen: Iterable[Seen], found: Found, groups: list[_Best]) -> Iterator[_Link]:
    """The links of one path that may be followed, each URL key once; pages that a link brought take their places."""
    for key, same in groupby(seen, key=lambda one: one.key):
        rows = list(same)
        first, link = rows[0], next((row for row in rows if row.not_planned == NOT_PLANNED), None)
        found.links += link is not None
        if first.not_planned != NOT_PLANNED:
            if first.depth:
                for group in groups if "?" in key else groups[1:]:
                    group.taken += 1
            if link is not None:
                if first.not_planned == PLANNED_NOW and first.depth:
                    found.planned += 1
                else:
                    found.known += 1
        elif link is not None and link.refusal:
            found.refuse(link.refusal, key)  # type: ignore[arg-type]  # of the closed set
        elif link is not None:
            yield _Link(0, "", link.length, key, link.depth)
