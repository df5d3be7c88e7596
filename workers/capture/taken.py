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


@dataclass(frozen=True, slots=True)
class Clip:
    """The part of a page that is in its picture: in CSS pixels of the document, and pixels of the picture to each.

    page_width, page_height   of the whole document
    cut                       the page goes on below
    ratio                     pixels of layout snapshots to each CSS pixel
    """

    x: float
    y: float
    width: float
    height: float
    scale: float
    page_width: float
    page_height: float
    cut: bool = False
    ratio: float = 1.0


@dataclass(slots=True)
class Picture:
    """The picture of a page as it came, and layout snapshots that tell where everything was (target ordinal, reply).

    before   in the layout of the picture, where that is not the layout of the page's own snapshot
    after    once the picture was there
    """

    started_ms: float = 0.0
    duration_ms: float = 0.0
    reply: Reply = b""
    clip: Clip | None = None
    before: list[tuple[int, Reply]] = field(default_factory=list)
    after: list[tuple[int, Reply]] = field(default_factory=list)

    def discard(self) -> None:
        """Removes the files of spooled replies."""
        for data in (self.reply, *(reply for _, reply in (*self.before, *self.after))):
            if isinstance(data, Spooled):
                data.delete()


@dataclass(slots=True)
class Taking:
    """What has been taken of a page so far; a failure leaves what came before it."""

    payloads: list[Taken] = field(default_factory=list)
    stages: list[StageResult] = field(default_factory=list)
    degradations: set[Degradation] = field(default_factory=set)
    document_depth: int | None = None
    subtrees: int = 0
    picture: Picture | None = None

    def discard(self) -> None:
        """Removes the files of spooled payloads."""
        for taken in self.payloads:
            if isinstance(taken.data, Spooled):
                taken.data.delete()
        if self.picture is not None:
            self.picture.discard()
