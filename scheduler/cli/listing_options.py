"""The `--listing-...` and `--outline-...` options of `pagestate crawl` and the settings that they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from schemas.settings import MAX_LISTING_NUMBER, ListingSettings, OutlineSettings

_DEFAULTS = ListingSettings()
_NUMBER = click.IntRange(0, MAX_LISTING_NUMBER)
EVERYTHING = "all"
"""The viewport threshold that lists the whole page."""

_OPTIONS = (
    click.option(
        "--listing-attributes",
        metavar="NAMES",
        help="Attributes that may print, separated by commas; default: browser-use's list.",
    ),
    click.option("--listing-no-paint-order", is_flag=True, help="Number covered elements too."),
    click.option("--listing-no-bbox", is_flag=True, help="Keep elements that fill a link or button."),
    click.option("--listing-max-iframes", type=_NUMBER, default=_DEFAULTS.max_iframes, show_default=True),
    click.option("--listing-max-iframe-depth", type=_NUMBER, default=_DEFAULTS.max_iframe_depth, show_default=True),
    click.option(
        "--listing-viewport",
        metavar="PIXELS",
        default=str(_DEFAULTS.viewport_threshold),
        show_default=True,
        help=f"How far above and below the viewport the listing reaches, or `{EVERYTHING}`.",
    ),
    click.option(
        "--listing-max-chars",
        type=_NUMBER,
        default=_DEFAULTS.max_chars,
        show_default=True,
        help="Characters of the listing in a page state.",
    ),
    click.option(
        "--outline-max-xpath",
        type=_NUMBER,
        default=OutlineSettings().max_xpath_chars,
        show_default=True,
        help="Characters of an XPath in the outline's map; a longer one is replaced by an ancestor's.",
    ),
)


def listing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def listing_settings(given: dict[str, Any]) -> ListingSettings:
    """The settings from the options' values, which are taken out of `given`; the rest is left.

    Raises click.BadParameter or SettingError.
    """
    attributes = given.pop("listing_attributes")
    return ListingSettings(
        include_attributes=tuple(name.strip() for name in attributes.split(",")) if attributes else (),
        paint_order_filtering=not given.pop("listing_no_paint_order"),
        bbox_filtering=not given.pop("listing_no_bbox"),
        max_iframes=given.pop("listing_max_iframes"),
        max_iframe_depth=given.pop("listing_max_iframe_depth"),
        viewport_threshold=_viewport(given.pop("listing_viewport")),
        max_chars=given.pop("listing_max_chars"),
    )


def outline_settings(given: dict[str, Any]) -> OutlineSettings:
    """As `listing_settings`, for the outline."""
    return OutlineSettings(max_xpath_chars=given.pop("outline_max_xpath"))


def _viewport(text: str) -> int | None:
    if text == EVERYTHING:
        return None
    if not text.isascii() or not text.isdigit():
        raise click.BadParameter(f"--listing-viewport is {text!r}; give pixels or `{EVERYTHING}`")
    return int(text[:12])
