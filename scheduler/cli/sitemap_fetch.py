"""Sitemaps are fetched as pages are: only where the policy and robots.txt permit it, and under a cap."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from scheduler.sitemaps import MAX_SITEMAP_BYTES, Fetch, NoSitemap
from schemas.settings import CrawlSettings, RunSettings

if TYPE_CHECKING:
    from workers.egress.guard import Guard


@contextmanager
def sitemap_fetcher(settings: CrawlSettings, run: RunSettings) -> Iterator[Fetch]:
    """A function that fetches one sitemap after the other; nothing is opened before the first."""
    from workers.egress.guard import Guard
    from workers.egress.rules import EgressRules
    from workers.fetching import Fetcher, FetchFailed
    from workers.permission import Robots

    policy = run.policy
    guard: Guard | None = None
    fetcher: Fetcher | None = None
    robots: Robots | None = None

    async def fetch(url: str) -> bytes:
        nonlocal guard, fetcher, robots
        if refusal := policy.refusal(url):
            raise NoSitemap(refusal)
        if guard is None or fetcher is None or robots is None:
            guard = await Guard.start(EgressRules.of(run), run.closed)
            fetcher = Fetcher(policy.user_agent or policy.identity, guard)
            robots = Robots(settings.robots, settings.budgets.permission, fetcher, agent=policy.agent)
        permission = await robots.permission(url)
        if not permission.granted:
            _check_reached(guard, url)
            raise NoSitemap(f"robots.txt does not permit it: {permission.reason}")
        try:
            fetched = await fetcher.fetch(url, MAX_SITEMAP_BYTES, settings.budgets.navigate)
        except FetchFailed as error:
            _check_reached(guard, url)
            raise NoSitemap(f"it {error}") from error
        if not fetched.body:
            raise NoSitemap(f"it answered {fetched.status} and nothing")
        if fetched.is_cut:
            raise NoSitemap(f"it is larger than {MAX_SITEMAP_BYTES} bytes")
        return fetched.body

    async def close() -> None:
        for opened in (robots, fetcher, guard):
            if opened is not None:
                await opened.close()

    with asyncio.Runner() as runner:
        try:
            yield lambda url: runner.run(fetch(url))
        finally:
            runner.run(close())


def _check_reached(guard: Guard, url: str) -> None:
    said = guard.failure(url)
    if said is not None and said.outcome == "private_address":
        raise NoSitemap(f"{said.detail}: give --allow-private, or allow it in the policy file")
