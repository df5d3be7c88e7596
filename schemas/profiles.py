"""A profile is a named way of looking at a page; its name is part of a page's identity."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from schemas.errors import SettingError

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_LOCALE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_TIME_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*")
MAX_VIEWPORT: Final = 10_000
"""CSS pixels; beyond that a page's picture no longer fits any texture."""
SCALES: Final = (0.25, 8.0)


@dataclass(frozen=True, slots=True)
class Profile:
    """A way of looking. Sizes in CSS pixels; `scale` is device pixels of one."""

    name: str
    viewport_width: int
    viewport_height: int
    scale: float
    locale: str
    time_zone: str
    user_agent: str
    """Empty means the browser's own, which says that it is headless; `{chrome}` is its version. The one in use, with
    our name behind it, is recorded in every row."""
    touch: bool
    mobile: bool = False
    """Whether the page's viewport meta tag counts and scrollbars take no room, as on a telephone."""


DESKTOP: Final = Profile(
    name="desktop",
    viewport_width=1280,
    viewport_height=1100,
    scale=1.0,
    locale="en-US",
    time_zone="UTC",
    user_agent="",
    touch=False,
)
MOBILE: Final = Profile(
    name="mobile",
    viewport_width=412,
    viewport_height=915,
    scale=3.0,
    locale="en-US",
    time_zone="UTC",
    # what Chrome on any telephone says of itself, which sites go by
    user_agent="Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{chrome} Mobile"
    " Safari/537.36",
    touch=True,
    mobile=True,
)
PROFILES: Final[dict[str, Profile]] = {profile.name: profile for profile in (DESKTOP, MOBILE)}


def profile_from(raw: Mapping[str, Any]) -> Profile:
    """A profile of one's own: `name`, and what differs from the profile that `like` names (else `desktop`).

    Raises SettingError, in words that follow "The profile file ... cannot be used:".
    """
    known = (*(f.name for f in fields(Profile)), "like")
    for key in raw:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"the nearest known is {near[0]}." if near else f"known are {', '.join(known)}."
            raise SettingError(f"it has the unknown key {key}; {hint}")
    name, like = raw.get("name"), raw.get("like", DESKTOP.name)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SettingError("it has no proper name; give up to 40 lower-case letters, digits, dashes and underscores.")
    if name in PROFILES:
        raise SettingError(f"its name {name} is that of a profile that is built in; choose another.")
    if not isinstance(like, str) or like not in PROFILES:
        raise SettingError(f"its like is {like!r}; give one of {', '.join(PROFILES)}.")
    base = PROFILES[like]
    given: dict[str, Any] = {key: value for key, value in raw.items() if key != "like"}
    for key, value in given.items():
        kind = type(getattr(base, key))
        if kind is float and type(value) is int:
            given[key] = float(value)
        elif type(value) is not kind:
            raise SettingError(f"its {key} is {value!r}; give a {_KINDS[kind]}.")
    made = replace(base, **given)
    for key in ("viewport_width", "viewport_height"):
        if not 1 <= getattr(made, key) <= MAX_VIEWPORT:
            raise SettingError(f"its {key} is {getattr(made, key)}; give 1 to {MAX_VIEWPORT} pixels.")
    if not SCALES[0] <= made.scale <= SCALES[1]:
        raise SettingError(f"its scale is {made.scale:g}; give {SCALES[0]:g} to {SCALES[1]:g}.")
    if not _LOCALE.fullmatch(made.locale):
        raise SettingError(f"its locale is {made.locale!r}; give one such as de-DE.")
    if not _TIME_ZONE.fullmatch(made.time_zone):
        raise SettingError(f"its time_zone is {made.time_zone!r}; give one such as Europe/Berlin.")
    if not made.user_agent.isascii() or not (made.user_agent.isprintable()) or len(made.user_agent) > 512:
        raise SettingError("its user_agent cannot stand in a header; use up to 512 printable ASCII letters.")
    return made


_KINDS: Final[dict[type, str]] = {str: "text", int: "whole number", float: "number", bool: "true or false"}
