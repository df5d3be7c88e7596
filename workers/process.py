"""Processing turns the raw payloads of one page into its rows, in a process of its own.

Decoding, merge, serializing and compression run here, so that a huge page neither stalls the budgets of its
neighbours nor takes the worker down. The function is pure but for reading spooled payloads.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from hashlib import sha256
from typing import TypeVar

from schemas.capture import Capture, Payload, PayloadKind
from schemas.outcomes import Degradation, Stage
from schemas.records import Row, StageResult
from schemas.settings import CrawlSettings
from workers.browser.spool import buffer_of
from workers.capping import cap_forms, cap_rows
from workers.capture.taken import Taken
from workers.credentials import mask_repeated
from workers.merge import PageTree, PayloadError, mask_secrets, merge
from workers.merge.dispensable import without_senseless
from workers.serialize import listing as listing_serializer
from workers.serialize.agreement import agreement
from workers.serialize.listing import Listing, SelectorMap, serialize_listing
from workers.serialize.options import ListingOptions
from workers.serialize.outline import serialize_outline
from workers.serialize.outline_columns import agreement_columns, outline_columns, outline_map_rows
from workers.serialize.outline_options import OutlineOptions
from workers.serialize.rights import PageSignals, page_signals
from workers.store.payloads import encode_capture

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Processed:
    """The rows of one page, ready for the store. `error` names the payload field that made no sense, if one did."""

    listing: Row = field(default_factory=dict)
    selector_map: list[Row] = field(default_factory=list)
    outline_map: list[Row] = field(default_factory=list)
    captures: list[Row] = field(default_factory=list)
    stages: list[StageResult] = field(default_factory=list)
    degradations: frozenset[Degradation] = frozenset()
    is_empty: bool = False
    error: str | None = None
    senseless: PayloadKind | None = None
    """The kind of the payload that `error` is about."""
    signals: PageSignals = field(default_factory=PageSignals)
    owners: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By target the element that shows it: its target and backend node id."""


EMPTY_DOCUMENT_NODES = 6
"""#document, doctype, html, head, body, and one node that a server's bare markup may add."""


def process_page(taken: Sequence[Taken], settings: CrawlSettings, secrets: Sequence[str] = ()) -> Processed:
    """The rows of one page from its payloads; times of its stages count from 0 at the start of processing.

    `secrets` are values that the page was shown and may repeat; they are masked before anything else happens.

    A payload that makes no sense is left out where the page can do without it. A document costs everything but the
    captures, and those too where it is so broken that secrets in it could not be masked.
    """
    started = time.perf_counter()
    # a page's values hold no cycles, and looking for some costs a third of the merge of a large page
    gc.disable()
    try:
        return _process(taken, settings, secrets, started)
    finally:
        gc.enable()


def _process(taken: Sequence[Taken], settings: CrawlSettings, secrets: Sequence[str], started: float) -> Processed:
    raw = Capture(tuple(Payload(t.kind, buffer_of(t.data), t.target, t.frame_id) for t in taken))
    size = _bytes_of(raw)
    raw, repeated = mask_repeated(raw, secrets)
    degradations: set[Degradation] = set()
    reasons: list[str] = []
    while True:
        row: Row = {"payload_bytes": size}
        made = _made_of(raw, row, repeated, settings, started)
        less = without_senseless(raw, made.senseless) if made.senseless is not None else None
        if less is None:
            break
        raw, degradation = less
        degradations.add(degradation)
        reasons.append(made.error or "")
    if not reasons:
        return made
    detail = "; ".join(reasons)
    stages = [replace(s, outcome="fallback", detail=detail) if s.stage == "merge" else s for s in made.stages]
    return replace(made, stages=stages, degradations=made.degradations | degradations)


def _made_of(raw: Capture, row: Row, repeated: int, settings: CrawlSettings, started: float) -> Processed:
    try:
        capture, masked = mask_secrets(raw)
    except PayloadError as error:
        return Processed(row, error=str(error), senseless=error.kind)
    masked += repeated
    row["secrets_masked"] = masked
    # what is stored, so that nobody subtracts the length of a secret from it
    row["payload_bytes"] = _bytes_of(capture)
    captures = encode_capture(capture) if settings.store_captures else []
    stages: list[StageResult] = []
    degradations: set[Degradation] = {"secrets_masked"} if masked else set()
    if next(capture.of("dom_document"), None) is None:
        return Processed(row, captures=captures, degradations=frozenset(degradations))
    options = ListingOptions.of(settings.listing)
    listing: Listing | None = None
    try:
        tree = _timed("merge", started, stages, lambda: merge(capture, outlined=True), len)
        # without a layout snapshot there is no listing, but document and accessibility still make an outline
        if next(capture.of("layout_snapshot"), None) is not None:
            listing = _timed(
                "listing", started, stages, lambda: serialize_listing(tree, options), lambda made: made.interactive
            )
        signals = page_signals(tree)
    except PayloadError as error:
        without = frozenset(degradations)
        return Processed(row, [], [], captures, stages, without, error=str(error), senseless=error.kind)
    if tree.surrogates_replaced:
        degradations.add("surrogates_replaced")
    row["surrogates_replaced"] = tree.surrogates_replaced
    if listing is not None:
        row |= listing_columns(listing)
    columns, outline_map, lacks = _outline(capture, tree, listing, settings, started, stages)
    row |= columns
    selector_map = selector_rows(listing.selector_map) if listing is not None else []
    degradations |= cap_forms(row, settings.caps)
    degradations |= cap_rows(selector_map, settings.caps) | cap_rows(outline_map, settings.caps)
    return Processed(
        row,
        selector_map,
        outline_map,
        captures,
        stages,
        frozenset(degradations | lacks),
        listing is not None and looks_empty(listing),
        signals=signals,
        owners=_owners(tree),
    )


def _bytes_of(capture: Capture) -> int:
    return sum(memoryview(payload.data).nbytes for payload in capture.payloads)


def _owners(tree: PageTree) -> dict[int, tuple[int, int]]:
    roots = {ordinal: target.root for ordinal, target in enumerate(tree.targets) if target.root > 0}
    shown_by = {ordinal: int(tree.parent[root]) for ordinal, root in roots.items()}
    return {ordinal: (int(tree.target[n]), int(tree.backend_node_id[n])) for ordinal, n in shown_by.items()}


def _outline(
    capture: Capture,
    tree: PageTree,
    listing: Listing | None,
    settings: CrawlSettings,
    started: float,
    stages: list[StageResult],
) -> tuple[Row, list[Row], frozenset[Degradation]]:
    """The outline's columns and rows; a payload that makes no sense to it costs the outline alone."""
    # an XPath that the caps cut anywhere would lead elsewhere
    options = OutlineOptions(max_xpath_chars=min(settings.outline.max_xpath_chars, settings.caps.attribute_chars))

    def made() -> tuple[Row, list[Row], frozenset[Degradation]]:
        outline = serialize_outline(capture, options, tree=tree)
        columns = outline_columns(outline)
        if listing is not None:
            columns |= agreement_columns(agreement(listing, outline))
        return columns, *outline_map_rows(outline)

    begun = time.perf_counter()
    try:
        return _timed("outline", started, stages, made, lambda result: len(result[1]))
    except PayloadError as error:
        took = (time.perf_counter() - begun) * 1000
        stages.append(StageResult("outline", "error", (begun - started) * 1000, took, str(error)))
        return {}, [], frozenset()


def listing_columns(listing: Listing) -> Row:
    """Columns of `listings` that come from the listing."""
    return {
        "listing": listing.text,
        "listing_sha256": sha256(listing.text.encode()).hexdigest(),
        "serializer": listing_serializer.NAME,
        "serializer_version": listing_serializer.VERSION,
        "forged_lines": listing.forged_lines,
        "nodes": listing.nodes,
        **asdict(listing.stats),
    }


def looks_empty(listing: Listing) -> bool:
    """Whether a page has nothing in it: no text, and no node but what Chromium makes of an empty document."""
    return listing.stats.text_chars == 0 and listing.nodes <= EMPTY_DOCUMENT_NODES


def selector_rows(elements: SelectorMap) -> list[Row]:
    """Rows of `selector_maps`, in the map's order."""
    names = [f.name for f in fields(elements) if f.name not in ("bounds", "absolute")]
    rows: list[Row] = [
        dict(zip(names, values, strict=True))
        for values in zip(*(getattr(elements, name) for name in names), strict=True)
    ]
    for row, bounds, absolute in zip(rows, elements.bounds, elements.absolute, strict=True):
        if bounds is not None and absolute is not None:
            row |= dict(zip(("x", "y", "width", "height"), bounds, strict=True))
            row |= dict(zip(("absolute_x", "absolute_y"), absolute, strict=False))
    return rows


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
