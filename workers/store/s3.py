"""A store under an S3 prefix: names are taken once by a conditional PUT, and an unknown result is settled by reading.

This is the only module that speaks to S3, and the only one that turns that library's errors into StoreError; what each
of them means is in `s3_errors`. Credentials come from the usual AWS places alone.
"""

from __future__ import annotations

import base64
import hashlib
import random
import shutil
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import BotoCoreError, ClientError
from pyarrow.fs import FileSystem, PyFileSystem

from schemas.errors import StoreError, StoreUnavailable
from workers.browser.orphans import SCRATCH_PREFIX, own_folder
from workers.store.arrow_files import StoredFiles
from workers.store.s3_client import S3Options, bucket_and_prefix, client_of
from workers.store.s3_errors import sentence_about

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

_Answer = TypeVar("_Answer")

_CONFLICT_TRIES: Final = 6
"""A 409 means that another conditional write of the name is under way; AWS asks to send the request again."""
_BODY_TRIES: Final = 3
"""botocore does not repeat a download whose body breaks off."""


@dataclass(frozen=True, slots=True)
class S3Store:
    """An ObjectStore under a prefix of a bucket; made by `connect`. Threads may share it."""

    where: str
    bucket: str
    prefix: str
    """Empty, or ends with a slash."""
    options: S3Options
    client: S3Client = field(repr=False)
    _scratch: _Scratch = field(repr=False)

    @classmethod
    def connect(cls, url: str, options: S3Options | None = None) -> S3Store:
        """A store at `s3://bucket/prefix`, after one request that shows that the bucket can be listed.

        Raises StoreError where it cannot, SettingError for a URL or an endpoint that makes no sense.
        """
        bucket, prefix = bucket_and_prefix(url)
        given = options or S3Options()
        where = f"s3://{bucket}/{prefix}".rstrip("/")
        with _translated("reach", where):
            client = client_of(given)
            # a listing and no HEAD, whose refusals have no body to say why
            client.list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1)
        return cls(where, bucket, prefix, given, client, _Scratch())

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create a file whole, or leave the existing one alone; True if this call created it.

        A retried PUT may meet its own success, and an answer may get lost; then the file is read, and it is ours if
        it holds our bytes. So bytes that must tell writers apart carry an id of their own.
        """
        for attempt in range(_CONFLICT_TRIES):
            try:
                with _translated("write to", self.where, path):
                    self.client.put_object(
                        Bucket=self.bucket,
                        Key=self._key(path),
                        Body=data,
                        IfNoneMatch="*",
                        ChecksumSHA256=_base64(hashlib.sha256(data).digest()),
                        **self._encryption(),
                    )
                return True
            except StoreError as error:
                status, retried = _answer_of(error)
                if status == 412:
                    return retried and self.read(path) == data
                if status != 409:
                    return self._settled(path, data, error)
            time.sleep(random.uniform(0, 0.1 * 2**attempt))
        raise StoreUnavailable(
            f"Cannot write to the store {self.where}: others are writing {path} at the same time; run again."
        )

    def read_tagged(self, path: str) -> tuple[bytes, str] | None:
        """The bytes of a file and the tag of this version of it; None where there is none."""
        with _translated("read", self.where, path):
            return _none_if_absent(lambda: self._body_and_tag(path))

    def put_if_match(self, path: str, data: bytes, tag: str) -> str | None:
        """Replace the version of a file that has the tag; its new tag, None where that version is gone.

        As with `put_if_absent`, an unknown result is settled by reading, so bytes that must tell writers apart carry
        an id of their own.
        """
        try:
            with _translated("write to", self.where, path):
                return self.client.put_object(
                    Bucket=self.bucket,
                    Key=self._key(path),
                    Body=data,
                    IfMatch=tag,
                    ChecksumSHA256=_base64(hashlib.sha256(data).digest()),
                    **self._encryption(),
                )["ETag"]
        except StoreError as error:
            status, _ = _answer_of(error)
            # 404: the version went with its file; 409: another conditional write was under way, and may have won
            if status not in (404, 409, 412) and not isinstance(error, StoreUnavailable):
                raise
            try:
                found = self.read_tagged(path)
            except StoreError:
                raise error from None
            if found is not None and found[0] == data:
                return found[1]
            if isinstance(error, StoreUnavailable) and found is not None and found[1] == tag:
                raise
            return None

    def put_file(self, local: Path, path: str) -> None:
        """Move a local file to a path that no other writer uses; durable when this returns."""
        with _translated("write to", self.where, path):
            if local.stat().st_size > self.options.multipart_bytes:
                self._put_parts(local, path)
            else:
                with local.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").digest()
                    file.seek(0)
                    self.client.put_object(
                        Bucket=self.bucket,
                        Key=self._key(path),
                        Body=file,
                        ChecksumSHA256=_base64(digest),
                        **self._encryption(),
                    )
            local.unlink()

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None where there is none."""
        with _translated("read", self.where, path):
            return _none_if_absent(lambda: self._body(path))

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """At most `length` bytes of a file from `start` on; the file must be there and `start` inside it."""
        with _translated("read", self.where, path):
            return self._body(path, Range=f"bytes={start}-{start + length - 1}")

    def size_of(self, path: str) -> int | None:
        """The size of a file in bytes; None where there is none."""
        head = self._head(path)
        return None if head is None else int(head["ContentLength"])

    def modified(self, path: str) -> datetime | None:
        """When a file was made, in UTC, by the server's clock; None where there is none."""
        head = self._head(path)
        made: datetime | None = head and head["LastModified"]
        return made

    def list(self, prefix: str) -> Iterator[str]:
        """Paths of the files under a folder, sorted as the server sorts; not those that begin with a dot."""
        folder = f"{prefix.rstrip('/')}/" if prefix.rstrip("/") else ""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self._key(folder))
        with _translated("read", self.where, folder):
            for page in pages:
                for entry in page.get("Contents", []):
                    path = entry["Key"].removeprefix(self.prefix)
                    # some servers list folders too, by names that end with a slash
                    if not path.endswith("/") and not any(name.startswith(".") for name in path.split("/")):
                        yield path

    def delete(self, path: str) -> None:
        """Remove a file; it is no error if there is none."""
        with _translated("write to", self.where, path):
            self.client.delete_object(Bucket=self.bucket, Key=self._key(path))

    def scratch(self) -> Path:
        """A local folder for this store in this process; removed with the store, or when the process ends."""
        with _translated("write to", self.where):
            return self._scratch.folder()

    def arrow(self) -> FileSystem:
        """The prefix for pyarrow, for reading only.

        pyarrow's own S3 client would look for credentials in other places, and say of a lost connection that a file
        is damaged.
        """
        return PyFileSystem(StoredFiles(self))

    def _head(self, path: str) -> Any:
        with _translated("read", self.where, path):
            return _none_if_absent(lambda: self.client.head_object(Bucket=self.bucket, Key=self._key(path)))

    def _key(self, path: str) -> str:
        return self.prefix + path

    def _encryption(self) -> dict[str, Any]:
        wanted: dict[str, Any] = {}
        if self.options.encryption:
            wanted["ServerSideEncryption"] = self.options.encryption
        if self.options.kms_key:
            wanted["SSEKMSKeyId"] = self.options.kms_key
        return wanted

    def _settled(self, path: str, data: bytes, unknown: StoreError) -> bool:
        """What became of a PUT without an answer. Raises its error where that cannot be known, or where it has one."""
        if not isinstance(unknown, StoreUnavailable):
            raise unknown
        try:
            found = self.read(path)
        except StoreError:
            raise unknown from None
        if found is None:
            raise unknown
        return found == data

    def _put_parts(self, local: Path, path: str) -> None:
        self.client.upload_file(
            str(local),
            self.bucket,
            self._key(path),
            ExtraArgs={"ChecksumAlgorithm": "SHA256", **self._encryption()},
            Config=TransferConfig(
                multipart_threshold=self.options.multipart_bytes,
                multipart_chunksize=self.options.part_bytes,
                max_concurrency=4,
            ),
        )

    def _body(self, path: str, **asked: str) -> bytes:
        return self._body_and_tag(path, **asked)[0]

    def _body_and_tag(self, path: str, **asked: str) -> tuple[bytes, str]:
        for left in reversed(range(_BODY_TRIES)):
            answer: Any = self.client.get_object(Bucket=self.bucket, Key=self._key(path), **asked)  # type: ignore[arg-type]  # Range is the one thing asked
            try:
                with answer["Body"] as body:
                    return bytes(body.read()), str(answer["ETag"])
            except BotoCoreError:
                if left == 0:
                    raise
                time.sleep(random.uniform(0, 1))
        raise AssertionError("the last try returns or raises")


class _Scratch:
    """A local folder that appears when it is first needed and goes with its last user."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folder: Path | None = None

    def folder(self) -> Path:
        with self._lock:
            if self._folder is None:
                own = own_folder(SCRATCH_PREFIX)
                weakref.finalize(self, shutil.rmtree, own, ignore_errors=True)
                self._folder = own / "files"
                self._folder.mkdir()
            return self._folder


def _none_if_absent(ask: Callable[[], _Answer]) -> _Answer | None:
    try:
        return ask()
    except ClientError as error:
        # a HEAD has no body, so all that is known of it is 404
        if error.response.get("Error", {}).get("Code") in ("NoSuchKey", "404"):
            return None
        raise


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode("ascii")


@contextmanager
def _translated(verb: str, where: str, path: str = "") -> Iterator[None]:
    """Turns botocore's errors, and a local disk's, into StoreError."""
    try:
        yield
    except (BotoCoreError, ClientError, Boto3Error) as error:
        kind, sentence = sentence_about(error, verb, where, path)
        raise kind(sentence) from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoreError(
            f"Cannot {verb} the store {where}: a file in the making cannot be used ({reason});"
            " make room on the local disk and run again."
        ) from error


def _answer_of(error: StoreError) -> tuple[int, bool]:
    """The HTTP status that an error came with, 0 if none, and whether the request had been sent more than once."""
    cause = error.__cause__
    if not isinstance(cause, ClientError):
        return 0, False
    about: Any = cause.response.get("ResponseMetadata", {})
    return int(about.get("HTTPStatusCode", 0)), bool(about.get("RetryAttempts", 0))
