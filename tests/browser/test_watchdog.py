"""The watchdog works when the event loop does not: a wedged process ends, and an overdue page loses its browser."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from datetime import timedelta

import psutil
import pytest

from workers.browser.watchdog import WEDGED_EXIT_CODE, Watchdog

TICK = timedelta(milliseconds=20)
PATIENCE_SECONDS = 60.0

WEDGED = """
import asyncio, sys, time
from datetime import timedelta
from pathlib import Path
from schemas.settings import CrawlSettings, RunSettings
from workers.engine import Engine, EngineLoop

async def main():
    async with Engine(RunSettings(wedged_after=timedelta(seconds=2)), Path(sys.argv[1]), asyncio.Event()) as engine:
        crew = await engine._crew(CrawlSettings())
        print(crew.supervisor._launched.process.pid, flush=True)
        time.sleep(600)

with asyncio.Runner(loop_factory=EngineLoop) as runner:
    runner.run(main())
"""


@pytest.mark.browser
def test_a_process_whose_loop_is_wedged_ends_with_its_browser(browser_path):
    """Whoever waits for it sees its end, and may start another (pains 12, 39)."""
    process = subprocess.Popen(
        [sys.executable, "-c", WEDGED, str(browser_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        browser = psutil.Process(int(process.stdout.readline()))
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == WEDGED_EXIT_CODE
        assert "stood still for 2 s" in said
        psutil.wait_procs([browser], timeout=PATIENCE_SECONDS)
        assert not browser.is_running()
    finally:
        process.kill()
        process.communicate()


async def test_a_loop_that_runs_is_left_alone():
    ended = threading.Event()
    dog = Watchdog(10 * TICK, ended.set, lambda _: ended.set(), TICK)
    dog.start()
    with dog.page(600):
        for _ in range(100):
            await asyncio.sleep(TICK.total_seconds())
    dog.stop()
    assert not ended.is_set()


async def test_an_overdue_page_has_the_browsers_killed_once():
    killed: list[int] = []
    dog = Watchdog(timedelta(seconds=PATIENCE_SECONDS), lambda: killed.append(1), lambda _: None, TICK)
    dog.start()
    with dog.page(2 * TICK.total_seconds()):
        for _ in range(100):
            await asyncio.sleep(TICK.total_seconds())
    dog.stop()
    assert killed == [1]
