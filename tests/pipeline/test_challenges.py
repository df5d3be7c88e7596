"""A challenge is labelled and left, and its host is left alone; so is one that says when to come again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from schemas.settings import CrawlSettings, RunSettings
from workers.back_off import CHALLENGE_SECONDS, MAX_SECONDS, BackOff, retry_after_seconds

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
URL = "http://h.example/1"


@pytest.mark.browser
def test_a_challenge_is_an_outcome_and_its_host_is_left_alone(crawled, open_site):
    """No row of such a page looks like content, and its host is asked for nothing more (pain 36)."""
    guarded, open_host = open_site("127.0.0.1"), open_site("127.0.0.2")
    body = "<title>Just a moment...</title><p>Checking your browser</p>"
    first = guarded.page("/0", body, status=403, headers={"cf-mitigated": "challenge"})
    others = [guarded.page(f"/{n}", "<p>text</p>") for n in (1, 2)]
    elsewhere = open_host.page("/", "<p>text</p>")
    done = crawled(
        [first, *others, elsewhere],
        CrawlSettings(batch_deadline=timedelta(seconds=CHALLENGE_SECONDS / 2), lanes=1),
        RunSettings(concurrency=1, processes=1),
    )
    rows = [row for row in done.table("listings") if row["round"] == 0]
    told = {row["url_key"]: (row["outcome"], row["outcome_detail"], row["retryable"]) for row in rows}
    assert told[first] == ("challenge", "cf-mitigated: challenge", True)
    assert told[elsewhere][0] == "ok"
    assert {told[url][0] for url in others} == {"deferred"}
    assert "left alone" in told[others[0]][1]


def test_each_challenge_doubles_the_time():
    seconds = 0.0
    back_off = BackOff(lambda: seconds)
    assert back_off.seconds_left(URL) == 0
    back_off.note(URL, "challenge", None)
    assert back_off.seconds_left("http://h.example/2") == CHALLENGE_SECONDS
    back_off.note(URL, "challenge", None)
    assert back_off.seconds_left(URL) == 2 * CHALLENGE_SECONDS
    assert back_off.seconds_left("http://other.example/") == 0
    seconds = 2 * CHALLENGE_SECONDS
    assert back_off.seconds_left(URL) == 0


def test_a_host_that_says_when_to_come_again_is_believed_so_far():
    back_off = BackOff(lambda: 0.0)
    back_off.note(URL, "http_error", 3.0)
    assert back_off.seconds_left(URL) == 3.0
    back_off.note(URL, "http_error", 1e9)
    assert back_off.seconds_left(URL) == MAX_SECONDS
    back_off.note("http://ok.example/", "ok", None)
    assert back_off.seconds_left("http://ok.example/") == 0


@pytest.mark.parametrize(
    ("status", "said", "seconds"),
    [
        (503, "2", 2.0),
        (429, "Fri, 02 Jan 2026 03:05:05 GMT", 60.0),
        (429, "Thu, 01 Jan 2026 00:00:00 GMT", 0.0),
        (503, "soon", None),
        (503, "-1", None),
        (503, "", None),
        (500, "2", None),
        (503, "9" * 400, 999_999_999_999.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(status, said, seconds):
    assert retry_after_seconds(status, {"retry-after": said}, NOW) == seconds
