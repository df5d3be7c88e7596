"""Neighbouring modules reach the tests as fixtures: tests are no package (import mode importlib)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def _module(name: str, path: Path) -> ModuleType:
    known = sys.modules.get(name)
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def exchange() -> ModuleType:
    """The adapter from recordings of Stagehand's exchange with a browser to captures."""
    return _module("pagestate_tests_exchange", Path(__file__).parent / "exchange.py")


@pytest.fixture(scope="session")
def pages() -> ModuleType:
    """The builder of small pages."""
    return _module("pagestate_tests_pages", Path(__file__).parents[1] / "serialize" / "pages.py")
