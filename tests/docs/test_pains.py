"""docs/PAINS.md tells the truth: each complaint once, each test there is, each docstring with the number it is for."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from schemas.outcomes import DEGRADATIONS, OUTCOMES

ROOT = Path(__file__).parents[2]
LINES = [
    [cell.strip() for cell in line.strip("|\n ").split(" | ")]
    for line in (ROOT / "docs" / "PAINS.md").read_text("utf-8").splitlines()
    if re.match(r"\| \d+ \|", line)
]
REACHED = tomllib.loads((ROOT / "tests" / "faults" / "reached.toml").read_text("utf-8"))


@cache
def docstrings(file: str) -> dict[str, str]:
    """Test -> docstring, of one file."""
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {f.name: ast.get_docstring(f) or "" for f in functions if f.name.startswith("test_")}


def test_each_complaint_stands_once() -> None:
    assert [int(number) for number, *_ in LINES] == list(range(1, 59))


@pytest.mark.parametrize(("number", "what", "by"), LINES, ids=[line[0] for line in LINES])
def test_what_holds_it_off_is_there(number: str, what: str, by: str) -> None:
    tests = re.findall(r"`([^`]+)`", by)
    assert tests or by.startswith("cannot arise: "), f"nothing holds off: {what}"
    quoting = []
    for test in tests:
        file, _, name = test.partition("::")
        assert name in docstrings(file), f"{test} does not exist"
        told = " ".join(docstrings(file)[name].split())
        quoted = " ".join(re.findall(r"\(pains? ([\d, ]+)\)", told))
        quoting.append(number in re.findall(r"\d+", quoted))
    assert not tests or any(quoting), f"no docstring quotes pain {number}"


@pytest.mark.parametrize(("kind", "names"), [("outcome", OUTCOMES), ("degradation", DEGRADATIONS)])
def test_each_outcome_and_degradation_is_reached_by_a_test(kind: str, names: tuple[str, ...]) -> None:
    told = REACHED[kind]
    assert tuple(told) == names
    for test in told.values():
        if not test.startswith("open: "):
            file, _, name = test.partition("::")
            assert name in docstrings(file), f"{test} does not exist"
