"""Temporary folders, and browsers, are swept away by the next run when their own run could not end them any more.

A browser's folder holds the profile and spooled payloads, which are raw: secrets in them are not masked yet. Its path
is on the command line of the browser, which is the mark that a process carries.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import psutil

from workers.browser.processes import group_of, kill_group

PREFIX = "pagestate-browser-"
SCRATCH_PREFIX = "pagestate-scratch-"
"""Files on their way to a store that is no folder."""
PLAN_PREFIX = "pagestate-plan-"
"""A plan that is sorted on disk."""
OWNER_FILE = "owner.json"
LOCK_FILE = "owner.lock"


_held: dict[Path, int] = {}
"""Descriptors that keep the locks of this process's folders."""


def own_folder(prefix: str = PREFIX) -> Path:
    """A new folder in the system's temporary folder, for this user only, which says whose it is.

    A lock says that the owner lives: it is free the moment the process is gone, and means the same to processes that
    cannot see each other's ids, or whose clocks were set in between.
    """
    for held in [held for held in list(_held) if not held.exists()]:
        if (over := _held.pop(held, None)) is not None:  # else another thread was first
            os.close(over)
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    (folder / OWNER_FILE).write_text(json.dumps({"pid": os.getpid()}), "utf-8")
    # it gets its name when it is locked: nobody may find it free before
    draft = folder / f".{LOCK_FILE}"
    descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    draft.rename(folder / LOCK_FILE)
    _held[folder] = descriptor
    return folder


def _give_up_in_child() -> None:
    """A forked child is not the owner, and may outlive it."""
    while _held:
        os.close(_held.popitem()[1])


os.register_at_fork(after_in_child=_give_up_in_child)


def sweep_orphans() -> list[Path]:
    """Removes the folders whose process is gone, with the browsers that still use them, and returns them.

    Folders that do not say whose they are stay.
    """
    everywhere = Path(tempfile.gettempdir())
    found = [folder for prefix in (PREFIX, SCRATCH_PREFIX, PLAN_PREFIX) for folder in everywhere.glob(f"{prefix}*")]
    swept = [folder for folder in found if _is_orphan(folder)]
    if swept:
        _end_browsers_of(swept)
    for folder in swept:
        shutil.rmtree(folder, ignore_errors=True)
    return swept


def _end_browsers_of(folders: list[Path]) -> None:
    marks = {f"--user-data-dir={folder / 'profile'}" for folder in folders}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if marks.intersection(process.cmdline()):
                group = group_of(process.pid)
                if group is not None:
                    kill_group(group)
                process.kill()


def _is_orphan(folder: Path) -> bool:
    try:
        descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
