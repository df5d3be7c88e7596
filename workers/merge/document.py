"""The DOM document of every target becomes one sequence of nodes in pre-order.

Order inside a node: content document, children, shadow roots. That is the order in which the listing prints
(browser-use 0.13.14 prints light children before shadow roots), so that a subtree is a slice and printing is a scan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from schemas.capture import Capture
from workers.merge.errors import PayloadError
from workers.merge.payloads import DOCUMENT_DECODER, SUBTREE_DECODER, DomNode, Targets, decode
from workers.merge.tree import attribute_pairs

DOCUMENT_NODE = 9
FRAME_NAMES = frozenset({"IFRAME"})


@dataclass(frozen=True, slots=True)
class Flat:
    """Nodes in pre-order, each one's parent (-1 for the root), the end of its subtree, where targets' roots stand."""

    nodes: list[DomNode]
    parents: list[int]
    ends: list[int]
    target_roots: dict[int, int]


def documents(capture: Capture, targets: Targets) -> tuple[Flat, int]:
    """The documents of all targets in one pre-order, and the number of surrogates replaced."""
    ordinals = sorted({p.target for p in capture.payloads if p.kind == "dom_document"})
    roots: dict[int, DomNode] = {}
    replaced = 0
    for ordinal in ordinals:
        payload = next(capture.of("dom_document", ordinal))
        decoded, count = decode(DOCUMENT_DECODER, payload)
        replaced += count + _hydrate(capture, ordinal, decoded.root)
        roots[ordinal] = decoded.root
    if 0 not in roots:
        raise PayloadError("dom_document", "$", "is missing")
    attached = _attach(roots, targets) if len(roots) > 1 else {}
    return _flatten(roots[0], attached), replaced


def own_document(capture: Capture) -> DomNode:
    """The document of the page itself, with what was filled in later, its frames' documents where they hang."""
    payload = next(capture.of("dom_document"), None)
    if payload is None:
        raise PayloadError("dom_document", "$", "is missing")
    root = decode(DOCUMENT_DECODER, payload)[0].root
    _hydrate(capture, 0, root)
    return root


def _hydrate(capture: Capture, ordinal: int, root: DomNode) -> int:
    """Fill in the nodes whose children were cut off (Stagehand 3.7.3 hydrates a document of limited depth alike)."""
    replaced = 0
    cut: dict[int, DomNode] | None = None
    for payload in capture.of("dom_subtree", ordinal):
        if cut is None:
            cut = {}
            _find_cut(root, cut)
        decoded, count = decode(SUBTREE_DECODER, payload)
        replaced += count
        reply = decoded.node
        node = cut.get(reply.backendNodeId)
        if node is None:
            continue  # the document changed between the two calls: the reply belongs to a node we never saw
        node.childNodeCount = reply.childNodeCount or node.childNodeCount
        node.children = node.children if reply.children is None else reply.children
        node.shadowRoots = node.shadowRoots if reply.shadowRoots is None else reply.shadowRoots
        node.contentDocument = node.contentDocument if reply.contentDocument is None else reply.contentDocument
        del cut[reply.backendNodeId]
        _find_cut(node, cut)
    return replaced


def _find_cut(root: DomNode, cut: dict[int, DomNode]) -> None:
    stack = [root]
    while stack:
        node = stack.pop()
        children = node.children
        if node.childNodeCount > (len(children) if children else 0) and node.backendNodeId:
            cut[node.backendNodeId] = node
        if children:
            stack.extend(children)
        if node.shadowRoots:
            stack.extend(node.shadowRoots)
        if node.contentDocument is not None:
            stack.append(node.contentDocument)


def _attach(roots: dict[int, DomNode], targets: Targets) -> dict[int, int]:
    """Hang each out-of-process document under its iframe; returns id(document node) -> target ordinal.

    The frame id decides, then the URL without query and trailing slash; a target is used once, in the order in which
    browser-use 0.13.14 builds its tree (content document, shadow roots, children).
    """
    ordinal_of = {t.target_id: i for i, t in enumerate(targets.targets)}
    by_url: dict[str, str] = {}
    # in an order of their own: that of a JSON object's members means nothing
    order = sorted(
        targets.frames, key=lambda key: (ordinal_of.get(targets.frames[key].target_id, len(ordinal_of)), key)
    )
    for key in order:
        by_url.setdefault(_reduced(targets.frames[key].url), targets.frames[key].target_id)
    attached = {id(roots[0]): 0}
    used = {0}
    stack = [roots[0]]
    while stack:
        node = stack.pop()
        if node.contentDocument is None and node.nodeName.upper() in FRAME_NAMES:
            found = targets.frames.get(node.frameId) if node.frameId else None
            source = "" if found else _source(node)
            target_id = found.target_id if found else by_url.get(_reduced(source)) if source else None
            ordinal = ordinal_of.get(target_id, -1) if target_id else -1
            if ordinal in roots and ordinal not in used:
                used.add(ordinal)
                attached[id(roots[ordinal])] = ordinal
                node.contentDocument = roots[ordinal]
        if node.children:
            stack.extend(node.children[::-1])
        if node.shadowRoots:
            stack.extend(node.shadowRoots[::-1])
        if node.contentDocument is not None:
            stack.append(node.contentDocument)
    return attached


def _reduced(url: str) -> str:
    return url.partition("?")[0].rstrip("/")


def _source(node: DomNode) -> str:
    return next((value for name, value in attribute_pairs(node.attributes) if name == "src"), "")


def _flatten(root: DomNode, attached: dict[int, int]) -> Flat:
    nodes: list[DomNode] = []
    parents: list[int] = []
    ends: list[int] = []
    target_roots = {0: 0}
    add, add_parent, add_end = nodes.append, parents.append, ends.append
    count, parent = 0, -1
    row = iter([root])
    above: list[tuple[Iterator[DomNode], int]] = []
    while True:
        for node in row:
            add(node)
            add_parent(parent)
            if attached and id(node) in attached:
                target_roots[attached[id(node)]] = count
            count += 1
            add_end(count)
            below = node.children
            if node.shadowRoots or node.contentDocument is not None:
                below = _below(node)
            if below:
                above.append((row, parent))
                row, parent = iter(below), count - 1
                break
        else:
            if not above:
                return Flat(nodes, parents, ends, target_roots)
            ends[parent] = count
            row, parent = above.pop()


def _below(node: DomNode) -> list[DomNode]:
    """What hangs under a node that has more than children."""
    below = node.children or []
    if node.shadowRoots:
        for shadow_root in node.shadowRoots:
            shadow_root.shadowRootType = shadow_root.shadowRootType or "unknown"
        roots = {s.backendNodeId for s in node.shadowRoots if s.backendNodeId}
        below = [*(c for c in below if c.backendNodeId not in roots), *node.shadowRoots]
    content = node.contentDocument
    if content is not None:
        if content.nodeType != DOCUMENT_NODE:
            raise PayloadError("dom_document", "contentDocument.nodeType", f"is {content.nodeType}, not a document")
        below = [content, *below]
    return below
