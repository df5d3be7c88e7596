"""A marker makes the files of a batch part of the dataset; it is the only thing that readers start from."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import TypeVar

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
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise StoreDamaged(f"The commit marker {where} is not readable; restore it or delete it.") from error
        if version > SCHEMA_VERSION:
            raise StoreMismatch(
                f"The commit marker {where} has schema version {version} and this pagestate knows {SCHEMA_VERSION};"
                " use a newer pagestate."
            )
        try:
            files = tuple(_typed(CommittedFile(**f)) for f in raw.pop("files"))
            marker = cls(files=files, **{f.name: raw[f.name] for f in fields(cls) if f.name != "files"})
            counts = marker.outcomes.items()
            if not all(isinstance(name, str) and type(count) is int for name, count in counts):
                raise TypeError("outcomes")
            return _typed(marker)
        except (AttributeError, KeyError, TypeError) as error:
            raise StoreDamaged(
                f"The commit marker {where} lacks a field or has one of another type; restore it or delete it."
            ) from error


_Value = TypeVar("_Value", Marker, CommittedFile)


def _typed(value: _Value) -> _Value:
    """The value itself; TypeError where a number or a text is of another type."""
    for f in fields(value):
        if f.type in ("int", "str") and type(getattr(value, f.name)).__name__ != f.type:
            raise TypeError(f.name)
    return value
