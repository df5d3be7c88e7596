"""Profiles: those that are built in, the user's own, and what is said of one that means nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from scheduler.cli.profiles import profiles_of
from schemas.errors import SettingError
from schemas.profiles import DESKTOP, MOBILE, PROFILES
from schemas.settings import CrawlSettings

OWN = """
name = "tablet"
like = "mobile"
viewport_width = 820
scale = 2
time_zone = "Europe/Berlin"
"""


def test_built_in_profiles():
    assert list(PROFILES) == ["desktop", "mobile"]
    assert profiles_of(["mobile", "desktop"]) == (MOBILE, DESKTOP)
    assert (MOBILE.touch, MOBILE.mobile, MOBILE.scale) == (True, True, 3.0)


def test_a_profile_of_ones_own(tmp_path):
    file = tmp_path / "tablet.toml"
    file.write_text(OWN)
    expected = replace(MOBILE, name="tablet", viewport_width=820, scale=2.0, time_zone="Europe/Berlin")
    assert profiles_of(["desktop", str(file)]) == (DESKTOP, expected)


def test_settings_with_profiles_come_back_as_they_were():
    settings = CrawlSettings(profiles=(DESKTOP, MOBILE))
    again = CrawlSettings.from_json(json.loads(json.dumps(settings.as_json())))
    assert (again, again.hash()) == (settings, settings.hash())
    assert settings.hash() != CrawlSettings().hash()


WRONG = {
    "unknown key": ('name = "a"\nheight = 3', "unknown key height"),
    "near key": ('name = "a"\nviewport_hight = 3', "the nearest known is viewport_height"),
    "no name": ("scale = 1", "no proper name"),
    "bad name": ('name = "../x"', "no proper name"),
    "built in": ('name = "desktop"', "is that of a profile that is built in"),
    "like": ('name = "a"\nlike = "phone"', "its like is 'phone'; give one of desktop, mobile"),
    "kind": ('name = "a"\ntouch = 1', "its touch is 1; give a true or false"),
    "number": ('name = "a"\nviewport_width = true', "give a whole number"),
    "width": ('name = "a"\nviewport_width = 0', "give 1 to 10000 pixels"),
    "scale": ('name = "a"\nscale = nan', "its scale is nan; give 0.25 to 8"),
    "locale": ('name = "a"\nlocale = "german"', "its locale is 'german'"),
    "zone": ('name = "a"\ntime_zone = "Mars/Olympus"', "there is no time zone Mars/Olympus"),
    "agent": ('name = "a"\nuser_agent = "x\\r\\ny"', "cannot stand in a header"),
    "no TOML": ("[", "is no TOML"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_in_one_sentence(tmp_path, case):
    text, said = WRONG[case]
    file = tmp_path / "own.toml"
    file.write_text(text)
    with pytest.raises(SettingError) as refused:
        profiles_of([str(file)])
    assert said in str(refused.value)
    assert str(refused.value).startswith(f"The profile file {file}")


def test_unknown_and_repeated_profiles(tmp_path):
    with pytest.raises(SettingError, match=r"no profile phone; built in are desktop, mobile, or give a TOML file"):
        profiles_of(["phone"])
    with pytest.raises(SettingError, match="desktop is given twice"):
        profiles_of(["desktop", "desktop"])
    with pytest.raises(SettingError, match="cannot be read: No such file"):
        profiles_of([str(tmp_path / "none.toml")])
