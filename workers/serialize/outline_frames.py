"""The frames of a capture, depth first from the main frame, each with its document and the element that shows it.

Frames come from the frame trees of the capture, which are as old as the rest of it (Stagehand 3.7.3 keeps a registry of
its own, in which dead frames stay). The element that owns a frame follows from the document: it carries the frame's id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from schemas.capture import Capture, Payload
from workers.merge.merge import merge
from workers.merge.payloads import decode
from workers.merge.tree import DOCUMENT, LINK_CONTENT, PageTree

FrameStatus: TypeAlias = Literal["ok", "owner_missing", "document_missing", "ax_missing"]
FRAME_STATUSES: tuple[FrameStatus, ...] = get_args(FrameStatus)
"""How much of a frame there is.

ok                everything
owner_missing     the element that shows it was gone when the document was taken: the frame is left out
document_missing  its document was not taken: the frame is left out
ax_missing        no accessibility tree: it has no lines, but its nodes are in the XPath map
"""


class _FrameName(Struct, gc=False):
    id: str
    parentId: str = ""


class _FrameNode(Struct, gc=False):
    frame: _FrameName
    childFrames: list[_FrameNode] = []


class _FrameTree(Struct, gc=False):
    frameTree: _FrameNode


_FRAME_TREE_DECODER = msgspec.json.Decoder(_FrameTree)


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame.

    parent    position of its parent frame, -1 for the main frame
    tree, document   where its document stands; -1 if there is none
    root      the document of its target, which is another one where the frame shares its parent's process
    owner     the element that shows it, in the parent frame's tree; -1 if there is none
    owner_id  its backend node id
    ax        its accessibility payload, None if there is none
    """

    frame_id: str
    ordinal: int
    target: int
    parent: int
    tree: PageTree
    root: int
    document: int
    owner: int
    owner_id: int | None
    ax: Payload | None
    status: FrameStatus


@dataclass(slots=True)
class _Found:
    """What the frame trees say about one frame; `listed` is False where its parent's tree does not name it."""

    frame_id: str
    target: int
    parent_id: str
    listed: bool


def frames_of(
    capture: Capture,
    tree: PageTree,
    ordinals: Mapping[str, int] | None = None,
    owners: Mapping[str, int] | None = None,
) -> list[Frame]:
    """The frames; the main frame is the first, every other comes after its parent."""
    homes = _Homes(capture, tree)
    found = _found(capture, homes)
    order, parents = _depth_first(found, homes)
    numbers = _ordinals(order, parents, ordinals or {})
    ax: dict[tuple[int, str], list[Payload]] = {}
    for payload in (p for p in capture.payloads if p.kind == "ax_tree"):
        ax.setdefault((payload.target, payload.frame_id), []).append(payload)
    frames: list[Frame] = []
    for frame, parent in zip(order, parents, strict=True):
        home, root, document, owner = homes.place(frame, order[parent] if parent >= 0 else None)
        trees = ax.pop((frame.target, frame.frame_id), [])[:1]
        if parent < 0 or frame.target != order[parent].target:
            # a payload without a frame id is that of its target's root frame
            trees = trees or ax.pop((frame.target, ""), [])
        status: FrameStatus = "ok"
        if parent >= 0 and owner < 0:
            status = "owner_missing"
        elif document < 0:
            status = "document_missing"
        elif not trees:
            status = "ax_missing"
        number = numbers[frame.frame_id]
        owner_id = (owners or {}).get(frame.frame_id)
        if owner >= 0:
            owner_id = int(frames[parent].tree.backend_node_id[owner])
        place = (home, root, document, owner, owner_id)
        frames.append(Frame(frame.frame_id, number, frame.target, parent, *place, next(iter(trees), None), status))
    return frames


class _Homes:
    """The trees in which documents stand: the page tree, and one of its own for a target that no iframe shows."""

    def __init__(self, capture: Capture, tree: PageTree) -> None:
        self.tree = tree
        self.trees: dict[int, tuple[PageTree, int]] = {}
        for target in sorted({p.target for p in capture.payloads if p.kind == "dom_document"}):
            root = tree.targets[target].root if target < len(tree.targets) else -1
            if root >= 0:
                self.trees[target] = (tree, root)
            elif target:
                # such as a <frame> or an <object> of another site, which the listing does not descend into
                alone = [replace(p, target=0) for p in capture.payloads if p.target == target and p.kind in _DOM]
                self.trees[target] = (merge(Capture(tuple(alone))), 0)
        self.trees.setdefault(0, (tree, 0))
        self.owners: dict[str, tuple[int, int]] = {}
        self.document_frames: dict[tuple[int, int], str] = {}
        for target, (home, root) in self.trees.items():
            if home is tree and target:
                continue
            self._look(home, -1 if home is tree else target, root)

    def _look(self, home: PageTree, alone: int, root: int) -> None:
        for node, frame_id in home.frame_ids.items():
            target = int(home.target[node]) if alone < 0 else alone
            parent = int(home.parent[node])
            shows = self.content(home, node) >= 0
            if not shows and parent >= 0 and home.kind[parent] == DOCUMENT:
                # the root element of a document carries the id of the frame that it is in
                self.document_frames.setdefault((target, parent), frame_id)
            elif shows or node != root:
                self.owners.setdefault(frame_id, (target, node))

    @staticmethod
    def content(home: PageTree, node: int) -> int:
        """The document that an element shows, -1 if none."""
        below = node + 1
        return below if below < len(home) and home.link[below] == LINK_CONTENT and home.parent[below] == node else -1

    def frame_around(self, target: int, node: int) -> str | None:
        """The id of the frame in whose document a node stands, as far as the documents tell."""
        home = self.trees[target][0]
        while node >= 0 and not (home.kind[node] == DOCUMENT and home.link[node] in (0, LINK_CONTENT)):
            node = int(home.parent[node])
        return self.document_frames.get((target, node))

    def place(self, frame: _Found, parent: _Found | None) -> tuple[PageTree, int, int, int]:
        """The frame's tree, its target's root, its document and its owner."""
        home, root = self.trees.get(frame.target, (self.tree, -1))
        owner_target, owner = self.owners.get(frame.frame_id, (-1, -1))
        if parent is None or owner_target != parent.target:
            owner = -1
        if parent is None or frame.target != parent.target:
            return home, root, root, owner
        document = self.content(home, owner) if owner >= 0 else -1
        if document >= 0 and home.target[document] != home.target[owner]:
            document = -1
        return home, root, document, owner


_DOM = ("dom_document", "dom_subtree")


def _found(capture: Capture, homes: _Homes) -> dict[str, _Found]:
    found: dict[str, _Found] = {}
    for payload in sorted((p for p in capture.payloads if p.kind == "frame_tree"), key=lambda p: p.target):
        stack = [(decode(_FRAME_TREE_DECODER, payload)[0].frameTree, "")]
        while stack:
            node, parent_id = stack.pop()
            known = found.get(node.frame.id)
            if known is None:
                listed = bool(parent_id) or not found
                found[node.frame.id] = _Found(node.frame.id, payload.target, parent_id or node.frame.parentId, listed)
            else:
                known.target = payload.target
            stack.extend((child, node.frame.id) for child in reversed(node.childFrames))
    return found or _without_frame_trees(capture, homes)


def _without_frame_trees(capture: Capture, homes: _Homes) -> dict[str, _Found]:
    """The frames as the documents alone show them."""
    main = next((p.frame_id for p in capture.of("ax_tree") if p.frame_id), "") or homes.frame_around(0, 0) or ""
    found = {main: _Found(main, 0, "", True)}
    for frame_id, (target, node) in sorted(homes.owners.items(), key=lambda item: item[1]):
        home = homes.trees[target][0]
        document = homes.content(home, node)
        if document >= 0 and frame_id not in found:
            around = homes.frame_around(target, node) or main
            own = int(home.target[document]) if home is homes.tree else target
            found[frame_id] = _Found(frame_id, own, around, True)
    return found


def _depth_first(found: dict[str, _Found], homes: _Homes) -> tuple[list[_Found], list[int]]:
    """Frames in depth-first order and the position of each one's parent.

    Children stand in the order of the frame tree. A frame in a process of its own is not listed there: it comes before
    the first listed one whose owner stands after its own.
    """
    main = next(iter(found.values()))
    below: dict[str, list[_Found]] = {}
    unlisted: list[_Found] = []
    for frame in found.values():
        if frame is main:
            continue
        if frame.listed:
            below.setdefault(frame.parent_id, []).append(frame)
        else:
            unlisted.append(frame)

    def owner(frame: _Found) -> int:
        return homes.owners.get(frame.frame_id, (0, -1))[1]

    for frame in sorted(unlisted, key=owner):
        if frame.parent_id not in found:
            target, node = homes.owners.get(frame.frame_id, (0, -1))
            around = homes.frame_around(target, node) if node >= 0 else None
            frame.parent_id = around if around in found else main.frame_id
        siblings = below.setdefault(frame.parent_id, [])
        after = (i for i, other in enumerate(siblings) if other.listed and owner(other) > owner(frame) >= 0)
        siblings.insert(next(after, len(siblings)), frame)
    order: list[_Found] = []
    parents: list[int] = []
    stack = [(main, -1)]
    while stack:
        frame, parent = stack.pop()
        stack.extend((child, len(order)) for child in reversed(below.pop(frame.frame_id, [])))
        order.append(frame)
        parents.append(parent)
    return order, parents


def _ordinals(order: list[_Found], parents: list[int], given: Mapping[str, int]) -> dict[str, int]:
    """The number of each frame: the given one, else the next free one in breadth-first order, the main frame first."""
    depths: list[int] = []
    for parent in parents:
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
    taken = set(given.values())
    numbers: dict[str, int] = {}
    free = 0
    for _, frame in sorted(zip(depths, order, strict=True), key=lambda pair: pair[0]):
        number = given.get(frame.frame_id)
        while number is None:
            number = free if free not in taken else None
            free += 1
        numbers[frame.frame_id] = number
    return numbers
