"""JavaScript's white space, letter by letter (ECMA-262, 12.2 and 12.3)."""

from __future__ import annotations

import sys

from workers.serialize.js_whitespace import collapse, trim, trim_end
from workers.serialize.outline_accessibility import clean

TABLE = {
    *(0x9, 0xA, 0xB, 0xC, 0xD, 0x20, 0xA0, 0x1680, *range(0x2000, 0x200B)),
    *(0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF),
}


def test_the_table_holds_for_every_code_point() -> None:
    for code in range(sys.maxunicode + 1):
        if 0xD800 <= code < 0xE000:
            continue
        letter = chr(code)
        expected = "" if code in TABLE else letter
        assert trim(letter) == expected, hex(code)
        assert trim_end(letter) == expected, hex(code)
        assert collapse(letter) == (" " if code in TABLE else letter), hex(code)


def test_python_differs_where_it_is_known_to() -> None:
    differing = {c for c in range(0x10000) if not 0xD800 <= c < 0xE000 and (chr(c).strip() == "") != (c in TABLE)}
    assert differing == {0x1C, 0x1D, 0x1E, 0x1F, 0x85, 0xFEFF}


def test_names_as_they_print() -> None:
    assert clean("\ue000icon\uf8ff") == "icon"
    assert clean("a\xa0\xa0b") == "a b"
    assert clean("a \xa0b") == "a b"
    assert clean("a\xa0 b") == "a  b"
    assert clean("a\ue000\xa0\ue000\ufeffb") == "a b"
    assert clean("\xa0\x1f \x85\ufeff") == "\x1f \x85"
    assert clean(" two  lines\nstay ") == "two  lines\nstay"
    assert clean("\u3000\u2003x") == "x"
