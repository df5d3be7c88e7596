"""The logical hash of a crawl is over what its pages are, and not over who captured them, when, or in which files.

It is made of the last row of every page, with its selector map and its outline map. Numbers that a browser gives anew
each time (backend node ids, and the ids that hold them) are replaced by the order in which they come.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from schemas.records import Row
from workers.store import ObjectStore, markers, read_table

LISTING_COLUMNS: Final = (
    *("url_key", "profile", "seed", "host", "site", "outcome", "outcome_detail", "retryable", "degradations"),
    *("final_url", "status", "content_type", "redirects", "title"),
    *("robots_verdict", "robots_rule", "crawl_delay_seconds", "policy_basis", "policy_sha256"),
    *("x_robots_tag", "meta_robots", "robots_directives", "tdm_reservation", "tdm_policy", "content_signal"),
    *("licence_links", "viewport_width", "viewport_height", "scale", "locale", "time_zone", "user_agent"),
    *("schema_version", "serializer", "serializer_version", "listing", "forged_lines"),
    *("outline", "outline_serializer", "outline_serializer_version"),
    *("agreement", "agreement_elements", "agreement_only_listing", "agreement_only_outline"),
    *("nodes", "links", "interactive_elements", "iframes", "shadow_open", "shadow_closed", "images"),
    *("scroll_containers", "total_elements", "text_chars", "document_depth", "hydrated_nodes"),
    *("surrogates_replaced", "secrets_masked", "dialogs", "popups", "downloads", "files", "service_workers"),
    *("client_redirects",),
)
SELECTOR_COLUMNS: Final = (
    *("position", "target", "tag", "role", "name", "xpath", "x", "y", "width", "height", "absolute_x", "absolute_y"),
    *("attributes", "interactive_reason", "is_new", "printed"),
)
OUTLINE_COLUMNS: Final = (
    *("position", "target", "depth", "role", "name", "selected", "checked", "xpath", "xpath_truncated", "url"),
)
OF_THE_MOMENT: Final = frozenset({"unsettled"})
"""Degradations that tell of the network and the machine at the time, and nothing about what was captured."""

_INDEX: Final = re.compile(r"\[(\d+)\](?=<)")
_ENCODED: Final = re.compile(r"^(\s*)\[([^\]\s]+)\]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LogicalPage:
    """How a page ended, and the hash of all that is logical about it."""

    outcome: str
    sha256: str


def logical_pages(store: ObjectStore) -> dict[tuple[str, str], LogicalPage]:
    """Every page of a crawl by URL key and profile, as its last round left it; batch by batch. Raises StoreError."""
    pages: dict[tuple[str, str], LogicalPage] = {}
    for marker in sorted(markers(store), key=lambda marker: -marker.round):
        rows = read_table(store, "listings", ["page_id", *LISTING_COLUMNS], of=[marker]).to_pylist()
        selectors = read_table(store, "selector_maps", ["page_id", *SELECTOR_COLUMNS], of=[marker])
        outlines = read_table(store, "outline_maps", ["page_id", *OUTLINE_COLUMNS], of=[marker])
        elements, lines = _by_page(selectors.to_pylist(maps_as_pydicts="strict")), _by_page(outlines.to_pylist())
        for row in rows:
            identity = row.pop("page_id")
            key = row["url_key"], row["profile"]
            if key not in pages:
                whole = [_logical(row), elements.get(identity, []), lines.get(identity, [])]
                pages[key] = LogicalPage(row["outcome"], _digest(whole))
    return pages


def logical_hash(pages: Mapping[tuple[str, str], LogicalPage], by_outcome: Collection[tuple[str, str]] = ()) -> str:
    """The hash of a crawl's pages; of those in `by_outcome`, which change by themselves, only the outcome counts."""
    return _digest(
        [[*key, page.outcome, None if key in by_outcome else page.sha256] for key, page in sorted(pages.items())]
    )


def _logical(row: Row) -> Row:
    return row | {
        "degradations": [name for name in row["degradations"] if name not in OF_THE_MOMENT],
        "listing": _in_order(_INDEX, row["listing"], lambda found, number: f"[{number}]", 1),
        "outline": _in_order(_ENCODED, row["outline"], lambda found, number: f"{found[1]}[{number}]", 2),
    }


def _in_order(
    pattern: re.Pattern[str], text: str | None, written: Callable[[re.Match[str], int], str], group: int
) -> str | None:
    """A text whose ids are replaced by the order in which they first come."""
    order: dict[str, int] = {}
    if text is None:
        return None
    return pattern.sub(lambda found: written(found, order.setdefault(found[group], len(order))), text)


def _by_page(rows: list[dict[str, Any]]) -> dict[str, list[Row]]:
    pages: dict[str, list[Row]] = {}
    for row in rows:
        pages.setdefault(row.pop("page_id"), []).append(row)
    for of_page in pages.values():
        of_page.sort(key=lambda row: row["position"])
    return pages


def _digest(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()
