"""A page's own text can pass for a line of the listing: by a line break in it, or by looking like a line itself."""

from __future__ import annotations

import re

OTHER_BREAKS = "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""What starts a new line for some readers, beside the newline (str.splitlines)."""
_STARTS = frozenset("*[|<.OCSE")
"""The first characters of all lines below; most texts of a page begin with none of them."""
_OWN_LINE = re.compile(
    r"""(?:\|SHADOW\((?:open|closed)\)\|)?
        (?: (?: \*?\[\d+\] | \*?\|scroll\ element(?:\[\d+\]|\|) | \|FRAME\| ) <[^\s<>]   # whatever follows the mark
          | <[^\s<>/]+(?:\ .*)?\ /> )
      | (?:Open\ Shadow|Closed\ Shadow|Shadow\ End)(?!.)
      | \.\.\.\ \((?:\d+\ more\ elements|more\ content)\ below
      | Empty\ DOM\ tree\ \(""",
    re.VERBOSE,
)


def looks_like_a_line(text: str) -> bool:
    """Whether the first line of a stripped text looks like one that the listing makes: an element's, a shadow root's
    or a hint's."""
    return text[:1] in _STARTS and _OWN_LINE.match(text) is not None


def broken_lines(text: str, made: int) -> int:
    """How many lines of a listing line breaks in the page's texts and values began, beside the `made` ones."""
    breaks = text.count("\n") + sum([text.count(other) for other in OTHER_BREAKS]) - text.count("\r\n")
    return breaks - max(made - 1, 0)
