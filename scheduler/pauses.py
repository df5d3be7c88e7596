"""Rounds that try again what failed come after growing pauses, and a crawl that captures nothing any more ends."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from scheduler.next_round import DEFERRED

LONGEST_PAUSE_SECONDS: Final = 600.0
"""Before a round that tries pages again, however many there were; what chance adds comes on top."""
MAX_IDLE_ROUNDS: Final = 6
"""Rounds of a run, one after the other, in which every page was put off. With the default pauses these are 25 minutes,
longer than any host is left alone (workers.back_off.MAX_SECONDS)."""


def pause_seconds(first: float, times: int, chance: float) -> float:
    """How long to wait before pages are tried the time number `times` (from 1), twice as long each time.

    `chance` (0 to 1) adds up to a quarter, so that crawls of one site do not come back in step.
    """
    return min(LONGEST_PAUSE_SECONDS, first * 2.0 ** (times - 1)) * (1 + chance / 4)


@dataclass(slots=True)
class Idleness:
    """How many rounds of this run, up to the last one, have captured nothing."""

    rounds: int = 0

    def note(self, outcomes: Counter[str]) -> None:
        """Takes note of how the pages of a round ended that was run."""
        self.rounds = self.rounds + 1 if outcomes and outcomes.keys() <= DEFERRED else 0

    @property
    def is_over(self) -> bool:
        """Whether another round would not help either."""
        return self.rounds > MAX_IDLE_ROUNDS
