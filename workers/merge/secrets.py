"""Secret field values are masked in the raw payloads, before anything is stored or merged.

A secret field is an element whose `type` is `password`, or whose `autocomplete` names a password, a card detail
(`cc-*`) or a one-time code (WHATWG HTML, 4.10.18.7.1 Autofill). Its value becomes one fixed text, so that not even
its length remains. Payloads without a value to mask are passed on as they are.
"""

from __future__ import annotations

import re

from schemas.capture import Buffer, Capture, Payload
from workers.merge.search import contains, matches
from workers.merge.secret_accessibility import mask_accessibility
from workers.merge.secret_document import SecretFields, mask_document
from workers.merge.secret_snapshot import mask_snapshot, may_hold_secret

_DOCUMENT_SIGNS = (
    (b'"type"', re.compile(rb'"type",\s?"[pP][aA][sS][sS][wW][oO][rR][dD]')),
    (
        b'"autocomplete"',
        re.compile(
            rb'"autocomplete",\s?"[^"]*(?:[cC][cC]-|[pP][aA][sS][sS][wW][oO][rR][dD]|[oO][nN][eE]-[tT][iI][mM][eE])'
        ),
    ),
)
_SNAPSHOT_SIGNS = (b'"password"', b'"cc-', b" cc-", b"one-time-code")
"""What the bytes of a page with a secret field contain; of a pattern first the literal that it starts with is searched.

The snapshot is searched for lower case only: it can hold a secret field that the document has not just because the
page changed between the two."""


def mask_secrets(capture: Capture) -> tuple[Capture, int]:
    """The capture with secret values masked, and how many fields had one; PayloadError if a payload is malformed."""
    payloads = list(capture.payloads)
    masked = 0
    for target in dict.fromkeys(p.target for p in payloads):
        if any(_has_sign(p) for p in payloads if p.target == target):
            masked += _mask_target(payloads, target)
    return (Capture(tuple(payloads)), masked) if masked else (capture, 0)


def _mask_target(payloads: list[Payload], target: int) -> int:
    fields = SecretFields()
    for kinds, mask in (
        (("dom_document", "dom_subtree"), mask_document),
        (("layout_snapshot",), mask_snapshot),
        (("ax_tree",), mask_accessibility),
    ):
        for place, payload in enumerate(payloads):
            if payload.target == target and payload.kind in kinds:
                data: Buffer | None = mask(payload, fields)
                if data is not None:
                    payloads[place] = Payload(payload.kind, data, payload.target, payload.frame_id)
    return len(fields.masked)


def _has_sign(payload: Payload) -> bool:
    if payload.kind in ("dom_document", "dom_subtree"):
        return any(matches(payload.data, start, pattern) for start, pattern in _DOCUMENT_SIGNS)
    if payload.kind != "layout_snapshot" or not contains(payload.data, *_SNAPSHOT_SIGNS):
        return False
    return may_hold_secret(payload)  # a page may well talk about passwords
