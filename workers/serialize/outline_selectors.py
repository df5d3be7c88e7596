"""Selectors are evaluated on one document of a page tree, without a browser: CSS, or XPath 1.0.

CSS is matched in the document and in each of its shadow trees. For XPath the document becomes an lxml tree in which a
shadow root is an element behind its host's children, so that `//` steps into it and `/` does not. The browser's own
shadow roots (of an input, say) are no part of either.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from lxml import etree
from numpy.typing import NDArray

from workers.merge.tree import (
    DOCUMENT,
    ELEMENT,
    FRAGMENT,
    LINK_CHILD,
    LINK_CONTENT,
    LINK_SHADOW,
    SHADOW_KINDS,
    TEXT,
    PageTree,
)
from workers.serialize.outline_nodes import COMMENT
from workers.serialize.selectors import BadSelector, select

SelectorProblem: TypeAlias = Literal["syntax", "no_frame", "no_match", "not_in_tree"]
"""syntax: it cannot be read. no_frame: an element before `>>`, or an iframe on an XPath's way, shows no frame.
no_match: no element matches. not_in_tree: the element has no accessibility node, nor has anything in it."""


class SelectorError(ValueError):
    """A selector leads nowhere; `problem` is one of the few reasons."""

    def __init__(self, selector: str, problem: SelectorProblem, detail: str) -> None:
        super().__init__(selector, problem, detail)  # args as given: the error survives pickling
        self.selector = selector
        self.problem: SelectorProblem = problem
        self.detail = detail

    def __str__(self) -> str:
        return f"selector {self.selector!r}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Path:
    """A selector in parts: one for each frame on the way, and one for the element. An empty tail is the document."""

    selector: str
    is_xpath: bool
    hops: tuple[str, ...]
    tail: str


_FRAME_STEP = re.compile(r"i?frame(\[.*)?", re.IGNORECASE | re.DOTALL)
_ROOT_STEP = re.compile(r"/html(\[1\])?", re.IGNORECASE)


def read_selector(selector: str) -> Path:
    """The parts of a selector: `xpath=` or a leading `/` make an XPath, in which iframes are stepped into."""
    text = selector.strip()
    if not text:
        raise SelectorError(selector, "syntax", "is empty")
    prefixed = text[:6].lower() == "xpath="
    if not prefixed and not text.startswith("/"):
        parts = [part for part in (part.strip() for part in text.split(">>")) if part]
        return Path(selector, False, tuple(parts[:-1]), parts[-1] if parts else "*")
    text = text[6:].strip() if prefixed else text
    if not text:
        raise SelectorError(selector, "syntax", "is empty")
    if not text.startswith("/"):
        return Path(selector, True, (), text if text.startswith("(") else f"/{text}")
    hops: list[str] = []
    way = ""
    steps = _steps(text)
    for step, after in zip(steps, [*steps[1:], ""], strict=True):
        way += step
        # mostly nothing but a frame's document has an `html` in it: so go the paths through <object> and <embed>
        if _FRAME_STEP.fullmatch(step.lstrip("/")) or (_ROOT_STEP.fullmatch(after) and way != step):
            hops.append(way)
            way = ""
    return Path(selector, True, tuple(hops), "" if way == "/" else way)


def ends_in_frame(way: str) -> bool:
    """Whether the last step of an XPath names a frame."""
    return _FRAME_STEP.fullmatch(_steps(way)[-1].lstrip("/")) is not None


def written_prefix(selector: str) -> str:
    """The way to the frame in the words of the selector, which Stagehand 3.7.3 takes for the frame's XPath."""
    path = read_selector(selector)
    return "".join(path.hops) if path.is_xpath else ""


def _steps(path: str) -> list[str]:
    """`/a//b[@c='/']` -> `/a`, `//b[@c='/']`."""
    steps = [""]
    quote, nesting = "", 0
    for i, letter in enumerate(path):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "[(":
            nesting += 1
        elif letter in "])":
            nesting -= 1
        elif letter == "/" and not nesting and (i == 0 or path[i - 1] != "/"):
            steps.append("")
        steps[-1] += letter
    return [step for step in steps if step]


class Selectable:
    """One document, ready for selectors; `closed` says whether closed shadow roots are part of it."""

    def __init__(self, tree: PageTree, document: int, *, closed: bool) -> None:
        self._tree = tree
        self._shadows = (*_OPEN, "closed") if closed else _OPEN
        self._xml: _Xml | None = None
        self._document = document

    def find(self, path: Path, part: str) -> list[int]:
        """The elements that match, in document order; SelectorError if the part cannot be read."""
        if path.is_xpath:
            if self._xml is None:
                self._xml = _Xml(self._tree, self._document, self._shadows)
            return self._xml.find(path, part)
        try:
            found = select(self._tree, part)
        except BadSelector as error:
            raise SelectorError(path.selector, "syntax", f"is no CSS selector that can be used: {error}") from error
        reach = self._reach() if found else None
        return [node for node in found if reach is not None and reach[node]]

    def _reach(self) -> NDArray[np.bool_]:
        """Marks the nodes of the document, without inner documents and the shadow roots that are no part of it."""
        tree, document = self._tree, self._document
        start, end = document + 1, int(tree.subtree_end[document])
        reach = np.zeros(len(tree), np.bool_)
        reach[start:end] = True
        inner = (tree.kind[start:end] == DOCUMENT) & (tree.link[start:end] == LINK_CONTENT)
        hidden = np.isin(tree.shadow_kind[start:end], [0, *map(SHADOW_KINDS.index, self._shadows)], invert=True)
        for root in (np.nonzero(inner | hidden)[0] + start).tolist():
            reach[root : tree.subtree_end[root]] = False
        return reach


class _Xml:
    """One document as an lxml tree, in which every text and comment can be told from the next."""

    def __init__(self, tree: PageTree, document: int, shadows: tuple[str, ...]) -> None:
        self._tree = tree
        self._shadows = shadows
        self._made: dict[int, etree._Element] = {}
        self._node_of: dict[etree._Element, int] = {}
        self._texts: dict[tuple[etree._Element, bool], int] = {}
        self._root: etree._ElementTree | None = None
        self._build(document)

    def find(self, path: Path, part: str) -> list[int]:
        """The elements, texts and comments that match, in document order; SelectorError if it cannot be read."""
        if self._root is None:
            return []
        try:
            found = self._root.xpath(_lower(_allowed(part)))  # texts are such too
        except etree.XPathError as error:
            raise SelectorError(path.selector, "syntax", f"is no XPath that can be used: {error}") from error
        nodes = map(self._node, found) if isinstance(found, list) else ()
        return [node for node in nodes if node is not None]

    def _node(self, found: Any) -> int | None:
        if isinstance(found, str):  # a text, which lxml hangs at what stands before it; or the value of an attribute
            told: Any = found  # str says nothing of where it is from
            return None if told.is_attribute else self._texts.get((told.getparent(), told.is_tail))
        return self._node_of.get(found)

    def _build(self, document: int) -> None:
        tree, made = self._tree, self._made
        end = int(tree.subtree_end[document])
        node = document + 1
        shadows = []
        while node < end:
            link, parent = int(tree.link[node]), int(tree.parent[node])
            above = made.get(parent)
            if link == LINK_SHADOW and above is not None and SHADOW_KINDS[int(tree.shadow_kind[node])] in self._shadows:
                made[node] = etree.Element("shadow-root")
                shadows.append((above, made[node]))
            elif link == LINK_CHILD and tree.kind[node] == ELEMENT and (above is not None or parent == document):
                self._element(node, above)
            elif link == LINK_CHILD and tree.kind[node] == TEXT and above is not None:
                self._text(node, above)
            elif link == LINK_CHILD and tree.kind[node] == COMMENT and above is not None:
                comment = etree.Comment(_allowed(tree.values[node]).replace("-", "_"))
                above.append(comment)
                self._node_of[comment] = node
            elif link != LINK_CHILD or tree.kind[node] == FRAGMENT:
                node = int(tree.subtree_end[node])  # the document of a frame, or what the browser itself has put there
                continue
            node += 1
        for host, shadow in shadows:
            host.append(shadow)

    def _element(self, node: int, above: etree._Element | None) -> None:
        tree = self._tree
        prefix, colon, local = tree.tag(node).partition(":")
        names = {_name(prefix): f"urn:{_name(prefix)}"} if colon else None
        tag = f"{{urn:{_name(prefix)}}}{_name(local)}" if colon else _name(prefix)
        made = etree.Element(tag, nsmap=names)
        for key, value in tree.attributes(node).items():
            if _NAME.fullmatch(key):
                made.set(key.lower(), _allowed(value))  # as `_lower` has it
        if above is not None:
            above.append(made)
        elif self._root is None:
            self._root = etree.ElementTree(made)
        self._made[node] = made
        self._node_of[made] = node

    def _text(self, node: int, above: etree._Element) -> None:
        last = above[-1] if len(above) else None
        place = (above, False) if last is None else (last, True)
        if place in self._texts:  # two texts side by side would be one
            last = etree.PI("text")
            above.append(last)
            place = (last, True)
        self._texts[place] = node
        value = _allowed(self._tree.values[node])
        if last is None:
            above.text = value
        else:
            last.tail = value


_OPEN = ("open", "unknown")
_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_NOT_IN_NAMES = re.compile(r"[^\w.-]")
_NOT_ALLOWED = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_QUOTED = re.compile(r"('[^']*'|\"[^\"]*\")")


def _name(name: str) -> str:
    """A name that XML has, the same one where it can be."""
    if _NAME.fullmatch(name):
        return name
    name = _NOT_IN_NAMES.sub("_", name)
    return name if _NAME.fullmatch(name) else f"_{name}"


def _allowed(text: str) -> str:
    return _NOT_ALLOWED.sub("\ufffd", text)


def _lower(xpath: str) -> str:
    """Names in lower case, as HTML has them; what stands in quotes stays."""
    parts = _QUOTED.split(xpath)
    return "".join(part if i % 2 else part.lower() for i, part in enumerate(parts))
