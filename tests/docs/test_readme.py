"""The README is complete: every setting, outcome, degradation, table and verb is in it."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import duckdb
import pytest

from scheduler.cli import VERBS, cli
from schemas.outcomes import DEGRADATIONS, OUTCOMES
from schemas.settings import (
    BrowserLimits,
    Budgets,
    Caps,
    CrawlSettings,
    ListingSettings,
    OutlineSettings,
    RunSettings,
    ScreenshotSettings,
)
from schemas.tables import TABLE_NAMES

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
ROWS = {name for line in README.splitlines() if line.startswith("| `") for name in re.findall(r"`([^`]+)`", line)}

NESTED = {
    "budgets": Budgets,
    "listing": ListingSettings,
    "outline": OutlineSettings,
    "caps": Caps,
    "screenshot": ScreenshotSettings,
    "limits": BrowserLimits,
}


def test_every_setting_is_in_a_table() -> None:
    own = {f.name for cls in (CrawlSettings, RunSettings) for f in fields(cls)} - set(NESTED)
    own |= {f"budgets.{f.name}" for f in fields(Budgets)} | {f"listing.{f.name}" for f in fields(ListingSettings)}
    own |= {f"{name}.{f.name}" for name in ("outline", "caps", "screenshot", "limits") for f in fields(NESTED[name])}
    assert own <= ROWS


def test_defaults_in_the_table_are_the_defaults() -> None:
    for f in fields(Budgets):
        seconds = getattr(Budgets(), f.name).total_seconds()
        assert f"| `budgets.{f.name}` | `--budget-{f.name}` | {seconds:g} s |" in README
    for name in ("max_iframes", "max_iframe_depth", "max_chars"):
        assert re.search(rf"\| `listing\.{name}` \| `--[a-z-]+` \| {getattr(ListingSettings(), name)} \|", README)
    assert f"| {ListingSettings().viewport_threshold} px |" in README
    assert f"| `lanes` | `--lanes` | {CrawlSettings().lanes} |" in README
    assert f"| `batch_size` | `--batch-size` | {CrawlSettings().batch_size} |" in README
    assert f"| `concurrency` | `--concurrency` | {RunSettings().concurrency} |" in README


def test_every_cap_is_given_by_its_name() -> None:
    assert all(f"`--cap {f.name}=N`" in README for f in fields(Caps))


def test_every_option_of_crawl_is_in_the_readme() -> None:
    command = cli.get_command(None, "crawl")  # type: ignore[arg-type]  # our group does not look at its context
    assert command is not None
    named = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
    # said by --help alone: the name, the example site, the form of output
    assert {option for option in named if option not in README} <= {"--crawl", "--example", "--help"}


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_outcome_is_explained(outcome: str) -> None:
    assert outcome in ROWS


def test_every_degradation_table_and_verb_is_named() -> None:
    text = " ".join(README.split())
    assert ", ".join(DEGRADATIONS) in text
    assert set(TABLE_NAMES) <= ROWS
    assert all(f"pagestate {verb} " in README for verb in VERBS)


def test_the_duckdb_lines_are_sql() -> None:
    sql = re.search(r"```sql\n(.*?)```", README, re.DOTALL)
    assert sql is not None
    statements = duckdb.extract_statements(sql.group(1))
    assert len(statements) == 2
