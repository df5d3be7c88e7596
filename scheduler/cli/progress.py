"""Progress goes to stderr: a bar on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    # only named here: importing what captures pages takes longer than saying that it begins
    from workers.batch import BatchDone, PageDone

PLAIN_LINE_SECONDS = 5.0


class CrawlProgress(Protocol):
    """What a run tells its user on the way."""

    def start_round(self, number: int, pages: int) -> None:
        """A round begins with so many pages to do."""

    def page_done(self, page: PageDone) -> None:
        """A page has its outcome."""

    def batch_done(self, batch: BatchDone) -> None:
        """A batch has ended."""


class _Counts:
    """What both forms show."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.degraded = 0
        self.committed = 0
        self.total = 0
        self.done = 0
        self.round = 0
        self.started = time.monotonic()

    def start_round(self, number: int, pages: int) -> None:
        self.round, self.total, self.done = number, pages, 0
        self.started = time.monotonic()

    def page_done(self, page: PageDone) -> None:
        self.outcomes[page.outcome] += 1
        self.degraded += bool(page.degradations)
        self.done += 1

    def batch_done(self, batch: BatchDone) -> None:
        if batch.result != "unstarted":
            self.committed += sum(batch.outcomes.values())

    def rate(self) -> float:
        """Pages a second since the round began."""
        return self.done / max(time.monotonic() - self.started, 1e-9)

    def text(self) -> str:
        outcomes = " ".join(f"{name} {count}" for name, count in self.outcomes.most_common())
        degraded = f" ({self.degraded} degraded)" if self.degraded else ""
        return f"{self.rate():.1f} pages/s  {outcomes}{degraded}"


class _PlainProgress(_Counts):
    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._next = 0.0

    def start_round(self, number: int, pages: int) -> None:
        super().start_round(number, pages)
        if pages:
            print(f"pagestate: round {number}: {pages} pages to capture", file=self._stream, flush=True)
        self._next = time.monotonic() + PLAIN_LINE_SECONDS

    def page_done(self, page: PageDone) -> None:
        super().page_done(page)
        if time.monotonic() >= self._next or self.done == self.total:
            self._next = time.monotonic() + PLAIN_LINE_SECONDS
            left = (self.total - self.done) / max(self.rate(), 1e-9)
            print(
                f"pagestate: {self.done}/{self.total} pages, {self.text()}, about {left:.0f} s left",
                file=self._stream,
                flush=True,
            )


class _BarProgress(_Counts):
    def __init__(self, bar: Progress) -> None:
        super().__init__()
        self._bar = bar
        self._task = bar.add_task("starting", total=None, counts="")

    def start_round(self, number: int, pages: int) -> None:
        super().start_round(number, pages)
        self._bar.reset(self._task, total=pages, description=f"round {number}", counts="")

    def page_done(self, page: PageDone) -> None:
        super().page_done(page)
        self._bar.update(self._task, advance=1, counts=self.text())


@contextmanager
def progress_for(stream: TextIO) -> Iterator[CrawlProgress]:
    """The form of progress that fits the stream."""
    if not stream.isatty():
        yield _PlainProgress(stream)
        return
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[counts]}"),
    )
    with Progress(*columns, console=Console(file=stream), expand=True) as bar:
        yield _BarProgress(bar)
