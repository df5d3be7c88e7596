"""The wheel holds the three floors and nothing else, and the lock names no place to get packages from."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLOORS = {"schemas", "workers", "scheduler"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the working tree with the hatchling of this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def recorded(wheel: Path) -> set[PurePosixPath]:
    """The files that the wheel's RECORD names."""
    with zipfile.ZipFile(wheel) as archive:
        (record,) = (name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
        return {PurePosixPath(line.rsplit(",", 2)[0]) for line in archive.read(record).decode().splitlines()}


def test_only_the_three_floors_come_along(recorded: set[PurePosixPath]) -> None:
    tops = {path.parts[0] for path in recorded}
    assert {top for top in tops if not top.endswith(".dist-info")} == FLOORS
    assert len(tops) == len(FLOORS) + 1


def test_every_module_and_every_example_page_comes_along(recorded: set[PurePosixPath]) -> None:
    modules = {path for floor in FLOORS for path in (ROOT / floor).rglob("*.py")}
    pages = {path for path in (ROOT / "scheduler/example/pages").rglob("*") if path.is_file()}
    assert len(pages) > 12
    assert {PurePosixPath(path.relative_to(ROOT)) for path in modules | pages} <= recorded


def test_the_three_names_belong_to_pagestate(wheel: Path, tmp_path: Path) -> None:
    """Given the wheel in a folder of its own, then no other distribution there or in this environment has the names."""
    installed = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--target", installed, wheel], check=True, capture_output=True, timeout=120)
    asked = (
        "import json, sys; sys.path.insert(0, sys.argv[1]); from importlib.metadata import packages_distributions;"
        " print(json.dumps(packages_distributions()))"
    )
    answer = subprocess.run(
        [sys.executable, "-I", "-c", asked, installed], check=True, capture_output=True, text=True, timeout=60
    )
    owners = json.loads(answer.stdout)
    assert {floor: set(owners[floor]) for floor in FLOORS} == {floor: {"pagestate"} for floor in FLOORS}


def test_the_lock_pins_every_package_with_hashes_and_names_no_index() -> None:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pinned = [number for number, line in enumerate(lines) if line and not line.startswith((" ", "#"))]
    assert len(pinned) > 20
    assert all("==" in lines[number] and "--hash=" in lines[number + 1] for number in pinned)
    assert not any("://" in line or line.startswith("-") for line in lines)


def test_no_package_of_others_lies_among_the_sources() -> None:
    # a stray `git add` once took four of them in
    assert [path.name for path in ROOT.glob("*.whl")] == []
