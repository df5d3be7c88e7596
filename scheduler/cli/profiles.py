"""Profiles are named on the command line, or come from TOML files of the user's own."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from zoneinfo import available_timezones

from schemas.errors import SettingError
from schemas.profiles import PROFILES, Profile, profile_from


def profiles_of(given: Sequence[str]) -> tuple[Profile, ...]:
    """The profiles that names and files give, in their order. Raises SettingError."""
    found: dict[str, Profile] = {}
    for text in given:
        profile = PROFILES.get(text) or _of_file(text)
        if profile.name in found:
            raise SettingError(f"The profile {profile.name} is given twice; give each name once.")
        found[profile.name] = profile
    return tuple(found.values())


def _of_file(text: str) -> Profile:
    if not text.endswith(".toml"):
        raise SettingError(
            f"There is no profile {text}; built in are {', '.join(PROFILES)}, or give a TOML file of your own."
        )
    try:
        raw = tomllib.loads(Path(text).read_text("utf-8-sig"))
    except OSError as error:
        raise SettingError(f"The profile file {text} cannot be read: {error.strerror}; give a TOML file.") from error
    except (ValueError, RecursionError) as error:
        raise SettingError(f"The profile file {text} is no TOML: {error}.") from error
    try:
        profile = profile_from(raw)
    except SettingError as error:
        raise SettingError(f"The profile file {text} cannot be used: {error}") from error
    zones = available_timezones()
    if zones and profile.time_zone not in zones:
        raise SettingError(
            f"The profile file {text} cannot be used: there is no time zone {profile.time_zone}; give one such as"
            " Europe/Berlin."
        )
    return profile
