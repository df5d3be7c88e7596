"""A short chaos: the example site on three workers while everything is killed once or so is the example site."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from scheduler.example.server import serve_example


def _loaded() -> ModuleType:
    """The program beside this file, which `make chaos` runs."""
    spec = importlib.util.spec_from_file_location("chaos_run", Path(__file__).with_name("run.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


chaos = _loaded()


@pytest.mark.browser
def test_a_disturbed_crawl_is_the_undisturbed_one(tmp_path: Path, browser_path: Path) -> None:
    if shutil.which("redis-server") is None:
        pytest.skip("no broker: redis-server is not installed; infra/servers.sh installs it")
    with serve_example(ports=(0, 0)) as site:
        report = chaos.chaos(
            chaos.watched(site), 36, tmp_path, browser_path, seed=1, disturbances=12, gap=3.0, seconds=900, delay=0.5
        )
    assert report.holds, "\n".join(report.lines())
    assert report.disturbances.total() >= 5, "\n".join(report.lines())
    assert report.changing == []
    assert report.visits >= 36
