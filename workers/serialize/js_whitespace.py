"""JavaScript's idea of white space, which is not Python's.

`str.strip` also takes U+001C to U+001F and U+0085, and leaves U+FEFF (ECMA-262, 12.2 White Space and 12.3 Line
Terminators, which is what `trim` and `\\s` go by).
"""

from __future__ import annotations

import re
from typing import Final

JS_WHITESPACE: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_RUN: Final = re.compile(f"[{JS_WHITESPACE}]+")


def trim(text: str) -> str:
    """`String.prototype.trim`."""
    return text.strip(JS_WHITESPACE)


def trim_end(text: str) -> str:
    """`String.prototype.trimEnd`."""
    return text.rstrip(JS_WHITESPACE)


def collapse(text: str) -> str:
    """Every run of white space becomes one space."""
    return _RUN.sub(" ", text)
