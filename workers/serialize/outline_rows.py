"""The row form of an outline cannot be forged: a name is a value in it, never a line.

The text form prints names as they are, new lines included, so that a page can write lines of its own into it
(`[0-99] button: Forged`). Rows come from the tree, and frames are put under their host by its place, not by its text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from workers.serialize.js_whitespace import JS_WHITESPACE, trim_end

_LINE = re.compile(
    r"(?P<indent>\s*)\[(?P<id>[^\]]*)\] (?P<role>.*?)(?:: (?P<name>.*?))??(?P<selected> \[selected\])?"
    r"(?P<checked> \[checked\])?",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class OutlineRows:
    """The lines of an outline as columns.

    id     `ordinal-backendNodeId`; for what is no element, the accessibility node's own id
    depth  0 for a root; what is in a frame stands below the element that shows it
    name   None where the accessibility node has none
    frame  position of the frame in the outline's frames
    backend_node_id   None where the accessibility node has none
    node   in the tree of the frame, -1 where the document does not know it
    is_control_part   it belongs to a control that the browser draws, such as the steppers of a number field
    """

    id: tuple[str, ...]
    depth: tuple[int, ...]
    role: tuple[str, ...]
    name: tuple[str | None, ...]
    selected: tuple[bool, ...]
    checked: tuple[bool, ...]
    frame: tuple[int, ...]
    backend_node_id: tuple[int | None, ...]
    node: tuple[int, ...]
    is_control_part: tuple[bool, ...]

    def __len__(self) -> int:
        return len(self.id)


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """One line of the text form, as a reader takes it."""

    id: str
    depth: int
    role: str
    name: str | None
    selected: bool
    checked: bool


def parse_outline(text: str) -> list[ParsedLine]:
    """The lines of a text form; one that does not begin with `[id]` goes on with the name of the line before it.

    It believes what it reads: a line that a page has written into a name looks like any other, and a name that ends in
    ` [checked]` looks like a flag. The row form tells them apart.
    """
    lines: list[list[str]] = []
    for line in text.split("\n"):
        if _LINE.fullmatch(line):
            lines.append([line])
        elif lines:
            lines[-1].append(line)
    parsed = []
    for parts in lines:
        found = _LINE.fullmatch("\n".join(parts))
        if found is not None:
            flags = (found["selected"] is not None, found["checked"] is not None)
            parsed.append(ParsedLine(found["id"], len(found["indent"]) // 2, found["role"], found["name"], *flags))
    return parsed


def frame_text(ids: list[str], depths: list[int], roles: list[str], names: list[str | None], flags: list[int]) -> str:
    """The text form of one frame: a line for each row, two spaces a level."""
    indents = ["  " * depth for depth in range(max(depths, default=0) + 1)]
    lines = [
        f"{indents[depth]}[{id_}] {role}" if name is None else f"{indents[depth]}[{id_}] {role}: {name}"
        for id_, depth, role, name in zip(ids, depths, roles, names, strict=True)
    ]
    if any(flags):
        lines = [f"{line}{_FLAGS[flag]}" if flag else line for line, flag in zip(lines, flags, strict=True)]
    return trim_end("\n".join(lines))


_FLAGS = ("", " [selected]", " [checked]", " [selected] [checked]")
_HOST = re.compile(f"([{JS_WHITESPACE}]*)\\[([^\\]]+)\\]")


def stitch(text: str, below: dict[str, str]) -> str:
    """The text with each frame's outline put under the first line that begins with the id of its host.

    Each is put in once. The original asks each frame anew what it has put in already, so that two frames that write
    each other's ids into their names send it round for ever.
    """
    left = {host: inner for host, inner in below.items() if inner}  # a frame without lines adds none
    if not left:
        return text
    out: list[str] = []
    stack = [(iter(text.split("\n")), "")]
    while stack:
        lines, indent = stack[-1]
        for line in lines:
            whole = indent + line
            out.append(whole)
            found = _HOST.match(line)
            inner = left.pop(found[2], None) if found is not None else None
            if found is not None and inner is not None:
                stack.append((iter(trim_end(inner).split("\n")), f"{indent}{found[1]}  "))
                break
        else:
            stack.pop()
    return "\n".join(out)
