"""The real Stagehand and our capture look at one and the same tab, one after the other.

Stagehand attaches itself to the browser of a `Supervisor`, so that backend node ids are the same on both sides; only
the numbers of frames are its own (they race), and those are taken over.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from schemas.capture import Capture, Payload
from schemas.errors import BrowserLost, ChannelError, PageFailed
from schemas.settings import Budgets, CrawlSettings
from workers.browser.session import PageSession
from workers.browser.spool import buffer_of
from workers.browser.supervisor import Supervisor
from workers.capture.take import take
from workers.capture.taken import Taking
from workers.merge import mask_secrets, merge
from workers.serialize.outline import Outline, serialize_outline
from workers.serialize.outline_options import OutlineOptions

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ROOT / ".cache" / "oracle-stagehand"
START_SECONDS = 120.0
MAX_LINE_BYTES = 1 << 20
PATIENT = Budgets(
    **{name: timedelta(seconds=seconds) for name, seconds in (("navigate", 60), ("load", 60), ("settle", 10))},
    **{name: timedelta(seconds=seconds) for name, seconds in (("payload", 120), ("retry", 60), ("needed", 600))},
)
SHOWN = 160


def missing() -> str | None:
    """Why the real Stagehand cannot be asked, None if it can."""
    if shutil.which("node") is None:
        return "the oracle is not set up: there is no node; install Node.js 20 or newer"
    if not (PACKAGES / "stamp").exists():
        return "the oracle is not set up; run `make oracle` to compare with the real Stagehand"
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """The first line or entry that differs, and both sides of it."""

    what: str
    place: int
    theirs: str
    ours: str

    def __str__(self) -> str:
        return f"{self.what}, {self.place}:\n    Stagehand {self.theirs!r}\n    pagestate {self.ours!r}"


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """How one page compares.

    difference   None is identical
    failure      why there is nothing to compare
    again        the page had changed meanwhile: the capture after Stagehand's is the one that was compared
    unsteady     our captures before and after Stagehand's differ from each other
    secrets      fields whose values the pipeline masks before it serializes; they are compared unmasked
    """

    name: str
    nodes: int = 0
    lines: int = 0
    difference: Difference | None = None
    failure: str | None = None
    again: bool = False
    unsteady: bool = False
    secrets: int = 0


class StagehandError(Exception):
    """Stagehand gave no answer."""


class Stagehand:
    """The real Stagehand in a process of its own, attached to a browser."""

    def __init__(self, process: asyncio.subprocess.Process, folder: Path) -> None:
        self._process = process
        self._folder = folder

    async def ask(self, seconds: float, **question: Any) -> dict[str, Any]:
        """One answer; StagehandError where it has none within the time."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        answer = await self._line(seconds)
        if "error" in answer:
            raise StagehandError(answer["error"])
        return answer

    async def snapshot(self, target_id: str, seconds: float, **options: Any) -> dict[str, Any]:
        """What it makes of a tab."""
        into = self._folder / "said.json"
        await self.ask(seconds, do="snapshot", target=target_id, into=str(into), options=options)
        said: dict[str, Any] = json.loads(await asyncio.to_thread(into.read_text))
        return said

    async def started(self) -> None:
        """Waits until it is attached."""
        await self._line(START_SECONDS)

    async def _line(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(seconds):
                line = await self._process.stdout.readline()
        except TimeoutError as error:
            raise StagehandError(f"no answer within {seconds:g} s") from error
        if not line:
            raise StagehandError("its process died")
        answer: dict[str, Any] = json.loads(line)
        return answer


@asynccontextmanager
async def stagehand(supervisor: Supervisor) -> AsyncIterator[Stagehand]:
    """Stagehand, attached to the supervisor's browser."""
    endpoint = await supervisor.endpoint()
    command = ["node", "--max-old-space-size=8192", "--expose-gc", str(Path(__file__).with_name("ask_stagehand.mjs"))]
    with tempfile.TemporaryDirectory(prefix="pagestate-oracle-") as folder:
        process = await asyncio.create_subprocess_exec(
            *command, str(PACKAGES), endpoint, stdin=-1, stdout=-1, limit=MAX_LINE_BYTES
        )
        try:
            peer = Stagehand(process, Path(folder))
            await peer.started()
            yield peer
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


class Tabs:
    """Pages in a browser that both sides are attached to; who has died is started again."""

    def __init__(self, executable: Path, *, site_per_process: bool = False, seconds: float = 300.0) -> None:
        self._settings = CrawlSettings(budgets=PATIENT, site_per_process=site_per_process)
        self._executable = executable
        self._seconds = seconds
        self._open = AsyncExitStack()
        self._pair: tuple[Supervisor, Stagehand] | None = None

    async def pair(self) -> tuple[Supervisor, Stagehand]:
        """The browser's supervisor, and Stagehand."""
        if self._pair is None:
            supervisor = Supervisor(self._executable, self._settings)
            self._open.push_async_callback(supervisor.close)
            self._pair = supervisor, await self._open.enter_async_context(stagehand(supervisor))
        return self._pair

    async def close(self) -> None:
        """Ends both."""
        self._pair = None
        await self._open.aclose()

    @asynccontextmanager
    async def tab(self, url: str) -> AsyncIterator[tuple[PageSession, Stagehand]]:
        """A settled page in a tab that Stagehand has known from its beginning."""
        supervisor, peer = await self.pair()
        async with supervisor.page_session(self._settings.profiles[0]) as session:
            await peer.ask(self._seconds, do="watch", target=session.target_id)
            await session.navigate(url, self._settings.budgets)
            await session.settle(self._settings.budgets)
            yield session, peer

    async def capture(self, session: PageSession) -> Capture:
        """Our capture of a tab, unmasked, over a session of its own: one session tells of its frames but once."""
        attached = await session.channel.ask("Target.attachToTarget", {"targetId": session.target_id, "flatten": True})
        session.session_id = attached["sessionId"]
        taking = Taking()
        try:
            await take(session, self._settings, time.perf_counter(), taking)
            held = [Payload(t.kind, bytes(buffer_of(t.data)), t.target, t.frame_id) for t in taking.payloads]
            return Capture(tuple(held))
        finally:
            taking.discard()

    async def compare(self, name: str, url: str) -> Verdict:
        """The verdict about one page."""
        try:
            async with self.tab(url) as (session, peer):
                before = await self.capture(session)
                said = await peer.snapshot(session.target_id, self._seconds)
                verdict = await asyncio.to_thread(compared, name, before, said)
                if verdict.difference is None:
                    return verdict
                after = await self.capture(session)
        except PageFailed as error:
            return Verdict(name, failure=f"{error.outcome}: {error.detail}")
        except (StagehandError, BrowserLost, ChannelError) as error:
            await self.close()
            return Verdict(name, failure=str(error))
        second = await asyncio.to_thread(compared, name, after, said)
        if second.difference is None:
            return dataclasses.replace(second, again=True)
        one, other = (serialize_outline(capture, OUR_OPTIONS).text for capture in (before, after))
        return dataclasses.replace(verdict, unsteady=one != other)


OUR_OPTIONS = OutlineOptions(max_xpath_chars=None)


def compared(name: str, capture: Capture, said: dict[str, Any]) -> Verdict:
    """Our outline of a capture against Stagehand's."""
    tree = merge(capture)
    numbers = {frame["id"]: frame["ordinal"] for frame in said["frames"]}
    outline = serialize_outline(capture, dataclasses.replace(OUR_OPTIONS, ordinals=numbers), tree=tree)
    return Verdict(
        name, len(tree), len(outline.rows), first_difference(outline, said), secrets=mask_secrets(capture)[1]
    )


def first_difference(outline: Outline, said: dict[str, Any]) -> Difference | None:
    """Where tree, XPath map or URL map part, the order of the maps included."""
    for what, theirs, ours in (
        ("tree", said["tree"].split("\n"), outline.text.split("\n")),
        ("XPath map", said["xpath_map"], list(map(list, outline.xpath_map.items()))),
        ("URL map", said["url_map"], list(map(list, outline.url_map.items()))),
    ):
        if theirs != ours:
            return _first(what, theirs, ours)
    return None


def _first(what: str, theirs: Sequence[Any], ours: Sequence[Any]) -> Difference | None:
    for place in range(max(len(theirs), len(ours))):
        one, other = (str(side[place]) if place < len(side) else "<nothing>" for side in (theirs, ours))
        if one != other:
            start = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
            cut = slice(max(0, start - SHOWN // 2), start + SHOWN // 2)
            return Difference(what, place, one[cut], other[cut])
    return None
