"""The browser is looked for in one order, and a configured path is never replaced by another browser."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from schemas.errors import BrowserMissing
from workers.browser.find import ON_PATH, find_browser


def _executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any browser: `bin` is its whole PATH, `kept` is where Playwright keeps browsers."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "kept"))
    return tmp_path


def _playwrights(machine: Path, revision: str = "") -> Path:
    spec = find_spec("playwright")
    assert spec is not None
    assert spec.origin is not None
    listed = json.loads((Path(spec.origin).parent / "driver/package/browsers.json").read_text("utf-8"))
    own = next(b["revision"] for b in listed["browsers"] if b["name"] == "chromium-headless-shell")
    folder = machine / "kept" / f"chromium_headless_shell-{revision or own}"
    return _executable(folder / "chrome-headless-shell-linux64" / "chrome-headless-shell")


def test_the_order_is_configured_playwrights_headless_shell_chromium(machine):
    """Given all four, each is found once those before it are gone."""
    assert ON_PATH == ("chromium-headless-shell", "chromium")
    configured = _executable(machine / "mine" / "chrome")
    own = _playwrights(machine)
    shell, full = (_executable(machine / "bin" / name) for name in ON_PATH)
    assert find_browser(str(configured)) == configured
    assert find_browser() == own
    own.unlink()
    assert find_browser() == shell
    shell.unlink()
    assert find_browser() == full
    full.unlink()
    with pytest.raises(BrowserMissing, match="playwright install --only-shell chromium"):
        find_browser()


def test_playwrights_browser_of_another_version_is_not_taken(machine):
    _playwrights(machine, revision="1")
    with pytest.raises(BrowserMissing):
        find_browser()


@pytest.mark.parametrize("kind", ["absent", "folder", "not executable"])
def test_a_configured_path_that_is_no_program_is_said_and_not_replaced(machine, kind):
    _executable(machine / "bin" / "chromium")
    path = machine / "mine"
    if kind == "folder":
        path.mkdir()
    elif kind == "not executable":
        path.write_text("")
    with pytest.raises(BrowserMissing, match=rf"{path} is not an executable file; correct the path"):
        find_browser(str(path))
