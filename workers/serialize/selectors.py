"""CSS selectors are matched over a page tree, in every document and shadow tree of it (Selectors Level 4, in part).

The grammar is cssselect's; matching is our own, because names and values of real pages fit into no XML tree.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from string import ascii_lowercase, ascii_uppercase
from typing import TypeAlias

from cssselect import SelectorError
from cssselect.parser import (
    Attrib,
    Class,
    CombinedSelector,
    Element,
    Function,
    Hash,
    Matching,
    Negation,
    Pseudo,
    SpecificityAdjustment,
    Tree,
    parse,
    parse_series,
)

from workers.merge.tree import ELEMENT, LINK_CHILD, PageTree

_CASELESS = frozenset(
    {
        "accept", "accept-charset", "align", "alink", "axis", "bgcolor", "charset", "checked", "clear", "codetype",
        "color", "compact", "declare", "defer", "dir", "direction", "disabled", "enctype", "face", "frame", "hreflang",
        "http-equiv", "lang", "language", "link", "media", "method", "multiple", "nohref", "noresize", "noshade",
        "nowrap", "readonly", "rel", "rev", "rules", "scope", "scrolling", "selected", "shape", "target", "text",
        "type", "valign", "valuetype", "vlink",
    }
)  # fmt: skip
"""The attributes whose values match in either case (HTML Standard, case-sensitivity of selectors), on HTML elements of
HTML documents: those whose node name CDP gives in upper case."""
_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
_UPPER = str.maketrans(ascii_lowercase, ascii_uppercase)


class BadSelector(ValueError):
    """A selector that cannot be read or matched; the text says why."""


Test: TypeAlias = Callable[[int], bool]


def select(tree: PageTree, selector: str) -> list[int]:
    """The elements that a selector matches, in pre-order. Raises BadSelector."""
    try:
        groups = parse(selector)
    except SelectorError as error:
        raise BadSelector(str(error)) from error
    matcher = _Matcher(tree)
    tests = []
    for group in groups:
        if group.pseudo_element is not None:
            raise BadSelector(f"pseudo-elements such as ::{group.pseudo_element} are no elements")
        tests.append(matcher.test(group.parsed_tree))
    nodes = (tree.kind == ELEMENT).nonzero()[0].tolist()
    return [node for node in nodes if any(test(node) for test in tests)]


class _Matcher:
    """Turns parsed selectors into tests of a node; ancestors and siblings are those of the node's own tree."""

    __slots__ = ("_siblings", "_tree")

    def __init__(self, tree: PageTree) -> None:
        self._tree = tree
        self._siblings: dict[int, list[int]] = {}

    def test(self, parsed: Tree) -> Test:
        """The test of one compound or complex selector."""
        match parsed:
            case Element():
                name = parsed.element.lower() if parsed.element else None
                return lambda node: name is None or self._tree.tag(node) == name
            case Hash():
                return self._both(parsed.selector, lambda node: self._attribute(node, "id") == parsed.id)
            case Class():
                return self._both(
                    parsed.selector, lambda node: parsed.class_name in (self._attribute(node, "class") or "").split()
                )
            case Attrib():
                return self._both(parsed.selector, self._by_attribute(parsed))
            case Negation():
                excluded = self.test(parsed.subselector)
                return self._both(parsed.selector, lambda node: not excluded(node))
            case Matching() | SpecificityAdjustment():
                wanted = [self.test(inner) for inner in parsed.selector_list]
                return self._both(parsed.selector, lambda node: any(test(node) for test in wanted))
            case Pseudo():
                return self._both(parsed.selector, self._by_pseudo(parsed.ident))
            case Function():
                return self._both(parsed.selector, self._by_function(parsed))
            case CombinedSelector():
                return self._combined(parsed)
            case _:
                raise BadSelector(f"{type(parsed).__name__} is not supported")

    def _both(self, rest: Tree, test: Test) -> Test:
        first = self.test(rest)
        return lambda node: first(node) and test(node)

    def _attribute(self, node: int, name: str) -> str | None:
        attributes = self._tree.attributes(node)
        return attributes.get(name, attributes.get(name.lower()))

    def _by_attribute(self, parsed: Attrib) -> Test:
        name, operator = parsed.attrib, parsed.operator
        given = (parsed.value.value or "") if parsed.value is not None else ""
        exact = _value_test(operator, given)
        if exact is None:
            raise BadSelector(f"the operator {operator} is not supported")
        caseless = _value_test(operator, given.translate(_LOWER)) if name.lower() in _CASELESS else None

        def matches(node: int) -> bool:
            value = self._attribute(node, name)
            if value is None:
                return False
            if caseless is not None and not _has_lower(self._tree.node_name(node)):
                return caseless(value.translate(_LOWER))
            return exact(value)

        return matches

    def _by_pseudo(self, name: str) -> Test:
        match name.lower():
            case "root":
                return lambda node: self._parent(node) is None
            case "empty":
                return lambda node: int(self._tree.subtree_end[node]) == node + 1
            case "first-child":
                return lambda node: self._place(node, same_tag=False, from_end=False) == 1
            case "last-child":
                return lambda node: self._place(node, same_tag=False, from_end=True) == 1
            case "first-of-type":
                return lambda node: self._place(node, same_tag=True, from_end=False) == 1
            case "last-of-type":
                return lambda node: self._place(node, same_tag=True, from_end=True) == 1
            case "only-child":
                return lambda node: len(self._family(node)) == 1
            case "checked":
                return lambda node: self._attribute(node, "checked") is not None
            case "disabled":
                return lambda node: self._attribute(node, "disabled") is not None
            case _:
                raise BadSelector(f"the pseudo-class :{name} depends on a browser, or is not supported")

    def _by_function(self, parsed: Function) -> Test:
        name = parsed.name.lower()
        if name not in ("nth-child", "nth-last-child", "nth-of-type", "nth-last-of-type"):
            raise BadSelector(f"the pseudo-class :{parsed.name}() is not supported")
        try:
            step, start = parse_series(parsed.arguments)
        except ValueError as error:
            raise BadSelector(f":{parsed.name}() needs a series such as 2n+1") from error
        same_tag, from_end = name.endswith("of-type"), "last" in name

        def matches(node: int) -> bool:
            place = self._place(node, same_tag=same_tag, from_end=from_end) - start
            return place == 0 if step == 0 else place % step == 0 and place // step >= 0

        return matches

    def _combined(self, parsed: CombinedSelector) -> Test:
        left, right = self.test(parsed.selector), self.test(parsed.subselector)
        match parsed.combinator:
            case " ":
                return lambda node: right(node) and any(left(above) for above in self._ancestors(node))
            case ">":
                return lambda node: right(node) and any(left(above) for above in self._ancestors(node)[:1])
            case "+":
                return lambda node: right(node) and any(left(other) for other in self._before(node)[-1:])
            case "~":
                return lambda node: right(node) and any(left(other) for other in self._before(node))
            case other:
                raise BadSelector(f"the combinator {other} is not supported")

    def _parent(self, node: int) -> int | None:
        parent = int(self._tree.parent[node])
        inside = parent >= 0 and self._tree.link[node] == LINK_CHILD and self._tree.kind[parent] == ELEMENT
        return parent if inside else None

    def _ancestors(self, node: int) -> list[int]:
        out = []
        above = self._parent(node)
        while above is not None:
            out.append(above)
            above = self._parent(above)
        return out

    def _family(self, node: int) -> list[int]:
        """The element and its siblings."""
        parent = int(self._tree.parent[node])
        if parent < 0:
            return [node]
        if parent not in self._siblings:
            tree = self._tree
            self._siblings[parent] = [
                c for c in tree.children(parent) if tree.kind[c] == ELEMENT and tree.link[c] == LINK_CHILD
            ]
        return self._siblings[parent] or [node]

    def _before(self, node: int) -> list[int]:
        family = self._family(node)
        return family[: bisect_left(family, node)]

    def _place(self, node: int, *, same_tag: bool, from_end: bool) -> int:
        family = self._family(node)
        if same_tag:
            family = [o for o in family if self._tree.name[o] == self._tree.name[node]]
        before = bisect_left(family, node)
        return len(family) - before if from_end else before + 1


def _value_test(operator: str, wanted: str) -> Callable[[str], bool] | None:
    """The test of an attribute's value, None for an operator that there is not."""
    tests: dict[str, Callable[[str], bool]] = {
        "exists": lambda value: True,
        "=": lambda value: value == wanted,
        "~=": lambda value: wanted in value.split(),
        "|=": lambda value: value == wanted or value.startswith(f"{wanted}-"),
        "^=": lambda value: bool(wanted) and value.startswith(wanted),
        "$=": lambda value: bool(wanted) and value.endswith(wanted),
        "*=": lambda value: bool(wanted) and wanted in value,
    }
    return tests.get(operator)


def _has_lower(name: str) -> bool:
    return name.translate(_UPPER) != name
