"""How far the listing and the outline of one page know the same elements.

The two read the same capture by rules of their own: the listing numbers what it judges interactive, the outline prints
what the accessibility tree holds. A page on which they disagree is one that agents of the two kinds see differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from workers.serialize.listing import Listing
from workers.serialize.outline import Outline

ACTIONABLE_ROLES = frozenset(
    {
        *("button", "checkbox", "combobox", "link", "listbox", "menuitem", "menuitemcheckbox", "menuitemradio"),
        *("option", "radio", "scrollbar", "searchbox", "slider", "spinbutton", "switch", "tab", "textbox", "treeitem"),
        # Chromium's own names
        *("ColorWell", "Date", "DateTime", "DisclosureTriangle", "InputTime", "PopUpButton", "ToggleButton"),
        # tags that Stagehand prints in place of a role
        *("select", "textarea"),
    }
)
"""Roles of widgets that a user acts on (WAI-ARIA 1.2, 5.3.2 Widget Roles, without `gridcell`, `separator`,
`progressbar` and `tabpanel`, which mostly show something), and what Chromium 156 and Stagehand 3.7.3 call such."""

Side: TypeAlias = Literal["listing", "outline"]
SIDES: tuple[Side, ...] = get_args(Side)


@dataclass(frozen=True, slots=True)
class Difference:
    """One element that only one of the two knows.

    known_to   the one that calls it actionable; the other does not know it
    id         as the outline prints it, None where the outline does not
    index      as the listing numbers it, None where the listing does not
    role       of the accessibility tree or, in the outline, as printed
    """

    known_to: Side
    target: int
    backend_node_id: int
    id: str | None
    index: int | None
    role: str | None
    name: str | None


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of one page.

    both      elements that either calls actionable and both know
    actionable   elements that either calls actionable
    only_listing, only_outline   how many of these only one of the two knows
    """

    both: int
    actionable: int
    only_listing: int
    only_outline: int
    differences: tuple[Difference, ...]

    @property
    def score(self) -> float | None:
        """The share that both know, from 0 to 1; None where neither calls anything actionable."""
        return self.both / self.actionable if self.actionable else None


def is_actionable(role: str) -> bool:
    """Whether an outline's role is that of a widget: `scrollable, ` before it does not count, any `input` does."""
    role = role.removeprefix("scrollable, ")
    return role in ACTIONABLE_ROLES or role.partition(",")[0] == "input"


def agreement(listing: Listing, outline: Outline) -> Agreement:
    """The agreement of a listing and an outline of the same capture; elements are the same by target and backend id.

    The listing calls actionable, and knows, what it numbers. The outline calls actionable what it prints with the role
    of a widget, unless it is a part of a control that the browser draws (the steppers of a number field, the options of
    a select: the listing prints those with their control); it knows whatever it prints with an id that leads to an
    element. Differences stand in the order of the listing, then of the outline.
    """
    rows = outline.rows
    printed: dict[tuple[int, int], int] = {}
    for row, backend_node_id in enumerate(rows.backend_node_id):
        if backend_node_id is not None:
            printed.setdefault((outline.frames[rows.frame[row]].target, backend_node_id), row)
    elements = listing.selector_map
    numbered = dict(zip(zip(elements.target, elements.backend_node_id, strict=True), range(len(elements)), strict=True))
    only_listing = [
        Difference("listing", *key, None, elements.index[i], elements.role[i], elements.name[i])
        for key, i in numbered.items()
        if key not in printed
    ]
    actionable = {
        key: row for key, row in printed.items() if not rows.is_control_part[row] and is_actionable(rows.role[row])
    }
    only_outline = [
        Difference("outline", *key, rows.id[row], None, rows.role[row], rows.name[row])
        for key, row in actionable.items()
        if key not in numbered
    ]
    either = len(numbered) + len(only_outline)
    return Agreement(
        both=len(numbered) - len(only_listing),
        actionable=either,
        only_listing=len(only_listing),
        only_outline=len(only_outline),
        differences=(*only_listing, *only_outline),
    )
