"""Exits with 1 if a module of the three floors has more than 400 lines (STYLE.md, habit 15)."""

import sys
from pathlib import Path

LIMIT = 400
FLOORS = ("schemas", "workers", "scheduler")


def too_long(root: Path) -> list[tuple[Path, int]]:
    """The modules below `root` that are over the limit, each with its number of lines."""
    modules = [(path, len(path.read_bytes().splitlines())) for floor in FLOORS for path in (root / floor).rglob("*.py")]
    return sorted((path.relative_to(root), lines) for path, lines in modules if lines > LIMIT)


def main() -> str | None:
    """A line for each module that is too long, nothing if there is none."""
    found = too_long(Path(__file__).resolve().parent.parent)
    advice = f"{LIMIT} is the limit: give a part of it a file of its own"
    return "\n".join(f"{path} has {lines} lines; {advice}" for path, lines in found) or None


if __name__ == "__main__":
    sys.exit(main())
