"""`pagestate crawl` captures the pages of a list of URLs into a store, and goes on where it left off."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from scheduler.cli.cap_options import cap_option, caps_of
from scheduler.cli.engine_options import EngineGiven, engine_options
from scheduler.cli.follow_options import follow_options, follow_settings
from scheduler.cli.listing_options import listing_options, listing_settings, outline_settings
from scheduler.cli.profiles import profiles_of
from scheduler.cli.screenshot_options import screenshot_options, screenshot_settings
from scheduler.follow_rules import FollowSettings
from scheduler.seed_files import SEED_FORMATS, SeedFormat
from schemas.errors import SeedError, SettingError
from schemas.policy import Policy
from schemas.profiles import DESKTOP, PROFILES
from schemas.settings import Budgets, CrawlSettings, RunSettings, budgets_from

if TYPE_CHECKING:
    from scheduler.seed_plan import MakePlan
    from scheduler.sources import SeedStream

_BUDGETS = [f.name for f in fields(Budgets)]
_DEFAULTS = CrawlSettings()
_RUN = RunSettings()
MAX_PROBLEMS_TOLD = 20
"""A wrong file has thousands of lines that are no seeds; the first ones tell what is wrong."""


def _budget_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """One `--budget-<stage>` option for every budget there is."""
    for name in reversed(_BUDGETS):
        default = getattr(_DEFAULTS.budgets, name).total_seconds()
        option = click.option(
            f"--budget-{name}", f"budget_{name}", type=float, metavar="SECONDS", help=f"Default {default:g}."
        )
        command = option(command)
    return command


@click.command(epilog="Example: pagestate crawl urls.txt --store ./store --concurrency 4")
@click.argument("seeds", nargs=-1)
@click.option(
    "--store", "store_path", required=True, metavar="PATH", help="Folder or s3:// URL that the dataset goes to."
)
@click.option("--crawl", "crawl_name", metavar="NAME", help="Name of the crawl; default: the store's, else `crawl`.")
@click.option(
    "--seed-format",
    type=click.Choice(SEED_FORMATS),
    default="auto",
    help="Of seed files and -; auto goes by names.",
)
@click.option("--strict", is_flag=True, help="A seed that is none is an error, before anything is captured.")
@click.option("--example", is_flag=True, help="Capture the built-in example site instead of SEEDS.")
@click.option(
    "--concurrency", type=click.IntRange(1, 64), default=_RUN.concurrency, show_default=True, help="Pages in flight."
)
@click.option(
    "--host-concurrency",
    type=click.IntRange(1, 64),
    default=_RUN.host_concurrency,
    show_default=True,
    help="Pages of one host in flight; hosts of this machine are not limited.",
)
@click.option(
    "--host-delay",
    type=click.FloatRange(0, 3600),
    default=_RUN.host_delay.total_seconds(),
    show_default=True,
    metavar="SECONDS",
    help="Between two navigations to one host; none on this machine.",
)
@click.option(
    "--robots",
    type=click.Choice(["remote", "always"]),
    default=_DEFAULTS.robots,
    show_default=True,
    help="Ask robots.txt of other machines only, or of this one too.",
)
@click.option("--lanes", type=click.IntRange(1, 65536), default=_DEFAULTS.lanes, show_default=True)
@click.option("--batch-size", type=click.IntRange(1, 1000), default=_DEFAULTS.batch_size, show_default=True)
@click.option("--no-captures", is_flag=True, help="Do not store the raw payloads.")
@click.option("--site-per-process", is_flag=True, help="Frames of other sites in processes of their own.")
@click.option(
    "--processes", type=click.IntRange(1, 64), help="Processes that merge and serialize; default: cores, at most 2."
)
@click.option(
    "--browser", default="", envvar="PAGESTATE_BROWSER", metavar="PATH", help="Chromium to use [PAGESTATE_BROWSER]."
)
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    default=[DESKTOP.name],
    show_default=True,
    metavar="NAME|FILE",
    help=f"{', '.join(PROFILES)}, or a TOML file of your own; repeat it to capture each page under several.",
)
@click.option("--policy", "policy_file", metavar="FILE", help="TOML: permitted sites, and how they are visited.")
@click.option(
    "--allow-private",
    is_flag=True,
    envvar="PAGESTATE_ALLOW_PRIVATE",
    help="Let pages reach loopback and private addresses [PAGESTATE_ALLOW_PRIVATE].",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
@engine_options
@follow_options
@listing_options
@screenshot_options
@cap_option
@_budget_options
def command(
    seeds: tuple[str, ...],
    store_path: str,
    crawl_name: str | None,
    example: bool,
    seed_format: SeedFormat,
    strict: bool,
    concurrency: int,
    host_concurrency: int,
    host_delay: float,
    robots: str,
    lanes: int,
    batch_size: int,
    no_captures: bool,
    site_per_process: bool,
    processes: int | None,
    browser: str,
    profiles: tuple[str, ...],
    policy_file: str | None,
    allow_private: bool,
    as_json: bool,
    caps: tuple[str, ...],
    **others: Any,
) -> int:
    """Capture SEEDS into a store.

    SEEDS are http(s) URLs, seed files (text, CSV, JSON lines, Parquet, sitemap), `sitemap:URL`, or `-` for standard
    input. Run the same command again to go on with a crawl that was stopped. Ctrl-C finishes the pages in flight and
    commits; a second one stops at once.
    Each `--budget-...` is how long that step of a page may take; `--listing-...` is what the listing includes.
    """
    if example and seeds:
        raise SeedError("Both seeds and --example are given; give one of them.")
    if not example and not any(seeds):
        raise SeedError("Nothing says what to capture; give URLs, a seed file or -, or --example.")
    if math.isnan(host_delay):
        # every comparison with it is false, those of click's range too
        raise SettingError("The value of --host-delay is no number; give 0 to 3600 seconds.")
    listing, outline = listing_settings(others), outline_settings(others)
    screenshot = screenshot_settings(others)
    budgets = {name.removeprefix("budget_"): value for name, value in others.items() if name.startswith("budget_")}
    settings = replace(
        _DEFAULTS,
        profiles=profiles_of(profiles),
        budgets=budgets_from({name: value for name, value in budgets.items() if value is not None}),
        listing=listing,
        outline=outline,
        screenshot=screenshot,
        caps=caps_of(caps),
        robots="always" if robots == "always" else "remote",
        lanes=lanes,
        batch_size=batch_size,
        store_captures=not no_captures,
        site_per_process=site_per_process,
    )
    run = replace(
        _RUN,
        concurrency=concurrency,
        host_concurrency=host_concurrency,
        host_delay=timedelta(seconds=host_delay),
        browser_path=browser,
        policy=_policy(policy_file),
        # the example site is this machine's own
        allow_private=allow_private or example,
        processes=processes or min(2, os.cpu_count() or 1),
    )
    given_engine = EngineGiven.of(others)
    read = partial(_seeds, seed_format=seed_format, strict=strict, settings=settings, run=run)
    links = follow_settings(others, settings.store_captures)
    return _crawl(seeds, read, example, store_path, crawl_name, settings, run, given_engine, links, as_json)


def _crawl(
    seeds: tuple[str, ...],
    read: Callable[[tuple[str, ...]], AbstractContextManager[MakePlan]],
    example: bool,
    store_path: str,
    crawl_name: str | None,
    settings: CrawlSettings,
    run: RunSettings,
    given: EngineGiven,
    links: FollowSettings,
    as_json: bool,
) -> int:
    from scheduler.cli.progress import progress_for
    from scheduler.cli.running import engine_of, run_rounds
    from scheduler.cli.summary import print_summary
    from workers.store import check_crawl, open_crawl, open_store

    with ExitStack() as stack:
        # everything that can be wrong is looked at before the first byte is written
        if example:
            from scheduler.example.server import serve_example

            site = stack.enter_context(serve_example())
            seeds = site.urls
        plan = stack.enter_context(read(seeds))
        store = open_store(store_path)
        check_crawl(store, crawl_name, settings)
        engine = stack.enter_context(engine_of(given, store, settings, run))
        crawl = open_crawl(store, crawl_name, settings, now=datetime.now(UTC)).crawl
        plan(store, crawl, 0, settings)
        progress = stack.enter_context(progress_for(sys.stderr))
        stopped = run_rounds(store, crawl, settings, run.policy, engine, given, links, progress)
    print_summary(store, store_path, crawl, stopped, as_json)
    return 130 if stopped else 0


def _policy(file: str | None) -> Policy:
    """The policy of a file, whose secrets can all be read; without a file, that of no file."""
    if file is None:
        return _RUN.policy
    from workers.credentials import load_credentials
    from workers.policy_file import read_policy

    policy = read_policy(file)
    load_credentials(policy)
    return policy


@contextmanager
def _seeds(
    seeds: tuple[str, ...], seed_format: SeedFormat, strict: bool, settings: CrawlSettings, run: RunSettings
) -> Iterator[MakePlan]:
    """What plans the seeds, all of which are read by then, and those that are none told."""
    from scheduler.cli.sitemap_fetch import sitemap_fetcher
    from scheduler.seed_plan import seeds_for_plan
    from scheduler.sources import SeedStream

    with ExitStack() as stack:
        with sitemap_fetcher(settings, run) as fetch:
            found = SeedStream(seeds, sys.stdin.buffer, kind=seed_format, strict=strict, fetch=fetch)
            plan = stack.enter_context(seeds_for_plan(found))
        _tell_problems(found)
        yield plan


def _tell_problems(found: SeedStream) -> None:
    for problem in found.problems[:MAX_PROBLEMS_TOLD]:
        click.echo(f"pagestate: {problem}", err=True)
    if found.problem_count:
        more = f" ({MAX_PROBLEMS_TOLD} of them are named above)" if found.problem_count > MAX_PROBLEMS_TOLD else ""
        click.echo(f"pagestate: {found.problem_count} lines are no seeds and were left out{more}.", err=True)
