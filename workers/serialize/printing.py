"""The final tree prints as one line per element that matters and one per text, indented by tabs."""

from __future__ import annotations

from bisect import bisect_left

from workers.merge.tree import ELEMENT, FRAGMENT, SHADOW_KINDS, TEXT
from workers.serialize.attributes import attribute_string
from workers.serialize.forged import broken_lines, looks_like_a_line
from workers.serialize.hints import frame_hints
from workers.serialize.images import image_context
from workers.serialize.indices import FinalTree
from workers.serialize.scrolling import scroll_text, shows_scroll
from workers.serialize.simplify import parent_in, shown_frames

EMPTY_TEXT = "Empty DOM tree (you might have to wait for the page to load)"
COLLAPSED = " <!-- SVG content collapsed -->"
CLOSED = SHADOW_KINDS.index("closed")
LINED_TAGS = frozenset({"svg", "iframe", "frame"})
"""Elements that have a line whether they have an index or not."""


class Printer:
    """Prints one final tree; `printed` then holds the elements that have a line, `forged_lines` the number of lines
    that the page made: by line breaks in its texts and values, and by texts that look like a line of the listing."""

    __slots__ = ("_closed_hosts", "_final", "_hosts", "_images", "forged_lines", "printed")

    def __init__(self, final: FinalTree) -> None:
        self._final = final
        self._hosts, self._closed_hosts = shadow_hosts(final)
        # the last place is beyond all nodes
        images = (final.view.named(("img",)) & final.simplified.final).nonzero()[0]
        self._images: list[int] = [*images.tolist(), len(final.view.tree)]
        self.printed: set[int] = set()
        self.forged_lines = 0

    def text(self) -> str:
        """The whole listing."""
        final = self._final
        if not final.nodes:
            return EMPTY_TEXT
        plain = final.view.tree.plain
        kinds, ends, tags = plain.kind, plain.subtree_end, plain.tag
        ignores, texts = final.painting.ignores, final.simplified.texts
        lines: list[str] = []
        look_alikes = 0
        # open subtrees: where each ends, the depth around it, the lines that follow its children
        open_ends: list[tuple[int, int, list[str]]] = []
        depth = skip_to = 0
        next_end = len(kinds) + 1
        for node in self._with_lines():
            if node < skip_to:
                continue
            while next_end <= node:
                _, depth, closing = open_ends.pop()
                lines += closing
                next_end = open_ends[-1][0] if open_ends else len(kinds) + 1
            kind = kinds[node]
            if kind == TEXT:
                if node in texts and not ignores(node):
                    lines.append("\t" * depth + texts[node])
                    look_alikes += looks_like_a_line(texts[node])
                continue
            trailer: list[str] = []
            tabs = "\t" * depth
            if kind == FRAGMENT:
                closed = final.view.tree.shadow_kind[node] == CLOSED
                line = "Closed Shadow" if closed else "Open Shadow"
                trailer = [f"{tabs}Shadow End"]
            else:
                tag = tags[node]
                self.printed.add(node)
                if tag == "svg":
                    lines.append(tabs + self._svg(node))
                    skip_to = ends[node]
                    continue
                line = self._line(node)
                if tag == "iframe" or tag == "frame":
                    trailer = self._hints(node, tabs)
            lines.append(tabs + line)
            next_end = ends[node]
            open_ends.append((next_end, depth, trailer))
            depth += 1
        for _, _, closing in reversed(open_ends):
            lines += closing
        text = "\n".join(lines)
        self.forged_lines = broken_lines(text, len(lines)) + look_alikes
        return text

    def _with_lines(self) -> list[int]:
        """The nodes of the final tree that have lines of their own, texts and all shadow roots included."""
        final, view = self._final, self._final.view
        kind, kept = view.tree.kind, final.simplified.final
        elements = view.scrollable | view.named(LINED_TAGS)
        elements[list(final.index_of)] = True
        elements &= (kind == ELEMENT) & ~final.excluded
        found: list[int] = (kept & (elements | (kind == TEXT) | (kind == FRAGMENT))).nonzero()[0].tolist()
        return found

    def _prefix(self, node: int) -> str:
        if node not in self._hosts:
            return ""
        return "|SHADOW(closed)|" if node in self._closed_hosts else "|SHADOW(open)|"

    def _mark(self, node: int) -> str:
        index = self._final.index_of.get(node)
        if index is None:
            return ""
        return f"{'*' if node in self._final.new else ''}[{index}]"

    def _svg(self, node: int) -> str:
        attributes = attribute_string(self._final.view, node)
        return f"{self._prefix(node)}{self._mark(node)}<svg{' ' if attributes else ''}{attributes} />{COLLAPSED}"

    def _line(self, node: int) -> str:
        """The line, without indentation, of an element that is indexed, scrolls, or shows a frame."""
        view = self._final.view
        plain = view.tree.plain
        tag = plain.tag[node]
        indexed = node in self._final.index_of
        scrolls = (view.scrolls[node] or tag == "iframe") and shows_scroll(view, node)
        mark = self._mark(node)
        if scrolls:
            star = "*" if node in self._final.new else ""
            mark = f"{star}|scroll element{mark[len(star) :]}" if indexed else "|scroll element|"
        elif not indexed and tag == "frame":
            mark = "|FRAME|"
        parts = [attribute_string(view, node)]
        if indexed and self._images[bisect_left(self._images, node)] < plain.subtree_end[node]:
            parts.append(image_context(self._final, node))
        compound = self._final.compounds.get(node)
        if compound:
            parts.append(f"compound_components={','.join(part.text() for part in compound)}")
        attributes = "".join([f" {part}" for part in parts if part])
        line = f"{self._prefix(node)}{mark}<{tag}{attributes} />"
        if scrolls:
            where = scroll_text(view, node)
            line += f" ({where})" if where else ""
        return line

    def _hints(self, node: int, tabs: str) -> list[str]:
        view = self._final.view
        hints, more = frame_hints(view, self._final.interactivity, node)
        if hints:
            head = f"{tabs}... ({len(hints)} more elements below - scroll to reveal):"
            return [head, *(f'{tabs}    <{h.tag}> "{h.text}" ~{h.pages} pages down' for h in hints)]
        return [f"{tabs}... (more content below viewport - scroll to reveal)"] if more else []


def shadow_hosts(final: FinalTree) -> tuple[set[int], set[int]]:
    """The elements of the final tree that host a shadow root, and those of them with a closed one that remains.

    A frame that shows a document is none; an object or embed that shows one is, like an img without its image.
    """
    tree, kept = final.view.tree, final.simplified.final
    roots = (tree.shadow_kind > 0).nonzero()[0].tolist()
    if not roots:
        return set(), set()
    hosts = {tree.plain.parent[r] for r in roots}
    closed = {parent_in(final.view, r) for r in roots if kept[r] and tree.shadow_kind[r] == CLOSED}
    frames = shown_frames(final.view)
    return {h for h in hosts if kept[h] and not frames[h]}, closed
