"""The Arrow schemas of the tables: written here, never inferred.

Text is `large_string` (a listing column of one file can exceed 2 GiB). Every table starts with the same identity
columns; `page_id` joins them. A column's comment is its meaning; a null means "does not apply or was not reached".
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import pyarrow as pa

from schemas.version import SCHEMA_VERSION

TableName: TypeAlias = Literal["listings", "selector_maps", "outline_maps", "stage_metrics", "captures", "screenshots"]
TABLE_NAMES: tuple[TableName, ...] = get_args(TableName)

_TEXT = pa.large_string()
_WHEN = pa.timestamp("us", tz="UTC")


def _required(name: str, kind: pa.DataType) -> pa.Field[Any]:
    return pa.field(name, kind, nullable=False)


_IDENTITY: list[pa.Field[Any]] = [
    _required("page_id", _TEXT),  # schemas.identifiers.page_id, hex
    _required("crawl", _TEXT),
    _required("round", pa.int32()),
    _required("url_key", _TEXT),
    _required("profile", _TEXT),
    _required("attempt", _TEXT),  # 128 random bits of the execution that wrote the row, hex
]

LISTINGS = pa.schema(
    [
        *_IDENTITY,
        _required("seed", _TEXT),  # as given, without userinfo; of a page that a link led to its URL key
        _required("host", _TEXT),
        _required("site", _TEXT),
        _required("lane", pa.int32()),
        _required("batch_id", _TEXT),
        # how it ended
        _required("outcome", _TEXT),  # schemas.outcomes.OUTCOMES
        pa.field("outcome_detail", _TEXT),  # in whose words: browser error code, exception text
        _required("retryable", pa.bool_()),
        _required("degradations", pa.list_(pa.field("item", _TEXT, nullable=False))),  # sorted
        pa.field("settle_reason", _TEXT),  # workers.browser.visit.SettleReason
        # fetch
        pa.field("final_url", _TEXT),
        pa.field("status", pa.int32()),
        pa.field("content_type", _TEXT),
        pa.field("retry_after_seconds", pa.float64()),  # what the Retry-After header of a 429 or 503 asks for
        _required("redirects", pa.list_(pa.field("item", _TEXT, nullable=False))),  # URLs passed on the way
        pa.field("title", _TEXT),
        pa.field("robots_verdict", _TEXT),  # allowed | denied | not_asked | unreachable
        pa.field("robots_rule", _TEXT),  # the rule that decided, and the file; or why there is none
        pa.field("crawl_delay_seconds", pa.float64()),  # Crawl-delay of robots.txt, 0 where it has none
        pa.field("policy_basis", _TEXT),  # why the site may be captured, in the policy file's words
        pa.field("policy_sha256", _TEXT),  # of the policy file, hex
        # what the page and its host say about its use; null where no page came
        pa.field("x_robots_tag", pa.list_(pa.field("item", _TEXT, nullable=False))),  # as sent
        pa.field("meta_robots", pa.list_(pa.field("item", _TEXT, nullable=False))),  # "name: content"
        pa.field("robots_directives", pa.list_(pa.field("item", _TEXT, nullable=False))),  # of both, for us, sorted
        pa.field("tdm_reservation", _TEXT),  # TDM Reservation Protocol: "1" reserves
        pa.field("tdm_policy", _TEXT),
        pa.field("content_signal", _TEXT),  # "search=yes, ai-train=no"
        pa.field("licence_links", pa.list_(pa.field("item", _TEXT, nullable=False))),  # absolute URLs of rel=license
        _required("started_at", _WHEN),
        _required("duration_ms", pa.float64()),
        # the way of looking
        _required("viewport_width", pa.int32()),
        _required("viewport_height", pa.int32()),
        _required("scale", pa.float64()),
        _required("locale", _TEXT),
        _required("time_zone", _TEXT),
        pa.field("user_agent", _TEXT),
        # versions that shaped the row
        _required("pagestate_version", _TEXT),
        _required("schema_version", pa.int32()),
        _required("settings_hash", _TEXT),
        _required("serializer", _TEXT),  # NAME of the listing's serializer
        _required("serializer_version", _TEXT),
        pa.field("playwright_version", _TEXT),
        pa.field("browser_version", _TEXT),
        # what was seen
        pa.field("listing", _TEXT),
        pa.field("listing_sha256", _TEXT),  # of the UTF-8 bytes, hex
        pa.field("forged_lines", pa.int64()),  # lines that the page made: by line breaks, or by looking like an element
        pa.field("outline", _TEXT),  # Stagehand's combined tree
        pa.field("outline_sha256", _TEXT),  # of the UTF-8 bytes, hex
        pa.field("outline_serializer", _TEXT),
        pa.field("outline_serializer_version", _TEXT),
        pa.field("agreement", pa.float64()),  # share of the actionable elements that listing and outline both know
        pa.field("agreement_elements", pa.int64()),  # elements that either calls actionable
        pa.field("agreement_only_listing", pa.int64()),  # of these, those that the outline does not know
        pa.field("agreement_only_outline", pa.int64()),  # of these, those that the listing does not know
        pa.field("nodes", pa.int64()),  # nodes of the page tree
        pa.field("links", pa.int64()),  # browser-use's page statistics from here
        pa.field("interactive_elements", pa.int64()),
        pa.field("iframes", pa.int64()),
        pa.field("shadow_open", pa.int64()),
        pa.field("shadow_closed", pa.int64()),
        pa.field("images", pa.int64()),
        pa.field("scroll_containers", pa.int64()),
        pa.field("total_elements", pa.int64()),
        pa.field("text_chars", pa.int64()),
        pa.field("document_depth", pa.int32()),  # depth asked of DOM.getDocument that worked; -1 is all
        pa.field("hydrated_nodes", pa.int64()),  # cut-off nodes whose children were filled in
        _required("surrogates_replaced", pa.int64()),
        _required("secrets_masked", pa.int64()),
        _required("payload_bytes", pa.int64()),  # of all payloads, with their secrets masked
        _required("dialogs", pa.int64()),
        _required("popups", pa.int64()),
        _required("downloads", pa.int64()),  # refused
        pa.field("files", pa.list_(pa.field("item", _TEXT, nullable=False))),  # of these the first, name and type
        pa.field("service_workers", pa.int64()),  # refused
        pa.field("client_redirects", pa.int64()),  # documents by which the page replaced itself
        pa.field("requests", pa.int64()),
        pa.field("response_bytes", pa.int64()),  # of all responses, decoded
        # URLs of requests still under way when the page was taken, the first
        pa.field("pending", pa.list_(pa.field("item", _TEXT, nullable=False))),
    ]
)

SELECTOR_MAPS = pa.schema(
    [
        *_IDENTITY,
        _required("position", pa.int32()),  # in the selector map's own order, from 0
        _required("index", pa.int64()),  # the number printed in the listing
        _required("backend_node_id", pa.int64()),
        _required("target", pa.int32()),  # ordinal of the CDP target, 0 is the page
        pa.field("frame_id", _TEXT),
        _required("tag", _TEXT),
        pa.field("role", _TEXT),  # of the accessibility tree
        pa.field("name", _TEXT),
        _required("xpath", _TEXT),
        pa.field("x", pa.float64()),  # CSS px in the element's own document
        pa.field("y", pa.float64()),
        pa.field("width", pa.float64()),
        pa.field("height", pa.float64()),
        pa.field("absolute_x", pa.float64()),  # CSS px in the top viewport
        pa.field("absolute_y", pa.float64()),
        _required("attributes", pa.map_(_TEXT, _TEXT)),
        _required("interactive_reason", _TEXT),
        _required("is_new", pa.bool_()),
        _required("printed", pa.bool_()),  # False inside an svg, whose descendants are numbered but not printed
    ]
)

OUTLINE_MAPS = pa.schema(
    [
        *_IDENTITY,
        _required("position", pa.int32()),  # line of the outline, from 0; a line forged by a page has none
        _required("encoded_id", _TEXT),  # as printed: frame ordinal and backend node id, or an accessibility node's id
        pa.field("backend_node_id", pa.int64()),
        _required("target", pa.int32()),  # ordinal of the CDP target, 0 is the page
        _required("frame_id", _TEXT),
        _required("depth", pa.int32()),
        _required("role", _TEXT),  # as printed
        pa.field("name", _TEXT),  # as printed; null where the line has none
        _required("selected", pa.bool_()),
        _required("checked", pa.bool_()),
        pa.field("xpath", _TEXT),  # null where the document does not know the node (list markers, for one)
        _required("xpath_truncated", pa.bool_()),  # it is that of the nearest ancestor whose path fits
        pa.field("url", _TEXT),
    ]
)

STAGE_METRICS = pa.schema(
    [
        *_IDENTITY,
        _required("position", pa.int32()),  # order in which the stages ended, from 0
        _required("stage", _TEXT),  # schemas.outcomes.STAGES
        _required("outcome", _TEXT),  # schemas.outcomes.STAGE_OUTCOMES
        pa.field("detail", _TEXT),
        _required("started_ms", pa.float64()),  # after the page's start
        _required("duration_ms", pa.float64()),
        pa.field("cpu_ms", pa.float64()),  # of the process that did it, where it had the process to itself
        pa.field("bytes", pa.int64()),
        pa.field("nodes", pa.int64()),
        pa.field("depth", pa.int32()),  # of dom_document: depth asked of DOM.getDocument that came; -1 is all
        pa.field("hydrated_nodes", pa.int64()),  # of dom_document: cut-off nodes whose children were filled in
    ]
)

CAPTURES = pa.schema(
    [
        *_IDENTITY,
        _required("position", pa.int32()),  # in the order asked, from 0
        _required("kind", _TEXT),  # schemas.capture.PAYLOAD_KINDS
        _required("target", pa.int32()),
        _required("frame_id", _TEXT),
        _required("encoding", _TEXT),  # zstd
        _required("raw_bytes", pa.int64()),
        _required("sha256", _TEXT),  # of the raw payload, hex
        _required("data", pa.large_binary()),
    ]
)

SCREENSHOTS = pa.schema(
    [
        *_IDENTITY,
        _required("area", _TEXT),  # viewport | full
        _required("format", _TEXT),  # png | webp
        _required("width", pa.int32()),  # px of the picture
        _required("height", pa.int32()),
        _required("scale", pa.float64()),  # px of the picture to a CSS px
        _required("x", pa.float64()),  # CSS px: where in the document its upper left corner is
        _required("y", pa.float64()),
        _required("page_width", pa.float64()),  # CSS px of the whole document
        _required("page_height", pa.float64()),
        _required("cut", pa.bool_()),  # a full page that was higher than the cap
        _required("boxes", pa.int32()),  # elements of the listing that were framed
        _required("covered", pa.int32()),  # fields, texts and frames that were covered, lest they tell a secret
        _required("bytes", pa.int64()),
        _required("sha256", _TEXT),  # of the picture, hex
        _required("image", pa.large_binary()),
    ]
)

_SCHEMAS: dict[TableName, pa.Schema] = {
    "listings": LISTINGS,
    "selector_maps": SELECTOR_MAPS,
    "outline_maps": OUTLINE_MAPS,
    "stage_metrics": STAGE_METRICS,
    "captures": CAPTURES,
    "screenshots": SCREENSHOTS,
}


def table_schema(name: TableName) -> pa.Schema:
    """The schema of a table, with `table` and `schema_version` in its file metadata."""
    return _SCHEMAS[name].with_metadata({"table": name, "schema_version": str(SCHEMA_VERSION)})


PLAN = pa.schema(
    [
        _required("crawl", _TEXT),
        _required("round", pa.int32()),
        _required("lane", pa.int32()),
        _required("sequence", pa.int32()),
        _required("batch_id", _TEXT),
        _required("position", pa.int32()),  # in the batch, from 0
        _required("host", _TEXT),
        _required("url_key", _TEXT),
        _required("seed", _TEXT),
        _required("profiles", pa.list_(pa.field("item", _TEXT, nullable=False))),  # those it lacks; none is all
        # null in a plan of before version 4
        pa.field("depth", pa.int32()),  # links that lead to it from a seed
        pa.field("tries", pa.int32()),  # earlier rounds in which it failed for a time
    ]
).with_metadata({"table": "plan", "schema_version": str(SCHEMA_VERSION)})
