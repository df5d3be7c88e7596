"""The rows of `captures`: each raw payload of a page, compressed with Zstandard and hashed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final, cast

import pyarrow as pa

from schemas.capture import PAYLOAD_KINDS, Capture, Payload, PayloadKind
from schemas.errors import StoreDamaged
from schemas.records import Row

ENCODING: Final = "zstd"


def encode_capture(capture: Capture) -> list[Row]:
    """The rows of a capture, without the identity columns."""
    codec = pa.Codec(ENCODING)
    return [
        {
            "position": position,
            "kind": payload.kind,
            "target": payload.target,
            "frame_id": payload.frame_id,
            "encoding": ENCODING,
            "raw_bytes": memoryview(payload.data).nbytes,
            "sha256": hashlib.sha256(payload.data).hexdigest(),
            "data": codec.compress(payload.data, asbytes=True),
        }
        for position, payload in enumerate(capture.payloads)
    ]


def decode_capture(rows: Iterable[Row], where: str) -> Capture:
    """The capture that rows hold, every payload's hash verified. Raises StoreDamaged; `where` names the page."""
    ordered = sorted(rows, key=lambda row: cast(int, row["position"]))
    if [row["position"] for row in ordered] != list(range(len(ordered))):
        raise StoreDamaged(f"The capture of {where} lacks payloads; restore its file from a copy.")
    return Capture(tuple(decode_payload(row, where) for row in ordered))


def decode_payload(row: Row, where: str) -> Payload:
    """The payload that a row holds, its hash verified. Raises StoreDamaged; `where` names the page."""
    kind = row["kind"]
    what = f"The payload {row['position']} ({kind}) of {where}"
    if row["encoding"] != ENCODING or kind not in PAYLOAD_KINDS:
        raise StoreDamaged(f"{what} is of a kind or an encoding that this pagestate does not know; restore its file.")
    try:
        data = cast(Any, pa.Codec(ENCODING)).decompress(row["data"], decompressed_size=row["raw_bytes"], asbytes=True)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise StoreDamaged(f"{what} cannot be decompressed; restore its file from a copy.") from error
    if hashlib.sha256(data).hexdigest() != row["sha256"]:
        raise StoreDamaged(f"{what} does not have the hash it was stored with; restore its file from a copy.")
    return Payload(cast(PayloadKind, kind), data, cast(int, row["target"]), cast(str, row["frame_id"]))
