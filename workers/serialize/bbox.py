"""An element that fills a link or button around it is folded into it: no line, no index of its own."""

from __future__ import annotations

import numpy as np

from workers.merge.tree import ELEMENT, TEXT
from workers.serialize.simplify import Simplified
from workers.serialize.view import Flags, View, nest

PROPAGATING_TAGS = frozenset({"a", "button"})
ROLE_TAGS = frozenset({"div", "span", "input"})
PROPAGATING_ROLES = frozenset({"button", "combobox"})
CONTAINMENT = 0.99
KEPT_TAGS = frozenset({"input", "select", "textarea", "label"})
KEPT_ROLES = frozenset({"button", "link", "checkbox", "radio", "tab", "menuitem", "option"})
"""Rules of browser-use 0.13.14, serializer/serializer.py."""


def excluded_by_parent(view: View, simplified: Simplified) -> Flags:
    """By node: True if its box lies (to 99 %) in the box of the innermost link or button around it."""
    tree = view.tree
    out = np.zeros(len(tree), np.bool_)
    if not view.options.bbox_filtering:
        return out
    sources = _propagating(view, simplified).nonzero()[0]
    if not len(sources):
        return out
    spans = list(zip((sources + 1).tolist(), tree.subtree_end[sources].tolist(), strict=True))
    inside, _ = nest(len(tree), spans)
    nodes = ((inside >= 0) & simplified.final & (tree.kind != TEXT) & view.has_bounds).nonzero()[0]
    child, parent = tree.bounds[nodes], tree.bounds[sources[inside[nodes]]]
    width = np.minimum(child[:, 0] + child[:, 2], parent[:, 0] + parent[:, 2]) - np.maximum(child[:, 0], parent[:, 0])
    height = np.minimum(child[:, 1] + child[:, 3], parent[:, 1] + parent[:, 3]) - np.maximum(child[:, 1], parent[:, 1])
    area = child[:, 2] * child[:, 3]
    shared = np.maximum(width, 0) * np.maximum(height, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        filled = (area > 0) & (shared / area >= CONTAINMENT)
    is_source = np.zeros(len(tree), np.bool_)
    is_source[sources] = True
    for node in nodes[filled].tolist():
        out[node] = not is_source[node] and not _stays(view, node)
    return out


def _propagating(view: View, simplified: Simplified) -> Flags:
    tree = view.tree
    among = simplified.final & view.has_bounds
    out = among & view.named(PROPAGATING_TAGS)
    tags = tree.plain.tag
    more = []
    for node in (among & view.named(ROLE_TAGS)).nonzero()[0].tolist():
        role = tree.attributes(node).get("role")
        if role in PROPAGATING_ROLES and (role == "combobox" or tags[node] != "input"):
            more.append(node)
    out[more] = True
    return out


def _stays(view: View, node: int) -> bool:
    if view.tree.plain.kind[node] != ELEMENT:
        return True
    attributes = view.tree.attributes(node)
    return (
        view.tag(node) in KEPT_TAGS
        or "onclick" in attributes
        or bool(attributes.get("aria-label", "").strip())
        or attributes.get("role") in KEPT_ROLES
    )
