"""The parts of the differential harness reach the tests as fixtures: tests are no package (import mode importlib)."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest


def _beside(name: str, folder: Path) -> ModuleType:
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))


@pytest.fixture(scope="session")
def harness() -> ModuleType:
    """The module `differential`, with what stands beside it."""
    return _beside("differential", Path(__file__).parent)


@pytest.fixture(scope="session")
def same_tab(harness: ModuleType) -> ModuleType:
    """The module `same_tab`."""
    return _beside("same_tab", Path(__file__).parent)


@pytest.fixture(scope="session")
def outline_harness() -> ModuleType:
    """The module `outline_differential`."""
    return _beside("outline_differential", Path(__file__).parent)


@pytest.fixture(scope="session")
def pages() -> ModuleType:
    """The builder of small pages."""
    return _beside("pages", Path(__file__).parents[1] / "serialize")


@pytest.fixture
def stagehand_is_there(outline_harness: ModuleType) -> None:
    """The test skips where the real Stagehand cannot be asked."""
    why_not = outline_harness.missing()
    if why_not:
        pytest.skip(why_not)


@pytest.fixture(scope="session")
def oracle(harness: ModuleType, shared: Path) -> Path:
    """The shared folder, where the real browser-use is set up beside; the test skips where one of the two is absent."""
    if not harness.ORACLE_PYTHON.exists():
        pytest.skip("the oracle is not set up; run `make oracle` to compare with the real browser-use")
    return shared
