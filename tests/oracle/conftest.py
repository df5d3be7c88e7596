"""The parts of the differential harness reach the tests as fixtures: tests are no package (import mode importlib)."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def harness() -> ModuleType:
    """The module `differential`, with what stands beside it."""
    return beside("differential")


@pytest.fixture(scope="session")
def same_tab(harness: ModuleType) -> ModuleType:
    """The module `same_tab`."""
    return beside("same_tab")


def beside(name: str) -> ModuleType:
    """A module that stands beside this one."""
    folder = str(Path(__file__).parent)
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(folder)


@pytest.fixture(scope="session")
def oracle(harness: ModuleType, shared: Path) -> Path:
    """The shared folder, where the real browser-use is set up beside; the test skips where one of the two is absent."""
    if not harness.ORACLE_PYTHON.exists():
        pytest.skip("the oracle is not set up; run `make oracle` to compare with the real browser-use")
    return shared
