"""Texts are searched in payload bytes at the speed of `bytes.find`, in whatever buffer they lie."""

from __future__ import annotations

from collections.abc import Iterator

from schemas.capture import Buffer

_CHUNK_BYTES = 1 << 20
"""A memory view has no search of its own: it is copied in pieces of this size, so that it costs no memory."""


def contains(data: Buffer, text: bytes) -> bool:
    """True if the text stands anywhere in the data."""
    return any(text in piece for _, piece in pieces(data, len(text) - 1))


def pieces(data: Buffer, overlap: int) -> Iterator[tuple[int, bytes | bytearray]]:
    """The data in pieces of bytes, with where each starts; each repeats so many bytes of the one before."""
    if isinstance(data, memoryview):
        for start in range(0, max(1, len(data)), _CHUNK_BYTES):
            yield max(0, start - overlap), bytes(data[max(0, start - overlap) : start + _CHUNK_BYTES])
    else:
        yield 0, data
