"""A marker makes the files of a batch part of the dataset; it is the only thing that readers start from."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields

from schemas.errors import StoreDamaged, StoreMismatch
from schemas.version import PAGESTATE_VERSION, SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class CommittedFile:
    """One Parquet file of a batch. `path` is relative to the store, with forward slashes; sizes in bytes."""

    table: str
    path: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Marker:
    """The commit of one batch: which attempt won, what it wrote and how its URLs ended."""

    crawl: str
    round: int
    lane: int
    sequence: int
    batch_id: str
    attempt: str
    files: tuple[CommittedFile, ...]
    outcomes: dict[str, int]
    committed_at: str
    """RFC 3339, UTC; informative, nothing depends on it."""
    schema_version: int = SCHEMA_VERSION
    pagestate_version: str = PAGESTATE_VERSION

    def encode(self) -> bytes:
        """The marker as JSON that DuckDB reads as it is."""
        return json.dumps(asdict(self), indent=1, sort_keys=True).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes, where: str) -> Marker:
        """The marker in a file; `where` names it in errors.

        Raises StoreDamaged where it cannot be read, StoreMismatch where a newer pagestate wrote it.
        """
        try:
            raw = json.loads(data)
            version = int(raw["schema_version"])
        except (ValueError, KeyError, TypeError) as error:
            raise StoreDamaged(f"The commit marker {where} is not readable; restore it or delete it.") from error
        if version > SCHEMA_VERSION:
            raise StoreMismatch(
                f"The commit marker {where} has schema version {version} and this pagestate knows {SCHEMA_VERSION};"
                " use a newer pagestate."
            )
        try:
            files = tuple(CommittedFile(**f) for f in raw.pop("files"))
            return cls(files=files, **{f.name: raw[f.name] for f in fields(cls) if f.name != "files"})
        except (KeyError, TypeError) as error:
            raise StoreDamaged(f"The commit marker {where} lacks a field; restore it or delete it.") from error
