"""Every version that shapes a row is named here or recorded beside it."""

from __future__ import annotations

from typing import Final

PAGESTATE_VERSION: Final = "0.1.0"
SCHEMA_VERSION: Final = 4
"""Version of the tables, the plan, the marker and `crawl.json` together; a newer one is refused, never guessed at.

1   listings and their selector maps
2   outlines: columns of `listings` and `stage_metrics`, the table `outline_maps`; what an older file lacks is null
3   pictures: the table `screenshots`
4   the plan's `depth` and `tries`
"""
