"""What became of the links of a round is stored beside the plan, for whoever asks how a crawl stands."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from schemas.errors import StoreDamaged
from workers.store import ObjectStore
from workers.store.layout import LINKS


@dataclass(frozen=True, slots=True)
class LinksFound:
    """What became of the links of a round, as it is stored: `sources` are the pages that they were read from."""

    round: int
    batches: int
    sources: int
    unreadable: int
    links: int
    known: int
    planned: int
    refused: dict[str, int]
    examples: dict[str, str]

    def encode(self) -> bytes:
        """The file's bytes."""
        return json.dumps(asdict(self), indent=1, sort_keys=True).encode() + b"\n"


def links_found(store: ObjectStore) -> dict[int, LinksFound]:
    """What became of the links of each round. Where a round grew, or was asked for anew, the last word counts."""
    rounds: dict[int, LinksFound] = {}
    for path in store.list(LINKS):
        data = store.read(path)
        try:
            made = LinksFound(**json.loads(data or b""))
        except (ValueError, TypeError) as error:
            raise StoreDamaged(
                f"The file {path} in {store.where} is not readable; delete it, and the same command makes it again."
            ) from error
        before = rounds.get(made.round)
        if before is None or (before.batches, before.planned, before.encode()) < (
            made.batches,
            made.planned,
            made.encode(),
        ):
            rounds[made.round] = made
    return dict(sorted(rounds.items()))
