"""The lock of a local store: one run at a time, and it is free the moment its process is gone, however it went."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from schemas.errors import StoreError, StoreLocked
from workers.store.folder import FolderStore

_LOCK = "lock"


@dataclass(slots=True)
class _Held:
    """The one descriptor that keeps the lock; a forked child gives its copy up, or it would outlive a killed run."""

    descriptor: int | None

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


@contextmanager
def locked(store: FolderStore) -> Iterator[None]:
    """Holds the store for one run; creates its folder if need be. Raises StoreLocked where another run holds it."""
    path = store.folder / _LOCK
    try:
        store.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise StoreError(
            f"Cannot write to the store {store.where}: {error.strerror} ({error.filename});"
            " change its permissions or choose another --store."
        ) from error
    held = _Held(descriptor)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            who = f"process {holder}" if holder else "another process"
            raise StoreLocked(
                f"The store {store.where} is in use by {who}; wait until it ends or choose another --store."
            ) from error
        os.register_at_fork(after_in_child=held.close)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        store.clear_scratch()
        yield
    finally:
        # The file stays: removing it would let two runs lock two files of one name.
        held.close()
