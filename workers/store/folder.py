"""A store in a local folder: files appear whole or not at all, and creating one that exists fails."""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pyarrow.fs import FileSystem, LocalFileSystem, SubTreeFileSystem

from schemas.errors import StoreError

_SCRATCH = ".scratch"
"""Starts with a dot, as every unfinished file does: `list` and DuckDB's `*` pass over such names."""


@dataclass(frozen=True, slots=True)
class FolderStore:
    """An ObjectStore in a local folder. Made by `for_run` or `for_reading`, which check and create nothing."""

    folder: Path

    @classmethod
    def for_run(cls, path: Path | str) -> FolderStore:
        """A store to write to; the folder may not exist yet. Raises StoreError where it cannot be one."""
        folder = _named(path)
        with _translated(str(path), "write to"):
            nearest = folder
            while not os.path.lexists(nearest):
                nearest = nearest.parent
            if not nearest.is_dir():
                raise StoreError(
                    f"The store {path} cannot be a folder, because {nearest} is a file;"
                    " move that file away or choose another --store."
                )
            if not os.access(nearest, os.W_OK | os.X_OK):
                raise StoreError(
                    f"The store {path} cannot be written to: {nearest} is read-only for this user;"
                    " change its permissions or choose another --store."
                )
        return cls(folder)

    @classmethod
    def for_reading(cls, path: Path | str) -> FolderStore:
        """A store to read from. Raises StoreError where there is no such folder."""
        folder = _named(path)
        if not folder.is_dir():
            what = "a file" if os.path.lexists(folder) else "not there"
            raise StoreError(f"The store {path} is {what}; give the folder that a crawl wrote as --store.")
        return cls(folder)

    @property
    def where(self) -> str:
        """The folder."""
        return str(self.folder)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create a file whole, or leave the existing one alone; True if this call created it.

        A link to a finished temporary file: the one way to create a name that is atomic, carries the content along
        and fails if the name exists.
        """
        final = self._path(path)
        with _translated(self.where, "write to"):
            _make_folder(final.parent)
            temporary = final.with_name(f".{final.name}.{secrets.token_hex(8)}.tmp")
            try:
                with temporary.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                try:
                    os.link(temporary, final)
                except FileExistsError:
                    return False
            finally:
                temporary.unlink(missing_ok=True)
                _sync_folder(final.parent)
        return True

    def read_tagged(self, path: str) -> tuple[bytes, str] | None:
        """The bytes of a file and the tag of this version of it; None where there is none."""
        data = self.read(path)
        return None if data is None else (data, _tag(data))

    def put_if_match(self, path: str, data: bytes, tag: str) -> str | None:
        """Replace the version of a file that has the tag; its new tag, None where that version is gone.

        Writers take turns by a lock file beside, which no listing shows.
        """
        final = self._path(path)
        with _translated(self.where, "write to"):
            _make_folder(final.parent)
            with final.with_name(f".{final.name}.lock").open("wb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                known = self.read_tagged(path)
                if known is None or known[1] != tag:
                    return None
                temporary = final.with_name(f".{final.name}.{secrets.token_hex(8)}.tmp")
                try:
                    temporary.write_bytes(data)
                    _sync_file(temporary)
                    temporary.replace(final)
                finally:
                    temporary.unlink(missing_ok=True)
                _sync_folder(final.parent)
        return _tag(data)

    def put_file(self, local: Path, path: str) -> None:
        """Move a local file to a path that no other writer uses; durable when this returns."""
        final = self._path(path)
        with _translated(self.where, "write to"):
            _make_folder(final.parent)
            _sync_file(local)
            try:
                local.replace(final)
            except OSError:
                # Another file system: copy beside the final name first, so that the name still appears at once.
                beside = final.with_name(f".{final.name}.tmp")
                try:
                    shutil.copyfile(local, beside)
                    _sync_file(beside)
                    beside.replace(final)
                finally:
                    beside.unlink(missing_ok=True)
                local.unlink()
            _sync_folder(final.parent)

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None where there is none."""
        with _translated(self.where, "read"):
            try:
                return self._path(path).read_bytes()
            except FileNotFoundError:
                return None

    def size_of(self, path: str) -> int | None:
        """The size of a file in bytes; None where there is none."""
        with _translated(self.where, "read"):
            try:
                return self._path(path).stat().st_size
            except FileNotFoundError:
                return None

    def modified(self, path: str) -> datetime | None:
        """When a file was made, in UTC; None where there is none."""
        with _translated(self.where, "read"):
            try:
                return datetime.fromtimestamp(self._path(path).stat().st_mtime, UTC)
            except FileNotFoundError:
                return None

    def list(self, prefix: str) -> Iterator[str]:
        """Paths of the finished files under a folder, sorted; never a file that is still being written."""
        with _translated(self.where, "read"):
            yield from self._walk(prefix.rstrip("/"))

    def delete(self, path: str) -> None:
        """Remove a file; it is no error if there is none."""
        with _translated(self.where, "write to"):
            self._path(path).unlink(missing_ok=True)

    def scratch(self) -> Path:
        """A folder inside the store, so that a finished file is moved by renaming it."""
        scratch = self.folder / _SCRATCH
        with _translated(self.where, "write to"):
            scratch.mkdir(parents=True, exist_ok=True)
        return scratch

    def clear_scratch(self) -> None:
        """Remove what a killed run left in the making; only under the store's lock."""
        with suppress(OSError):
            shutil.rmtree(self.folder / _SCRATCH)

    def arrow(self) -> FileSystem:
        """The folder for pyarrow."""
        return SubTreeFileSystem(str(self.folder), LocalFileSystem())

    def _path(self, path: str) -> Path:
        return self.folder / path

    def _walk(self, prefix: str) -> Iterator[str]:
        try:
            entries = sorted(os.scandir(self.folder / prefix), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            if entry.name.startswith("."):
                continue
            path = f"{prefix}/{entry.name}" if prefix else entry.name
            if entry.is_dir():
                yield from self._walk(path)
            else:
                yield path


@contextmanager
def _translated(where: str, verb: str) -> Iterator[None]:
    """Turns the file system's errors into StoreError."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        place = f" ({error.filename})" if error.filename else ""
        raise StoreError(
            f"Cannot {verb} the store {where}: {reason}{place}; make room or change its permissions,"
            " or choose another --store."
        ) from error


def _named(path: Path | str) -> Path:
    """The absolute folder of a path as given. Raises StoreError for a text that names none."""
    if not str(path).strip():
        raise StoreError("The store has no name; give a folder as --store.")
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError as error:
        raise StoreError(
            f"The store {str(path)!a} is no UTF-8 path, which Parquet readers need; choose another --store."
        ) from error
    return Path(path).absolute()


def _tag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _make_folder(folder: Path) -> None:
    """Create a folder so that it survives a power cut: its parent is synced too."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
