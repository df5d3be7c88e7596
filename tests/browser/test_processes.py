"""Groups of processes are ended, reaped and swept, whoever started them and however they resist."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest

from workers.browser.orphans import LOCK_FILE, PREFIX, sweep_orphans
from workers.browser.processes import adopt_orphans, end_group, reap

PATIENCE_SECONDS = 30.0


def test_a_group_that_ignores_term_is_killed():
    script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
    deaf = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    assert deaf.stdout is not None
    assert deaf.stdout.readline()
    end_group(deaf.pid, 0.5)
    assert not psutil.pid_exists(deaf.pid), "killed, and reaped before Popen could"
    deaf.stdout.close()
    deaf.wait()


def test_what_an_orphaned_group_leaves_is_reaped_by_us():
    """As a subreaper we become its parent: no zombie stays with a process 1 that reaps nothing (pain 1)."""
    adopt_orphans()
    script = "import os, time\nif os.fork(): os._exit(0)\nprint(os.getpid(), flush=True)\ntime.sleep(600)"
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    assert parent.stdout is not None
    orphan = psutil.Process(int(parent.stdout.readline()))
    parent.wait()
    parent.stdout.close()
    assert orphan.ppid() == os.getpid()
    orphan.kill()
    while orphan.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    assert reap({parent.pid}) == 1
    assert not orphan.is_running()


@pytest.mark.browser
def test_a_browser_whose_run_is_gone_is_swept_away(browser_path, tmp_path, monkeypatch):
    """Its profile folder, which names its run, is on its command line (pain 2)."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / f"{PREFIX}left"
    (folder / "profile").mkdir(parents=True)
    # a lock that nobody holds
    (folder / LOCK_FILE).touch()
    left = subprocess.Popen(
        [browser_path, "--no-sandbox", f"--user-data-dir={folder}/profile", "--remote-debugging-port=0", "about:blank"],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while not (folder / "profile" / "DevToolsActivePort").exists():
            assert left.poll() is None
            time.sleep(0.05)
        assert sweep_orphans() == [folder]
        assert left.wait(PATIENCE_SECONDS) is not None
        assert not folder.exists()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(left.pid, signal.SIGKILL)
