"""What is new in an outline, as Stagehand 3.7.3 shows it between the two steps of an action."""

from __future__ import annotations

from workers.serialize.js_whitespace import JS_WHITESPACE, trim


def diff_outlines(previous: str, following: str) -> str:
    """The lines of the following text that the previous one has nowhere, moved left together; "" if there are none.

    A line is the same if its id, role and name are; where it stands does not count, nor does what has gone.
    """
    known = {trim(line) for line in previous.split("\n")}
    known.add("")
    added = [line for line in following.split("\n") if trim(line) not in known]
    indent = min((len(line) - len(line.lstrip(JS_WHITESPACE)) for line in added), default=0)
    return "\n".join(line[indent:] for line in added)
