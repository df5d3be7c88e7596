"""A module of the three floors has at most 400 lines."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).resolve().parents[2] / "infra/module_lines.py"))


@pytest.mark.parametrize(("lines", "found"), [(400, []), (401, [(Path("workers/merge/long.py"), 401)])])
def test_the_line_after_the_limit_is_one_too_many(tmp_path: Path, lines: int, found: list[tuple[Path, int]]) -> None:
    module = tmp_path / "workers" / "merge" / "long.py"
    module.parent.mkdir(parents=True)
    module.write_text("pass\n" * lines)
    assert SCRIPT["too_long"](tmp_path) == found


def test_only_the_floors_are_measured(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "long.py").write_text("pass\n" * 900)
    assert SCRIPT["too_long"](tmp_path) == []
