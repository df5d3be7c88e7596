"""What has been taken of a page: its payloads as they came, and how each stage of the taking ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from schemas.capture import PayloadKind
from schemas.outcomes import Degradation
from schemas.records import StageResult
from workers.browser.channel import Reply
from workers.browser.spool import Spooled


@dataclass(frozen=True, slots=True)
class Taken:
    """One payload as it came: in memory or spooled."""

    kind: PayloadKind
    data: Reply
    target: int = 0
    frame_id: str = ""


@dataclass(slots=True)
class Taking:
    """What has been taken of a page so far; a failure leaves what came before it."""

    payloads: list[Taken] = field(default_factory=list)
    stages: list[StageResult] = field(default_factory=list)
    degradations: set[Degradation] = field(default_factory=set)
    document_depth: int | None = None
    subtrees: int = 0

    def discard(self) -> None:
        """Removes the files of spooled payloads."""
        for taken in self.payloads:
            if isinstance(taken.data, Spooled):
                taken.data.delete()
