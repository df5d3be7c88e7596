"""The host gate, without any host: nothing here contacts anybody."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from workers import politeness
from workers.politeness import HostGate


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
    gate = HostGate(1, timedelta(seconds=3), clock)
    starts = []
    for _ in range(3):
        async with gate.entered("https://h.test/page"):
            starts.append(clock.now)
    assert starts == [100.0, 103.0, 106.0]


async def test_a_page_that_took_long_owes_no_further_wait(clock):
    gate = HostGate(1, timedelta(seconds=3), clock)
    async with gate.entered("https://h.test/1"):
        clock.now += 10
    async with gate.entered("https://h.test/2"):
        assert clock.now == 110.0


async def test_hosts_do_not_wait_for_each_other(clock):
    """A port makes another host, and so does a name; what differs only in the path does not."""
    gate = HostGate(1, timedelta(seconds=3), clock)
    for url in ("https://h.test/", "https://h.test:444/", "https://www.h.test/"):
        async with gate.entered(url):
            assert clock.now == 100.0
    async with gate.entered("https://h.test/other"):
        assert clock.now == 103.0


@pytest.mark.parametrize("allowed", [1, 2, 3])
async def test_no_more_pages_of_a_host_than_allowed_are_in_flight(allowed):
    gate = HostGate(allowed, timedelta(0), lambda: 0.0)
    inside: Counter[str] = Counter()
    most: Counter[str] = Counter()

    async def visit(host: str, url: str) -> None:
        async with gate.entered(url):
            inside[host] += 1
            most[host] = max(most[host], inside[host])
            await asyncio.sleep(0.01)
            inside[host] -= 1

    hosts = {"far": "https://h.test/{}", "near": "http://127.0.0.1:8000/{}", "name": "http://localhost/{}"}
    await asyncio.gather(*(visit(host, url.format(n)) for host, url in hosts.items() for n in range(8)))
    assert most == {"far": allowed, "near": 8, "name": 8}


async def test_a_page_given_up_while_it_waits_frees_its_place():
    gate = HostGate(1, timedelta(0), lambda: 0.0)
    async with gate.entered("https://h.test/1"):
        waiting = asyncio.ensure_future(gate.entered("https://h.test/2").__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(10), gate.entered("https://h.test/3"):
        pass
