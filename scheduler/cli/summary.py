"""The summary ends a crawl: outcomes, what degraded, where the data lies and how to read it."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from scheduler.cli.follow_options import tell_links
from scheduler.links_found import links_found
from workers.store import ObjectStore, latest_listings

READ_LINES = """\
SET VARIABLE f = (SELECT list('{store}/' || u.path)
  FROM (SELECT unnest(files) u FROM read_json('{store}/commits/*/*.json')) WHERE u."table" = 'listings');
SELECT url_key, outcome, interactive_elements, listing FROM read_parquet(getvariable('f'))
  QUALIFY row_number() OVER (PARTITION BY url_key, profile ORDER BY round DESC) = 1;"""
"""DuckDB reads a crawl from its markers alone; the last round of a page counts."""


def duckdb_lines(store_path: str) -> str:
    """The lines that read the listings of a store in DuckDB."""
    place = store_path if "://" in store_path else str(Path(store_path).absolute())
    return READ_LINES.format(store=place.replace("'", "''"))


def summarize(store: ObjectStore) -> dict[str, Any]:
    """The numbers of a crawl as they stand, one row a page: the one of its last round."""
    rows = latest_listings(
        store, ["outcome", "degradations", "listing_sha256", "interactive_elements", "duration_ms", "payload_bytes"]
    ).to_pylist()
    return {
        "pages": len(rows),
        "with_listing": sum(row["listing_sha256"] is not None for row in rows),
        "outcomes": dict(Counter(row["outcome"] for row in rows).most_common()),
        "degradations": dict(Counter(d for row in rows for d in row["degradations"]).most_common()),
        "interactive_elements": sum(row["interactive_elements"] or 0 for row in rows),
        "payload_bytes": sum(row["payload_bytes"] for row in rows),
    }


def print_summary(store: ObjectStore, store_path: str, crawl: str, stopped: bool, as_json: bool) -> None:
    """Prints the summary of a crawl to stdout."""
    numbers = summarize(store)
    if as_json:
        links = [asdict(found) for found in links_found(store).values()]
        click.echo(json.dumps({"crawl": crawl, "store": store_path, "stopped": stopped, **numbers, "links": links}))
        return
    console = Console(highlight=False, soft_wrap=True)
    table = Table(title=f"Crawl {crawl}", title_justify="left", box=None, pad_edge=False)
    table.add_column("Outcome")
    table.add_column("Pages", justify="right")
    for outcome, count in numbers["outcomes"].items():
        table.add_row(outcome, str(count))
    table.add_section()
    table.add_row("[bold]all", f"[bold]{numbers['pages']}")
    console.print(table)
    if numbers["degradations"]:
        degraded = ", ".join(f"{name} {count}" for name, count in numbers["degradations"].items())
        console.print(f"Degraded: {degraded}")
    console.print(
        f"{numbers['with_listing']} listings with {numbers['interactive_elements']:,} numbered elements,"
        f" from {numbers['payload_bytes'] / 1e6:,.1f} MB of payloads."
    )
    for found in links_found(store).values():
        console.print(tell_links(found), markup=False)
    if stopped:
        console.print("Stopped before the end; the same command goes on from here.")
    console.print(f"\nThe data lies in {Path(store_path).absolute()}. Read it in DuckDB:", markup=False)
    click.echo(duckdb_lines(store_path))
    console.print(
        f"\nOr: pagestate show URL --store {shlex.quote(store_path)}   pagestate status --store"
        f" {shlex.quote(store_path)}",
        markup=False,
    )
