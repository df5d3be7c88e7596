"""Processes of a browser are ended as a group, reaped by us when their parent is gone, and held to a memory limit.

The only module that speaks of signals, process groups and resource limits.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress

import psutil

PR_SET_CHILD_SUBREAPER = 36
"""prctl(2), Linux 3.4: orphans below this process become its children, instead of those of process 1."""
LOOK_AGAIN_SECONDS = 0.02


def adopt_orphans() -> None:
    """Makes this process the parent of what its descendants leave behind, so that it can be ended and reaped."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def group_of(pid: int) -> int | None:
    """The process group that a process leads or is in; None where that is our own, or the process is gone."""
    try:
        group = os.getpgid(pid)
    except ProcessLookupError:
        return None
    return group if group != os.getpgid(0) else None


def driver_of(browser: psutil.Process) -> psutil.Process | None:
    """The child of ours that a browser descends from, which is Playwright's driver."""
    with suppress(psutil.Error):
        for ancestor in browser.parents():
            if ancestor.ppid() == os.getpid():
                return ancestor
    return None


def end_group(group: int, patience_seconds: float) -> None:
    """TERM to a process group, and KILL to what of it is left when patience is over; returns when it is gone.

    It blocks, and belongs on a thread of its own.
    """
    for number, patience in ((signal.SIGTERM, patience_seconds), (signal.SIGKILL, patience_seconds)):
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            reap({group})
            if not _lives(group):
                return
            time.sleep(LOOK_AGAIN_SECONDS)


def kill_group(group: int) -> None:
    """KILL to a process group, at once; called by whoever cannot wait."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def reap(groups: Iterable[int]) -> int:
    """Takes note of the ends of adopted processes of these groups, and returns how many there were.

    Children that somebody here started and waits for (the driver, pool processes) are in none of the groups.
    """
    reaped = 0
    for group in groups:
        with suppress(ChildProcessError):
            while os.waitpid(-group, os.WNOHANG)[0]:
                reaped += 1
    return reaped


def resident_bytes(group: int) -> int:
    """Resident memory of a process group; pages that several of its processes share count once for each."""
    total = 0
    for process in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError):
            if os.getpgid(process.pid) == group:
                total += process.memory_info().rss
    return total


def limit_memory(browser: psutil.Process, limit_bytes: int) -> None:
    """Holds every page process that the browser will start to so much private memory (RLIMIT_DATA).

    Page processes are forked from the browser's zygotes and inherit their limits. An allocation beyond it fails, which
    an ordinary script notices as an error and a crashing one does not survive; the machine survives both.
    """
    if sys.platform != "linux":
        return
    import resource

    with suppress(psutil.Error):
        for child in browser.children(recursive=True):
            # where the browser's sandbox hides its zygotes from us, its processes are held by the browser's limit alone
            with suppress(psutil.Error, ProcessLookupError, PermissionError):
                if any(part.startswith("--type=zygote") for part in child.cmdline()):
                    _, most = resource.prlimit(child.pid, resource.RLIMIT_DATA)
                    resource.prlimit(child.pid, resource.RLIMIT_DATA, (limit_bytes, most))


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
