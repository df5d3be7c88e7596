"""Texts are searched in payload bytes at the speed of `bytes.find`, in whatever buffer they lie."""

from __future__ import annotations

import re
from collections.abc import Iterator

from schemas.capture import Buffer

_CHUNK_BYTES = 1 << 20
"""A memory view has no search of its own: it is copied in pieces of this size, so that it costs no memory."""


def contains(data: Buffer, *texts: bytes) -> bool:
    """True if any of the texts stands anywhere in the data."""
    overlap = max(map(len, texts)) - 1
    return any(text in piece for _, piece in _pieces(data, overlap) for text in texts)


def matches(data: Buffer, start: bytes, pattern: re.Pattern[bytes]) -> bool:
    """True if the pattern matches anywhere; each match begins with `start`, so that only such places are looked at."""
    for offset, piece in _pieces(data, len(start) - 1):
        place = piece.find(start)
        while place >= 0:
            if pattern.match(data, offset + place):
                return True
            place = piece.find(start, place + 1)
    return False


def _pieces(data: Buffer, overlap: int) -> Iterator[tuple[int, bytes | bytearray]]:
    """The data in pieces of bytes, with where each starts; each repeats so many bytes of the one before."""
    if isinstance(data, memoryview):
        for end in range(_CHUNK_BYTES, len(data) + _CHUNK_BYTES, _CHUNK_BYTES):
            start = max(0, end - _CHUNK_BYTES - overlap)
            yield start, bytes(data[start:end])
    else:
        yield 0, data
