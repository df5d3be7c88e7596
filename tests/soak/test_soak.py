"""A short soak: nothing is left behind by a crawl with faults in it, neither at its end nor after it was killed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.browser


def _loaded() -> ModuleType:
    """The program beside this file, which `make soak` runs."""
    spec = importlib.util.spec_from_file_location("soak_run", Path(__file__).with_name("run.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


soak = _loaded()


def test_a_crawl_that_is_killed_leaves_no_process_and_once_finished_no_folder(tmp_path: Path, browser_path: Path):
    """By the marks in the environment of its processes, wherever they went (pain 2)."""
    with soak.sites(25) as urls:
        crawl = soak.killed(urls, tmp_path)
    assert crawl.wrong() == []
    assert sum(crawl.outcomes.values()) == 25
    assert crawl.outcomes["ok"] >= 15
    # both halves wrote down what they took
    assert len(crawl.python) >= 25


def test_what_is_left_behind_is_seen(tmp_path: Path):
    """The soak itself can fail: a process with the mark, a folder, a URL without a row."""
    crawl = soak.Crawl(2, ended="0", processes=["chromium"], folders=["pagestate-x"], problems=["1 URLs have no row"])
    assert crawl.wrong() == ["still running: chromium", "left behind: pagestate-x", "1 URLs have no row"]
    crawl.python, crawl.driver = [1024 * 50 * n for n in range(100)], [1024 * 5 * n for n in range(100)]
    assert crawl.slope_kb() == pytest.approx(55.0)
    assert crawl.python_slope_kb() == pytest.approx(50.0)
