"""A bucket in memory with conditional writes, and a client to it that `workers.store.s3.S3Store` takes for boto3's.

So the product's own S3 code runs: what it makes of a 409 or a 412, of an answer that got lost, and of a PUT that
botocore has repeated. Every request is counted, takes simulated time, and may fail.
"""

from __future__ import annotations

import asyncio
import random
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError
from clock import may_step_aside, step_aside

from workers.store.s3 import S3Store, _Scratch
from workers.store.s3_client import S3Options

SECONDS = {"PUT": 0.03, "GET": 0.015, "HEAD": 0.01, "LIST": 0.03, "DELETE": 0.02}
"""How long a request takes, about: half to one and a half of it."""
_LARGE = 400


class Dead(BaseException):
    """The process that asks has been killed."""


@dataclass
class Faults:
    """How often requests go wrong; of the writes, half have come about all the same."""

    lost_answers: float = 0.0
    conflicts: float = 0.0
    """Of conditional writes: 409."""
    ignored_conditions: bool = False
    """A server (or a product) that writes a file although it is there: what must not stay unnoticed."""


@dataclass
class Bucket:
    """The files of a bucket, and what was asked of it. Files of a plan are kept on disk."""

    folder: Path
    chance: random.Random
    faults: Faults = field(default_factory=Faults)
    files: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)
    by_kind: Counter[tuple[str, str]] = field(default_factory=Counter)
    bytes_of: Counter[str] = field(default_factory=Counter)
    slowness: float = 1.0
    keeps_data: bool = True
    """Else files of data are counted, and not there."""
    overwritten: list[str] = field(default_factory=list)
    """Markers that were written a second time: what no client of ours may bring about."""
    tag: int = 0
    _folders: defaultdict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))

    def get(self, key: str) -> tuple[bytes, int] | None:
        """A file and its tag."""
        if key.startswith("plan/"):
            file = self.folder / key
            return (file.read_bytes(), 0) if file.exists() else None
        found = self.files.get(key)
        if found is None:
            return None
        return (zlib.decompress(found[0][1:]) if found[0][:1] == b"z" else found[0][1:]), found[1]

    def put(self, key: str, data: bytes) -> int:
        """Write a file; its new tag."""
        self.tag += 1
        self.bytes_of[kind_of(key)] += len(data)
        if key.startswith("plan/"):
            file = self.folder / key
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            return 0
        if key.startswith("data/") and not self.keeps_data:
            return self.tag
        if key in self.files and key.startswith("commits/"):
            self.overwritten.append(key)
        if key not in self.files:
            self._folders[folder_of(key)][key] = None
        self.files[key] = (b"z" + zlib.compress(data, 1) if len(data) > _LARGE else b" " + data), self.tag
        return self.tag

    def delete(self, key: str) -> None:
        """Remove a file."""
        if self.files.pop(key, None) is not None:
            del self._folders[folder_of(key)][key]

    def names(self, prefix: str) -> list[str]:
        """The files under a prefix, sorted."""
        if prefix.startswith("plan/"):
            paths = sorted((self.folder / "plan").rglob("*.parquet"))
            return [name for path in paths if (name := path.relative_to(self.folder).as_posix()).startswith(prefix)]
        # most listings are of one folder, which holds a few files
        own = self._folders.get(prefix)
        folders = [own] if own else [names for folder, names in self._folders.items() if folder.startswith(prefix)]
        return sorted(name for names in folders for name in names)


def folder_of(key: str) -> str:
    """The path of a file's folder, with a slash at its end."""
    return key[: key.rfind("/") + 1]


def kind_of(key: str) -> str:
    """What a file is: the first part of its path."""
    return key.split("/", 1)[0]


class Client:
    """One process's connection to a bucket; `is_dead` after its process was killed, and nothing comes about then."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self.is_dead = False

    def put_object(self, Key: str, Body: Any, **asked: Any) -> dict[str, str]:
        data = Body if isinstance(Body, bytes) else Body.read()
        bucket = self._bucket
        conditional = "IfNoneMatch" in asked or "IfMatch" in asked
        self._under_way("PUT", Key)
        faults = bucket.faults
        lost = self._goes_wrong(faults.lost_answers)
        if lost and bucket.chance.random() < 0.5:
            self._answered("PUT")
            raise ReadTimeoutError(endpoint_url="simulated")
        if conditional and self._goes_wrong(faults.conflicts):
            self._answered("PUT")
            raise _refusal(409, "ConditionalRequestConflict")
        known = None if Key.startswith("plan/") and not conditional else bucket.get(Key)
        if "IfNoneMatch" in asked and known is not None and not faults.ignored_conditions:
            self._answered("PUT")
            raise _refusal(412, "PreconditionFailed")
        if "IfMatch" in asked and (known is None or str(known[1]) != asked["IfMatch"]):
            self._answered("PUT")
            raise _refusal(404 if known is None else 412, "NoSuchKey" if known is None else "PreconditionFailed")
        tag = bucket.put(Key, data)
        if lost and "IfNoneMatch" in asked and bucket.chance.random() < 0.5:
            # botocore has sent it again, and it met its own success
            self._under_way("PUT", Key)
            self._answered("PUT")
            raise _refusal(412, "PreconditionFailed", attempts=1)
        self._answered("PUT")
        if lost:
            raise ReadTimeoutError(endpoint_url="simulated")
        return {"ETag": str(tag)}

    def get_object(self, Key: str, Range: str = "", **_: Any) -> dict[str, Any]:
        if Range:
            # pyarrow asks from its own threads, where nobody can step aside
            self._count("GET", Key)
            start, end = map(int, Range.removeprefix("bytes=").split("-"))
            with (self._bucket.folder / Key).open("rb") as file:
                file.seek(start)
                return {"Body": BytesIO(file.read(end - start + 1)), "ETag": "0"}
        self._under_way("GET", Key)
        self._may_fail()
        found = self._bucket.get(Key)
        self._answered("GET")
        if found is None:
            raise _refusal(404, "NoSuchKey")
        return {"Body": BytesIO(found[0]), "ETag": str(found[1])}

    def head_object(self, Key: str, **_: Any) -> dict[str, int]:
        self._under_way("HEAD", Key)
        self._may_fail()
        found = self._bucket.get(Key)
        self._answered("HEAD")
        if found is None:
            raise _refusal(404, "404")
        return {"ContentLength": len(found[0])}

    def delete_object(self, Key: str, **_: Any) -> None:
        self._under_way("DELETE", Key)
        self._bucket.delete(Key)
        self._answered("DELETE")

    def get_paginator(self, _: str) -> Client:
        return self

    def paginate(self, Prefix: str, **_: Any) -> Iterator[dict[str, Any]]:
        names = self._bucket.names(Prefix)
        for start in range(0, max(len(names), 1), 1000):
            self._under_way("LIST", Prefix)
            self._answered("LIST")
            yield {"Contents": [{"Key": name} for name in names[start : start + 1000]]}

    def _count(self, verb: str, key: str) -> None:
        self._bucket.requests[verb] += 1
        self._bucket.by_kind[verb, kind_of(key)] += 1

    def _under_way(self, verb: str, key: str) -> None:
        """The time until a request is at the server; a process killed by then has not sent it."""
        self._pass(SECONDS[verb] / 2)
        self._count(verb, key)

    def _answered(self, verb: str) -> None:
        """The time until the answer is back; a process killed by then never learns of it."""
        self._pass(SECONDS[verb] / 2)

    def _pass(self, seconds: float) -> None:
        if may_step_aside():
            step_aside(asyncio.sleep(seconds * self._bucket.slowness * self._bucket.chance.uniform(0.5, 1.5)))
        if self.is_dead:
            raise Dead

    def _goes_wrong(self, share: float) -> bool:
        """Whether this request does; what prepares and looks at a simulation is not disturbed."""
        return may_step_aside() and self._bucket.chance.random() < share

    def _may_fail(self) -> None:
        if self._goes_wrong(self._bucket.faults.lost_answers):
            raise ReadTimeoutError(endpoint_url="simulated")


def _refusal(status: int, code: str, attempts: int = 0) -> ClientError:
    about: Any = {"HTTPStatusCode": status, "RetryAttempts": attempts}
    return ClientError({"Error": {"Code": code, "Message": code}, "ResponseMetadata": about}, "Simulated")


def store_of(bucket: Bucket) -> tuple[S3Store, Client]:
    """A process's store, of the product's own code, and its connection."""
    client = Client(bucket)
    place: Any = client
    return S3Store("s3://simulated/crawl", "simulated", "", S3Options(), place, _Scratch()), client
