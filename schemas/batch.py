"""A batch is an ordered list of at most `batch_size` pages of one lane: the unit of work, of delivery and of commit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from schemas.profiles import Profile


@dataclass(frozen=True, slots=True)
class PlannedPage:
    """One URL of a batch: its key, the seed as it was given (without userinfo), and the profiles that it still lacks.

    No profiles means all of the crawl's.
    depth   links that lead to it from a seed; a seed has 0
    tries   earlier rounds in which it failed for a time
    """

    url_key: str
    seed: str
    profiles: tuple[str, ...] = ()
    depth: int = 0
    tries: int = 0

    def looks(self, profiles: Sequence[Profile]) -> list[Profile]:
        """Those of a crawl's profiles that the page is to be captured under."""
        return [profile for profile in profiles if not self.profiles or profile.name in self.profiles]


@dataclass(frozen=True, slots=True)
class Batch:
    """The unit of work. `batch_id` is a pure function of the other fields (schemas.identifiers.batch_id)."""

    crawl: str
    round: int
    lane: int
    sequence: int
    batch_id: str
    pages: tuple[PlannedPage, ...]

    def encode(self) -> bytes:
        """The batch as JSON, for a message."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> Batch:
        """The batch of a message; an unknown or missing field is an error."""
        raw = json.loads(data)
        pages = tuple(PlannedPage(**page | {"profiles": tuple(page["profiles"])}) for page in raw.pop("pages"))
        return cls(pages=pages, **raw)
