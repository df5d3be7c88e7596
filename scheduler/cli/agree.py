"""`pagestate agree` tells where the listing and the outline of a page differ."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from scheduler.cli.show import printable


@click.command(epilog="Example: pagestate agree http://127.0.0.1:8741/form.html --store ./store")
@click.argument("url")
@click.option("--profile", metavar="NAME", help="Of several that the page was captured under; else the first.")
@click.option("--store", "store_path", required=True, metavar="PATH", help="Folder or s3:// URL that a crawl wrote to.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines: one with the score, one for each difference.")
def command(url: str, store_path: str, profile: str | None, as_json: bool) -> None:
    """Print which elements of URL (or of a page id) only the listing or only the outline knows.

    The score is the share that both know, of the elements that either calls actionable. Made from the stored capture.
    """
    from scheduler.cli.stored import stored_page
    from workers.serialize.agreement import agreement
    from workers.serialize.listing import serialize_listing

    page = stored_page(store_path, url, profile)
    final, outline = page.both()
    found = agreement(serialize_listing(final.view.tree, final=final), outline)
    counts = {
        "both": found.both,
        "elements": found.actionable,
        "only_listing": found.only_listing,
        "only_outline": found.only_outline,
    }
    if as_json:
        click.echo(json.dumps({"url_key": page.row["url_key"], "agreement": found.score, **counts}))
        for difference in found.differences:
            click.echo(json.dumps(asdict(difference)))
        return
    share = "nothing to act on" if found.score is None else f"{found.score:.0%} of {found.actionable} elements"
    click.echo(printable(f"{page.row['url_key']}: {share}"))
    for difference in found.differences:
        number = f"[{difference.index}]" if difference.index is not None else f"[{difference.id}]"
        text = " ".join(f"{difference.role or '?'}: {difference.name or ''}".split())
        click.echo(printable(f"only the {difference.known_to} {number} {text[:80]}"))
