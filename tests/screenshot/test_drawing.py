"""What is drawn on a picture: covers that nothing shows through, frames at their places, numbers; within its bytes."""

from __future__ import annotations

import io
import random

import pytest
from PIL import Image, ImageChops

from workers.screenshot.drawing import COLOURS, COVER, Box, PictureTooLarge, draw

WHITE = (255, 255, 255)
BIG = 10**9


def picture(width: int = 300, height: int = 200, noise: bool = False, encoding: str = "PNG") -> bytes:
    image = Image.new("RGB", (width, height), WHITE)
    if noise:
        image = Image.frombytes("RGB", (width, height), random.Random(7).randbytes(width * height * 3))
    out = io.BytesIO()
    image.save(out, encoding)
    return out.getvalue()


def pixels(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data)).convert("RGB")


def colour(text: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(text.removeprefix("#")))


def test_a_picture_that_needs_nothing_stays_as_it_came():
    data = picture()
    drawn = draw(data, [], [], "png", BIG)
    assert drawn.data is data
    assert (drawn.width, drawn.height, drawn.shrunk) == (300, 200, 1.0)


@pytest.mark.parametrize("encoding", ["png", "webp"])
def test_it_is_encoded_as_asked(encoding):
    drawn = draw(picture(), [], [Box(1, (10, 10, 100, 60))], encoding, BIG)
    assert Image.open(io.BytesIO(drawn.data)).format == encoding.upper()


def test_what_is_covered_tells_nothing_of_what_was_there():
    """Two pictures that differ in a field alone are the same once it is covered, to the last pixel."""
    one, other = pixels(picture(noise=True)), pixels(picture(noise=True))
    other.paste((0, 0, 0), (40, 50, 160, 74))
    made = []
    for image in (one, other):
        out = io.BytesIO()
        image.save(out, "PNG")
        made.append(draw(out.getvalue(), [(40.4, 50.4, 159.6, 73.6)], [], "png", BIG))
    assert made[0].data == made[1].data
    assert made[0].covered == 1
    assert pixels(made[0].data).getpixel((150, 52)) == colour(COVER)


def test_a_frame_runs_along_the_edge_of_its_element_and_has_a_number():
    drawn = pixels(draw(picture(), [], [Box(12, (50, 60, 150, 120))], "png", BIG).data)
    for place in ((50, 90), (149, 90), (100, 60), (100, 119)):
        assert drawn.getpixel(place) == colour(COLOURS[0])
    assert drawn.getpixel((100, 90)) == WHITE
    # the number's corner is inside, at the top right
    changed = ImageChops.difference(drawn.crop((52, 62, 148, 118)), Image.new("RGB", (96, 56), WHITE)).getbbox()
    assert changed is not None
    assert changed[2] == 96
    assert changed[1] == 0


def test_numbers_do_not_lie_on_each_other():
    boxes = [Box(n, (100 + 3 * n, 100, 103 + 3 * n, 103)) for n in range(10)]
    drawn = pixels(draw(picture(), [], boxes, "png", BIG).data)
    seen = {drawn.getpixel((x, y)) for x in range(300) for y in range(200)}
    assert {colour(text) for text in COLOURS} <= seen


def test_what_lies_outside_is_neither_drawn_nor_counted():
    drawn = draw(picture(), [(-50, -50, -1, -1)], [Box(1, (0, 500, 20, 520)), Box(2, (5, 5, 5, 50))], "png", BIG)
    assert (drawn.covered, drawn.boxes) == (0, 0)


def test_a_picture_over_its_bytes_is_made_smaller_and_says_so():
    whole = picture(noise=True)
    drawn = draw(whole, [], [], "png", len(whole) // 4)
    assert len(drawn.data) <= len(whole) // 4
    assert drawn.shrunk == drawn.width / 300 < 1
    assert drawn.height == pytest.approx(200 * drawn.shrunk, abs=1)


def test_frames_are_drawn_where_they_belong_in_a_picture_made_smaller():
    whole = picture(noise=True)
    drawn = draw(whole, [], [Box(1, (30, 30, 270, 170))], "png", len(whole) // 4)
    at = (round(30 * drawn.shrunk), drawn.height // 2)
    assert pixels(drawn.data).getpixel(at) == colour(COLOURS[0])


def test_bytes_that_no_size_keeps_within_are_an_error():
    with pytest.raises(PictureTooLarge, match="10 are allowed"):
        draw(picture(), [], [], "png", 10)


def test_bytes_that_are_no_picture_are_an_error():
    with pytest.raises(OSError, match="cannot identify"):
        draw(b"<html>", [], [], "png", BIG)
