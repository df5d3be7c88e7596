"""A host that shows a challenge, or says when to come again, is left alone for a while; its pages wait or are deferred.

Nothing of a challenge is answered: asking less is all that a polite visitor can do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from schemas.outcomes import Outcome
from schemas.urls import host_of

CHALLENGE_SECONDS = 60.0
"""After the first challenge; each further one of the same host doubles it."""
MAX_SECONDS = 900.0
"""A host that names a time beyond this is not waited for within a run."""


class BackOff:
    """Until when which hosts are left alone. `clock` counts seconds and never goes back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}
        self._challenges: dict[str, int] = {}

    def note(self, url_key: str, outcome: Outcome, retry_after_seconds: float | None) -> None:
        """Takes note of how a page ended."""
        host = host_of(url_key)
        if outcome == "challenge":
            count = self._challenges[host] = self._challenges.get(host, 0) + 1
            self._leave_alone(host, CHALLENGE_SECONDS * 2.0 ** min(count - 1, 10))
        elif retry_after_seconds is not None and outcome == "http_error":
            self._leave_alone(host, retry_after_seconds)

    def _leave_alone(self, host: str, seconds: float) -> None:
        until = self._clock() + min(seconds, MAX_SECONDS)
        self._until[host] = max(until, self._until.get(host, until))

    def seconds_left(self, url_key: str) -> float:
        """How long the host of a URL is still left alone; 0 for most."""
        until = self._until.get(host_of(url_key))
        return 0.0 if until is None else max(0.0, until - self._clock())


def retry_after_seconds(status: int | None, headers: Mapping[str, str], now: datetime) -> float | None:
    """What the Retry-After header of a refusal asks for, RFC 9110 section 10.2.3; None without one that makes sense."""
    said = headers.get("retry-after", "").strip()
    if status not in (429, 503) or not said:
        return None
    if said.isascii() and said.isdigit():
        return float(said[:12])
    try:
        when = parsedate_to_datetime(said)
    except ValueError:
        return None
    return max(0.0, ((when if when.tzinfo else when.replace(tzinfo=UTC)) - now).total_seconds())
