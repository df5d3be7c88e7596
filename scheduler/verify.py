"""A crawl is verified both ways: from the plan to the rows, and from the files back to the markers.

A problem is something that is not as it was planned or committed. What is merely not done yet, and files that no
marker names, are counted apart: neither of them is part of the dataset.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from schemas.batch import Batch
from schemas.errors import PagestateError, StoreDamaged
from schemas.identifiers import page_id
from schemas.marker import Marker
from schemas.settings import CrawlSettings
from workers.store import (
    ObjectStore,
    check_screenshot,
    committed_batch_ids,
    decode_capture,
    markers,
    open_crawl,
    planned_rounds,
    read_plan,
    read_table,
    verify_markers,
)

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
    known = markers(store)
    found.committed = len(known)
    found.problems += verify_markers(store, hashes=contents)
    rounds = planned_rounds(store)
    for number in sorted({*rounds, *(marker.round for marker in known)}):
        batches = {batch.batch_id: batch for batch in read_plan(store, number)}
        found.batches += len(batches)
        of_round = {marker.batch_id: marker for marker in known if marker.round == number}
        found.waiting += len(batches.keys() - of_round.keys())
        found.problems += _plan_problems(batches.values(), number, store.where)
        for batch_id, marker in of_round.items():
            batch = batches.get(batch_id)
            if batch is None:
                found.problems.append(
                    f"The marker of batch {batch_id} of round {number} in {store.where} is of no planned batch;"
                    " restore the plan from a copy."
                )
            elif contents:
                found.problems += _contents_problems(store, batch, marker, crawl.crawl, settings)
                found.pages += sum(marker.outcomes.values())
            else:
                found.pages += sum(marker.outcomes.values())
    named = {file.path for marker in known for file in marker.files}
    found.files = len(named)
    found.strays = [path for path in store.list("data/") if path not in named]
    return found


def remove_strays(store: ObjectStore, found: Verified, now: datetime) -> None:
    """Remove the files of data that no marker names and none can name any more.

    Those are in a round of which every batch is committed, and older than two batch deadlines, so that no worker is
    still about to commit them.
    """
    settings = CrawlSettings.from_json(open_crawl(store, None, None).settings)
    closed = {
        number
        for number in planned_rounds(store)
        if {batch.batch_id for batch in read_plan(store, number)} <= committed_batch_ids(store, number)
    }
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


def _plan_problems(batches: Iterable[Batch], number: int, where: str) -> Iterator[str]:
    """A URL that is planned twice, and places that are taken twice or missing."""
    counted = Counter(page.url_key for batch in batches for page in batch.pages)
    for key, times in counted.items():
        if times > 1:
            yield f"{key} is planned {times} times in round {number} of {where}; restore the plan from a copy."
    lanes: defaultdict[int, list[int]] = defaultdict(list)
    for batch in batches:
        lanes[batch.lane].append(batch.sequence)
    for lane, sequences in sorted(lanes.items()):
        if sorted(sequences) != list(range(len(sequences))):
            yield (
                f"Lane {lane} of round {number} in {where} does not hold the batches 0 to {len(sequences) - 1} once;"
                " restore the plan from a copy."
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
