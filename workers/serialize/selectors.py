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
_NOT_CONTENT = (7, 8)
"""Processing instructions and comments (DOM Standard, 4.4)."""
_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
_UPPER = str.maketrans(ascii_lowercase, ascii_uppercase)


class BadSelector(ValueError):
    """A selector that cannot be read or matched; the text says why."""


Test: TypeAlias = Callable[[int], bool]


def select(tree: PageTree, selector: str) -> list[int]:
    """The elements that a selector matches, in pre-order. Raises BadSelector."""
    try:
        return _select(tree, selector)
    except SelectorError as error:
        raise BadSelector(str(error)) from error
    except RecursionError as error:
        raise BadSelector("it has too many parts") from error


def _select(tree: PageTree, selector: str) -> list[int]:
    matcher = _Matcher(tree)
    tests = []
    for group in parse(selector):
        if group.pseudo_element is not None:
            raise BadSelector(f"pseudo-elements such as ::{group.pseudo_element} are no elements")
        tests.append(matcher.test(group.parsed_tree))
    nodes = (tree.kind == ELEMENT).nonzero()[0].tolist()
    return [node for node in nodes if any(test(node) for test in tests)]


class _Matcher:
    """Turns parsed selectors into tests of a node; ancestors and siblings are those of the node's own tree.

    What a combinator has found out about a node is kept, or `nav div div a` would ask of each way up a deep page.
    """

    __slots__ = ("_alike", "_siblings", "_tree")

    def __init__(self, tree: PageTree) -> None:
        self._tree = tree
        self._siblings: dict[int, list[int]] = {}
        self._alike: dict[tuple[int, int], list[int]] = {}

    def test(self, parsed: Tree) -> Test:
        """The test of one compound or complex selector."""
        match parsed:
            case Element():
                if parsed.namespace not in (None, "*"):
                    raise BadSelector(f"the namespace {parsed.namespace} is not known here")
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
        if parsed.namespace not in (None, "*"):
            raise BadSelector(f"the namespace {parsed.namespace} is not known here")
        given = (parsed.value.value or "") if parsed.value is not None else ""
        exact = _value_test(operator, given)
        if exact is None:
            raise BadSelector(f"the operator {operator} is not supported")
        always = parsed.flag == "i"
        either = always or (parsed.flag is None and name.lower() in _CASELESS)
        caseless = _value_test(operator, given.translate(_LOWER)) if either else None

        def matches(node: int) -> bool:
            value = self._attribute(node, name)
            if value is None:
                return False
            if caseless is not None and (always or not _has_lower(self._tree.node_name(node))):
                return caseless(value.translate(_LOWER))
            return exact(value)

        return matches

    def _by_pseudo(self, name: str) -> Test:
        match name.lower():
            case "root":
                return lambda node: self._parent(node) is None
            case "empty":
                return self._is_empty
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
                known: dict[int, bool] = {}
                return lambda node: right(node) and self._is_below(node, left, known)
            case ">":
                return lambda node: right(node) and (above := self._parent(node)) is not None and left(above)
            case "+":
                return lambda node: right(node) and any(left(other) for other in self._before(node)[-1:])
            case "~":
                firsts: dict[int, int] = {}
                return lambda node: right(node) and self._is_after(node, left, firsts)
            case other:
                raise BadSelector(f"the combinator {other} is not supported")

    def _is_below(self, node: int, wanted: Test, known: dict[int, bool]) -> bool:
        """Whether an ancestor is wanted."""
        way: list[int] = []
        found = False
        climbing: int | None = node
        while climbing is not None:
            if climbing in known:
                found = known[climbing]
                break
            way.append(climbing)
            climbing = self._parent(climbing)
            if climbing is not None and wanted(climbing):
                found = True
                break
        known.update(dict.fromkeys(way, found))
        return found

    def _is_after(self, node: int, wanted: Test, firsts: dict[int, int]) -> bool:
        """Whether an earlier sibling is wanted; `firsts` keeps the first one of each family."""
        family = self._family(node)
        first = firsts.get(family[0])
        if first is None:
            first = firsts[family[0]] = next((other for other in family if wanted(other)), len(self._tree))
        return first < node

    def _is_empty(self, node: int) -> bool:
        """Whether it has no children but comments; shadow roots and the documents of frames are none."""
        tree = self._tree
        children = (child for child in tree.children(node) if tree.link[child] == LINK_CHILD)
        return all(tree.kind[child] in _NOT_CONTENT for child in children)

    def _parent(self, node: int) -> int | None:
        parent = int(self._tree.parent[node])
        inside = parent >= 0 and self._tree.link[node] == LINK_CHILD and self._tree.kind[parent] == ELEMENT
        return parent if inside else None

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
            key = family[0], int(self._tree.name[node])
            if key not in self._alike:
                self._alike[key] = [other for other in family if self._tree.name[other] == key[1]]
            family = self._alike[key]
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
