"""Every fault and every robots host of the fault site, through the product, in one run, as the committed table says."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from schemas.outcomes import DEGRADATIONS, OUTCOMES, RETRYABLE_OUTCOMES


def _loaded() -> ModuleType:
    """The program beside this file, which `make faults` runs."""
    spec = importlib.util.spec_from_file_location("faults_run", Path(__file__).with_name("run.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


faults = _loaded()


def test_the_table_speaks_the_closed_sets() -> None:
    for row in faults.table():
        assert set(row.outcome) <= set(OUTCOMES), row.name
        assert set(row.degradations) | set(row.may) <= set(DEGRADATIONS), row.name
        assert not set(row.degradations) & set(row.may), row.name
        assert any(row.retryable) <= bool(set(row.outcome) & RETRYABLE_OUTCOMES), row.name
        assert row.why or (len(row.outcome) == 1), f"{row.name} may end in two ways and does not say why"


@pytest.mark.shared
def test_every_fault_and_every_robots_host_is_in_the_table(shared: Path) -> None:
    rows = faults.table()
    with faults.fault_site(shared) as port:
        named = [row.name for row in rows if row.host == faults.FAULT_HOST]
        assert named == faults.faults_of(port)
    hosts = {row.host for row in rows if row.host != faults.FAULT_HOST}
    assert hosts == {f"127.0.0.{n}" for n in range(21, 39)}


@pytest.mark.browser
@pytest.mark.shared
def test_every_fault_ends_as_the_table_says(shared: Path, browser_path: Path) -> None:
    """In its budget and two seconds; the page after it is captured as always (pains 11, 12, 48)."""
    with faults.fault_site(shared) as port:
        seen = faults.run(faults.table(), port, browser_path)
    wrong = {
        each.expected.name: (each.outcome, each.degradations, each.problems(), each.stages)
        for each in seen
        if bool(each.problems()) is not bool(each.expected.missing)
    }
    assert wrong == {}
