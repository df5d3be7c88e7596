"""A browser's folder is swept away by the next run when its own run could not remove it any more.

It holds the profile and spooled payloads, which are raw: secrets in them are not masked yet.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import psutil

PREFIX = "pagestate-browser-"
OWNER_FILE = "owner.json"


def own_folder() -> Path:
    """A new folder in the system's temporary folder, for this user only, which says whose it is."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    owner = {"pid": os.getpid(), "started": psutil.Process().create_time()}
    (folder / OWNER_FILE).write_text(json.dumps(owner), "utf-8")
    return folder


def sweep_orphans() -> list[Path]:
    """Removes the folders whose process is gone, and returns them; folders that do not say whose they are stay."""
    swept = []
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if _is_orphan(folder):
            shutil.rmtree(folder, ignore_errors=True)
            swept.append(folder)
    return swept


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
