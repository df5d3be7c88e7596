"""A spooled payload lies in a file until the process that merges it maps it into memory."""

from __future__ import annotations

import errno
import mmap
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from schemas.capture import Buffer

SPOOL_ABOVE_BYTES = 2 * 1024 * 1024
"""Smaller replies are cheaper to pass through a pipe than through a file."""


FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors that say that the disk, the quota or the process's limit has no room for a file."""


@dataclass(frozen=True, slots=True)
class Spooled:
    """One payload in a file of its own. Size in bytes."""

    path: str
    size: int

    @classmethod
    def write(cls, folder: Path, data: Buffer) -> Self:
        """Writes a payload to a new file in `folder`. Raises OSError, and leaves nothing then."""
        with tempfile.NamedTemporaryFile(dir=folder, prefix="payload-", delete=False) as file:
            try:
                file.write(data)
                file.flush()
            except OSError:
                Path(file.name).unlink()
                raise
        return cls(file.name, len(data))

    def map(self) -> memoryview:
        """The payload as read-only memory, read from the file only as it is touched."""
        with Path(self.path).open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def delete(self) -> None:
        """Removes the file; mapped memory stays valid."""
        Path(self.path).unlink(missing_ok=True)

    def read_and_delete(self) -> bytes:
        """The payload as bytes, the file removed."""
        data = Path(self.path).read_bytes()
        self.delete()
        return data


def buffer_of(data: bytes | Spooled) -> Buffer:
    """The payload itself, wherever it lies."""
    return data if isinstance(data, bytes) else data.map()


def size_of(data: bytes | Spooled) -> int:
    """The payload's size in bytes."""
    return len(data) if isinstance(data, bytes) else data.size
