"""An indexed element with images in it says what the images are, since the element often has no text."""

from __future__ import annotations

from workers.serialize.attributes import shortened
from workers.serialize.indices import FinalTree

MAX_VISITED = 100
MAX_IMAGES = 3
MAX_RAW = 4096
"""Limits of browser-use 0.13.14, serializer/serializer.py."""
_TEXTS = (("image_alt", "alt"), ("image_title", "title"), ("image_label", "aria-label"))
_TRIMMED = "".join(map(chr, range(0x21)))


def image_context(final: FinalTree, node: int) -> str:
    """What the first three images in the element (itself included) tell about themselves, maybe empty."""
    return " ".join(f"{name}={value}" for name, value in image_facts(final, node))


def image_facts(final: FinalTree, node: int) -> list[tuple[str, str]]:
    """The same as (name, value) pairs, values cut as they print."""
    tree, kept = final.view.tree, final.simplified.remains
    tags = tree.plain.tag
    parts: list[tuple[str, str]] = []
    images = visited = 0
    for place in range(node, tree.plain.subtree_end[node]):
        if kept[place]:
            visited += 1
            if tags[place] == "img":
                found = _describe(tree.attributes(place))
                images += bool(found)
                parts += found
                if images == MAX_IMAGES:
                    break
            if visited == MAX_VISITED:
                break
    return parts


def _describe(attributes: dict[str, str]) -> list[tuple[str, str]]:
    parts = []
    for label, name in _TEXTS:
        raw = attributes.get(name, "")
        text = raw.strip()
        if text and len(raw) <= MAX_RAW:
            parts.append((label, shortened(text)))
    source = _file_name(attributes.get("src", ""))
    if source:
        parts.append(("image_src", shortened(source)))
    return parts


def _file_name(source: str) -> str:
    if len(source) > MAX_RAW:
        return ""
    text = source.strip(_TRIMMED).replace("\t", "").replace("\n", "").replace("\r", "")
    if text.lower().startswith("data:"):
        return ""
    return text.partition("?")[0].partition("#")[0].rstrip("/").rpartition("/")[2]
