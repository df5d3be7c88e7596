"""The host gate, without any host: nothing here contacts anybody."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from schemas.policy import Policy, SitePolicy
from schemas.settings import RunSettings
from workers import politeness
from workers.politeness import HostGate, Pace, pace_of

SLOW = Pace(1, timedelta(seconds=3))


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self._sleep = asyncio.sleep
        monkeypatch.setattr(politeness.asyncio, "sleep", self.sleep)

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        until = self.now + seconds
        await self._sleep(0)
        self.now = max(self.now, until)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


async def test_starts_on_one_host_keep_their_distance(clock):
    gate = HostGate(clock)
    starts = []
    for _ in range(3):
        async with gate.entered("https://h.test/page", SLOW):
            starts.append(clock.now)
    assert starts == [100.0, 103.0, 106.0]


async def test_a_page_that_took_long_owes_no_further_wait(clock):
    gate = HostGate(clock)
    async with gate.entered("https://h.test/1", SLOW):
        clock.now += 10
    async with gate.entered("https://h.test/2", SLOW):
        assert clock.now == 110.0


async def test_hosts_do_not_wait_for_each_other(clock):
    """A port makes another host, and so does a name; what differs only in the path does not."""
    gate = HostGate(clock)
    for url in ("https://h.test/", "https://h.test:444/", "https://www.h.test/"):
        async with gate.entered(url, SLOW):
            assert clock.now == 100.0
    async with gate.entered("https://h.test/other", SLOW):
        assert clock.now == 103.0


@pytest.mark.parametrize("allowed", [1, 2, 3])
async def test_no_more_pages_of_a_host_than_allowed_are_in_flight(allowed):
    gate = HostGate(lambda: 0.0)
    run = RunSettings(host_concurrency=allowed, host_delay=timedelta(0))
    inside: Counter[str] = Counter()
    most: Counter[str] = Counter()

    async def visit(host: str, url: str) -> None:
        async with gate.entered(url, pace_of(url, run, run.policy, timedelta(0))):
            inside[host] += 1
            most[host] = max(most[host], inside[host])
            await asyncio.sleep(0.01)
            inside[host] -= 1

    hosts = {"far": "https://h.test/{}", "near": "http://127.0.0.1:8000/{}", "name": "http://localhost/{}"}
    await asyncio.gather(*(visit(host, url.format(n)) for host, url in hosts.items() for n in range(8)))
    assert most == {"far": allowed, "near": 8, "name": 8}


async def test_a_page_given_up_while_it_waits_frees_its_place():
    gate, pace = HostGate(lambda: 0.0), Pace(1, timedelta(0))
    async with gate.entered("https://h.test/1", pace):
        waiting = asyncio.ensure_future(gate.entered("https://h.test/2", pace).__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(10), gate.entered("https://h.test/3", pace):
        pass


async def test_a_page_whose_turn_comes_too_late_is_told_at_once(clock):
    """It neither waits nor moves the turn of the next page."""
    gate = HostGate(clock)
    async with gate.entered("https://h.test/1", SLOW, until=102.0) as turn:
        assert turn is not None
    async with gate.entered("https://h.test/2", SLOW, until=102.0) as turn:
        assert (turn, clock.now) == (None, 100.0)
    async with gate.entered("https://h.test/3", SLOW, until=104.0) as turn:
        assert turn is not None
        assert clock.now == 103.0


async def test_a_navigation_that_began_late_moves_the_next_one(clock):
    """A browser may take long to start: the delay is between navigations, not between the turns of their pages."""
    gate, pace, begun = HostGate(clock), Pace(2, timedelta(seconds=3)), []
    async with gate.entered("https://h.test/1", pace) as first:
        assert first is not None
        clock.now += 2.5
        await first.come()
        begun.append(clock.now)
        async with gate.entered("https://h.test/2", pace) as second:
            assert second is not None
            await second.come()
            begun.append(clock.now)
            await second.come()
            begun.append(clock.now)
    async with gate.entered("https://h.test/3", pace):
        begun.append(clock.now)
    assert begun == [102.5, 105.5, 108.5, 111.5]


async def test_what_another_process_may_have_visited_is_left_alone_for_the_delay(clock):
    gate = HostGate(clock)
    async with gate.entered("https://h.test/1", SLOW, since=99.0):
        assert clock.now == 102.0
    async with gate.entered("https://h.test/2", SLOW, until=106.0, since=104.0) as turn:
        assert (turn, clock.now) == (None, 102.0)
    async with gate.entered("http://127.0.0.1/", None, since=102.0):
        assert clock.now == 102.0


SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("url", "crawl_delay", "expected"),
    [
        ("https://far.test/", 0, Pace(1, SECOND)),
        ("https://far.test/", 7, Pace(1, 7 * SECOND)),
        ("https://own.test/", 0, Pace(5, 0 * SECOND)),
        ("https://own.test/", 7, Pace(5, 7 * SECOND)),
        ("http://127.0.0.1:8/", 0, None),
        ("http://127.0.0.1:8/", 7, Pace(4, 7 * SECOND)),
        ("http://127.0.0.2/", 0, Pace(4, 2 * SECOND)),
    ],
)
def test_whose_pace_counts(url, crawl_delay, expected):
    """The policy's before the run's, and a longer delay of robots.txt before both."""
    own = SitePolicy(("own.test",), "ours", delay=timedelta(0), concurrency=5)
    slow = SitePolicy(("127.0.0.2",), "ours", delay=2 * SECOND)
    policy = Policy(sites=(own, slow))
    assert pace_of(url, RunSettings(), policy, crawl_delay * SECOND) == expected
