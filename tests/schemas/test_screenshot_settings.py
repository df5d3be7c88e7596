"""Pictures are a setting of a crawl; a crawl without them has the settings, and their hash, that it always had."""

from __future__ import annotations

import dataclasses
import json
from datetime import timedelta

import pytest

from schemas.errors import SettingError
from schemas.settings import Budgets, CrawlSettings, ScreenshotSettings

ODD = ScreenshotSettings(
    area="full", format="png", boxes=True, max_page_height=7, max_width=8, max_pixels=9, max_bytes=10
)


def test_a_crawl_without_pictures_stores_nothing_of_them():
    stored = CrawlSettings().as_json()
    assert "screenshot" not in stored
    assert "screenshot" not in stored["budgets"]  # type: ignore[operator]
    other = CrawlSettings(budgets=Budgets(screenshot=timedelta(seconds=1)))
    assert other.hash() == CrawlSettings().hash()


@pytest.mark.parametrize("settings", [ScreenshotSettings(), ODD])
def test_what_a_store_keeps_gives_the_same_settings(settings):
    stored = json.loads(json.dumps(CrawlSettings(screenshot=settings).as_json()))
    assert CrawlSettings.from_json(stored).screenshot == settings


@pytest.mark.parametrize("name", [f.name for f in dataclasses.fields(ScreenshotSettings)])
def test_every_one_of_them_is_hashed(name):
    plain = ScreenshotSettings(area="viewport")
    changed = dataclasses.replace(plain, **{name: getattr(ODD, name)})
    assert CrawlSettings(screenshot=changed).hash() != CrawlSettings(screenshot=plain).hash()


def test_so_is_their_budget():
    with_pictures = CrawlSettings(screenshot=ODD)
    sooner = dataclasses.replace(with_pictures, budgets=Budgets(screenshot=timedelta(seconds=1)))
    assert sooner.hash() != with_pictures.hash()


@pytest.mark.parametrize("wrong", [{"max_width": 0}, {"max_width": 16_384}, {"max_pixels": 10**9}, {"max_bytes": 0}])
def test_what_no_picture_can_have_is_refused(wrong):
    with pytest.raises(SettingError, match=f"screenshot.{next(iter(wrong))}"):
        ScreenshotSettings(**wrong)
