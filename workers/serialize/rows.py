"""The rows of a listing are its lines taken apart, so that no text of a page can pass for a line of its own.

The text form is byte-compatible with browser-use's, where a text `[12]<button />`, or a value that holds a newline and
that, looks like a button; `forged_lines` counts both. A row keeps every value in a field, and the text can be made from
the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

from workers.merge.tree import ELEMENT, FRAGMENT, TEXT
from workers.serialize.attributes import attribute_text, shortened, shown_attributes
from workers.serialize.compound import Part
from workers.serialize.hints import frame_hints
from workers.serialize.images import image_facts
from workers.serialize.indices import FinalTree
from workers.serialize.printing import CLOSED, COLLAPSED, EMPTY_TEXT, shadow_hosts
from workers.serialize.scrolling import scroll_text, shows_scroll

NAME = "browser-use-listing-rows"
VERSION = "1"

RowKind: TypeAlias = Literal["element", "scroll", "frame", "text", "shadow", "shadow_end", "hint", "hint_item", "empty"]
ROW_KINDS: Final[tuple[RowKind, ...]] = get_args(RowKind)
"""element: an element's line; scroll: one that tells about scrolling, with an index or without; frame: a frameset's
frame; text: page text; shadow, shadow_end: around a shadow tree; hint, hint_item: what lies below in a frame; empty:
there is no element at all."""
RowFlag: TypeAlias = Literal["new", "shadow_open", "shadow_closed", "collapsed", "more"]
ROW_FLAGS: Final[tuple[RowFlag, ...]] = get_args(RowFlag)
"""new: starred; shadow_open, shadow_closed: hosts such a shadow root, or is one; collapsed: an svg, whose content does
not print; more: a hint without items."""

_HINT_INDENT = "    "


@dataclass(frozen=True, slots=True)
class ListingRow:
    """One line of a listing, taken apart.

    depth        tabs in front of it
    index        the number by which an agent addresses the element, None without
    attributes   (name, value) as the line shows them, in order, values cut to 100 characters
    images       (name, value) of the images inside
    parts        of a compound control
    text         page text; how a container is scrolled; the label of a hidden element
    count        of a hint: how many hidden elements follow
    pages        of a hidden element: how far down it is
    node         the node of the page tree that made it, -1 where several did; not part of the row
    """

    depth: int
    kind: RowKind
    index: int | None = None
    tag: str | None = None
    attributes: tuple[tuple[str, str], ...] = ()
    images: tuple[tuple[str, str], ...] = ()
    parts: tuple[Part, ...] = ()
    text: str = ""
    flags: tuple[RowFlag, ...] = ()
    count: int | None = None
    pages: float | None = None
    node: int = field(default=-1, compare=False, repr=False)

    def line(self) -> str:
        """The row as the text form prints it; more than one line where a value holds a newline."""
        return "\t" * self.depth + self._body()

    def as_json(self) -> dict[str, Any]:
        """A JSON object of the fields that say something; depth and kind always."""
        plain = {name: value for name, value in asdict(self).items() if name != "node"}
        return {k: v for k, v in plain.items() if k in ("depth", "kind") or (v is not None and v not in ((), ""))}

    def _body(self) -> str:
        match self.kind:
            case "text" | "empty":
                return self.text
            case "shadow":
                return "Closed Shadow" if "shadow_closed" in self.flags else "Open Shadow"
            case "shadow_end":
                return "Shadow End"
            case "hint":
                what = f"{self.count} more elements below" if self.count is not None else ""
                return f"... ({what} - scroll to reveal):" if what else _MORE_BELOW
            case "hint_item":
                return f'{_HINT_INDENT}<{self.tag}> "{self.text}" ~{self.pages} pages down'
        return self._element()

    def _element(self) -> str:
        star = "*" if "new" in self.flags else ""
        number = "" if self.index is None else f"[{self.index}]"
        if self.kind == "scroll":
            mark = f"{star}|scroll element{number}" if number else "|scroll element|"
        elif self.kind == "frame":
            mark = "|FRAME|"
        else:
            mark = f"{star}{number}"
        host = "|SHADOW(closed)|" if "shadow_closed" in self.flags else ""
        host = "|SHADOW(open)|" if "shadow_open" in self.flags else host
        pieces = [attribute_text(name, value) for name, value in self.attributes]
        pieces += [f"{name}={value}" for name, value in self.images]
        if self.parts:
            pieces.append(f"compound_components={','.join(part.text() for part in self.parts)}")
        line = f"{host}{mark}<{' '.join([self.tag or '', *pieces])} />"
        if "collapsed" in self.flags:
            return line + COLLAPSED
        return f"{line} ({self.text})" if self.text else line


_MORE_BELOW = "... (more content below viewport - scroll to reveal)"


def listing_rows(final: FinalTree) -> list[ListingRow]:
    """The rows of a final tree, in the order of its listing's lines."""
    return _RowPrinter(final).rows()


def text_of(rows: Iterable[ListingRow]) -> str:
    """The listing that the rows make; equals the `text` of the listing of the same final tree."""
    return "\n".join(row.line() for row in rows)


class _RowPrinter:
    """Walks as `Printer` does; that their texts are equal is a test on every recording."""

    __slots__ = ("_closed_hosts", "_final", "_hosts")

    def __init__(self, final: FinalTree) -> None:
        self._final = final
        self._hosts, self._closed_hosts = shadow_hosts(final)

    def rows(self) -> list[ListingRow]:
        final, view = self._final, self._final.view
        tree = view.tree
        if not final.nodes:
            return [ListingRow(0, "empty", text=EMPTY_TEXT)]
        rows: list[ListingRow] = []
        # open subtrees: where each ends, the depth around it, the rows that follow its children
        open_ends: list[tuple[int, int, list[ListingRow]]] = []
        depth = skip_to = 0
        for node in final.nodes:
            while open_ends and open_ends[-1][0] <= node:
                _, depth, trailer = open_ends.pop()
                rows += trailer
            if node < skip_to:
                continue
            kind, end = tree.kind[node], int(tree.subtree_end[node])
            if kind == TEXT:
                if not final.painting.ignores(node):
                    rows.append(ListingRow(depth, "text", text=final.simplified.texts[node], node=node))
            elif kind == FRAGMENT:
                flag: RowFlag = "shadow_closed" if tree.shadow_kind[node] == CLOSED else "shadow_open"
                rows.append(ListingRow(depth, "shadow", flags=(flag,)))
                open_ends.append((end, depth, [ListingRow(depth, "shadow_end")]))
                depth += 1
            elif kind == ELEMENT and not final.excluded[node]:
                row = self._row(node, depth)
                if row is not None and "collapsed" in row.flags:
                    rows.append(row)
                    skip_to = end
                    continue
                trailer = self._hints(node, depth)
                if row is not None or trailer:
                    open_ends.append((end, depth, trailer))
                if row is not None:
                    rows.append(row)
                    depth += 1
        for _, _, trailer in reversed(open_ends):
            rows += trailer
        return rows

    def _row(self, node: int, depth: int) -> ListingRow | None:
        final, view = self._final, self._final.view
        tag = view.tag(node)
        index = final.index_of.get(node)
        if index is None and tag not in ("svg", "iframe", "frame") and not view.scrollable[node]:
            return None
        flags: list[RowFlag] = ["new"] if node in final.new else []
        if node in self._hosts:
            flags.append("shadow_closed" if node in self._closed_hosts else "shadow_open")
        attributes = tuple((name, shortened(value)) for name, value in shown_attributes(view, node).items())
        if tag == "svg":
            return ListingRow(depth, "element", index, tag, attributes, flags=(*flags, "collapsed"), node=node)
        scrolls = shows_scroll(view, node)
        kind: RowKind = "scroll" if scrolls else "frame" if tag == "frame" and index is None else "element"
        return ListingRow(
            depth,
            kind,
            index,
            tag,
            attributes,
            images=tuple(image_facts(final, node)) if index is not None else (),
            parts=tuple(final.compounds.get(node, ())),
            text=scroll_text(view, node) if scrolls else "",
            flags=tuple(flags),
            node=node,
        )

    def _hints(self, node: int, depth: int) -> list[ListingRow]:
        view = self._final.view
        if view.tag(node) not in ("iframe", "frame"):
            return []
        hints, more = frame_hints(view, self._final.interactivity, node)
        if hints:
            items = (ListingRow(depth, "hint_item", tag=h.tag, text=h.text, pages=h.pages) for h in hints)
            return [ListingRow(depth, "hint", count=len(hints)), *items]
        return [ListingRow(depth, "hint", flags=("more",))] if more else []
