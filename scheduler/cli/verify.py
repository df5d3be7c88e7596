"""`pagestate verify` checks a crawl both ways: every planned page has its row, every file is what its marker says."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import click

MAX_TOLD = 50


@click.command(epilog="Example: pagestate verify --store ./store")
@click.option("--store", "store_path", required=True, metavar="PATH", help="Folder or s3:// URL that a crawl wrote to.")
@click.option("--quick", is_flag=True, help="Look at names and sizes only; else every byte is read.")
@click.option("--gc", is_flag=True, help="Remove old files of finished rounds that are part of nothing.")
@click.option("--hash", "hashed", is_flag=True, help="Print the logical hash: equal for crawls with the same pages.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(store_path: str, quick: bool, gc: bool, hashed: bool, as_json: bool) -> int:
    """Verify a crawl. The exit code is 0 if everything is as it was committed, else 1.

    Pages that are still to be captured, and files that no marker names, are told but are no problem: run the crawl
    again for the former; --gc removes the latter where nobody can be about to commit them.
    """
    from scheduler.logical import logical_hash, logical_pages
    from scheduler.verify import remove_strays, verify
    from workers.store import open_store

    store = open_store(store_path, reading=True)
    found = verify(store, contents=not quick)
    if gc:
        remove_strays(store, found, datetime.now(UTC))
    # of a damaged crawl there is none
    logical = logical_hash(logical_pages(store)) if hashed and not found.problems else None
    if as_json:
        click.echo(
            json.dumps(
                {
                    "batches": found.batches,
                    "committed": found.committed,
                    "waiting": found.waiting,
                    "pages": found.pages,
                    "files": found.files,
                    "strays": len(found.strays),
                    "removed": found.removed,
                    "problems": found.problems,
                    **({"logical_hash": logical} if hashed else {}),
                }
            )
        )
        return 1 if found.problems else 0
    for problem in found.problems[:MAX_TOLD]:
        click.echo(problem)
    if len(found.problems) > MAX_TOLD:
        click.echo(f"and {len(found.problems) - MAX_TOLD} more problems")
    click.echo(
        f"{found.committed} of {found.batches} batches are committed, {found.pages} pages in {found.files} files;"
        f" {len(found.problems)} problems"
    )
    if found.waiting:
        click.echo(f"{found.waiting} batches are still to be captured: run the crawl again")
    if found.removed:
        click.echo(f"{found.removed} files that were part of nothing are removed")
    if found.strays:
        hint = "" if gc else " (--gc removes those of finished rounds)"
        click.echo(f"{len(found.strays)} files are part of nothing{hint}")
    if logical is not None:
        click.echo(f"Logical hash: {logical}")
    return 1 if found.problems else 0
