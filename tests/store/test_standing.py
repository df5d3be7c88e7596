"""How a crawl stands is told from its store alone: what is done, how fast, which lanes do not move."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from scheduler.cli import main
from scheduler.rounds import plan_round
from scheduler.standing import standing
from schemas.batch import PlannedPage
from schemas.settings import CrawlSettings
from workers.store import commit_batch, open_crawl

SETTINGS = CrawlSettings(lanes=64, batch_size=2)
URLS = [f"http://{host}.org/{n}" for host in ("a", "b") for n in range(4)]
NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.fixture
def batches(store):
    open_crawl(store, "test", SETTINGS, now=NOW)
    made = plan_round(store, "test", 0, [PlannedPage(url, url) for url in URLS], SETTINGS)
    assert [len([b for b in made if b.lane == lane]) for lane in sorted({b.lane for b in made})] == [2, 2]
    return made


def test_rate_and_time_left_come_from_the_last_minutes(store, batches, make_records):
    first, *_, last = batches
    commit_batch(store, first, "ab" * 16, make_records(first), now=NOW - timedelta(seconds=100))
    commit_batch(store, last, "ab" * 16, make_records(last), now=NOW - timedelta(seconds=50))
    (one,) = standing(store, SETTINGS, NOW)
    assert (one.pages, one.committed, one.waiting_batches, one.lanes, one.lanes_left) == (8, 4, 2, 2, 2)
    assert one.outcomes == {"ok": 4}
    assert one.pages_per_second == pytest.approx(4 / 100)
    assert one.seconds_left == pytest.approx(100)
    assert one.last_commit == NOW - timedelta(seconds=50)
    assert one.stalled_lanes == ()


def test_a_lane_that_stands_still_while_others_move_is_named(store, batches, make_records):
    first, *_, last = batches
    commit_batch(store, first, "ab" * 16, make_records(first), now=NOW - timedelta(hours=1))
    commit_batch(store, last, "ab" * 16, make_records(last), now=NOW - timedelta(minutes=1))
    (one,) = standing(store, SETTINGS, NOW)
    assert one.stalled_lanes == (first.lane,)


def test_before_the_first_commit_nothing_is_guessed(store, batches):
    (one,) = standing(store, SETTINGS, NOW)
    assert (one.pages_per_second, one.seconds_left, one.last_commit, one.stalled_lanes) == (0, None, None, ())


def test_watching_ends_when_nothing_is_left(store, batches, make_records, capsys):
    for batch in batches:
        commit_batch(store, batch, "ab" * 16, make_records(batch), now=NOW)
    assert main(["status", "--store", store.where, "--watch", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["waiting"] == 0
    assert main(["status", "--store", store.where, "--watch"]) == 0
    assert "Committed" in capsys.readouterr().out
