"""Exits with 1 if a module of the three floors has more than 400 lines (STYLE.md, habit 15)."""

import sys
from pathlib import Path

LIMIT = 400
FLOORS = ("schemas", "workers", "scheduler")


def too_long(root: Path) -> list[tuple[Path, int]]:
    """The modules below `root` that are over the limit, each with its number of lines."""
    modules = [(path, len(path.read_bytes().splitlines())) for floor in FLOORS for path in (root / floor).rglob("*.py")]
    return sorted((path.relative_to(root), lines) for path, lines in modules if lines > LIMIT)


def main() -> int:
    """Names each module that is too long."""
    found = too_long(Path(__file__).resolve().parent.parent)
    for path, lines in found:
        print(f"{path} has {lines} lines; {LIMIT} is the limit, so give a part of it a file of its own", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
