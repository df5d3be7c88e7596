"""`pagestate worker` captures the batches that a broker brings, until it is asked to end."""

from __future__ import annotations

import os
import socket
from typing import Any

import click

from schemas.settings import RunSettings

_RUN = RunSettings()


@click.command(epilog="Example: pagestate worker --broker redis://127.0.0.1:6379/0 --store s3://bucket/crawl")
@click.option("--broker", required=True, envvar="PAGESTATE_WORKER_BROKER", metavar="URL", help="redis:// or amqp://.")
@click.option(
    "--store",
    "stores",
    multiple=True,
    required=True,
    metavar="PATH",
    help="Folder or s3:// URL whose crawls it works for; may be given again. Messages about others are refused.",
)
@click.option("--batches", type=click.IntRange(1, 64), default=2, show_default=True, help="Batches in flight.")
@click.option(
    "--concurrency", type=click.IntRange(1, 64), default=_RUN.concurrency, show_default=True, help="Pages in flight."
)
@click.option("--host-concurrency", type=click.IntRange(1, 64), help="Pages of one host in flight.")
@click.option("--host-delay", type=click.FloatRange(0, 3600), metavar="SECONDS", help="Between navigations to a host.")
@click.option("--processes", type=click.IntRange(1, 64), help="Processes that merge and serialize.")
@click.option("--visibility-timeout", type=click.FloatRange(1), metavar="SECONDS", help="Redis: of a message in hand.")
@click.option("--claim-lapse", type=click.FloatRange(0.3), metavar="SECONDS", help="Until a silent claim is free.")
@click.option("--grace", type=click.FloatRange(1), metavar="SECONDS", help="To finish in, once asked to end.")
@click.option("--s3-endpoint-url", metavar="URL")
@click.option("--s3-addressing", type=click.Choice(["auto", "path", "virtual"]))
@click.option("--s3-region", metavar="NAME")
@click.option("--s3-encryption", type=click.Choice(["AES256", "aws:kms", "aws:kms:dsse"]))
@click.option("--s3-kms-key", metavar="KEY")
@click.option("--policy", metavar="FILE", help="TOML: permitted sites, and how they are visited.")
@click.option("--allow-private", is_flag=True, help="Let pages reach loopback and private addresses.")
@click.option("--browser", envvar="PAGESTATE_BROWSER", metavar="PATH", help="Chromium to use [PAGESTATE_BROWSER].")
@click.option("--name", help="How the worker is called in logs; default: host and process.")
def command(broker: str, stores: tuple[str, ...], batches: int, name: str | None, **given: Any) -> int:
    """Capture the batches that a broker brings, until TERM or Ctrl-C.

    Then pages in flight are finished, others are put off, what is done is committed, and the rest is given back. What
    shapes the pages themselves is stored with the crawl.
    """
    from schemas.delivery import DeliverySettings, broker_name
    from workers.app import PREFIX, make_app, worker_settings
    from workers.broker import Broker
    from workers.store import open_store

    browser = given.pop("browser")
    given["allow_private"] = "1" if given["allow_private"] else None
    environment = dict(os.environ)
    if browser:
        environment["PAGESTATE_BROWSER"] = browser
    environment |= {f"{PREFIX}{key.upper()}": str(value) for key, value in given.items() if value is not None}
    environment |= {f"{PREFIX}BROKER": broker, f"{PREFIX}STORES": "\n".join(stores)}
    settings = worker_settings(environment)
    where = broker_name(broker)
    for place in settings.stores:
        open_store(place, options=settings.s3)
    with Broker(DeliverySettings(broker)) as link:
        link.check()
    app = make_app(settings)
    called = name or f"{socket.gethostname()}-{os.getpid()}"
    click.echo(f"pagestate: worker {called} takes batches from {where}", err=True)
    worker = app.Worker(
        hostname=f"pagestate@{called}",
        pool_cls="threads",
        concurrency=batches,
        loglevel="INFO",
        without_gossip=True,
        without_mingle=True,
    )
    worker.start()
    return int(worker.exitcode or 0)
