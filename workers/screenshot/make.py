"""Makes a page's row of `screenshots` from the picture as it came, in a process of the pool."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import msgspec

from schemas.capture import Payload
from schemas.records import Row
from schemas.settings import ScreenshotSettings
from workers.browser.channel import Reply
from workers.browser.spool import buffer_of
from workers.capture.taken import Picture, Taken
from workers.screenshot.covers import covers_of
from workers.screenshot.drawing import Box, draw
from workers.screenshot.places import Node, Places, Rect


class _Answer(msgspec.Struct):
    data: str


_ANSWER = msgspec.json.Decoder(_Answer)


@dataclass(frozen=True, slots=True)
class Made:
    """A row of `screenshots`, or in one sentence why there is none. Times in milliseconds."""

    row: Row | None = None
    error: str | None = None
    duration_ms: float = 0.0
    cpu_ms: float = 0.0


def make_screenshot(
    picture: Picture,
    payloads: Sequence[Taken],
    listed: Sequence[tuple[int, Node]],
    owners: Mapping[int, Node],
    settings: ScreenshotSettings,
    secrets: Sequence[str] = (),
) -> Made:
    """The row of a picture, covered and drawn on; whatever goes wrong with it is said and not raised.

    listed   number and node of the elements to be framed
    owners   by target the element that shows it
    secrets  texts that the page was shown and may repeat
    """
    begun, cpu = time.perf_counter(), time.process_time()
    row, error = None, None
    try:
        row = _row(picture, payloads, listed, owners, settings, secrets)
    except Exception as failure:  # noqa: BLE001  # a picture is an extra; the stage and the degradation say what it was
        error = f"{type(failure).__name__}: {failure}"
    return Made(row, error, (time.perf_counter() - begun) * 1000, (time.process_time() - cpu) * 1000)


def _row(
    picture: Picture,
    payloads: Sequence[Taken],
    listed: Sequence[tuple[int, Node]],
    owners: Mapping[int, Node],
    settings: ScreenshotSettings,
    secrets: Sequence[str],
) -> Row:
    clip = picture.clip
    assert clip is not None, "a picture is taken by its clip"
    after = Places.of([_snapshot(target, data) for target, data in picture.after], owners, clip.ratio)
    if picture.before:
        before = Places.of([_snapshot(target, data) for target, data in picture.before], owners, clip.ratio)
    else:
        own = [_snapshot(taken.target, taken.data) for taken in payloads if taken.kind == "layout_snapshot"]
        before = Places.of(own, owners, clip.ratio, after.insets)

    def on_picture(rect: Rect) -> Rect:
        x1, y1, x2, y2 = rect
        scale = clip.scale
        return (x1 - clip.x) * scale, (y1 - clip.y) * scale, (x2 - clip.x) * scale, (y2 - clip.y) * scale

    covers = [on_picture(rect) for rect in covers_of(before, after, secrets)]
    boxes = []
    for number, node in listed:
        held = after.find(node)
        rect = held[0].seen(held[1]) if held is not None else None
        if rect is not None:
            boxes.append(Box(number, on_picture(rect)))
    data = base64.b64decode(_ANSWER.decode(buffer_of(picture.reply)).data)
    drawn = draw(data, covers, boxes, settings.format, settings.max_bytes, clip.scale)
    return {
        "area": settings.area,
        "format": settings.format,
        "width": drawn.width,
        "height": drawn.height,
        "scale": clip.scale * drawn.shrunk,
        "x": clip.x,
        "y": clip.y,
        "page_width": clip.page_width,
        "page_height": clip.page_height,
        "cut": clip.cut,
        "boxes": drawn.boxes,
        "covered": drawn.covered,
        "bytes": len(drawn.data),
        "sha256": sha256(drawn.data).hexdigest(),
        "image": drawn.data,
    }


def _snapshot(target: int, data: Reply) -> Payload:
    return Payload("layout_snapshot", buffer_of(data), target)
