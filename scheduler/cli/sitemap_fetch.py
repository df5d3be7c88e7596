"""Sitemaps are fetched as pages are: only where the policy and robots.txt permit it, and under a cap."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from scheduler.sitemaps import MAX_SITEMAP_BYTES, Fetch, NoSitemap
from schemas.settings import CrawlSettings, RunSettings


@contextmanager
def sitemap_fetcher(settings: CrawlSettings, run: RunSettings) -> Iterator[Fetch]:
    """A function that fetches one sitemap after the other; nothing is opened before the first."""
    from workers.fetching import Fetcher, FetchFailed
    from workers.permission import Robots

    policy = run.policy
    fetcher: Fetcher | None = None
    robots: Robots | None = None

    async def fetch(url: str) -> bytes:
        nonlocal fetcher, robots
        if refusal := policy.refusal(url):
            raise NoSitemap(refusal)
        if fetcher is None or robots is None:
            fetcher = Fetcher(policy.user_agent or policy.identity)
            robots = Robots(settings.robots, settings.budgets.permission, fetcher, agent=policy.agent)
        permission = await robots.permission(url)
        if not permission.granted:
            raise NoSitemap(f"robots.txt does not permit it: {permission.reason}")
        try:
            fetched = await fetcher.fetch(url, MAX_SITEMAP_BYTES, settings.budgets.navigate)
        except FetchFailed as error:
            raise NoSitemap(f"it {error}") from error
        if not fetched.body:
            raise NoSitemap(f"it answered {fetched.status} and nothing")
        if fetched.is_cut:
            raise NoSitemap(f"it is larger than {MAX_SITEMAP_BYTES} bytes")
        return fetched.body

    async def close() -> None:
        if robots is not None and fetcher is not None:
            await robots.close()
            await fetcher.close()

    with asyncio.Runner() as runner:
        try:
            yield lambda url: runner.run(fetch(url))
        finally:
            runner.run(close())
