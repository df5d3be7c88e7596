"""A browser and its folder are swept away by the next run when their own run could not end them any more.

The folder holds the profile and spooled payloads, which are raw: secrets in them are not masked yet. Its path is on the
command line of the browser, which is the mark that a process carries.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import psutil

from workers.browser.processes import group_of, kill_group

PREFIX = "pagestate-browser-"
OWNER_FILE = "owner.json"


def own_folder() -> Path:
    """A new folder in the system's temporary folder, for this user only, which says whose it is."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    owner = {"pid": os.getpid(), "started": psutil.Process().create_time()}
    (folder / OWNER_FILE).write_text(json.dumps(owner), "utf-8")
    return folder


def sweep_orphans() -> list[Path]:
    """Removes the folders whose process is gone, with the browsers that still use them, and returns them.

    Folders that do not say whose they are stay.
    """
    swept = [folder for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*") if _is_orphan(folder)]
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
        owner = json.loads((folder / OWNER_FILE).read_text("utf-8"))
        process = psutil.Process(int(owner["pid"]))
        # a process id comes back; the second it was started in does not
        return abs(process.create_time() - float(owner["started"])) > 1.0
    except psutil.NoSuchProcess:
        return True
    except (OSError, ValueError, KeyError, TypeError, psutil.Error):
        return False
