"""The options that say how far links are followed, and what is told of those that were found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from scheduler.follow_rules import FollowSettings
from schemas.errors import SettingError

if TYPE_CHECKING:
    from scheduler.links_found import LinksFound

_DEFAULTS = FollowSettings()


def follow_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--follow` and `--follow-...`."""
    options = [
        click.option(
            "--follow",
            "follow_depth",
            type=click.IntRange(0, 1000),
            default=_DEFAULTS.depth,
            show_default=True,
            metavar="DEPTH",
            help="Capture the pages that links lead to as well, so many links from a seed.",
        ),
        click.option(
            "--follow-scope",
            type=click.Choice(["host", "site"]),
            default=_DEFAULTS.scope,
            show_default=True,
            help="Follow links to the hosts of the seeds, or to their registrable domains.",
        ),
    ]
    for name, what in (
        ("per_host", "Pages of one host"),
        ("total", "Pages of all hosts"),
        ("query_variants", "Pages of one path with different queries"),
        ("digit_variants", "Pages of paths that differ in digits only"),
    ):
        options.append(
            click.option(
                f"--follow-{name.replace('_', '-')}",
                type=click.IntRange(0, 100_000_000),
                default=getattr(_DEFAULTS, name),
                show_default=True,
                metavar="N",
                help=f"{what} that links may bring into the crawl.",
            )
        )
    for option in reversed(options):
        command = option(command)
    return command


def follow_settings(given: Mapping[str, Any], store_captures: bool) -> FollowSettings:
    """What the options say. Raises SettingError where links are to be followed and no document is stored."""
    names = ("depth", "scope", "per_host", "total", "query_variants", "digit_variants")
    settings = FollowSettings(**{name: given[f"follow_{name}"] for name in names})
    if settings.depth and not store_captures:
        raise SettingError("Links are found in stored captures; leave out --no-captures, or --follow.")
    return settings


def tell_links(found: LinksFound) -> str:
    """What became of the links of a round, in a line."""
    refused = ", ".join(
        f"{reason} {count} (such as {found.examples[reason]})" for reason, count in found.refused.items()
    )
    return (
        f"Links of round {found.round}: {found.links} in {found.sources} pages; {found.planned} planned,"
        f" {found.known} known" + (f"; not followed: {refused}." if refused else ".")
    )
