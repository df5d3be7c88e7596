"""How much of a page its picture shows, and at what scale: never beyond its bounds, never larger than it is seen."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.settings import MAX_PICTURE_SIDE, ScreenshotSettings
from workers.capture.screenshot import clip_of


def metrics(width: float, height: float, seen: float = 1100.0, y: float = 0.0, zoom: float = 1.0) -> dict:
    view = {"pageX": 0, "pageY": y, "clientWidth": width, "clientHeight": seen, "scale": zoom}
    return {
        "cssContentSize": {"width": width, "height": height},
        "cssVisualViewport": view,
        "visualViewport": view,
    }


def test_the_viewport_is_where_the_page_was_scrolled_to():
    clip = clip_of(metrics(1265, 5000, y=1500), ScreenshotSettings(area="viewport"), 1.0)
    assert (clip.y, clip.width, clip.height, clip.scale, clip.cut) == (1500, 1265, 1100, 1.0, False)


def test_a_full_page_is_cut_at_the_cap_and_says_so():
    clip = clip_of(metrics(1280, 90_000), ScreenshotSettings(area="full", max_page_height=4000), 1.0)
    assert (clip.height, clip.page_height, clip.cut) == (4000, 90_000, True)
    assert not clip_of(metrics(1280, 3000), ScreenshotSettings(area="full", max_page_height=4000), 1.0).cut


def test_a_picture_that_fits_is_not_touched():
    assert clip_of(metrics(1280, 3000), ScreenshotSettings(area="full"), 1.0).scale == 1.0


def test_a_phone_s_page_that_is_zoomed_out_is_as_large_as_it_is_seen():
    clip = clip_of(metrics(980, 2177, seen=2177, zoom=0.42), ScreenshotSettings(area="viewport"), 3.0)
    assert clip.scale == pytest.approx(1.26)


@given(
    width=st.floats(1, 50_000),
    height=st.floats(1, 200_000),
    ratio=st.sampled_from([1.0, 1.5, 3.0]),
    max_width=st.integers(100, MAX_PICTURE_SIDE),
    max_pixels=st.integers(100_000, 20_000_000),
)
def test_no_picture_is_beyond_its_bounds(width, height, ratio, max_width, max_pixels):
    limits = ScreenshotSettings(area="full", max_width=max_width, max_pixels=max_pixels)
    try:
        clip = clip_of(metrics(width, height), limits, ratio)
    except ValueError:
        # a hair in one direction, and a wall in the other
        assert max(width, height) / min(width, height) > 50
        return
    across, down = math.ceil(clip.width * clip.scale), math.ceil(clip.height * clip.scale)
    assert across <= max_width
    assert down <= MAX_PICTURE_SIDE
    assert across * down <= max_pixels
    assert clip.scale <= ratio


def test_a_page_without_a_size_has_no_picture():
    with pytest.raises(ValueError, match="0 by 1100 CSS pixels"):
        clip_of(metrics(0, 1100), ScreenshotSettings(area="viewport"), 1.0)
