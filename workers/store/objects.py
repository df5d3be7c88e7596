"""An object store holds immutable files under relative paths; a local folder and an S3 prefix are both one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Protocol

from pyarrow.fs import FileSystem


class ObjectStore(Protocol):
    """What the store asks of the place it lies in. Paths are relative, with forward slashes.

    Every method raises StoreError, in one sentence, when the place refuses.
    """

    @property
    def where(self) -> str:
        """The place as the user named it, for messages."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create a file whole, or leave the existing one alone; True if this call created it."""

    def read_tagged(self, path: str) -> tuple[bytes, str] | None:
        """The bytes of a file and the tag of this version of it; None where there is none."""

    def put_if_match(self, path: str, data: bytes, tag: str) -> str | None:
        """Replace the version of a file that has the tag; its new tag, None where that version is gone."""

    def put_file(self, local: Path, path: str) -> None:
        """Move a local file to a path that no other writer uses; durable when this returns."""

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None where there is none."""

    def size_of(self, path: str) -> int | None:
        """The size of a file in bytes; None where there is none."""

    def modified(self, path: str) -> datetime | None:
        """When a file was made, in UTC; None where there is none."""

    def list(self, prefix: str) -> Iterator[str]:
        """Paths of the finished files under a folder, sorted; never a file that is still being written."""

    def delete(self, path: str) -> None:
        """Remove a file; it is no error if there is none."""

    def scratch(self) -> Path:
        """A local folder for files in the making; what lies there is part of nothing."""

    def arrow(self) -> FileSystem:
        """The same place for pyarrow, rooted so that the same relative paths hold."""
