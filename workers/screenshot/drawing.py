"""Draws on a picture: covers, then the boxes of listed elements with their numbers; and encodes it within bounds.

The only module that knows Pillow. Rectangles are in pixels of the picture.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from PIL import Image, ImageDraw, ImageFont

from schemas.settings import PictureFormat

Rect: TypeAlias = tuple[float, float, float, float]
"""x1, y1, x2, y2."""

WEBP_QUALITY: Final = 80
LABEL_PX: Final = 12
"""Height of a number, where a CSS pixel has a pixel of the picture or less; else so many CSS pixels."""
COLOURS: Final = ("#c5221f", "#1a56c4", "#137333", "#8430ce", "#b45309", "#0f6f83", "#ad1457", "#4a5a0b")
"""White on each of them has a contrast of at least 5 to 1 (WCAG 2.2, 1.4.3); neighbours in the listing differ."""
COVER: Final = "#5f6368"
BULLETS: Final = 8
"""As many as stand for a secret value in the texts."""
PLAIN_LEVELS: Final = 40
"""So little difference in lightness, of 255, is a background or a faint line, and no text."""
_CELL_PX: Final = 4
"""Labels are kept apart on a grid this fine."""


class PictureTooLarge(ValueError):
    """No size of a picture keeps within the bytes that it may have."""


@dataclass(frozen=True, slots=True)
class Box:
    """An element to be framed, and the number that the listing gives it."""

    number: int
    rect: Rect


@dataclass(frozen=True, slots=True)
class Drawn:
    """An encoded picture; `shrunk` is how much smaller it was made, 1 if not at all."""

    data: bytes
    width: int
    height: int
    shrunk: float
    boxes: int
    covered: int


def draw(
    data: bytes,
    covers: Sequence[Rect],
    boxes: Sequence[Box],
    encoding: PictureFormat,
    max_bytes: int,
    scale: float = 1.0,
) -> Drawn:
    """A picture as it came, or drawn on. What lies outside is left out and not counted.

    `scale` is the picture's pixels to a CSS pixel: numbers on a phone's are as large as its texts.
    Raises PictureTooLarge, and OSError or SyntaxError for bytes that are no picture.
    """
    image = Image.open(io.BytesIO(data))
    frame = (0.0, 0.0, float(image.width), float(image.height))
    hidden = [inside for rect in covers if (inside := _inside(rect, frame)) is not None]
    framed = [Box(box.number, inside) for box in boxes if (inside := _inside(box.rect, frame)) is not None]
    if not hidden and not framed and len(data) <= max_bytes and (image.format or "").lower() == encoding:
        return Drawn(data, image.width, image.height, 1.0, 0, 0)
    plain = image.convert("RGB")
    for rect in hidden:
        _cover(plain, rect, max(1.0, scale))
    size, shrunk = plain.size, 1.0
    while True:
        small = plain if shrunk == 1.0 else plain.resize(_scaled(size, shrunk), Image.Resampling.LANCZOS)
        made = small.copy() if framed else small
        _frame(made, [Box(box.number, _times(box.rect, shrunk)) for box in framed], max(1.0, scale * shrunk))
        encoded = _encoded(made, encoding)
        if len(encoded) <= max_bytes:
            return Drawn(encoded, made.width, made.height, made.width / size[0], len(framed), len(hidden))
        if min(made.size) == 1:
            raise PictureTooLarge(f"the smallest picture has {len(encoded)} bytes; {max_bytes} are allowed")
        # bytes grow with the area, roughly
        shrunk *= min(0.9, 0.95 * math.sqrt(max_bytes / len(encoded)))


def _scaled(size: tuple[int, int], factor: float) -> tuple[int, int]:
    return max(1, round(size[0] * factor)), max(1, round(size[1] * factor))


def _times(rect: Rect, factor: float) -> Rect:
    return rect[0] * factor, rect[1] * factor, rect[2] * factor, rect[3] * factor


def _inside(rect: Rect, frame: Rect) -> Rect | None:
    x1, y1, x2, y2 = max(rect[0], frame[0]), max(rect[1], frame[1]), min(rect[2], frame[2]), min(rect[3], frame[3])
    return (x1, y1, x2, y2) if x1 < x2 and y1 < y2 else None


def _encoded(image: Image.Image, encoding: PictureFormat) -> bytes:
    out = io.BytesIO()
    if encoding == "png":
        image.save(out, "PNG")
    else:
        image.save(out, "WEBP", quality=WEBP_QUALITY, method=2)
    return out.getvalue()


def _cover(image: Image.Image, rect: Rect, scale: float) -> None:
    """Paints over a rectangle, a pixel beyond its edges, and eight bullets on it where they have room."""
    draw = ImageDraw.Draw(image)
    x1, y1 = max(0, math.floor(rect[0]) - 1), max(0, math.floor(rect[1]) - 1)
    x2, y2 = min(image.width - 1, math.ceil(rect[2])), min(image.height - 1, math.ceil(rect[3]))
    draw.rectangle((x1, y1, x2, y2), fill=COVER)
    radius = min(3.5 * scale, (y2 - y1) / 5, (x2 - x1) / (4 * BULLETS))
    if radius < 1:
        return
    middle = (y1 + y2) / 2
    for number in range(BULLETS):
        x = x1 + radius * (3 + 3 * number)
        draw.ellipse((x - radius, middle - radius, x + radius, middle + radius), fill="white")


def _frame(image: Image.Image, boxes: Iterable[Box], scale: float) -> None:
    """Frames the boxes, large ones first, then writes their numbers where they hide least."""
    plain = image.convert("L")
    draw = ImageDraw.Draw(image)
    height, line = round(LABEL_PX * scale), round(2 * scale)
    font = ImageFont.load_default(height)
    by_size = sorted(boxes, key=lambda box: -(box.rect[2] - box.rect[0]) * (box.rect[3] - box.rect[1]))
    colours = {box.number: COLOURS[n % len(COLOURS)] for n, box in enumerate(sorted(by_size, key=lambda b: b.number))}
    for box in by_size:
        x1, y1, x2, y2 = _outline(box.rect, image.size)
        draw.rectangle(
            (x1, y1, x2, y2), outline=colours[box.number], width=line if min(x2 - x1, y2 - y1) >= 4 * line else 1
        )
    taken: set[tuple[int, int]] = set()
    for box in reversed(by_size):
        text = str(box.number)
        size = (math.ceil(draw.textlength(text, font)) + 2 * line + 1, height + line)
        x, y = _label_place(_outline(box.rect, image.size), size, line, plain, taken)
        draw.rectangle((x, y, x + size[0] - 1, y + size[1] - 1), fill=colours[box.number])
        draw.text((x + size[0] / 2, y + size[1] / 2), text, fill="white", font=font, anchor="mm")


def _outline(rect: Rect, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """The pixels of a frame's corners, inside the picture."""
    x1, y1 = min(math.floor(rect[0]), size[0] - 1), min(math.floor(rect[1]), size[1] - 1)
    return x1, y1, max(x1, min(math.ceil(rect[2]), size[0]) - 1), max(y1, min(math.ceil(rect[3]), size[1]) - 1)


def _label_place(
    box: tuple[int, int, int, int], label: tuple[int, int], line: int, plain: Image.Image, taken: set[tuple[int, int]]
) -> tuple[int, int]:
    """Where the number of a box goes: on no other number, and where the page itself shows least."""
    x1, y1, x2, y2 = box
    width, height = label
    edge = line + 1
    inside = [(x2 - width + 1, y1), (x1, y1), (x2 - width + 1, y2 - height + 1)]
    beside = [(x2 + 1, y1), (x1, y1 - height), (x2 - width + 1, y1 - height), (x1 - width, y1), (x1, y2 + 1)]
    is_large = x2 - x1 >= 2 * width and y2 - y1 >= height
    found: tuple[int, int] | None = None
    least = 256.0
    for x, y in [*inside, *beside] if is_large else [*beside, *inside]:
        if x < 0 or y < 0 or x + width > plain.width or y + height > plain.height:
            continue
        if not taken.isdisjoint(_cells(x, y, label)):
            continue
        # what the frame hides anyway does not count
        hides = _shown(plain, (x + edge, y + edge, x + width - edge, y + height - edge))
        if hides < least:
            found, least = (x, y), hides
        if hides <= PLAIN_LEVELS:
            break
    if found is None:
        found = max(0, min(x2 - width + 1, plain.width - width)), max(0, min(y1, plain.height - height))
    taken.update(_cells(*found, label))
    return found


def _cells(x: int, y: int, size: tuple[int, int]) -> list[tuple[int, int]]:
    """The cells of the grid that a label takes."""
    columns = range(x // _CELL_PX, (x + size[0] - 1) // _CELL_PX + 1)
    rows = range(y // _CELL_PX, (y + size[1] - 1) // _CELL_PX + 1)
    return [(column, row) for column in columns for row in rows]


def _shown(plain: Image.Image, area: tuple[int, int, int, int]) -> float:
    """How much of the page a part of the picture shows: the difference between its darkest and its lightest pixel."""
    low, high = plain.crop(area).getextrema()
    assert isinstance(low, int | float), "of one channel"
    assert isinstance(high, int | float), "of one channel"
    return high - low
