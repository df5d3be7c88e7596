"""A probe shows at the start that a place has conditional writes, on which "exactly once" rests.

A server that does not know the condition of a PUT may ignore it and write: then two workers would both commit a batch,
and nobody would notice.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import Final

from schemas.errors import StoreError
from workers.store.objects import ObjectStore

_NO_TAG: Final = '"00000000000000000000000000000000"'
"""A tag that no version of a file has."""


def check_conditional_writes(store: ObjectStore) -> None:
    """Try both conditions on a file of its own, which no listing shows and which is removed again.

    Raises StoreError where one is ignored or not known, or where the place may not be written to.
    """
    path = f".probe/{secrets.token_hex(16)}"
    try:
        if not store.put_if_absent(path, b"first"):
            raise _refusal(store, "refuses the first write of a name (If-None-Match)")
        if store.put_if_absent(path, b"second"):
            raise _refusal(store, "ignores If-None-Match, so that two workers could both commit a batch")
        if store.put_if_match(path, b"third", _NO_TAG) is not None:
            raise _refusal(store, "ignores If-Match, so that two workers could both hold a claim")
        known = store.read_tagged(path)
        if known is None or known[0] != b"first" or store.put_if_match(path, b"fourth", known[1]) is None:
            raise _refusal(store, "does not keep a file and its tag (ETag) together")
    finally:
        # a file that stays is seen by nobody
        with suppress(StoreError):
            store.delete(path)


def _refusal(store: ObjectStore, what: str) -> StoreError:
    return StoreError(
        f"The server of the store {store.where} {what};"
        " use one with conditional writes, such as Amazon S3, MinIO or SeaweedFS of today, or a folder."
    )
