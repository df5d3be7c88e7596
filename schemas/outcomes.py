"""How a URL ended (outcome), what its capture did without (degradation), and how a stage ended: closed sets.

A change to a set is a new SCHEMA_VERSION.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

Outcome: TypeAlias = Literal[
    "ok",
    "http_error",
    "empty",
    "robots_denied",
    "policy_denied",
    "private_address",
    "dns_error",
    "connection_error",
    "tls_error",
    "protocol_error",
    "redirect_loop",
    "navigation_timeout",
    "capture_timeout",
    "renderer_crash",
    "browser_crash",
    "download",
    "unsupported_content",
    "auth_required",
    "too_large",
    "page_closed",
    "challenge",
    "deferred",
    "quarantined",
]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

RETRYABLE_OUTCOMES: frozenset[Outcome] = frozenset(
    {
        "http_error",
        "dns_error",
        "connection_error",
        "protocol_error",
        "navigation_timeout",
        "capture_timeout",
        "renderer_crash",
        "browser_crash",
        "challenge",
        "deferred",
    }
)
"""Outcomes that a later round may try again; see `is_retryable` for the one that depends on the status."""

Degradation: TypeAlias = Literal[
    "ax_timeout",
    "ax_partial",
    "ax_failed",
    "frame_lost",
    "frames_capped",
    "listeners_skipped",
    "snapshot_failed",
    "snapshot_truncated",
    "depth_limited",
    "unsettled",
    "dialogs_capped",
    "popups_capped",
    "body_incomplete",
    "text_truncated",
    "attributes_truncated",
    "xpath_truncated",
    "secrets_masked",
    "surrogates_replaced",
    "screenshot_failed",
]
DEGRADATIONS: tuple[Degradation, ...] = get_args(Degradation)

Stage: TypeAlias = Literal[
    "permission",
    "context",
    "navigate",
    "settle",
    "listeners",
    "layout_snapshot",
    "dom_document",
    "ax_tree",
    "merge",
    "listing",
    "outline",
    "regions",
    "readable",
    "screenshot",
    "write",
    "commit",
]
STAGES: tuple[Stage, ...] = get_args(Stage)

StageOutcome: TypeAlias = Literal["ok", "timeout", "error", "fallback", "skipped"]
STAGE_OUTCOMES: tuple[StageOutcome, ...] = get_args(StageOutcome)


def is_retryable(outcome: Outcome, status: int | None) -> bool:
    """Whether a later round may try this URL again; an HTTP error only for 429 and 5xx."""
    if outcome == "http_error":
        return status is not None and (status == 429 or status >= 500)
    return outcome in RETRYABLE_OUTCOMES
