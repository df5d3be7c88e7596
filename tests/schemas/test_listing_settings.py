"""The listing's settings survive the way into a store and back, and reach the serializer."""

from __future__ import annotations

import dataclasses
import json

import pytest

from schemas.errors import SettingError
from schemas.settings import CrawlSettings, ListingSettings
from workers.serialize.options import ListingOptions

ODD = ListingSettings(
    include_attributes=("href", "data-x"),
    paint_order_filtering=False,
    bbox_filtering=False,
    max_iframes=3,
    max_iframe_depth=2,
    viewport_threshold=None,
    max_chars=7,
)


@pytest.mark.parametrize("listing", [ListingSettings(), ODD])
def test_what_a_store_keeps_gives_the_same_settings(listing: ListingSettings) -> None:
    stored = json.loads(json.dumps(CrawlSettings(listing=listing).as_json()))
    assert CrawlSettings.from_json(stored).listing == listing


def test_a_store_that_names_none_has_the_defaults() -> None:
    assert CrawlSettings.from_json({}).listing == ListingSettings()


@pytest.mark.parametrize("name", [f.name for f in dataclasses.fields(ListingSettings)])
def test_every_one_of_them_is_hashed(name: str) -> None:
    changed = dataclasses.replace(ListingSettings(), **{name: getattr(ODD, name)})
    assert CrawlSettings(listing=changed).hash() != CrawlSettings().hash()


def test_the_serializer_gets_them_under_its_own_names() -> None:
    assert ListingOptions.of(ListingSettings()) == ListingOptions()
    made, given = dataclasses.asdict(ListingOptions.of(ODD)), dataclasses.asdict(ODD)
    assert {name: made[name] for name in made if name in given} == {n: given[n] for n in given if n in made}
    assert given.keys() - made.keys() == {"max_chars"}
    assert made.keys() - given.keys() == {"session_id"}


@pytest.mark.parametrize(
    "wrong", [{"max_iframes": -1}, {"viewport_threshold": 10**10}, {"include_attributes": ("a b",)}]
)
def test_what_no_listing_can_be_made_with_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingError, match=f"listing.{next(iter(wrong))}"):
        ListingSettings(**wrong)  # type: ignore[arg-type]  # the point of the test
