"""A store is opened by the place it lies in: a folder, or an `s3://bucket/prefix`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workers.store.folder import FolderStore
from workers.store.objects import ObjectStore

if TYPE_CHECKING:
    from workers.store.s3_client import S3Options


def open_store(place: str, *, reading: bool = False, options: S3Options | None = None) -> ObjectStore:
    """The store at a folder or an s3:// URL; creates nothing.

    reading  the store must be there already, as far as the place can tell
    options  for S3 only: how its server is spoken to; else the usual AWS settings
    To write to an S3 store, its server must have conditional writes, which is tried out.

    Raises StoreError where there can be no store, SettingError for options that make no sense.
    """
    if "://" in place:
        # boto3 costs a fifth of a second, which a run on a folder need not pay
        from workers.store.probe import check_conditional_writes
        from workers.store.s3 import S3Store

        store = S3Store.connect(place, options)
        if not reading:
            check_conditional_writes(store)
        return store
    return FolderStore.for_reading(place) if reading else FolderStore.for_run(place)
