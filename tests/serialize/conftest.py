"""Neighbouring modules reach the tests as fixtures: tests are no package (import mode importlib)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def _neighbour(name: str) -> ModuleType:
    known = sys.modules.get(f"pagestate_tests_{name}")
    if known is not None:
        return known
    folder = Path(__file__).parent
    spec = importlib.util.spec_from_file_location(f"pagestate_tests_{name}", folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def recording() -> ModuleType:
    """The adapter from browser-use recordings to captures."""
    return _neighbour("recording")


@pytest.fixture(scope="session")
def pages() -> ModuleType:
    """The builder of small pages."""
    return _neighbour("pages")


@pytest.fixture(scope="session")
def everything() -> ModuleType:
    """Everything that is made of a capture, as one text."""
    return _neighbour("everything")
