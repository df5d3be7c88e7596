"""pyarrow reads the files of a store through the store itself, so that what goes wrong is said in the store's words.

Only reading is offered: files are made locally and put as a whole.
"""

from __future__ import annotations

import io
from typing import Any, NoReturn, Protocol

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSelector, FileSystemHandler, FileType


class Ranged(Protocol):
    """What is asked of a store whose files are read in pieces."""

    @property
    def where(self) -> str: ...

    def size_of(self, path: str) -> int | None: ...

    def read_range(self, path: str, start: int, length: int) -> bytes: ...


class StoredFiles(FileSystemHandler):
    """A pyarrow file system over a store's relative paths."""

    def __init__(self, store: Ranged) -> None:
        self._store = store

    def get_type_name(self) -> str:
        return "pagestate-store"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: str | list[str]) -> list[FileInfo]:
        return [self._info(path) for path in ([paths] if isinstance(paths, str) else paths)]

    def get_file_info_selector(self, selector: FileSelector) -> NoReturn:
        # readers start from markers, never from a listing of files
        self._refuse()

    def open_input_file(self, path: str) -> pa.PythonFile:
        size = self._store.size_of(path)
        if size is None:
            raise FileNotFoundError(path)
        return pa.PythonFile(io.BufferedReader(_Pieces(self._store, path, size), 64 * 1024), mode="r")

    def open_input_stream(self, path: str) -> pa.PythonFile:
        return self.open_input_file(path)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoredFiles) and other._store == self._store

    def __hash__(self) -> int:
        return hash(self._store)

    def _info(self, path: str) -> FileInfo:
        size = self._store.size_of(path)
        if size is None:
            return FileInfo(path, FileType.NotFound)
        return FileInfo(path, FileType.File, size=size)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(f"files of {self._store.where} are read one by one, and not changed, through pyarrow")

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = _refuse
    move = copy_file = open_output_stream = open_append_stream = _refuse


class _Pieces(io.RawIOBase):
    """A file that fetches what is read, when it is read."""

    def __init__(self, store: Ranged, path: str, size: int) -> None:
        super().__init__()
        self._store = store
        self._path = path
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        return self._position

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), self._size - self._position)
        if length <= 0:
            return 0
        data = self._store.read_range(self._path, self._position, length)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
