"""Secret field values are masked in the raw payloads, before anything is stored or merged.

A secret field is an element whose `type` is `password`, or whose `autocomplete` names a password, a card detail
(`cc-*`) or a one-time code (WHATWG HTML, 4.10.18.7.1 Autofill). Its value becomes one fixed text, and what
is drawn of it the rectangle of its field, so that not even its length remains; but a field that grows with its content
(`field-sizing: content`, `appearance: base-select`) keeps its size, and a text area the number of its lines in the
accessibility tree. Payloads without a value to mask are passed on as they are.
"""

from __future__ import annotations

import re

from schemas.capture import Buffer, Capture, Payload
from workers.merge.search import contains, matches
from workers.merge.secret_accessibility import SecretAccessibility
from workers.merge.secret_document import SecretDocument
from workers.merge.secret_fields import SecretFields
from workers.merge.secret_snapshot import SecretSnapshot, may_hold_secret

_DOCUMENT_SIGNS = (
    (b'"type"', re.compile(rb'"type",\s?"[pP][aA][sS][sS][wW][oO][rR][dD]')),
    (
        b'"autocomplete"',
        re.compile(
            rb'"autocomplete",\s?"[^"]*(?:[cC][cC]-|[pP][aA][sS][sS][wW][oO][rR][dD]|[oO][nN][eE]-[tT][iI][mM][eE])'
        ),
    ),
    (
        b'"srcdoc"',
        re.compile(
            rb'"srcdoc",\s?"(?:[^"\\]|\\.)*?'
            rb"(?:[cC][cC]-|[pP][aA][sS][sS][wW][oO][rR][dD]|[oO][nN][eE]-[tT][iI][mM][eE]|&#)"
        ),
    ),
)
_SNAPSHOT_SIGNS = (b'"password"', b'"cc-', b" cc-", b"one-time-code", b"current-password", b"new-password")
"""What the bytes of a page with a secret field contain. Of a pattern the literal that it starts with is searched first.

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
    own = {place: payload for place, payload in enumerate(payloads) if payload.target == target}
    documents = {i: SecretDocument(p) for i, p in own.items() if p.kind in ("dom_document", "dom_subtree")}
    snapshots = {i: SecretSnapshot(p) for i, p in own.items() if p.kind == "layout_snapshot"}
    # a page may turn a field from one kind to the other between two payloads: what any of them calls secret is secret
    for document in documents.values():
        document.find(fields)
    known = len(fields.fields)
    for snapshot in snapshots.values():
        snapshot.find(fields)
    if len(fields.fields) > known:
        for document in documents.values():
            document.find(fields)
    trees = {}
    if fields.fields:
        trees = {i: SecretAccessibility(p, fields) for i, p in own.items() if p.kind == "ax_tree"}
        for tree in trees.values():
            tree.find(fields)
    hidden = fields.searchable()
    for place, source in (documents | snapshots | trees).items():
        data: Buffer | None = source.mask(fields, hidden)
        if data is not None:
            payload = payloads[place]
            payloads[place] = Payload(payload.kind, data, payload.target, payload.frame_id)
    return len(fields.masked)


def _has_sign(payload: Payload) -> bool:
    if payload.kind in ("dom_document", "dom_subtree"):
        return any(matches(payload.data, start, pattern) for start, pattern in _DOCUMENT_SIGNS)
    if payload.kind != "layout_snapshot" or not contains(payload.data, *_SNAPSHOT_SIGNS):
        return False
    return may_hold_secret(payload)  # a page may well talk about passwords
