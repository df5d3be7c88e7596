"""Capture -> page tree: the three trees of a page, all frames, merged into columns."""

from workers.merge.errors import PayloadError
from workers.merge.merge import merge
from workers.merge.tree import PageTree, Target

__all__ = ["PageTree", "PayloadError", "Target", "merge"]
