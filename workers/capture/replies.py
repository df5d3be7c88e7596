"""What is read off a reply as it came, and how one is given up that nobody waits for any more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Container
from typing import Any

from workers.browser.channel import Reply
from workers.browser.spool import Spooled, buffer_of


def frames_in(tree: Reply) -> list[dict[str, Any]]:
    """The frames of a frame tree, root first, depth first, as CDP describes them."""
    frames: list[dict[str, Any]] = []
    stack = [json.loads(bytes(buffer_of(tree)))["frameTree"]]
    while stack:
        node = stack.pop()
        frames.append(node["frame"])
        stack.extend(reversed(node.get("childFrames", [])))
    return frames


def frame_ids(tree: Reply) -> list[str]:
    """The ids of the frames of a frame tree, root first, depth first."""
    return [frame["id"] for frame in frames_in(tree)]


def give_up(reply: asyncio.Future[Reply], kept: Container[int] = ()) -> None:
    """Forgets a reply that has not come, notes a failure that nobody asked about, removes a file that nobody kept."""
    if not reply.done():
        reply.cancel()
    elif not reply.cancelled() and reply.exception() is None:
        data = reply.result()
        if isinstance(data, Spooled) and id(data) not in kept:
            data.delete()
