"""What a killed run leaves in the temporary folder is removed by the next one, and nothing else is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from workers.browser.orphans import OWNER_FILE, PREFIX, own_folder, sweep_orphans


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_of_a_living_process_stays() -> None:
    """Given a run at work, another one leaves its folder alone."""
    folder = own_folder()
    assert folder.stat().st_mode & 0o077 == 0
    assert sweep_orphans() == []
    assert folder.is_dir()


def test_a_folder_of_a_killed_process_goes(temporary_folder: Path) -> None:
    """Pain 32: given a process that was killed, its folder goes with the raw payloads in it."""
    script = "import time, workers.browser.orphans as o; print(o.own_folder(), flush=True); time.sleep(600)"
    environment = {**os.environ, "TMPDIR": str(temporary_folder)}
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    (folder / "payload-1").write_text("not masked yet")
    process.kill()
    process.wait()
    process.stdout.close()
    assert sweep_orphans() == [folder]
    assert not folder.exists()


def test_a_process_id_that_came_back_is_no_owner(temporary_folder: Path) -> None:
    """Given our own id with another start, the folder is an orphan's."""
    folder = temporary_folder / f"{PREFIX}old"
    folder.mkdir()
    started = psutil.Process().create_time() - 1000
    (folder / OWNER_FILE).write_text(json.dumps({"pid": os.getpid(), "started": started}))
    assert sweep_orphans() == [folder]


@pytest.mark.parametrize("owner", [None, "", "{}", "[]", '{"pid": "x", "started": 1}'])
def test_a_folder_that_does_not_say_whose_it_is_stays(temporary_folder: Path, owner: str | None) -> None:
    folder = temporary_folder / f"{PREFIX}foreign"
    folder.mkdir()
    if owner is not None:
        (folder / OWNER_FILE).write_text(owner)
    assert sweep_orphans() == []
    assert folder.is_dir()
