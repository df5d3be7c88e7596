"""The `--screenshot...` options of `pagestate crawl` and the settings that they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import click

from schemas.errors import SettingError
from schemas.settings import (
    MAX_LISTING_NUMBER,
    MAX_PICTURE_PIXELS,
    MAX_PICTURE_SIDE,
    PictureArea,
    PictureFormat,
    ScreenshotSettings,
)

_DEFAULTS = ScreenshotSettings()
_BOUNDS = {
    "max_page_height": (MAX_LISTING_NUMBER, "CSS pixels of a full page that its picture reaches down to."),
    "max_width": (MAX_PICTURE_SIDE, "Pixels; a wider picture is made smaller."),
    "max_pixels": (MAX_PICTURE_PIXELS, "Width times height; a larger picture is made smaller."),
    "max_bytes": (MAX_LISTING_NUMBER, "A picture with more is made smaller."),
}

_OPTIONS = (
    click.option(
        "--screenshot",
        "screenshot_area",
        type=click.Choice(get_args(PictureArea)),
        default=_DEFAULTS.area,
        show_default=True,
        help="A picture of each page: of what the viewport shows, or of the full page.",
    ),
    click.option(
        "--screenshot-format", type=click.Choice(get_args(PictureFormat)), help=f"Default: {_DEFAULTS.format}."
    ),
    click.option("--screenshot-boxes", is_flag=True, help="Frame the elements of the listing, with their numbers."),
    *(
        click.option(
            f"--screenshot-{name.replace('_', '-')}",
            type=click.IntRange(1, most),
            metavar="N",
            help=f"{text} Default: {getattr(_DEFAULTS, name)}.",
        )
        for name, (most, text) in _BOUNDS.items()
    ),
)


def screenshot_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def screenshot_settings(given: dict[str, Any]) -> ScreenshotSettings:
    """The settings from the options' values, which are taken out of `given`; the rest is left.

    Raises SettingError where a picture that is not asked for is described.
    """
    area = given.pop("screenshot_area")
    names = ("format", "boxes", *_BOUNDS)
    described = {name: value for name in names if (value := given.pop(f"screenshot_{name}"))}
    if area == "off" and described:
        option = next(iter(described)).replace("_", "-")
        raise SettingError(
            f"The option --screenshot-{option} describes a picture that nobody takes; give --screenshot too."
        )
    return ScreenshotSettings(area=area, **described)
