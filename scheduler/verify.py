"""A crawl is verified both ways: from the plan to the rows, and from the files back to the markers.

A problem is something that is not as it was planned or committed. What is merely not done yet, and files that no
marker names, are counted apart: neither of them is part of the dataset.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby, islice

import numpy as np

from scheduler.rounds import remaining
from schemas.batch import Batch
from schemas.errors import PagestateError, StoreDamaged
from schemas.identifiers import page_id
from schemas.marker import Marker
from schemas.settings import CrawlSettings
from workers.store import (
    ObjectStore,
    StoredPlan,
    ahead,
    check_screenshot,
    committed_batch_ids,
    committed_rounds,
    decode_capture,
    open_crawl,
    planned_rounds,
    read_marker,
    read_table,
    verify_markers,
)

AT_ONCE = 4
"""Batches that are looked at at once: most of the time each waits for the store; each holds its files' rows."""
DATA_FILE = re.compile(r"data/\w+/crawl=[^/]+/round=(\d+)/part-[0-9a-f]+-[0-9a-f]+\.parquet")


@dataclass(slots=True)
class Verified:
    """What was looked at, and what was found."""

    batches: int = 0
    committed: int = 0
    pages: int = 0
    files: int = 0
    waiting: int = 0
    """Planned batches without a marker: to be done."""
    strays: list[str] = field(default_factory=list)
    """Files of data that no marker names."""
    removed: int = 0
    problems: list[str] = field(default_factory=list)


def verify(store: ObjectStore, *, contents: bool = True) -> Verified:
    """Verify a store; `contents` reads every byte, else only names and sizes are looked at. Raises StoreError."""
    found = Verified()
    crawl = open_crawl(store, None, None)
    settings = CrawlSettings.from_json(crawl.settings)
    named = _Named()
    for number in sorted({*planned_rounds(store), *committed_rounds(store)}):
        plan = StoredPlan(store, number)
        planned = plan.columns()
        found.batches += len(planned)
        committed = committed_batch_ids(store, number)
        found.committed += len(committed)
        unplanned = committed - {name.decode() for name in planned.batch_id.tolist()}
        found.waiting += len(planned) - len(committed) + len(unplanned)
        for batch_id in sorted(unplanned):
            found.problems.append(
                f"The marker of batch {batch_id} of round {number} in {store.where} is of no planned batch;"
                " restore the plan from a copy."
            )
            marker = read_marker(store, number, batch_id)
            if marker is not None:
                named.add(marker)
                found.problems += verify_markers(store, hashes=contents, of=[marker])

        def looked_at(batch: Batch) -> tuple[Marker | None, list[str]]:
            return _looked_at(store, batch, crawl.crawl, settings, contents=contents)

        done = (batch for batch in _each_batch(plan, store.where, found.problems) if batch.batch_id in committed)
        for _, (marker, problems) in ahead(looked_at, done, AT_ONCE, 2 * AT_ONCE):
            if marker is not None:
                named.add(marker)
                found.pages += sum(marker.outcomes.values())
                found.problems += problems
    found.files, found.strays = named.count(), list(named.strangers(store.list("data/")))
    return found


def _looked_at(
    store: ObjectStore, batch: Batch, crawl: str, settings: CrawlSettings, *, contents: bool
) -> tuple[Marker | None, list[str]]:
    """The marker of a committed batch, and what is wrong with its files; None where the marker is gone meanwhile."""
    marker = read_marker(store, batch.round, batch.batch_id)
    if marker is None:
        return None, []
    problems = list(verify_markers(store, hashes=contents, of=[marker]))
    if contents:
        problems += _contents_problems(store, batch, marker, crawl, settings)
    return marker, problems


def remove_strays(store: ObjectStore, found: Verified, now: datetime) -> None:
    """Remove the files of data that no marker names and none can name any more.

    Those are in a round of which every batch is committed, and older than two batch deadlines, so that no worker is
    still about to commit them.
    """
    settings = CrawlSettings.from_json(open_crawl(store, None, None).settings)
    closed = {number for number in planned_rounds(store) if not remaining(store, number)}
    left = []
    for path in found.strays:
        name = DATA_FILE.fullmatch(path)
        modified = store.modified(path) if name and int(name.group(1)) in closed else None
        if modified is not None and now.astimezone(UTC) - modified > _oldest(settings):
            store.delete(path)
            found.removed += 1
        else:
            left.append(path)
    found.strays = left


def _oldest(settings: CrawlSettings) -> timedelta:
    return 2 * settings.batch_deadline


class _Named:
    """The files that markers name, as hashes: a large crawl has millions of them.

    Two paths of one hash are as good as impossible, and would keep a stray, never remove a file that is named.
    """

    def __init__(self) -> None:
        self._hashes = array("q")

    def add(self, marker: Marker) -> None:
        self._hashes.extend(hash(file.path) for file in marker.files)

    def count(self) -> int:
        return len(np.unique(np.asarray(self._hashes)))

    def strangers(self, paths: Iterator[str]) -> Iterator[str]:
        """Those of some paths that no marker names."""
        known = np.unique(np.asarray(self._hashes))
        while some := list(islice(paths, 100_000)):
            named = np.isin(np.array([hash(path) for path in some], dtype=np.int64), known)
            yield from (some[number] for number in np.flatnonzero(~named))


def _each_batch(plan: StoredPlan, where: str, problems: list[str]) -> Iterator[Batch]:
    """The batches of a plan, lane by lane; adds what is wrong with each lane, which all pages of a host are in."""
    for lane, batches in groupby(plan.batches(), lambda batch: batch.lane):
        counted: Counter[str] = Counter()
        sequences: list[int] = []
        for batch in batches:
            counted.update(page.url_key for page in batch.pages)
            sequences.append(batch.sequence)
            yield batch
        for key, times in counted.items():
            if times > 1:
                problems.append(
                    f"{key} is planned {times} times in round {plan.round} of {where}; restore the plan from a copy."
                )
        if sequences != list(range(len(sequences))):
            problems.append(
                f"Lane {lane} of round {plan.round} in {where} does not hold the batches 0 to {len(sequences) - 1}"
                " once; restore the plan from a copy."
            )


def _contents_problems(
    store: ObjectStore, batch: Batch, marker: Marker, crawl: str, settings: CrawlSettings
) -> Iterator[str]:
    """What in the files of a batch does not belong together."""
    what = f"Batch {batch.batch_id} of round {batch.round} in {store.where}"
    try:
        columns = ["url_key", "profile", "page_id", "outcome", "interactive_elements", "payload_bytes"]
        rows = read_table(store, "listings", columns, of=[marker]).to_pylist()
        elements = _by_page(store, "selector_maps", marker)
        stages = _by_page(store, "stage_metrics", marker)
        captures = _captures(store, marker)
        pictures = _pictures(store, marker)
        pictured = _pictured(store, marker)
    except StoreDamaged as error:
        yield str(error)
        return
    wanted = Counter((page.url_key, look.name) for page in batch.pages for look in page.looks(settings.profiles))
    given = Counter((row["url_key"], row["profile"]) for row in rows)
    for (key, profile), times in sorted((wanted - given).items()):
        yield f"{what} lacks {times} row of {key} (profile {profile}); restore its files from a copy."
    for (key, profile), times in sorted((given - wanted).items()):
        yield f"{what} has {times} row too many of {key} (profile {profile}); restore its files from a copy."
    if Counter(row["outcome"] for row in rows) != Counter(marker.outcomes):
        yield f"{what} has other outcomes than its marker says; restore both from a copy."
    ids = {row["page_id"]: row for row in rows}
    for row in rows:
        if row["page_id"] != page_id(crawl, batch.round, row["url_key"], row["profile"]):
            yield f"{what} has a row of {row['url_key']} with another page's id; restore its files from a copy."
    for table, counted in (
        ("selector_maps", elements),
        ("stage_metrics", stages),
        ("captures", Counter(captures)),
        ("screenshots", pictures),
    ):
        for stranger in sorted(counted.keys() - ids.keys()):
            yield f"{what} has rows of page {stranger} in {table} but none in listings; restore its files from a copy."
    for identity in sorted(pictures.keys() | pictured.keys()):
        if pictures[identity] != pictured[identity] and identity in ids:
            yield (
                f"{what} has {pictures[identity]} pictures of {ids[identity]['url_key']}, and by its stages it took"
                f" {pictured[identity]}; restore its files from a copy."
            )
    for identity, row in ids.items():
        if row["interactive_elements"] is not None and elements[identity] != row["interactive_elements"]:
            yield (
                f"{what} has {elements[identity]} elements of {row['url_key']}, and its listing has"
                f" {row['interactive_elements']}; restore its files from a copy."
            )
        if identity in captures and captures[identity] != row["payload_bytes"]:
            yield (
                f"{what} has {captures[identity]} bytes of payloads of {row['url_key']}, and its row says"
                f" {row['payload_bytes']}; restore its files from a copy."
            )


def _by_page(store: ObjectStore, table: str, marker: Marker) -> Counter[str]:
    return Counter(read_table(store, table, ["page_id"], of=[marker])["page_id"].to_pylist())  # type: ignore[arg-type]  # a table's name


def _pictures(store: ObjectStore, marker: Marker) -> Counter[str]:
    """How many pictures each page has, after every hash was compared. Raises StoreDamaged."""
    rows = read_table(store, "screenshots", ["page_id", "bytes", "sha256", "image"], of=[marker]).to_pylist()
    for row in rows:
        check_screenshot(row, f"page {row['page_id']} in {store.where}")
    return Counter(row["page_id"] for row in rows)


def _pictured(store: ObjectStore, marker: Marker) -> Counter[str]:
    """How many pictures each page has taken, by its stages."""
    rows = read_table(store, "stage_metrics", ["page_id", "stage", "outcome"], of=[marker]).to_pylist()
    return Counter(row["page_id"] for row in rows if row["stage"] == "screenshot" and row["outcome"] == "ok")


def _captures(store: ObjectStore, marker: Marker) -> dict[str, int]:
    """Bytes of payloads by page, after every payload was decompressed and its hash compared. Raises StoreDamaged."""
    rows = read_table(store, "captures", of=[marker]).to_pylist()
    pages: defaultdict[str, list[dict[str, object]]] = defaultdict(list)
    for row in rows:
        pages[row["page_id"]].append(row)
    sizes = {}
    for identity, own in pages.items():
        try:
            capture = decode_capture(own, f"page {identity} in {store.where}")
        except PagestateError as error:
            raise StoreDamaged(str(error)) from error
        sizes[identity] = sum(memoryview(payload.data).nbytes for payload in capture.payloads)
    return sizes
