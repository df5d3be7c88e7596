"""What one page leaves behind, before it is in Parquet: its rows for each table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from schemas.outcomes import Outcome, Stage, StageOutcome

Row = dict[str, Any]
"""One row of a table, by column name; the store refuses names that the schema does not have."""


@dataclass(frozen=True, slots=True)
class StageResult:
    """One timed step of a page. Times in milliseconds, `started_ms` from the start of the page.

    depth, hydrated_nodes   of the document's stage: the depth asked for that came, -1 is all, and how many nodes had
                            their children filled in
    """

    stage: Stage
    outcome: StageOutcome
    started_ms: float
    duration_ms: float
    detail: str | None = None
    bytes: int | None = None
    nodes: int | None = None
    cpu_ms: float | None = None
    depth: int | None = None
    hydrated_nodes: int | None = None


@dataclass(frozen=True, slots=True)
class PageRecord:
    """Everything one page adds to the tables. Identity columns are added by the store, from the batch."""

    url_key: str
    page_id: str
    profile: str
    outcome: Outcome
    listing: Row
    selector_map: list[Row] = field(default_factory=list)
    stages: list[StageResult] = field(default_factory=list)
    captures: list[Row] = field(default_factory=list)
    outline_map: list[Row] = field(default_factory=list)
    screenshots: list[Row] = field(default_factory=list)
    """One, or none."""
