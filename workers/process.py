"""Processing turns the raw payloads of one page into its rows, in a process of its own.

Decoding, merge, serializing and compression run here, so that a huge page neither stalls the budgets of its
neighbours nor takes the worker down. The function is pure but for reading spooled payloads.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeVar

import pyarrow as pa

from schemas.capture import Capture, Payload
from schemas.outcomes import Degradation, Stage
from schemas.records import Row, StageResult
from workers.browser.spool import buffer_of
from workers.capture.take import Taken
from workers.merge import PageTree, PayloadError, merge
from workers.merge.secrets import mask_secrets
from workers.serialize import listing as listing_serializer
from workers.serialize.listing import Listing, serialize_listing

_Result = TypeVar("_Result")

ZSTD_LEVEL = 3
"""zstd's own default; payloads shrink to about a twentieth."""


@dataclass(frozen=True, slots=True)
class Processed:
    """The rows of one page, ready for the store. `error` names the payload field that made no sense, if one did."""

    listing: Row = field(default_factory=dict)
    selector_map: list[Row] = field(default_factory=list)
    captures: list[Row] = field(default_factory=list)
    stages: list[StageResult] = field(default_factory=list)
    degradations: frozenset[Degradation] = frozenset()
    is_empty: bool = False
    error: str | None = None


def process_page(taken: Sequence[Taken], store_captures: bool) -> Processed:
    """The rows of one page from its payloads; times of its stages count from 0 at the start of processing.

    A payload that makes no sense costs the listing, never the captures.
    """
    started = time.perf_counter()
    raw = Capture(tuple(Payload(t.kind, buffer_of(t.data), t.target, t.frame_id) for t in taken))
    stages: list[StageResult] = []
    degradations: set[Degradation] = set()
    row: Row = {"payload_bytes": sum(len(p.data) for p in raw.payloads), "secrets_masked": 0, "surrogates_replaced": 0}
    rows: list[Row] = []
    error: str | None = None
    is_empty = False
    capture = raw
    try:
        capture, masked = _timed("merge", started, [], lambda: mask_secrets(raw))
        row["secrets_masked"] = masked
        if masked:
            degradations.add("secrets_masked")
        if any(p.kind == "layout_snapshot" for p in capture.payloads):
            tree = _timed("merge", started, stages, lambda: merge(capture), lambda t: t.node_count)
            row |= tree_columns(tree)
            if tree.surrogates_replaced:
                degradations.add("surrogates_replaced")
            listing = _timed("listing", started, stages, lambda: serialize_listing(tree))
            row |= listing_columns(listing)
            rows = selector_rows(listing)
            is_empty = looks_empty(listing)
    except PayloadError as failure:
        error = str(failure)
    captures = [capture_row(p) for p in capture.payloads] if store_captures and error is None else []
    if error is not None and store_captures and row["secrets_masked"] == 0 and not _may_hold_secrets(raw):
        captures = [capture_row(p) for p in raw.payloads]
    return Processed(row, rows, captures, stages, frozenset(degradations), is_empty, error)


def _may_hold_secrets(capture: Capture) -> bool:
    """Whether payloads that could not be decoded, and so not masked, might hold a secret; such are not stored."""
    return any(b"password" in bytes(p.data).lower() for p in capture.payloads)


def tree_columns(tree: PageTree) -> Row:
    """Columns of `listings` that come from the page tree."""
    return {"nodes": tree.node_count, "surrogates_replaced": tree.surrogates_replaced}


def listing_columns(listing: Listing) -> Row:
    """Columns of `listings` that come from the listing."""
    stats = listing.stats
    return {
        "listing": listing.text,
        "listing_sha256": sha256(listing.text.encode()).hexdigest(),
        "serializer": listing_serializer.NAME,
        "serializer_version": listing_serializer.VERSION,
        "links": stats.links,
        "interactive_elements": stats.interactive_elements,
        "iframes": stats.iframes,
        "shadow_open": stats.shadow_open,
        "shadow_closed": stats.shadow_closed,
        "images": stats.images,
        "scroll_containers": stats.scroll_containers,
        "total_elements": stats.total_elements,
        "text_chars": stats.text_chars,
    }


def looks_empty(listing: Listing) -> bool:
    """Whether a page shows nothing: no text, nothing to act on, and no element but html and body."""
    stats = listing.stats
    return stats.text_chars == 0 and stats.interactive_elements == 0 and stats.total_elements <= 2


def selector_rows(listing: Listing) -> list[Row]:
    """Rows of `selector_maps`, in the map's order."""
    return [dict(row) for row in listing.selector_rows()]


def capture_row(payload: Payload) -> Row:
    """A row of `captures`."""
    data = pa.py_buffer(payload.data)
    packed = pa.Codec("zstd", compression_level=ZSTD_LEVEL).compress(data)
    return {
        "kind": payload.kind,
        "target": payload.target,
        "frame_id": payload.frame_id,
        "encoding": "zstd",
        "raw_bytes": data.size,
        "sha256": sha256(data).hexdigest(),
        "data": packed.to_pybytes(),
    }


def _timed(
    stage: Stage,
    started: float,
    stages: list[StageResult],
    step: Callable[[], _Result],
    nodes: Callable[[_Result], int] | None = None,
) -> _Result:
    begun, cpu = time.perf_counter(), time.process_time()
    result = step()
    stages.append(
        StageResult(
            stage,
            "ok",
            (begun - started) * 1000,
            (time.perf_counter() - begun) * 1000,
            cpu_ms=(time.process_time() - cpu) * 1000,
            nodes=nodes(result) if nodes else None,
        )
    )
    return result


def process_pool(processes: int) -> ProcessPoolExecutor:
    """A pool for `process_page`; its processes ignore Ctrl-C and end when their parent does, however it ends."""
    return ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn"), initializer=_initialize)


def _initialize() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="parent-watch", daemon=True).start()


def _end_with_parent() -> None:
    """Ends this process when its parent is gone: a pool's queue never tells (its writing end is open here too)."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
