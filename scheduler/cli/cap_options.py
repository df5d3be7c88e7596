"""`--cap NAME=VALUE` of `pagestate crawl`: how much one page may bring along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import click

from schemas.errors import SettingError
from schemas.settings import MAX_LISTING_NUMBER, Caps, caps_from

cap_option = click.option(
    "--cap",
    "caps",
    multiple=True,
    metavar="NAME=VALUE",
    help=f"How much a page may bring along; repeatable. Names: {', '.join(f.name for f in fields(Caps))}.",
)


def caps_of(given: Sequence[str]) -> Caps:
    """The caps that were given, the defaults for the rest; of a name given twice the last.

    Raises SettingError for what is no cap, or no number.
    """
    values: dict[str, int] = {}
    for text in given:
        name, _, value = text.partition("=")
        if not value.isascii() or not value.isdigit() or int(value[:12]) > MAX_LISTING_NUMBER:
            raise SettingError(
                f"The cap {text!r} is not NAME=VALUE with a whole number up to {MAX_LISTING_NUMBER};"
                " give one like --cap requests=200."
            )
        values[name.strip().replace("-", "_")] = int(value)
    return caps_from(values)
