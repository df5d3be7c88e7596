"""A frame's hints about what lies outside its visible part."""

from __future__ import annotations

from types import ModuleType

import pytest

from workers.merge import merge
from workers.serialize.listing import serialize_listing


@pytest.mark.parametrize(("height", "distance"), [(0.0, "0"), (400.0, "7.5"), (3000.0, "1.0")])
def test_the_distance_is_in_pages_of_the_frame(pages: ModuleType, height: float, distance: str) -> None:
    # Given a frame with a button far below its visible part
    inner = pages.document(pages.Node("BUTTON", box=(0, 3000, 50, 20)), frame_id="INNER")
    frame = pages.Node("IFRAME", content=inner, client=(0, 0, 300, height), box=(0, 0, 300, height))
    # When the page is listed
    text = serialize_listing(merge(pages.capture(pages.document(frame)))).text
    # Then the hint tells the distance as browser-use 0.13.14 does, where a frame without height says 0 and not 0.0
    assert f'    <button> "(no label)" ~{distance} pages down' in text.split("\n")
