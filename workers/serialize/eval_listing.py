"""The eval listing is browser-use's second text form: every element of the final tree, with its text on the line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from workers.merge.tree import ELEMENT, FRAGMENT, LINK_CHILD, TEXT, PageTree
from workers.serialize.indices import FinalTree, final_tree
from workers.serialize.options import ListingOptions
from workers.serialize.printing import COLLAPSED, EMPTY_TEXT
from workers.serialize.scrolling import scroll_text, shows_scroll
from workers.serialize.simplify import MIN_TEXT, parent_in

NAME = "browser-use-eval-listing"
VERSION = "2"

CONTAINER_TAGS = frozenset({"html", "body", "div", "main", "section", "article", "aside", "header", "footer", "nav"})
SEMANTIC_TAGS = frozenset(
    {
        "html", "body", "h1", "h2", "h3", "h4", "h5", "h6", "a", "button", "input", "textarea", "select", "form",
        "label", "nav", "header", "footer", "main", "article", "section", "table", "thead", "tbody", "tr", "th", "td",
        "ul", "ol", "li", "img", "iframe", "video", "audio",
    }
)  # fmt: skip
ATTRIBUTES = (
    "id", "class", "name", "type", "placeholder", "aria-label", "role", "value", "data-testid", "alt", "title",
    "checked", "selected", "disabled", "required", "readonly", "aria-expanded", "aria-pressed", "aria-checked",
    "aria-selected", "aria-invalid", "pattern", "min", "max", "minlength", "maxlength", "step", "aria-valuemin",
    "aria-valuemax", "aria-valuenow",
)  # fmt: skip
MAX_TEXT = 80
MAX_FRAME_TEXT = 100
MAX_CLASSES = 3
MAX_ITEMS = 50
MAX_LINKS = 50
"""Limits of browser-use 0.13.14, serializer/eval_serializer.py."""
_EVALUATE = "(truncated) use evaluate to get more."

_Step: TypeAlias = Iterator[tuple[int, int]]
"""A walk yields the (node, depth) pairs that are to be printed before it goes on."""


def serialize_eval_listing(
    tree: PageTree, options: ListingOptions | None = None, *, final: FinalTree | None = None
) -> str:
    """The eval listing of a page tree, `EMPTY_TEXT` if nothing remains of it; equals `eval_representation()`.

    Unlike browser-use, nothing here can print a masked secret: the tree no longer holds it.
    """
    return _EvalPrinter(final or final_tree(tree, options)).text()


class _EvalPrinter:
    __slots__ = ("_children", "_final", "_lines")

    def __init__(self, final: FinalTree) -> None:
        self._final = final
        self._lines: list[str] = []
        self._children: dict[int, list[int]] = {}
        for node in final.nodes:
            self._children.setdefault(parent_in(final.view, node), []).append(node)

    def text(self) -> str:
        if not self._final.nodes:
            return EMPTY_TEXT
        stack: list[_Step] = [iter([(self._final.nodes[0], 0)])]
        while stack:  # a stack of half-done walks instead of recursion: pages are thousands of levels deep
            step = next(stack[-1], None)
            if step is None:
                stack.pop()
            else:
                stack.append(self._node(*step))
        return "\n".join(self._lines)

    def _node(self, node: int, depth: int) -> _Step:
        final, view, tree = self._final, self._final.view, self._final.view.tree
        kind = tree.plain.kind[node]
        if kind == FRAGMENT:
            self._lines.append("\t" * depth + "#shadow")
            yield from self._below(node, depth + 1)
            return
        if kind != ELEMENT:
            return
        tag = view.tag(node)
        frame = tag in ("iframe", "frame")
        if final.excluded[node] or not (view.seen[node] or tag in CONTAINER_TAGS or frame):
            yield from self._below(node, depth)
            return
        head = "\t" * depth + (f"[i_{final.index_of[node]}] " if node in final.index_of and not frame else "")
        parts = [tag, self._attributes(node)]
        if tag == "svg":
            self._lines.append(f"{head}<{' '.join(p for p in parts if p)} />{COLLAPSED}")
            return
        if shows_scroll(view, node):
            where = scroll_text(view, node)
            parts.append(f'scroll="{where}"' if where else "")
        start = f"{head}<{' '.join(p for p in parts if p)}"
        if frame:
            self._lines.append(f"{start} />")
            self._frame(node, depth)
            return
        texts = [final.simplified.texts[c] for c in self._children.get(node, ()) if c in final.simplified.texts]
        inline = "" if tag in CONTAINER_TAGS else _cut(" ".join(texts), MAX_TEXT)
        self._lines.append(f"{start}>{inline}" if inline else f"{start} />")
        if not inline:
            yield from self._below(node, depth + 1)

    def _below(self, node: int, depth: int) -> _Step:
        """The children, without the tail of long lists and of long runs of links."""
        view = self._final.view
        tabs = "\t" * depth
        is_list = view.tag(node) in ("ul", "ol")
        items = run = skipped = 0
        for child in self._children.get(node, ()):
            tag = view.tag(child) if view.tree.plain.kind[child] == ELEMENT else ""
            if is_list and tag == "li":
                items += 1
                if items > MAX_ITEMS:
                    continue
            if tag == "a":
                run += 1
                if run > MAX_LINKS:
                    skipped += 1
                    continue
            else:
                run = 0
                if skipped:
                    self._lines.append(f"{tabs}... ({skipped} more links in this list)")
                    skipped = 0
            yield child, depth
        if skipped:
            self._lines.append(f"{tabs}... ({skipped} more links in this list) {_EVALUATE}")
        if items > MAX_ITEMS:
            self._lines.append(f"{tabs}... ({items - MAX_ITEMS} more items in this list {_EVALUATE}")

    def _attributes(self, node: int) -> str:
        attributes = self._final.view.tree.attributes(node)
        parts = []
        for name in ATTRIBUTES:
            value = attributes.get(name, "").strip()
            if not value:
                continue
            text = " ".join(value.split()[:MAX_CLASSES]) if name == "class" else _cut(value, MAX_TEXT)
            parts.append(f'{name}="{text}"')
        return " ".join(parts)

    def _frame(self, frame: int, depth: int) -> None:
        """The body of the frame's document, straight from the page tree."""
        view, tree = self._final.view, self._final.view.tree
        document = int(view.content[frame])
        if document < 0:
            return
        self._lines.append("\t" * (depth + 1) + "#iframe-content")
        pages = [c for c in self._light(document) if view.tag(c) == "html" and tree.plain.kind[c] == ELEMENT]
        bodies = [b for page in pages for b in self._light(page) if view.tag(b) == "body"]
        stack = [(c, depth + 2) for body in reversed(bodies) for c in reversed(self._light(body))]
        while stack:
            node, level = stack.pop()
            if tree.plain.kind[node] != ELEMENT or (view.recorded[node] and not view.seen[node]):
                continue
            attributes = self._attributes(node)
            tag = view.tag(node)
            children = self._light(node)
            if tag in SEMANTIC_TAGS or attributes:
                texts = (tree.values[c].strip() for c in children if tree.plain.kind[c] == TEXT)
                inline = _cut(" ".join(t for t in texts if len(t) >= MIN_TEXT), MAX_FRAME_TEXT)
                start = "\t" * level + f"<{tag}{' ' if attributes else ''}{attributes}"
                self._lines.append(f"{start}>{inline}" if inline else f"{start} />")
                level += 1
            stack += [(c, level) for c in reversed(children)]

    def _light(self, node: int) -> list[int]:
        tree = self._final.view.tree
        return [c for c in tree.children(node) if tree.plain.link[c] == LINK_CHILD]


def _cut(text: str, limit: int) -> str:
    return text[:limit] + "..." if len(text) > limit else text
