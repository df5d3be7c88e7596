"""What the tests of the command line share: running it as a user does, in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from scheduler.cli import main

PATIENCE_SECONDS = 90.0
COMMAND = [sys.executable, "-c", "from scheduler.cli import entry_point; entry_point()"]


@dataclass(frozen=True)
class Ran:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


class Running:
    """A command under way, in a session of its own; every process that it ever started is remembered."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.started: set[psutil.Process] = set()

    @property
    def own(self) -> psutil.Process:
        return psutil.Process(self.process.pid)

    def look(self) -> None:
        """Remembers the processes that it has now."""
        try:
            self.started |= set(self.own.children(recursive=True))
        except psutil.NoSuchProcess:
            return

    def wait(self) -> int:
        """The exit code."""
        return self.process.wait(PATIENCE_SECONDS)

    def kill(self) -> None:
        """Ends the command alone, at once and without a word, as a machine that runs out of memory does."""
        self.look()
        self.process.kill()
        self.process.wait()

    def survivors(self) -> set[psutil.Process]:
        """The processes that it started and that still live, after a while of patience."""
        deadline = time.monotonic() + PATIENCE_SECONDS / 3
        while left := {p for p in self.started if p.is_running() and p.status() != psutil.STATUS_ZOMBIE}:
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        return left


def environment(browser: Path | None) -> dict[str, str]:
    """An environment in which only this browser is configured, and whose terminal has one width."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PAGESTATE_")}
    return (
        kept
        | {"COLUMNS": "120", "PAGESTATE_ALLOW_PRIVATE": "1"}
        | ({"PAGESTATE_BROWSER": str(browser)} if browser else {})
    )


@pytest.fixture(autouse=True)
def pages_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' own sites are on this machine, which the guard keeps closed."""
    monkeypatch.setenv("PAGESTATE_ALLOW_PRIVATE", "1")


@pytest.fixture
def run() -> Callable[..., Ran]:
    """Runs the command to its end."""

    def run_now(
        *arguments: str | Path, browser: Path | None = None, stdin: bytes = b"", cwd: Path | None = None
    ) -> Ran:
        done = subprocess.run(
            [*COMMAND, *map(str, arguments)],
            input=stdin,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            env=environment(browser),
            cwd=cwd,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run_now


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs a command that starts no browser, in this process, which is faster."""

    def ask_now(*arguments: str | Path) -> Ran:
        code = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return ask_now


@pytest.fixture
def start(browser_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts the command and leaves it running; what is left of it is ended after the test."""
    running: list[Running] = []

    def start_now(*arguments: str | Path, **options: object) -> Running:
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True} | options
        process = subprocess.Popen([*COMMAND, *map(str, arguments)], env=environment(browser_path), **options)  # type: ignore[call-overload]
        running.append(Running(process))
        return running[-1]

    yield start_now
    for one in running:
        one.look()
        if one.process.poll() is None:
            one.process.send_signal(signal.SIGKILL)
            one.process.wait()
        for stream in (one.process.stdout, one.process.stderr):
            if stream is not None:
                stream.close()
        for left in one.started:
            if left.is_running():
                left.kill()
