"""Has the real browser-use and our capturer look at the same tab of the same browser, one after the other.

Here each side takes its own payloads, so that what we ask of the browser is compared too, not only what we make of
it. Nothing is masked on either side.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from differential import ORACLE_PYTHON, Verdict, compared

from schemas.capture import Capture, Payload
from schemas.settings import CrawlSettings
from workers.browser.launch import PORT_FILE
from workers.browser.orphans import OWNER_FILE, PREFIX
from workers.browser.session import PageSession
from workers.browser.spool import buffer_of
from workers.browser.supervisor import Supervisor
from workers.capture.take import take
from workers.capture.taken import Taking

MAX_ANSWER_BYTES = 1 << 28


class Peer:
    """browser-use in its side venv, attached to a browser of ours."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def attach(cls, endpoint: str) -> Peer:
        quiet = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        process = await asyncio.create_subprocess_exec(
            ORACLE_PYTHON,
            Path(__file__).with_name("tab_peer.py"),
            endpoint,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=quiet,
            limit=MAX_ANSWER_BYTES,
        )
        peer = cls(process)
        assert await peer._line() == b"ready\n"
        return peer

    async def look(self, target_id: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(target_id.encode() + b"\n")
        said: dict[str, Any] = json.loads(await self._line())
        return said

    async def close(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def _line(self) -> bytes:
        assert self._process.stdout is not None
        return await self._process.stdout.readline()


async def compare_tabs(urls: Mapping[str, str], browser: Path, settings: CrawlSettings) -> list[Verdict]:
    """Opens each page once, and compares."""
    supervisor = Supervisor(browser, settings)
    peer: Peer | None = None
    verdicts = []
    try:
        for name, url in urls.items():
            async with supervisor.page_session(settings.profiles[0]) as session:
                peer = peer or await Peer.attach(_endpoint())
                await session.navigate(url, settings.budgets)
                await session.settle(settings.budgets)
                ours = await _capture(session, settings)
                said = await peer.look(session.target_id)
            verdicts.append(compared(name, ours, said, settings.listing))
    finally:
        if peer is not None:
            await peer.close()
        await supervisor.close()
    return verdicts


def _endpoint() -> str:
    """The address of this process's only browser, from its own folder."""
    owners = Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{OWNER_FILE}")
    (own,) = (owner.parent for owner in owners if json.loads(owner.read_text())["pid"] == os.getpid())
    (file,) = own.glob(f"**/{PORT_FILE}")
    port, path = file.read_text().split("\n")[:2]
    return f"ws://127.0.0.1:{port}{path}"


async def _capture(session: PageSession, settings: CrawlSettings) -> Capture:
    taking = Taking()
    await take(session, settings, time.perf_counter(), taking)
    payloads = [Payload(t.kind, bytes(buffer_of(t.data)), t.target, t.frame_id) for t in taking.payloads]
    taking.discard()
    return Capture(tuple(payloads))
