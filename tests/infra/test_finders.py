"""The bootstrap's shell and the product's Python find the same browser, Playwright's own before the system's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def found_by_the_bootstrap() -> Path:
    run = subprocess.run(
        [ROOT / "infra/browser.sh", sys.prefix], check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    return Path(run.stdout.rstrip("\n"))


def stand_in(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\necho Chromium 1.2.3\n")
    path.chmod(0o755)
    return path


def test_both_find_the_same_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find_browser = pytest.importorskip("workers.browser.find").find_browser
    places = tmp_path / "kept browsers"
    systems = stand_in(tmp_path / "bin" / "chromium-headless-shell")
    monkeypatch.delenv("PAGESTATE_BROWSER", raising=False)
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(places))
    monkeypatch.setenv("PATH", f"{systems.parent}:{os.environ['PATH']}")
    assert found_by_the_bootstrap() == find_browser() == systems

    listed = subprocess.run(
        [sys.executable, "-m", "playwright", "install", "--dry-run", "--only-shell", "chromium"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    (folder,) = (Path(line.partition(":")[2].strip()) for line in listed.splitlines() if "headless_shell-" in line)
    assert folder.is_relative_to(places)
    own = stand_in(folder / "chrome-headless-shell-linux64" / "chrome-headless-shell")
    assert found_by_the_bootstrap() == find_browser() == own
