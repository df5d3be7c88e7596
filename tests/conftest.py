"""What every test may ask for, and the rule that CI skips nothing for want of a server or a browser.

On a laptop a test skips with its reason where something it needs is absent. Where CI is `true` that skip is a failure,
unless its reason is one of `ALLOWED_SKIPS`.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from scheduler.example.server import ExampleSite, serve_example
from schemas.errors import BrowserMissing

ALLOWED_SKIPS = (
    "PAGESTATE_SHARED is not set",  # whoever has only the project can still run its tests
    "this machine has no IPv6",
)
Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def in_ci() -> bool:
    """True where a missing server or browser is a fault of the machine's set-up."""
    return os.environ.get("CI") == "true"


@pytest.fixture(scope="session")
def example_site() -> Iterator[ExampleSite]:
    """The built-in example site, on free ports, so that nothing else on this machine disturbs it."""
    with serve_example(ports=(0, 0)) as site:
        yield site


@pytest.fixture(scope="session")
def shared() -> Path:
    """The shared folder; the test skips without one."""
    given = os.environ.get("PAGESTATE_SHARED", "")
    if not given:
        pytest.skip("PAGESTATE_SHARED is not set; point it at the shared folder to run this test")
    folder = Path(given)
    if not folder.is_dir():
        pytest.skip(f"PAGESTATE_SHARED is {given}, which is no folder")
    return folder


@pytest.fixture(scope="session")
def browser_path() -> Path:
    """A Chromium, found as the product finds it; the test skips without one."""
    from workers.browser.find import find_browser

    try:
        return find_browser(os.environ.get("PAGESTATE_BROWSER", ""))
    except BrowserMissing as missing:
        pytest.skip(str(missing))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return without_forbidden_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return without_forbidden_skip((yield))


def without_forbidden_skip(report: Report) -> Report:
    """The report itself; in CI a skip that is not allowed there becomes a failure."""
    if not in_ci() or not report.skipped or hasattr(report, "wasxfail"):
        return report
    said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = said.removeprefix("Skipped: ")
    if not reason.startswith(ALLOWED_SKIPS):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {reason}"
    return report
