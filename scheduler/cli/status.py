"""`pagestate status` tells how a crawl stands, round by round, from what its store holds."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.table import Table

    from scheduler.links_found import LinksFound
    from scheduler.standing import RoundStanding


@click.command(epilog="Example: pagestate status --store ./store --watch")
@click.option("--store", "store_path", required=True, metavar="PATH", help="Folder or s3:// URL that a crawl wrote to.")
@click.option("--watch", is_flag=True, help="Look again every few seconds, until nothing is left or Ctrl-C.")
@click.option(
    "--every", type=click.FloatRange(0.2, 3600), default=5.0, show_default=True, metavar="SECONDS", help="With --watch."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a round; with --watch, each time.")
def command(store_path: str, watch: bool, every: float, as_json: bool) -> None:
    """Tell how a crawl stands, round by round, from any machine that reads its store."""
    from rich.console import Console
    from rich.live import Live

    from scheduler.cli.follow_options import tell_links
    from scheduler.links_found import links_found
    from scheduler.standing import standing
    from schemas.settings import CrawlSettings
    from workers.store import open_crawl
    from workers.store.opening import open_store

    store = open_store(store_path, reading=True)
    found = open_crawl(store, None, None)
    settings = CrawlSettings.from_json(found.settings)
    console = Console(highlight=False)

    def look() -> list[RoundStanding]:
        return standing(store, settings, datetime.now(UTC))

    rounds = look()
    if as_json or not watch:
        while True:
            links = links_found(store)
            if as_json:
                for one in rounds:
                    click.echo(json.dumps(_plain(found.crawl, one, links.get(one.round))))
            else:
                console.print(_table(found.crawl, rounds))
                for of_round in links.values():
                    console.print(tell_links(of_round), markup=False, soft_wrap=True)
            if not watch or not _is_left(rounds):
                return
            time.sleep(every)
            rounds = look()
    with Live(_table(found.crawl, rounds), console=console, auto_refresh=False) as live:
        while _is_left(rounds):
            time.sleep(every)
            rounds = look()
            live.update(_table(found.crawl, rounds), refresh=True)


def _is_left(rounds: list[RoundStanding]) -> bool:
    return any(one.waiting_batches for one in rounds)


def _plain(crawl: str, one: RoundStanding, links: LinksFound | None) -> dict[str, Any]:
    return {
        "crawl": crawl,
        "round": one.round,
        "committed": one.committed,
        "waiting": one.pages - one.committed,
        "waiting_batches": one.waiting_batches,
        "lanes": one.lanes,
        "lanes_left": one.lanes_left,
        "stalled_lanes": list(one.stalled_lanes),
        "pages_per_second": round(one.pages_per_second, 3),
        "seconds_left": None if one.seconds_left is None else round(one.seconds_left),
        "last_commit": None if one.last_commit is None else one.last_commit.isoformat(),
        "outcomes": one.outcomes,
        "links": None if links is None else {name: value for name, value in asdict(links).items() if name != "round"},
    }


def _table(crawl: str, rounds: list[RoundStanding]) -> Table:
    from rich.table import Table

    names = sorted({name for one in rounds for name in one.outcomes})
    moving = any(one.waiting_batches for one in rounds)
    table = Table(title=f"Crawl {crawl}", title_justify="left", box=None, pad_edge=False)
    headings = ["Round", "Committed", "Waiting", *(["Pages/s", "Left", "Lanes left", "Stalled"] if moving else [])]
    for heading in (*headings, *names):
        table.add_column(heading, justify="right")
    for one in rounds:
        cells = [str(one.round), str(one.committed), str(one.pages - one.committed)]
        if moving:
            left = "-" if one.seconds_left is None else str(timedelta(seconds=round(one.seconds_left)))
            lanes = f"{one.lanes_left} of {one.lanes}"
            cells += [f"{one.pages_per_second:.2f}", left, lanes, str(len(one.stalled_lanes))]
        table.add_row(*cells, *(str(one.outcomes.get(name, 0)) for name in names))
    return table
