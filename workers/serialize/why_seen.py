"""Why an element is not seen: hidden by style, outside a viewport, in a subtree or a frame left out, or covered."""

from __future__ import annotations

import numpy as np

from workers.merge.merge import EXCLUDE_ATTRIBUTE
from workers.merge.tree import DOCUMENT, ELEMENT, LINK_CHILD, LINK_CONTENT
from workers.serialize.indices import FinalTree
from workers.serialize.simplify import DROPPED_TAGS, FRAME_NAMES, SVG_TAGS
from workers.serialize.view import MIN_REMOTE_FRAME_PX

MAX_COVERING = 5
"""Of the elements that cover one together so many are told."""


def named(final: FinalTree, node: int) -> str:
    """An element as the answers call it: `<div id=menu>, backend node 12`."""
    tree = final.view.tree
    if tree.kind[node] != ELEMENT:
        return f"{tree.node_name(node)}, backend node {int(tree.backend_node_id[node])}"
    some = [f" {k}={v[:30]}" for k, v in tree.attributes(node).items() if k in ("id", "name", "class") and v][:2]
    return f"<{final.view.tag(node)}{''.join(some)}>, backend node {int(tree.backend_node_id[node])}"


def box(final: FinalTree, node: int) -> str:
    """An element's rectangle in its own document, in CSS pixels."""
    if not final.view.has_bounds[node]:
        return "no box"
    x, y, width, height = final.view.tree.bounds[node].tolist()
    return f"{x:g},{y:g} {width:g}x{height:g}"


def cut_off(final: FinalTree, node: int) -> str | None:
    """Why the frame that the element lives in is not shown, None if it is."""
    view, tree = final.view, final.view.tree
    options = view.options
    if tree.has_record[node] and not view.has_record[node]:
        number = int(tree.document[node]) + 1
        return f"its document is number {number} of the snapshot, and max_iframes is {options.max_iframes}"
    if not view.detached[node]:
        return None
    roots = {t.root for t in tree.targets if t.root > 0}
    above = [n for n in _upwards(final, node) if n in roots]
    hidden = next((r for r in reversed(above) if view.content[int(tree.parent[r])] < 0), above[0])
    frame = int(tree.parent[hidden])
    who = f"the frame {named(final, frame)}"
    levels = sum(1 for n in _upwards(final, frame) if n in roots)
    if levels >= options.max_iframe_depth:
        return f"{who} is {levels + 1} levels of processes deep, and max_iframe_depth is {options.max_iframe_depth}"
    if not view.visible[frame]:
        return f"{who} is not visible: {invisible(final, frame) or 'no test says why'}"
    if not view.has_bounds[frame] or bool(np.any(tree.bounds[frame, 2:] < MIN_REMOTE_FRAME_PX)):
        return f"{who} is {box(final, frame)}, smaller than {MIN_REMOTE_FRAME_PX:g} px"
    return f"{who} comes after {options.max_iframes} others, which is max_iframes"


def dropped(final: FinalTree, node: int) -> tuple[str, str] | None:
    """(`excluded` or `dropped`, why) where the element lies in a subtree that no listing includes."""
    view, tree = final.view, final.view.tree
    own = f"{EXCLUDE_ATTRIBUTE}-{view.options.session_id}"
    below = -1
    for above in _upwards(final, node):
        if tree.kind[above] == ELEMENT:
            tag = view.tag(above)
            attributes = tree.attributes(above)
            value = (attributes.get(own) if view.options.session_id else "") or attributes.get(EXCLUDE_ATTRIBUTE, "")
            where = "it" if above == node else named(final, above)
            if value.lower() == "true":
                return "excluded", f"{where} has the attribute {EXCLUDE_ATTRIBUTE}=true"
            if tag in DROPPED_TAGS | SVG_TAGS:
                kind = "holds nothing to see" if tag in DROPPED_TAGS else "is a drawing"
                return "dropped", f"<{tag}> {kind}, and is left out with all that is in it"
            frame = tree.node_name(above) in FRAME_NAMES
            if below >= 0 and tree.link[below] == LINK_CONTENT and not frame:
                return "dropped", f"{named(final, above)} is no frame, so the document it shows is left out"
            if below >= 0 and tree.link[below] != LINK_CONTENT and frame and view.content[above] >= 0:
                return "dropped", f"{named(final, above)} shows a document, so its own children are left out"
        elif tree.kind[above] == DOCUMENT and below >= 0 and tree.link[below] != LINK_CHILD:
            return "dropped", "it hangs under a document without being its child"
        below = above
    if not final.simplified.live[node] and not view.detached[node]:
        return "dropped", "only the first branch of a document is listed, and it lies in another"
    return None


def invisible(final: FinalTree, node: int) -> str | None:
    """The first test of visibility that the element fails, with its numbers; None if it is visible."""
    view = final.view
    if view.visible[node]:
        return None
    if not view.has_record[node]:
        return "the snapshot has no record of it"
    display, visibility = view.style(node, "display"), view.style(node, "visibility")
    if (display or "").lower() == "none":
        return "display is none"
    if (visibility or "").lower() == "hidden":
        return "visibility is hidden"
    if view.css_hidden[node]:
        return f"opacity is {view.style(node, 'opacity')}"
    if not view.has_bounds[node]:
        return "it has no layout box"
    return _outside(final, node)


def _outside(final: FinalTree, node: int) -> str:
    """The frame whose viewport the element lies outside of; rectangles are worked out as the listing does."""
    view, tree = final.view, final.view.tree
    threshold = view.options.viewport_threshold or 0
    x, y, width, height = tree.bounds[node].tolist()
    for frame in reversed(view.contexts[view.context[node]].chain):
        if tree.node_name(frame) != "HTML":
            x, y = x + float(tree.bounds[frame, 0]), y + float(tree.bounds[frame, 1])
            continue
        scroll, client = tree.scroll_rect[frame].tolist(), tree.client_rect[frame].tolist()
        if np.isnan(scroll[0]) or np.isnan(client[0]):
            continue
        x, y = x - scroll[0], y - scroll[1]
        sides = (
            (x >= client[2], "to the right of"),
            (x + width <= 0, "to the left of"),
            (y >= client[3] + threshold, f"more than {threshold} px below"),
            (y + height <= -threshold, f"more than {threshold} px above"),
        )
        for outside, side in sides:
            if outside:
                at = f"{x:g},{y:g} {width:g}x{height:g}"
                return f"at {at} it lies {side} the viewport of {client[2]:g}x{client[3]:g} of {named(final, frame)}"
    return "no test says why"


def covering(final: FinalTree, node: int) -> list[int]:
    """The elements that hide it: the one whose box holds it, else those that hold it together, at most five."""
    view, tree = final.view, final.view.tree
    x, y, width, height = tree.bounds[node].tolist()
    bounds = tree.bounds
    opaque = view.occludes[tree.style]
    later = (tree.paint_order > tree.paint_order[node]) & view.has_bounds & opaque & (tree.target == tree.target[node])
    later &= (bounds[:, 0] <= x + width) & (bounds[:, 0] + bounds[:, 2] >= x)
    later &= (bounds[:, 1] <= y + height) & (bounds[:, 1] + bounds[:, 3] >= y)
    frame = _frame(final, node)
    found = [n for n in np.nonzero(later)[0].tolist() if _frame(final, n) == frame and final.simplified.live[n]]
    whole = [
        n
        for n in found
        if bounds[n, 0] <= x
        and bounds[n, 1] <= y
        and bounds[n, 0] + bounds[n, 2] >= x + width
        and bounds[n, 1] + bounds[n, 3] >= y + height
    ]
    # an element before its text, which carries its styles; the one painted last is the one that is seen
    order = sorted(whole or found, key=lambda n: (tree.kind[n] != ELEMENT, -int(tree.paint_order[n])))
    return order[:1] if whole else order[:MAX_COVERING]


def _frame(final: FinalTree, node: int) -> str:
    """The frame id of the nearest frame element around the node, empty at the top."""
    tree = final.view.tree
    for above in _upwards(final, node)[1:]:
        if tree.kind[above] == ELEMENT and final.view.tag(above) in ("iframe", "frame"):
            return tree.frame_ids.get(above, "")
    return ""


def _upwards(final: FinalTree, node: int) -> list[int]:
    """The node and all above it, the nearest first."""
    out = []
    while node >= 0:
        out.append(node)
        node = int(final.view.tree.parent[node])
    return out
