"""What is new in an outline (expected texts from Stagehand 3.7.3 itself)."""

from __future__ import annotations

import pytest

from workers.serialize.outline_difference import diff_outlines


@pytest.mark.parametrize(
    ("previous", "following", "expected"),
    [
        ("  [0-1] a\n  [0-2] b", "  [0-1] a\n\n      [0-3] c\n    [0-4] d\n   ", "  [0-3] c\n[0-4] d"),
        ("x", "x\n", ""),
        ("", "\x85q\n  \ufeff r", "\x85q\n  \ufeff r"),
        ("a", "   a", ""),
        ("[1] x", "    [2] y: l\nm\n      [3] z", "    [2] y: l\nm\n      [3] z"),
        ("", "", ""),
    ],
)
def test_new_lines_only(previous: str, following: str, expected: str) -> None:
    assert diff_outlines(previous, following) == expected
