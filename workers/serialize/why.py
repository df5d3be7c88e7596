"""Why an element has a number in the listing, or what became of it: step by step, from the stored capture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from workers.merge.tree import ELEMENT, LINK_CHILD, TEXT, PageTree
from workers.serialize.bbox import PROPAGATING_ROLES, PROPAGATING_TAGS
from workers.serialize.indices import FinalTree
from workers.serialize.rows import ListingRow, listing_rows
from workers.serialize.simplify import DROPPED_TAGS
from workers.serialize.why_rules import rules_tried
from workers.serialize.why_seen import box, covering, cut_off, dropped, invisible, named
from workers.serialize.xpath import XPaths

Fate: TypeAlias = Literal[
    "printed", "truncated", "in_svg", "frame_cut_off", "excluded", "dropped", "not_in_snapshot", "not_visible",
    "not_interactive", "scroll_container", "folded", "covered",
]  # fmt: skip
FATES: Final[tuple[Fate, ...]] = get_args(Fate)
"""What became of an element. The first three have a number; the others say where it was lost."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was asked about the element: whether it stood, and what was found, with the numbers.

    tried   the rules that were asked, with what each found
    """

    asked: str
    stood: bool
    found: str
    tried: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Story:
    """What became of one element.

    index   its number, None without
    line    of the text form, from 1; None where it has none
    """

    backend_node_id: int
    target: int
    tag: str
    xpath: str
    fate: Fate
    index: int | None
    reason: str | None
    line: int | None
    steps: tuple[Step, ...]

    def summary(self) -> str:
        """The answer in one sentence."""
        who = f"<{self.tag}> (backend node {self.backend_node_id})"
        if self.index is not None:
            why = f"{who} is [{self.index}], by the rule `{self.reason}`"
            more = {"in_svg": ", but an svg prints none of its content", "truncated": ", beyond the truncation"}
            return f"{why}{more.get(self.fate, '')}."
        lost = next((step for step in reversed(self.steps) if not step.stood), None)
        return f"{who} has no number: {self.fate.replace('_', ' ')}; {lost.found if lost else 'no step says why'}."


class Why:
    """Tells the stories of one page; `max_chars` is where its page state is truncated."""

    __slots__ = ("_final", "_lines", "_max_chars", "_paths", "_rows")

    def __init__(self, final: FinalTree, max_chars: int) -> None:
        self._final = final
        self._max_chars = max_chars
        self._paths = XPaths(final.view)
        self._rows: list[ListingRow] = listing_rows(final)
        self._lines: dict[int, tuple[int, int]] = {}  # by node: line in the text form, characters up to its end
        line, characters = 1, 0
        for row in self._rows:
            text = row.line()
            if row.node >= 0:
                self._lines[row.node] = (line, characters + len(text))
            line += text.count("\n") + 1
            characters += len(text) + 1

    def story(self, node: int) -> Story:
        """What became of one element. Raises ValueError for a node that is none."""
        final, tree = self._final, self._final.view.tree
        if tree.kind[node] != ELEMENT:
            what = f"{tree.node_name(node)} (backend node {int(tree.backend_node_id[node])})"
            raise ValueError(f"{what} is no element, and only elements have a fate; ask for the element around it")
        steps, fate = self._steps(node)
        place = self._lines.get(node)
        return Story(
            backend_node_id=int(tree.backend_node_id[node]),
            target=int(tree.target[node]),
            tag=final.view.tag(node),
            xpath=self._paths.of(node),
            fate=fate,
            index=final.index_of.get(node),
            reason=final.reasons.get(node),
            line=place[0] if place else None,
            steps=tuple(steps),
        )

    def _steps(self, node: int) -> tuple[list[Step], Fate]:
        """Every question up to the one that decided."""
        final, view = self._final, self._final.view
        steps = [Step("document", True, f"{self._paths.of(node) or view.tag(node)} is in the document")]
        lost = cut_off(final, node)
        if lost:
            return [*steps, Step("frame", False, lost)], "frame_cut_off"
        gone = dropped(final, node)
        if gone:
            kind, why = gone
            return [*steps, Step("subtree", False, why)], "excluded" if kind == "excluded" else "dropped"
        if node in final.index_of:
            return self._numbered(node, steps)
        hidden = invisible(final, node)
        if not view.has_record[node]:
            return [*steps, Step("snapshot", False, hidden or "")], "not_in_snapshot"
        steps.append(Step("snapshot", True, f"at {box(final, node)} in its document"))
        if view.scrollable[node]:
            return self._scroll_container(node, steps)
        steps.append(Step("visible", hidden is None, hidden or "every test of visibility is passed"))
        reason = final.interactivity.reason(node)
        interactive = self._interactive(node)
        if hidden is not None:
            # what comes first is what it was lost by; that it is not interactive either is worth knowing
            steps.insert(len(steps) - 1, interactive)
            return steps, "not_visible"
        steps.append(interactive)
        if reason is None:
            around = self._around(node)
            if around is not None:
                steps.insert(len(steps) - 1, around)
            return steps, "not_interactive"
        return self._hidden_by_others(node, steps)

    def _numbered(self, node: int, steps: list[Step]) -> tuple[list[Step], Fate]:
        final = self._final
        reason, index = final.reasons[node], final.index_of[node]
        own = self._id(node)
        number = f"[{index}], its backend node id" if index == own else f"[{index}], since {own} was taken already"
        steps += [
            Step("snapshot", bool(final.view.has_record[node]), f"at {box(final, node)} in its document"),
            Step("interactive", True, f"by the rule `{reason}`", tuple(rules_tried(final, node))),
            Step("index", True, number),
        ]
        place = self._lines.get(node)
        if place is None:
            # nothing else takes the line of what has a number
            svg = next(n for n in self._above(node) if final.view.tag(n) == "svg")
            return [*steps, Step("printed", False, f"{named(final, svg)} prints none of its content")], "in_svg"
        line, end = place
        steps.append(Step("printed", True, f"line {line} of the listing"))
        if end > self._max_chars:
            why = f"its line ends at character {end}, and the page state is truncated at {self._max_chars}"
            return [*steps, Step("page state", False, why)], "truncated"
        return steps, "printed"

    def _interactive(self, node: int) -> Step:
        reason = self._final.interactivity.reason(node)
        tried = tuple(rules_tried(self._final, node))
        found = f"by the rule `{reason}`" if reason else "no rule says that it is interactive"
        return Step("interactive", reason is not None, found, tried)

    def _scroll_container(self, node: int, steps: list[Step]) -> tuple[list[Step], Fate]:
        """A container that scrolls has a number only if nothing interactive is in it, or if it is a dropdown."""
        final = self._final
        inner = (n for n in final.nodes if node < n < int(final.view.tree.subtree_end[node]))
        first = next((n for n in inner if final.interactivity.reason(n) is not None), None)
        if first is None:
            return self._hidden_by_others(node, steps)
        why = f"it scrolls and is no dropdown, and holds {named(final, first)}, which is interactive"
        return [*steps, Step("scroll container", False, why)], "scroll_container"

    def _hidden_by_others(self, node: int, steps: list[Step]) -> tuple[list[Step], Fate]:
        final = self._final
        if final.excluded[node]:
            return [*steps, Step("folded", False, self._folded(node))], "folded"
        # nothing else is left that takes the number of what is interactive and visible
        others = covering(final, node)
        by = " and ".join(f"{named(final, n)} at {box(final, n)}" for n in others) or "several elements together"
        return [*steps, Step("painting", False, f"what was painted later covers it: {by}")], "covered"

    def _folded(self, node: int) -> str:
        """By which link or button, and how much of the element lies in it."""
        final, view, tree = self._final, self._final.view, self._final.view.tree
        for above in self._above(node):
            tag, role = view.tag(above), tree.attributes(above).get("role")
            if not view.has_bounds[above] or not final.simplified.final[above]:
                continue
            by_role = role in PROPAGATING_ROLES if tag in ("div", "span") else tag == "input" and role == "combobox"
            if tag in PROPAGATING_TAGS or by_role:
                (x, y, w, h), (px, py, pw, ph) = tree.bounds[node].tolist(), tree.bounds[above].tolist()
                wide, high = min(x + w, px + pw) - max(x, px), min(y + h, py + ph) - max(y, py)
                share = max(wide, 0.0) * max(high, 0.0) / (w * h) if w * h > 0 else 0.0
                return f"{share:.1%} of it lies in {named(final, above)} at {box(final, above)}, which stands for it"
        return "a link or button around it stands for it"

    def _around(self, node: int) -> Step | None:
        """The nearest element around that has a number: what an agent would act on."""
        for above in self._above(node):
            if above in self._final.index_of:
                return Step("around", True, f"{named(self._final, above)} around it is [{self._final.index_of[above]}]")
        return None

    def _above(self, node: int) -> list[int]:
        tree = self._final.view.tree
        out = []
        node = int(tree.parent[node])
        while node >= 0:
            if tree.kind[node] == ELEMENT:
                out.append(node)
            node = int(tree.parent[node])
        return out

    def _id(self, node: int) -> int:
        return int(self._final.view.tree.backend_node_id[node])


def with_text(tree: PageTree, text: str) -> list[int]:
    """The elements with this text in a text node of theirs, their accessible name or an attribute's value.

    Upper and lower case are the same. What no listing ever shows (scripts, styles) comes last.
    """
    wanted = text.casefold()
    found: set[int] = set()
    for node in range(len(tree)):
        kind = tree.kind[node]
        if kind == TEXT:
            parent = int(tree.parent[node])
            if wanted in tree.values[node].casefold() and parent >= 0 and tree.link[node] == LINK_CHILD:
                found.add(parent)
        elif kind == ELEMENT and (
            wanted in (tree.ax_name(node) or "").casefold()
            or any(wanted in value.casefold() for value in tree.attributes(node).values())
        ):
            found.add(node)
    return sorted((n for n in found if tree.kind[n] == ELEMENT), key=lambda n: (tree.tag(n) in DROPPED_TAGS, n))


def with_backend_node_id(tree: PageTree, backend_node_id: int) -> list[int]:
    """The element with this backend node id, or around the text with it: one, or one in each process."""
    found: set[int] = set()
    for node in (tree.backend_node_id == backend_node_id).nonzero()[0].tolist():
        while node >= 0 and tree.kind[node] != ELEMENT:
            node = int(tree.parent[node])
        found.add(node)
    return sorted(found - {-1})
