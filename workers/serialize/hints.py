"""A frame hints at what lies outside its visible part: the nearest interactive elements, or just that there is more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workers.merge.tree import ELEMENT, LINK_CONTENT
from workers.serialize.interactivity import Interactivity
from workers.serialize.view import View, covered

MAX_HINTS = 10
MAX_TEXT = 40
"""Limits of browser-use 0.13.14, dom/service.py."""


@dataclass(frozen=True, slots=True)
class Hint:
    """One interactive element outside the visible part of a frame."""

    tag: str
    text: str
    pages: float


def frame_hints(view: View, interactivity: Interactivity, frame: int) -> tuple[list[Hint], bool]:
    """The hints of one frame in order of distance, and whether anything at all is hidden there without hints."""
    tree = view.tree
    document = int(view.content[frame])
    if document < 0:
        return [], False
    nodes = np.arange(document, tree.subtree_end[document])
    inner = nodes[(tree.link[nodes] == LINK_CONTENT) & (nodes != document)]
    outside = view.has_bounds[nodes] & ~view.visible[nodes] & ~view.css_hidden[nodes]
    outside &= ~covered(len(nodes), inner - document, tree.subtree_end[inner] - document)
    client = tree.client[tree.plain.layout[frame]] if view.recorded[frame] else None
    height = client[3] if client is not None else 0.0
    hints = []
    for node in nodes[outside].tolist():
        if tree.plain.kind[node] == ELEMENT and interactivity.reason(node) is not None:
            # a frame without height says 0, not 0.0
            pages = round(float(tree.bounds[node, 1]) / height, 1) if height > 0 else 0
            hints.append(Hint(view.tag(node), _text(view, node) or "(no label)", pages))
    hints.sort(key=lambda hint: hint.pages)
    return hints[:MAX_HINTS], not hints and bool(outside.any())


def _text(view: View, node: int) -> str:
    name = view.tree.ax_name(node)
    if name:
        return name[:MAX_TEXT]
    attributes = view.tree.attributes(node)
    label = attributes.get("placeholder") or attributes.get("title") or attributes.get("aria-label") or ""
    return label[:MAX_TEXT]
