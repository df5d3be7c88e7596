"""A visit is what happened on the way to a settled page; it is filled in as it happens, so that a failure keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from schemas.outcomes import Degradation, Outcome

SettleReason = Literal[
    "quiet", "quiet_cap", "load_cap", "blocked", "document_failed", "redirects_cap", "requests_cap", "bytes_cap"
]
"""Why the wait for a settled page ended:
quiet            the DOM did not change for the quiet window
quiet_cap        it never stopped changing
load_cap         the load event did not come
blocked          a script kept the page's thread to itself
document_failed  the document's body broke off, so that no load event will come
redirects_cap    the page went on replacing its document; the next one was refused
requests_cap, bytes_cap  it asked for too much; everything further was refused
"""

UNSETTLED: frozenset[SettleReason] = frozenset(
    {"quiet_cap", "load_cap", "blocked", "redirects_cap", "requests_cap", "bytes_cap"}
)
MAX_LISTED = 5
"""So many URLs still under way, and so many refused files, are named; the rest is only counted."""
MAX_NAME_CHARS = 500
"""A longer URL or file name in such a list is cut."""


@dataclass(slots=True)
class Visit:
    """What happened on the way to a settled page."""

    status: int | None = None
    content_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """Of the document's answer, names in lower case."""
    redirects: list[str] = field(default_factory=list)
    """URLs passed on the way to the first document, by HTTP."""
    client_redirects: int = 0
    """Documents that replaced the first one, by script or by meta refresh."""
    final_url: str | None = None
    settle_reason: SettleReason | None = None
    title: str | None = None
    title_is_cut: bool = False
    elements: int | None = None
    """Elements of the top document, shadow trees and frames not counted; None when the page's thread was blocked."""
    dialogs: int = 0
    popups: int = 0
    downloads: int = 0
    files: list[str] = field(default_factory=list)
    """Of refused downloads, the first few: name and type."""
    service_workers: int = 0
    requests: int = 0
    response_bytes: int = 0
    """Of all responses, decoded."""
    pending: list[str] = field(default_factory=list)
    """URLs of requests still under way when the page was taken, the first few."""
    challenge: str | None = None
    """The signal of a challenge or block page, if it is one."""
    degradations: set[Degradation] = field(default_factory=set)

    def note_file(self, name: str, content_type: str | None) -> None:
        """Counts a refused download and describes it, while there is room."""
        self.downloads += 1
        if len(self.files) < MAX_LISTED:
            self.files.append(f"{name[:MAX_NAME_CHARS]} ({content_type or 'type unknown'})")


def outcome_of_status(status: int | None) -> Outcome:
    """The outcome of a page that was captured, by the status of its document."""
    if status == 401 or status == 407:
        return "auth_required"
    if status is not None and status >= 400:
        return "http_error"
    return "ok"
