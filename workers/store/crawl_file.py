"""`crawl.json` says whose store this is and with which settings its rows are made; it is written once, first."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

from schemas.errors import SettingError, StoreDamaged, StoreError, StoreMismatch
from schemas.identifiers import settings_hash
from schemas.settings import CrawlSettings
from schemas.version import PAGESTATE_VERSION, SCHEMA_VERSION
from workers.store.layout import CRAWL_FILE, MARKERS, PLANS
from workers.store.objects import ObjectStore

DEFAULT_CRAWL: Final = "crawl"

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,99}")
"""It is part of paths; and it starts with a letter, because readers of `crawl=<name>` folders would take 2026-08-02
for a date and 7 for a number."""
_NOT_A_TEXT: Final = frozenset({"null", "nan", "inf", "infinity", "true", "false"})
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class CrawlFile:
    """What `crawl.json` holds. `settings` is CrawlSettings.as_json(); `created_at` is RFC 3339, UTC, informative."""

    crawl: str
    schema_version: int
    pagestate_version: str
    settings: dict[str, Any]
    settings_hash: str
    created_at: str

    def encode(self) -> bytes:
        """The file's bytes."""
        return json.dumps(asdict(self), indent=1, sort_keys=True).encode() + b"\n"


def open_crawl(
    store: ObjectStore, crawl: str | None, settings: CrawlSettings | None, *, now: datetime | None = None
) -> CrawlFile:
    """The crawl of a store; created where there is none yet and settings are given.

    `crawl` None takes the stored name, or "crawl"; `settings` None takes the stored ones. `now` (with a time zone) is
    needed to create. Raises StoreMismatch for another crawl, other settings or a newer schema, StoreDamaged for a file
    that cannot be read, StoreError where there is no crawl and none is to be made; then nothing is written.
    """
    existing = check_crawl(store, crawl, settings)
    if existing is not None:
        return existing
    if settings is None or now is None:
        raise StoreError(f"There is no crawl in {store.where}; check the path or start one with pagestate crawl.")
    created = CrawlFile(
        crawl=crawl or DEFAULT_CRAWL,
        schema_version=SCHEMA_VERSION,
        pagestate_version=PAGESTATE_VERSION,
        settings=settings.as_json(),
        settings_hash=settings.hash(),
        created_at=now.astimezone(UTC).isoformat(),
    )
    if store.put_if_absent(CRAWL_FILE, created.encode()):
        return created
    # Another process was faster; what it wrote must be what we want.
    return open_crawl(store, crawl, settings)


def check_crawl(store: ObjectStore, crawl: str | None, settings: CrawlSettings | None) -> CrawlFile | None:
    """The crawl of a store, or None where there is none yet; raises as `open_crawl` does and writes nothing."""
    if crawl is not None and (not _NAME.fullmatch(crawl) or crawl.lower() in _NOT_A_TEXT):
        raise SettingError(
            f"The crawl name {crawl!r} cannot be part of a path; start it with a letter and use letters, digits,"
            " dots, dashes and underscores only."
        )
    data = store.read(CRAWL_FILE)
    if data is None:
        left = next((path for folder in (PLANS, MARKERS) for path in store.list(folder)), None)
        if left is not None:
            raise StoreDamaged(
                f"The store {store.where} holds {left} but no {CRAWL_FILE}; restore that file from a copy or choose"
                " another --store."
            )
        return None
    found = _decode(data, store.where)
    if crawl is not None and crawl != found.crawl:
        raise StoreMismatch(
            f"The store {store.where} belongs to the crawl {found.crawl}, not {crawl};"
            f" give --crawl {found.crawl} or another --store."
        )
    if settings is not None and settings.hash() != found.settings_hash:
        differences = list(_differences(found.settings, settings.as_json()))
        shown = "; ".join(differences[:_SHOWN])
        more = f" and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else ""
        raise StoreMismatch(
            f"The crawl {found.crawl} in {store.where} has other settings: {shown}{more};"
            " use the stored settings or another --store."
        )
    return found


def _decode(data: bytes, where: str) -> CrawlFile:
    damaged = f"The file {CRAWL_FILE} in {where} is damaged; restore it from a copy or choose another --store."
    try:
        raw = json.loads(data)
        version = raw["schema_version"]
        if not isinstance(version, int):
            raise TypeError("schema_version is no number")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreDamaged(damaged) from error
    if version > SCHEMA_VERSION:
        raise StoreMismatch(
            f"The store {where} has schema version {version} and this pagestate knows {SCHEMA_VERSION};"
            " use a newer pagestate or another --store."
        )
    try:
        found = CrawlFile(**raw)
        whole = isinstance(found.crawl, str) and settings_hash(found.settings) == found.settings_hash
    except (TypeError, AttributeError) as error:
        raise StoreDamaged(damaged) from error
    if not whole:
        raise StoreDamaged(damaged)
    return found


def _differences(stored: Mapping[str, object], given: Mapping[str, object]) -> Iterator[str]:
    """Each differing setting as `budgets.payload: stored 10.0, given 0.5`."""
    one, other = dict(_dotted(stored)), dict(_dotted(given))
    for path in sorted(one.keys() | other.keys()):
        if path not in one or path not in other or one[path] != other[path]:
            was = _shown(one[path]) if path in one else "nothing"
            now = _shown(other[path]) if path in other else "nothing"
            yield f"{path}: stored {was}, given {now}"


def _dotted(settings: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
