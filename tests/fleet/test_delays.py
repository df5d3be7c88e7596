"""A host's delay holds from batch to batch, on whichever workers they are."""

from __future__ import annotations

from datetime import timedelta

from workers.politeness import HostGate, Pace

PACE = Pace(1, timedelta(seconds=5))
URLS = ["http://a.example/1", "http://b.example/1"]


async def test_a_gate_owes_its_hosts_what_is_left_of_their_delays():
    now = 100.0
    gate = HostGate(lambda: now)
    assert gate.owed(URLS) == 0
    async with gate.entered(URLS[0], PACE) as in_time:
        assert in_time
    now = 102.0
    assert gate.owed(URLS) == 3
    assert gate.owed(URLS[1:]) == 0
    now = 106.0
    assert gate.owed(URLS) == 0


async def test_a_host_that_another_has_just_visited_is_held():
    now = 100.0
    gate = HostGate(lambda: now)
    gate.hold(URLS[0], PACE, 98.0)
    async with gate.entered(URLS[0], PACE, until=102.9) as in_time:
        assert not in_time
    # what is owed already is not made less, and who has no pace owes nothing
    gate.hold(URLS[0], PACE, 90.0)
    gate.hold(URLS[1], None, 99.0)
    assert gate.owed(URLS) == 3
