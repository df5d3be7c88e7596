"""A page is written down in a few lines and becomes a capture, without a browser."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from schemas.capture import COMPUTED_STYLES, Capture, Payload

Box = tuple[float, float, float, float]
VIEWPORT = (1280.0, 1100.0)
STYLES = {
    "display": "block",
    "visibility": "visible",
    "opacity": "1",
    "overflow": "visible",
    "overflow-x": "visible",
    "overflow-y": "visible",
    "cursor": "auto",
    "pointer-events": "auto",
    "position": "static",
    "background-color": "rgba(0, 0, 0, 0)",
}


@dataclass
class Node:
    """One node; the defaults are those of a visible `div` without anything special."""

    name: str = "DIV"
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Node] = field(default_factory=list)
    box: Box | None = (0.0, 0.0, 200.0, 60.0)
    text: str = ""
    styles: dict[str, str] = field(default_factory=dict)
    paint_order: int = 1
    kind: int = 1
    frame_id: str = ""
    shadow: list[Node] = field(default_factory=list)
    shadow_type: str = ""
    content: Node | None = None
    scroll: Box | None = None
    client: Box | None = None
    live_value: str | None = None
    role: str | None = None
    ax_name: str | None = None
    backend_node_id: int = 0
    cut: bool = False


def text(value: str, **more: Any) -> Node:
    """A text node."""
    return Node(name="#text", kind=3, text=value, **more)


def document(*body: Node, frame_id: str = "TOP", scroll: Box = (0.0, 0.0, 1280.0, 1100.0)) -> Node:
    """A whole document around the nodes of its body."""
    page = Node("BODY", children=list(body), box=(0.0, 0.0, *VIEWPORT))
    html = Node(
        "HTML",
        children=[page],
        box=(0.0, 0.0, *VIEWPORT),
        frame_id=frame_id,
        scroll=scroll,
        client=(0.0, 0.0, *VIEWPORT),
    )
    return Node("#document", kind=9, children=[html], box=None)


def capture(root: Node, *more: Payload, listeners: list[int] | None = None, ax: bool = True) -> Capture:
    """The capture of a page; payloads given in addition come last."""
    nodes = _number(root)
    payloads = [
        payload("targets", {"url": "http://x/", "title": "X", "targets": [{"target_id": "T0", "session_id": "S0"}]}),
        payload("layout_snapshot", _snapshot(root, nodes)),
        payload("dom_document", {"root": _dom(root)}),
        payload(
            "layout_metrics", {"cssVisualViewport": {"clientWidth": 1280}, "visualViewport": {"clientWidth": 1280}}
        ),
    ]
    if ax:
        payloads.append(payload("ax_tree", {"nodes": [_ax(n) for n in nodes if n.role is not None]}))
    if listeners is not None:
        found = [{"type": "click", "backendNodeId": i} for i in listeners]
        payloads.append(payload("listeners", {"element_count": len(nodes), "listeners": found}))
    return Capture((*payloads, *more))


def payload(kind: Any, value: object, target: int = 0) -> Payload:
    """A payload from a JSON value."""
    return Payload(kind, json.dumps(value, separators=(",", ":")).encode(), target)


def _below(node: Node) -> list[Node]:
    inner = [node.content] if node.content else []
    return inner + node.shadow + node.children


def _number(root: Node) -> list[Node]:
    out, stack = [], [root]
    while stack:
        node = stack.pop()
        out.append(node)
        node.backend_node_id = node.backend_node_id or len(out)
        stack.extend(reversed(_below(node)))
    return out


def subtree_until_cut(node: Node) -> Payload:
    """The reply for a node, cut off again where the nodes below say so."""
    node.cut = False
    reply = payload("dom_subtree", {"node": {**_dom(node), "nodeId": 0}})
    node.cut = True
    return reply


def _dom(root: Node) -> dict[str, Any]:
    made: dict[int, dict[str, Any]] = {}
    order, stack = [], [root]
    while stack:  # no recursion: tests build deep pages too
        node = stack.pop()
        order.append(node)
        stack.extend(node.shadow + [node.content] * bool(node.content) if node.cut else _below(node))
    for node in reversed(order):
        flat = [x for pair in node.attributes.items() for x in pair]
        out: dict[str, Any] = {
            "nodeId": node.backend_node_id,
            "backendNodeId": node.backend_node_id,
            "nodeType": node.kind,
            "nodeName": node.name,
            "nodeValue": node.text,
        }
        if node.kind == 1:
            out["attributes"] = flat
        if node.children:
            out["childNodeCount"] = len(node.children)
            if not node.cut:
                out["children"] = [made[id(c)] for c in node.children]
        if node.shadow:
            out["shadowRoots"] = [made[id(c)] for c in node.shadow]
        if node.content:
            out["contentDocument"] = made[id(node.content)]
        if node.frame_id:
            out["frameId"] = node.frame_id
        if node.shadow_type:
            out["shadowRootType"] = node.shadow_type
        made[id(node)] = out
    return made[id(root)]


def subtree(node: Node) -> Payload:
    """The reply that fills in a node that was cut off."""
    node.cut = False
    return payload("dom_subtree", {"node": {**_dom(node), "nodeId": 0}})


def _snapshot(root: Node, nodes: list[Node]) -> dict[str, Any]:
    table: dict[str, int] = {}

    def string(value: str) -> int:
        return table.setdefault(value, len(table))

    laid = [(i, n) for i, n in enumerate(nodes) if n.box is not None]
    live = [(i, n.live_value) for i, n in enumerate(nodes) if n.live_value is not None]
    parent = {id(c): i for i, n in enumerate(nodes) for c in _below(n)}
    body = {
        "nodes": {
            "parentIndex": [parent.get(id(n), -1) for n in nodes],
            "nodeName": [string(n.name) for n in nodes],
            "nodeValue": [string(n.text) for n in nodes],
            "backendNodeId": [n.backend_node_id for n in nodes],
            "attributes": [[string(x) for pair in n.attributes.items() for x in pair] for n in nodes],
            "inputValue": {"index": [i for i, _ in live], "value": [string(v) for _, v in live]},
            "inputChecked": {"index": []},
            "isClickable": {"index": []},
        },
        "layout": {
            "nodeIndex": [i for i, _ in laid],
            "styles": [[string({**STYLES, **n.styles}[s]) for s in COMPUTED_STYLES] for _, n in laid],
            "bounds": [n.box for _, n in laid],
            "text": [string(n.text) if n.kind == 3 else -1 for _, n in laid],
            "paintOrders": [n.paint_order for _, n in laid],
            "scrollRects": [n.scroll or [] for _, n in laid],
            "clientRects": [n.client or [] for _, n in laid],
        },
    }
    return {"documents": [body], "strings": list(table)}


def _ax(node: Node) -> dict[str, Any]:
    return {
        "nodeId": str(node.backend_node_id),
        "ignored": False,
        "role": {"type": "role", "value": node.role},
        "name": {"type": "computedString", "value": node.ax_name or "", "sources": [{"type": "contents"}]},
        "backendDOMNodeId": node.backend_node_id,
    }
