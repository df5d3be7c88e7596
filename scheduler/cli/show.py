"""`pagestate show` prints what was captured of one page."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from schemas.errors import SettingError, StoreError
from schemas.settings import MAX_LISTING_NUMBER

if TYPE_CHECKING:
    from scheduler.cli.stored import StoredPage
    from workers.serialize.rows import ListingRow

FORMS = ("listing", "rows", "page-state", "eval", "elements", "outline", "stages", "screenshot")


@click.command(epilog="Example: pagestate show http://127.0.0.1:8741/form.html --store ./store --form elements")
@click.argument("url")
@click.option("--profile", metavar="NAME", help="Of several that the page was captured under; else the first.")
@click.option("--store", "store_path", required=True, metavar="PATH", help="Folder or s3:// URL that a crawl wrote to.")
@click.option("--form", type=click.Choice(FORMS), default="listing", show_default=True)
@click.option(
    "--truncate",
    type=click.IntRange(0, MAX_LISTING_NUMBER),
    metavar="N",
    help="Characters of the listing in the page state; default: the crawl's setting, 40000.",
)
@click.option("--focus", metavar="SELECTOR", help="Of the outline, this element alone: XPath or CSS, `>>` into frames.")
@click.option("--ignore", multiple=True, metavar="SELECTOR", help="The outline without these elements; repeatable.")
@click.option("-o", "--output", metavar="FILE", help="Where the picture goes; - is standard output.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
def command(
    url: str,
    store_path: str,
    profile: str | None,
    form: str,
    truncate: int | None,
    focus: str | None,
    ignore: tuple[str, ...],
    output: str | None,
    as_json: bool,
) -> None:
    """Print what was captured of URL (or of a page id), as of its last round.

    \b
    listing     the page as a browser agent reads it
    rows        the listing's lines taken apart, so that no text of the page can pass for a line
    page-state  the listing as it stands in an agent's prompt, with statistics, tab and position
    eval        browser-use's second form: every element, with its text on the line
    elements    the selector map: what each number in the listing is
    outline     the page as Stagehand shows it; with --json a line for each of its lines, with XPath and URL
    stages      what each step of the page took and how it ended
    screenshot  the picture, into the file that -o names; with --json what is known of it

    Rows, page state and eval form are made from the stored capture; so is an outline of a part of the page, or of a
    page that was stored without one.
    """
    from scheduler.cli.stored import stored_page
    from workers.store import outline_map_of, selector_map_of, stages_of

    if truncate is not None and form != "page-state":
        raise click.BadParameter(f"--truncate is for --form page-state, and the form is {form}")
    if (focus is not None or ignore) and form != "outline":
        raise click.BadParameter(f"--focus and --ignore are for --form outline, and the form is {form}")
    if (output is not None) != (form == "screenshot" and not as_json):
        raise click.BadParameter(
            "--form screenshot writes a picture: give it a file with -o, or --json; no other form takes -o"
        )
    page = stored_page(store_path, url, profile)
    if form == "screenshot":
        _show_screenshot(page, output)
        return
    if form == "outline" and (focus is not None or ignore or page.has_capture_only("outline")):
        _show_outline(page, focus, ignore, as_json)
    elif form == "listing" or (form == "outline" and not as_json):
        _show_text(page.row, form, as_json)
    elif form in ("rows", "page-state", "eval"):
        _show_made(page, form, truncate, as_json)
    else:
        of = {"elements": selector_map_of, "outline": outline_map_of, "stages": stages_of}[form]
        rows = of(page.store, page.row["page_id"])
        if form == "outline" and page.row[form] is None:
            _say_missing(page.row, form)
        if as_json:
            for row in rows:
                click.echo(json.dumps(row, default=_text))
        elif form == "elements":
            _show_elements(rows)
        else:
            _show_stages(page.row, rows)


def _show_made(page: StoredPage, form: str, truncate: int | None, as_json: bool) -> None:
    """The forms that are made from the stored capture."""
    from workers.serialize.eval_listing import serialize_eval_listing
    from workers.serialize.listing import serialize_listing
    from workers.serialize.page_state import serialize_page_state
    from workers.serialize.rows import listing_rows

    final = page.final()
    if form == "rows":
        _show_rows(listing_rows(final), as_json)
        return
    tree = final.view.tree
    if form == "eval":
        text = serialize_eval_listing(tree, final=final)
    else:
        limit = page.settings.max_chars if truncate is None else truncate
        text = serialize_page_state(tree, serialize_listing(tree, final=final), limit)
    if as_json:
        click.echo(json.dumps({"url_key": page.row["url_key"], "form": form, "text": text}))
    else:
        click.echo(printable(text), nl=not text.endswith("\n"))


def _show_outline(page: StoredPage, focus: str | None, ignore: tuple[str, ...], as_json: bool) -> None:
    """An outline that is made from the stored capture."""
    from workers.serialize.outline_columns import outline_map_rows

    outline = page.outline(focus, ignore)
    if as_json:
        for row in outline_map_rows(outline)[0]:
            click.echo(json.dumps(row))
    else:
        click.echo(printable(outline.text))


def _show_screenshot(page: StoredPage, output: str | None) -> None:
    """The picture into a file, or without one what is known of it."""
    from workers.store import screenshot_of

    found = screenshot_of(page.store, page.row["page_id"])
    if found is None:
        why = "screenshot_failed" if "screenshot_failed" in page.row["degradations"] else page.row["outcome"]
        raise StoreError(
            f"The store {page.store.where} holds no picture of {page.row['url_key']} ({why}); capture the page with"
            " --screenshot viewport or full."
        )
    image = found.pop("image")
    if output is None:
        click.echo(json.dumps(found))
    elif output == "-":
        sys.stdout.buffer.write(image)
    else:
        try:
            Path(output).write_bytes(image)
        except OSError as error:
            raise SettingError(
                f"The picture cannot be written to {output} ({error.strerror}); give another -o."
            ) from error


def _show_rows(rows: list[ListingRow], as_json: bool) -> None:
    if as_json:
        for row in rows:
            click.echo(json.dumps(row.as_json()))
        return
    table = _table()
    for heading in ("Depth", "Kind", "Index", "Tag", "Attributes", "Text", "Flags"):
        table.add_column(heading, justify="right" if heading in ("Depth", "Index") else "left", no_wrap=True)
    for row in rows:
        values = [f"{name}={value!r}" for name, value in (*row.attributes, *row.images)]
        values += [part.text() for part in row.parts]
        index = "" if row.index is None else str(row.index)
        cells = (_cell(row.tag, 20), _cell(" ".join(values), 80), _cell(row.text, 80), _cell(" ".join(row.flags), 40))
        table.add_row(str(row.depth), row.kind, index, *cells)
    _print(table)


def _show_text(page: dict[str, Any], form: str, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(page, default=_text))
        return
    if page[form] is None:
        _say_missing(page, form)
        return
    click.echo(printable(page[form]))


def _say_missing(page: dict[str, Any], form: str) -> None:
    detail = f" ({page['outcome_detail']})" if page["outcome_detail"] else ""
    click.echo(printable(f"pagestate: {page['url_key']} has no {form}: {page['outcome']}{detail}."), err=True)


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
    return "".join(c if c in "\n\t" or (c >= " " and not _is_control(c)) else "\ufffd" for c in text)


def _is_control(c: str) -> bool:
    """Whether a terminal acts on it: C1 controls, and the marks that turn the direction of writing around."""
    return "\x7f" <= c <= "\x9f" or "\u202a" <= c <= "\u202e" or "\u2066" <= c <= "\u2069"


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
