"""What a killed run leaves in the temporary folder is removed by the next one, and nothing else is."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from workers.browser import orphans
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


@pytest.mark.parametrize(
    ("module", "made"),
    [
        ("workers.store.s3", "scratch = m._Scratch(); print(scratch.folder(), flush=True); time.sleep(600)"),
        ("scheduler.large_plan", "with m.plan_database(64): print('', flush=True); time.sleep(600)"),
    ],
)
def test_what_a_killed_process_made_elsewhere_goes_too(temporary_folder: Path, module: str, made: str) -> None:
    """Files on their way to S3, and a plan that is sorted on disk."""
    script = f"import time, {module} as m\n{made}"
    environment = {**os.environ, "TMPDIR": str(temporary_folder)}
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    process.stdout.readline()
    (folder,) = temporary_folder.iterdir()
    assert sweep_orphans() == []
    process.kill()
    process.wait()
    process.stdout.close()
    assert sweep_orphans() == [folder]
    assert list(temporary_folder.iterdir()) == []


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


def test_a_folder_stays_though_a_clock_was_set_and_ids_are_not_seen() -> None:
    """Given a run in another container, or one before the clock was set, then the lock alone decides."""
    folder = own_folder()
    (folder / OWNER_FILE).write_text(json.dumps({"pid": 2**22 + 1}))
    assert sweep_orphans() == []
    assert folder.is_dir()


def test_a_folder_goes_though_a_child_of_its_process_lives(temporary_folder: Path) -> None:
    """Given a run that is killed and leaves a forked process of its pool behind."""
    script = (
        "import os, time, workers.browser.orphans as o; folder = o.own_folder()\n"
        "if os.fork() == 0: time.sleep(600)\n"
        "print(folder, flush=True); time.sleep(600)"
    )
    environment = {**os.environ, "TMPDIR": str(temporary_folder)}
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    process.kill()
    process.wait()
    try:
        assert sweep_orphans() == [folder]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()


def test_descriptors_of_removed_folders_are_closed() -> None:
    for _ in range(3):
        shutil.rmtree(own_folder())
    own_folder()
    assert sum(not folder.exists() for folder in orphans._held) == 0


@pytest.mark.parametrize("owner", [None, "", "{}", '{"pid": 1}'])
def test_a_folder_without_a_lock_stays(temporary_folder: Path, owner: str | None) -> None:
    folder = temporary_folder / f"{PREFIX}foreign"
    folder.mkdir()
    if owner is not None:
        (folder / OWNER_FILE).write_text(owner)
    assert sweep_orphans() == []
    assert folder.is_dir()
