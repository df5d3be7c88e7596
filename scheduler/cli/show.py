"""`pagestate show` prints what was captured of one page."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from schemas.errors import SeedError

FORMS = ("listing", "elements", "stages")


@click.command(epilog="Example: pagestate show http://127.0.0.1:8741/form.html --store ./store --form elements")
@click.argument("url")
@click.option("--store", "store_path", required=True, metavar="PATH", help="Folder that a crawl wrote.")
@click.option("--form", type=click.Choice(FORMS), default="listing", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
def command(url: str, store_path: str, form: str, as_json: bool) -> None:
    """Print what was captured of URL (or of a page id), as of its last round.

    \b
    listing   the page as a browser agent reads it
    elements  the selector map: what each number in the listing is
    stages    what each step of the page took and how it ended
    """
    from workers.store import FolderStore, find_pages, open_crawl, selector_map_of, stages_of

    store = FolderStore.for_reading(store_path)
    open_crawl(store, None, None)
    pages = find_pages(store, url)
    if not pages:
        raise SeedError(
            f"The store {store_path} has no page {url}; pagestate status --store {store_path} tells what it has."
        )
    page = pages[0]
    if form == "listing":
        _show_listing(page, as_json)
        return
    rows = selector_map_of(store, page["page_id"]) if form == "elements" else stages_of(store, page["page_id"])
    if as_json:
        for row in rows:
            click.echo(json.dumps(row, default=_text))
    elif form == "elements":
        _show_elements(rows)
    else:
        _show_stages(page, rows)


def _show_listing(page: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(page, default=_text))
        return
    if page["listing"] is None:
        detail = f" ({page['outcome_detail']})" if page["outcome_detail"] else ""
        click.echo(f"pagestate: {page['url_key']} has no listing: {page['outcome']}{detail}.", err=True)
        return
    click.echo(printable(page["listing"]))


def _show_elements(rows: list[dict[str, Any]]) -> None:
    table = _table()
    for heading in ("Index", "Tag", "Role", "Name", "Why", "Box", "XPath"):
        table.add_column(heading, justify="right" if heading == "Index" else "left", no_wrap=True)
    for row in rows:
        box = "" if row["x"] is None else f"{row['x']:.0f},{row['y']:.0f} {row['width']:.0f}x{row['height']:.0f}"
        cells = (row["tag"], row["role"], row["name"], row["interactive_reason"], box, row["xpath"])
        table.add_row(str(row["index"]), *(_cell(cell, 40 if cell is row["name"] else 80) for cell in cells))
    _print(table)


def _show_stages(page: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    table = _table()
    for heading in ("Stage", "Outcome", "Start ms", "Takes ms", "CPU ms", "Bytes", "Nodes", "Detail"):
        table.add_column(
            heading, justify="left" if heading in ("Stage", "Outcome", "Detail") else "right", no_wrap=True
        )
    for row in rows:
        cpu = "" if row["cpu_ms"] is None else f"{row['cpu_ms']:.1f}"
        counts = ("" if row[name] is None else f"{row[name]:,}" for name in ("bytes", "nodes"))
        took = f"{row['duration_ms']:.1f}"
        table.add_row(
            row["stage"], row["outcome"], f"{row['started_ms']:.0f}", took, cpu, *counts, _cell(row["detail"], 80)
        )
    detail = f" ({page['outcome_detail']})" if page["outcome_detail"] else ""
    click.echo(printable(f"{page['url_key']}: {page['outcome']}{detail}"))
    _print(table)


def _table() -> Table:
    return Table(box=None, pad_edge=False)


def _cell(value: object, width: int) -> Text:
    """Page text as one line of a table, never read as markup."""
    text = printable(str(value)).replace("\n", " ").replace("\t", " ") if value is not None else ""
    return Text(text if len(text) <= width else f"{text[: width - 1]}…")


def _print(table: Table) -> None:
    """Prints a table as wide as it is where nobody watches, so that other programs get whole cells."""
    if sys.stdout.isatty():
        Console(highlight=False).print(table)
    else:
        Console(highlight=False, width=400).print(table, crop=False, no_wrap=True)


def printable(text: str) -> str:
    """Page text fit for a terminal: control characters other than line feed and tab become U+FFFD.

    A page must not be able to move the cursor or to recolour what is printed after it.
    """
    return "".join(c if c in "\n\t" or (c >= " " and not "\x7f" <= c <= "\x9f") else "\ufffd" for c in text)


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
