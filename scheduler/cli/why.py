"""`pagestate why` tells from the stored capture what became of an element of a page, step by step."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from schemas.errors import SettingError
from schemas.settings import MAX_LISTING_NUMBER

if TYPE_CHECKING:
    from workers.merge import PageTree

MAX_STORIES = 20
"""Of more matches the rest is only counted: who asks that broadly should ask again."""


@click.command(epilog="Example: pagestate why http://127.0.0.1:8741/form.html --match 'Sign up' --store ./store")
@click.argument("url")
@click.option("--profile", metavar="NAME", help="Of several that the page was captured under; else the first.")
@click.option("--store", "store_path", required=True, metavar="PATH", help="Folder or s3:// URL that a crawl wrote to.")
@click.option("--match", metavar="TEXT", help="Elements with this in their text, accessible name or an attribute.")
@click.option("--css", metavar="SELECTOR", help="Elements that a CSS selector matches, in every frame and shadow tree.")
@click.option("--backend-id", type=int, metavar="N", help="The element with this backend node id.")
@click.option(
    "--truncate",
    type=click.IntRange(0, MAX_LISTING_NUMBER),
    metavar="N",
    help="Characters of the listing in the page state; default: the crawl's setting, 40000.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object an element.")
def command(
    url: str,
    store_path: str,
    profile: str | None,
    match: str | None,
    css: str | None,
    backend_id: int | None,
    truncate: int | None,
    as_json: bool,
) -> None:
    """Tell what became of an element of URL (or of a page id), as of its last round: the rule that made it [n], or the
    test that it failed."""
    from scheduler.cli.show import printable
    from scheduler.cli.stored import stored_page
    from workers.serialize.why import Why

    if sum(given is not None for given in (match, css, backend_id)) != 1 or match == "":
        raise click.UsageError("Give one of --match TEXT, --css SELECTOR and --backend-id N")
    page = stored_page(store_path, url, profile)
    final = page.final()
    nodes = _found(final.view.tree, match, css, backend_id)
    asked = f"--match {match}" if match is not None else f"--css {css}" if css is not None else f"node {backend_id}"
    if not nodes:
        sentence = f"Nothing in the document of {page.row['url_key']} answers to {asked}."
        answer = {"fate": "not_in_document", "summary": sentence}
        click.echo(json.dumps(answer) if as_json else printable(sentence))
        return
    if len(nodes) > MAX_STORIES:
        click.echo(
            f"pagestate: {len(nodes)} elements answer to {printable(asked)}; the first {MAX_STORIES} are told.",
            err=True,
        )
    why = Why(final, page.settings.max_chars if truncate is None else truncate)
    for node in nodes[:MAX_STORIES]:
        story = why.story(node)
        if as_json:
            click.echo(json.dumps({**asdict(story), "summary": story.summary()}))
            continue
        click.echo(printable(_one_line(story.summary())))
        for step in story.steps:
            click.echo(printable(_one_line(f"  {'+' if step.stood else '-'} {step.asked}: {step.found}")))
            for rule in step.tried:
                click.echo(printable(_one_line(f"      {rule}")))


def _found(tree: PageTree, match: str | None, css: str | None, backend_id: int | None) -> list[int]:
    from workers.serialize.selectors import BadSelector, select
    from workers.serialize.why import with_backend_node_id, with_text

    if match is not None:
        return with_text(tree, match)
    if css is None:
        return with_backend_node_id(tree, backend_id or 0)
    try:
        return select(tree, css)
    except BadSelector as error:
        raise SettingError(f"The selector {css!r} cannot be matched: {error}; give a plain CSS selector.") from error


def _one_line(text: str) -> str:
    """Values of the page stay in their line."""
    return text.replace("\n", " ").replace("\t", " ")
