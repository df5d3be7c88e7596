"""A batch is an ordered list of at most `batch_size` pages of one lane: the unit of work, of delivery and of commit."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class PlannedPage:
    """One URL of a batch: its key, and the seed as it was given (without userinfo)."""

    url_key: str
    seed: str


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
        pages = tuple(PlannedPage(**page) for page in raw.pop("pages"))
        return cls(pages=pages, **raw)
