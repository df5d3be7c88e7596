"""Capture -> page tree: the three trees of a page, all frames, merged into columns."""

from workers.merge.errors import PayloadError
from workers.merge.merge import merge
from workers.merge.secrets import mask_secrets
from workers.merge.tree import PageTree, Target

__all__ = ["PageTree", "PayloadError", "Target", "mask_secrets", "merge"]
