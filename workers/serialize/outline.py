"""The outline is Stagehand's text form of a page, with the XPath map and the URL map that its ids point into."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, compress, repeat

from schemas.capture import Capture
from workers.merge.merge import merge
from workers.merge.tree import PageTree
from workers.serialize.outline_accessibility import CHECKED, SELECTED, FrameRows, frame_rows
from workers.serialize.outline_decoding import below, nodes_of
from workers.serialize.outline_frames import Frame, FrameStatus, frames_of
from workers.serialize.outline_nodes import OutlineNodes
from workers.serialize.outline_options import OUTLINE_OPTIONS, OutlineOptions
from workers.serialize.outline_paths import FramePaths
from workers.serialize.outline_rows import OutlineRows, frame_text, stitch
from workers.serialize.outline_scope import Mask, Scopes, focused
from workers.serialize.outline_selectors import SelectorError, written_prefix

NAME = "stagehand-outline"
VERSION = "1"


@dataclass(frozen=True, slots=True)
class FrameOutline:
    """One frame of an outline.

    parent   position of the parent frame, -1 for the main frame
    host     id of the element that shows it, None for the main frame
    text     its own lines, without the frames in it
    """

    frame_id: str
    ordinal: int
    target: int
    parent: int
    host: str | None
    status: FrameStatus
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Outline:
    """One outline.

    text        what an agent reads; equals Stagehand 3.7.3's combinedTree
    rows        the same, line by line, in a form that no page can forge
    url_map     id -> URL of links, documents and images, in Stagehand's order
    frames      main frame first, each after its parent, depth first
    hydrated    nodes whose children came in a payload of their own
    """

    text: str
    rows: OutlineRows
    url_map: dict[str, str]
    frames: tuple[FrameOutline, ...]
    hydrated: int
    _paths: tuple[tuple[int, FramePaths | None, Mask | None], ...] = field(default=(), repr=False)
    _xpath_map: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def xpath_map(self) -> dict[str, str]:
        """id -> XPath of every node of every frame, in Stagehand's order; made when first asked for."""
        if not self._xpath_map:
            for ordinal, paths, excluded in self._paths:
                if paths is not None:
                    self._xpath_map.update(_entries(ordinal, paths, excluded))
        return self._xpath_map

    def xpath(self, row: int) -> tuple[str | None, bool]:
        """The XPath of a row, None where the document does not know it; True if it is that of an ancestor instead."""
        node = self.rows.node[row]
        paths = self._paths[self.rows.frame[row]][1]
        return paths.of(node) if node >= 0 and paths is not None else (None, False)


def _entries(ordinal: int, paths: FramePaths, excluded: Mask | None) -> Iterable[tuple[str, str]]:
    nodes, found = paths.all()
    if excluded is not None:
        kept = [not out for out in excluded[nodes].tolist()]
        nodes, found = list(compress(nodes, kept)), list(compress(found, kept))
    ids = paths.backend_node_ids
    return zip([f"{ordinal}-{ids[node]}" for node in nodes], found, strict=True)


def serialize_outline(
    capture: Capture, options: OutlineOptions | None = None, *, tree: PageTree | None = None
) -> Outline:
    """The outline of a capture; `tree` spares the merge if the caller has it already, best merged as `outlined`.

    PayloadError if a payload is malformed. A frame that is not there whole says so in its status; its neighbours stay.
    """
    options = options or OUTLINE_OPTIONS
    if tree is None:
        # only a selector looks at something that the layout snapshot tells: a field's live value
        selects = options.focus is not None or options.ignore
        tree = merge(capture if selects else _without_layout(capture), outlined=True)
    return _Page(capture, tree, options).outline()


def _without_layout(capture: Capture) -> Capture:
    return Capture(tuple(p for p in capture.payloads if p.kind != "layout_snapshot"))


@dataclass(frozen=True, slots=True)
class _Part:
    """One frame on its way into an outline."""

    frame: Frame
    rows: FrameRows
    paths: FramePaths | None
    host: str | None
    excluded: Mask | None


class _Page:
    """The frames of a page on their way to one outline."""

    def __init__(self, capture: Capture, tree: PageTree, options: OutlineOptions) -> None:
        self.options = options
        self.tree = tree
        self.hydrated = sum(p.kind == "dom_subtree" for p in capture.payloads)
        frames = frames_of(capture, tree, options.ordinals, options.owners)
        self.frames = frames if options.include_frames else frames[:1]
        self.scopes = Scopes(self.frames, as_original=options.original_faults)
        self.excluded = self.scopes.excluded(options.ignore)
        self._nodes: dict[int, OutlineNodes] = {}

    def outline(self) -> Outline:
        """The outline that the options ask for."""
        focus = self.options.focus
        if focus is None:
            return self._outline(self._parts())
        try:
            return self._outline([self._focused(focus)])
        except SelectorError:
            if not self.options.original_faults:
                raise
            return self._outline(self._parts())

    def _outline(self, parts: list[_Part]) -> Outline:
        ids = [_ids(part) for part in parts]
        texts = [
            frame_text(own, part.rows.depth, part.rows.role, part.rows.name, part.rows.flags)
            for own, part in zip(ids, parts, strict=True)
        ]
        below = {part.host: text for part, text in zip(parts, texts, strict=True) if part.host is not None}
        return Outline(
            text=stitch(texts[0], below) if len(parts) > 1 else texts[0],
            rows=_combined(parts, ids),
            url_map={f"{part.frame.ordinal}-{node}": url for part in parts for node, url in part.rows.urls},
            frames=tuple(
                FrameOutline(f.frame_id, f.ordinal, f.target, f.parent, part.host, f.status, text)
                for part, f, text in ((part, part.frame, text) for part, text in zip(parts, texts, strict=True))
            ),
            hydrated=self.hydrated,
            _paths=tuple((part.frame.ordinal, part.paths, part.excluded) for part in parts),
        )

    def _parts(self) -> list[_Part]:
        """All frames, each with its document."""
        parts: list[_Part] = []
        for frame in self.frames:
            document = self._document(frame)
            rows, paths = FrameRows(), None
            if document >= 0:
                excluded = self.excluded.get(id(frame.tree))
                rows = frame_rows(nodes_of(frame.ax, self.tree), self._nodes_of(frame.tree), document, excluded)
                paths = self._paths(frame, document, parts)
            parts.append(_Part(frame, rows, paths, self._host(frame), self.excluded.get(id(frame.tree))))
        return parts

    def _focused(self, focus: str) -> _Part:
        """The one frame that the focused element is in, with the rows of that element."""
        position, node = self.scopes.element(focus)
        frame = self.frames[position]
        nodes, document = self._nodes_of(frame.tree), frame.document
        ax = nodes_of(frame.ax, self.tree)
        prefix, truncated = self._prefix(position)
        if self.options.original_faults:
            # the index starts at the owner's document only if that is in the root document itself
            in_root = frame.owner < 0 or nodes.document[frame.owner] == frame.root
            document = document if in_root else frame.root
            top = below(ax.nodes, int(frame.tree.backend_node_id[node]))
            if top is None:
                raise SelectorError(focus, "not_in_tree", "has no accessibility node of its own")
            prefix = written_prefix(focus)
        else:
            top = focused(ax.nodes, nodes, document, node)
            if not top:
                raise SelectorError(focus, "not_in_tree", "has nothing in the accessibility tree")
        excluded = self.excluded.get(id(frame.tree))
        rows = frame_rows(ax.only(top), nodes, document, excluded)
        cap = self.options.max_xpath_chars
        paths = FramePaths(nodes, document, prefix, cap, truncated=truncated, own_shadow_step=True)
        return _Part(frame, rows, paths, None, excluded)

    def _prefix(self, position: int) -> tuple[str, bool]:
        """The path of the element that shows a frame."""
        way = []
        while position > 0:
            way.append(self.frames[position])
            position = way[-1].parent
        prefix, truncated, above = "", False, self.frames[0]
        for frame in reversed(way):
            nodes, cap = self._nodes_of(above.tree), self.options.max_xpath_chars
            paths = FramePaths(nodes, above.document, prefix, cap, truncated=truncated)
            prefix, truncated = paths.of(frame.owner)
            above = frame
        return prefix, truncated

    def _document(self, frame: Frame) -> int:
        """The document of a frame, -1 if it is left out."""
        if frame.document >= 0 and (frame.parent < 0 or frame.owner >= 0):
            return frame.document
        return frame.root if self.options.original_faults else -1

    def _paths(self, frame: Frame, document: int, before: list[_Part]) -> FramePaths | None:
        prefix, truncated = "", False
        if frame.parent >= 0:
            above = before[frame.parent].paths
            if above is None:
                return None
            prefix, truncated = above.of(frame.owner) if above.has(frame.owner) else (above.prefix, False)
        cap = self.options.max_xpath_chars
        return FramePaths(self._nodes_of(frame.tree), document, prefix, cap, truncated=truncated)

    def _host(self, frame: Frame) -> str | None:
        if frame.parent < 0 or frame.owner_id is None:
            return None
        return f"{self.frames[frame.parent].ordinal}-{frame.owner_id}"

    def _nodes_of(self, tree: PageTree) -> OutlineNodes:
        known = self._nodes.get(id(tree))
        if known is None:
            known = self._nodes[id(tree)] = OutlineNodes(tree)
        return known


def _ids(part: _Part) -> list[str]:
    ordinal = part.frame.ordinal
    if None not in part.rows.backend_node_id:
        return [f"{ordinal}-{node}" for node in part.rows.backend_node_id]
    return [
        ax_id if node is None else f"{ordinal}-{node}"
        for ax_id, node in zip(part.rows.ax_id, part.rows.backend_node_id, strict=True)
    ]


def _combined(parts: list[_Part], ids: list[list[str]]) -> OutlineRows:
    """The rows of all frames, each frame's below the row of its host."""
    shown: list[dict[int, int]] = [{} for _ in parts]
    for position, part in enumerate(parts):
        if part.host is not None and len(parts) > 1:
            above = part.frame.parent
            row = ids[above].index(part.host) if part.host in ids[above] else -1
            if row >= 0:
                shown[above].setdefault(row, position)
    # slices of frames, in print order: (frame, first row, end, levels above)
    slices: list[tuple[int, int, int, int]] = []
    stack = [(0, 0, 0)]
    while stack:
        position, start, level = stack.pop()
        cut = min((row for row in shown[position] if row >= start), default=-1)
        end = cut + 1 if cut >= 0 else len(ids[position])
        slices.append((position, start, end, level))
        if cut >= 0:
            stack.append((position, end, level))
            stack.append((shown[position][cut], 0, level + parts[position].rows.depth[cut] + 1))
    rows = [(parts[at].rows, slice(start, end)) for at, start, end, _ in slices]
    flags = list(chain.from_iterable(own.flags[rows_of] for own, rows_of in rows))
    return OutlineRows(
        id=tuple(chain.from_iterable(ids[at][start:end] for at, start, end, _ in slices)),
        depth=tuple(x + level for at, start, end, level in slices for x in parts[at].rows.depth[start:end]),
        role=tuple(chain.from_iterable(own.role[rows_of] for own, rows_of in rows)),
        name=tuple(chain.from_iterable(own.name[rows_of] for own, rows_of in rows)),
        selected=tuple([flag & SELECTED != 0 for flag in flags]),
        checked=tuple([flag & CHECKED != 0 for flag in flags]),
        frame=tuple(chain.from_iterable(repeat(at, end - start) for at, start, end, _ in slices)),
        backend_node_id=tuple(chain.from_iterable(own.backend_node_id[rows_of] for own, rows_of in rows)),
        is_control_part=tuple(chain.from_iterable(own.control_part[rows_of] for own, rows_of in rows)),
        node=tuple(chain.from_iterable(own.node[rows_of] for own, rows_of in rows)),
    )
