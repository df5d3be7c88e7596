"""The browser is found in a fixed order: configured path, Playwright's own, chromium-headless-shell, chromium."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from schemas.errors import BrowserMissing

START_PATIENCE_SECONDS = 20.0
ON_PATH: tuple[str, ...] = ("chromium-headless-shell", "chromium")
"""Debian's package names; the headless shell first, since full Chromium costs 3.7 times as much per navigation."""


def find_browser(configured: str = "") -> Path:
    """The executable to launch.

    configured  a path that the user gave (option, or PAGESTATE_BROWSER at the command line); it is not replaced
                by another browser when it does not exist.
    Raises BrowserMissing, which says where it was looked for.
    """
    if configured:
        path = Path(configured)
        if path.is_file() and os.access(path, os.X_OK):
            return path.absolute()
        raise BrowserMissing(
            f"The configured browser {configured} is not an executable file; correct the path or leave it out."
        )
    own = playwrights_own()
    if own is not None:
        return own
    for name in ON_PATH:
        found = shutil.which(name)
        if found:
            return Path(found)
    raise BrowserMissing(
        "No Chromium was found (looked for Playwright's own, then for chromium-headless-shell and chromium on the"
        " PATH); run `playwright install --only-shell chromium` or install the package chromium-headless-shell."
    )


def check_starts(browser: Path) -> None:
    """Raises BrowserMissing where the browser does not even tell its version; asked before anything is written."""
    try:
        done = subprocess.run(
            [browser, "--version"], capture_output=True, timeout=START_PATIENCE_SECONDS, stdin=subprocess.DEVNULL
        )
        problem = "" if done.returncode == 0 else f"it ends with code {done.returncode}"
    except subprocess.TimeoutExpired:
        problem = f"it says nothing for {START_PATIENCE_SECONDS:g} s"
    except OSError as error:
        problem = error.strerror or type(error).__name__
    if problem:
        raise BrowserMissing(
            f"The browser {browser} does not start ({problem} when asked for its --version);"
            " configure another, or install what it needs."
        )


def playwrights_own() -> Path | None:
    """The headless shell that `playwright install` put in place for this version of Playwright, if it did."""
    spec = find_spec("playwright")
    if spec is None or spec.origin is None:
        return None
    listed = Path(spec.origin).parent / "driver" / "package" / "browsers.json"
    if not listed.is_file():
        return None
    browsers = json.loads(listed.read_text("utf-8"))["browsers"]
    revision = next((b["revision"] for b in browsers if b["name"] == "chromium-headless-shell"), None)
    folder = _cache_folder() / f"chromium_headless_shell-{revision}"
    # the folder below carries the platform in its name, and its spelling has changed between versions
    for pattern in ("*/chrome-headless-shell", "*/headless_shell", "*/chrome-headless-shell.exe"):
        for path in sorted(folder.glob(pattern)):
            if os.access(path, os.X_OK):
                return path
    return None


def _cache_folder() -> Path:
    """Where Playwright keeps browsers (https://playwright.dev/python/docs/browsers, "Managing browser binaries")."""
    configured = os.environ.get("PLAYWRIGHT_BROWSERS_PATH", "")
    if configured and configured != "0":
        return Path(configured)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "ms-playwright"
    if sys.platform == "win32":
        return Path.home() / "AppData" / "Local" / "ms-playwright"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ms-playwright"
