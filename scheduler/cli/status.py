"""`pagestate status` counts the outcomes of a crawl, round by round, from plan and markers."""

from __future__ import annotations

import json

import click


@click.command(epilog="Example: pagestate status --store ./store")
@click.option("--store", "store_path", required=True, metavar="PATH", help="Folder or s3:// URL that a crawl wrote to.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a round.")
def command(store_path: str, as_json: bool) -> None:
    """Count the outcomes of a crawl, round by round."""
    from rich.console import Console
    from rich.table import Table

    from scheduler.rounds import remaining
    from schemas.settings import CrawlSettings
    from workers.store import open_crawl, outcomes_by_round, planned_rounds
    from workers.store.opening import open_store

    store = open_store(store_path, reading=True)
    found = open_crawl(store, None, None)
    crawl, profiles = found.crawl, CrawlSettings.from_json(found.settings).profiles
    counted = outcomes_by_round(store)
    lines = []
    for number in planned_rounds(store):
        left = [batch for batches in remaining(store, number).values() for batch in batches]
        lines.append(
            {
                "crawl": crawl,
                "round": number,
                "committed": sum(counted.get(number, {}).values()),
                "waiting": sum(len(page.looks(profiles)) for batch in left for page in batch.pages),
                "waiting_batches": len(left),
                "outcomes": counted.get(number, {}),
            }
        )
    if as_json:
        for line in lines:
            click.echo(json.dumps(line))
        return
    names = sorted({name for outcomes in counted.values() for name in outcomes})
    table = Table(title=f"Crawl {crawl}", title_justify="left", box=None, pad_edge=False)
    for heading in ("Round", "Committed", "Waiting", *names):
        table.add_column(heading, justify="right")
    for line in lines:
        outcomes = counted.get(int(str(line["round"])), {})
        table.add_row(
            str(line["round"]), str(line["committed"]), str(line["waiting"]), *(str(outcomes.get(n, 0)) for n in names)
        )
    Console(highlight=False).print(table)
