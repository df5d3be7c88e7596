"""Secret values are found inside longer texts, in time that grows with the text and not with their number."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MASK: Final = "•" * 8
"""What a secret value becomes; one length for all."""
BULLET: Final = "•"
SHORT_CHARS = 3
"""A shorter value is a word or a number that any page may hold for another reason."""

_SPACES = re.compile(r"\s+")
_BULLETS = re.compile(BULLET + "{2,}")


def is_value(text: object) -> bool:
    """True for a text that is there and not masked yet."""
    return isinstance(text, str) and text not in ("", MASK)


class SecretTexts:
    """The secret values of one target, as they are searched for.

    A name that Chromium computes repeats a value with its white space collapsed, and spaces around it.
    """

    def __init__(self, texts: Iterable[str], choices: Iterable[str] = ()) -> None:
        told = {spelt for text in texts if text.strip(BULLET) for spelt in _spelt(text)}
        words = {spelt for text in choices for spelt in _spelt(text)}
        self._long = _Needles({text for text in told if len(text) >= SHORT_CHARS}, SHORT_CHARS, whole=False)
        self._words = _Needles(words | {text for text in told if len(text) < SHORT_CHARS}, 1, whole=True)
        self._known: dict[tuple[str, bool], str] = {}

    def hide(self, text: str, *, near: bool = False) -> str:
        """The text with every value masked; the text itself if it holds none.

        Near a field that is also done for short values and for selected options, where they stand as words, and for
        the bullets that Chromium puts in place of a password, whose number tells its length.
        """
        known = self._known.get((text, near))
        if known is None:
            known = self._long.hide(text)
            if near:
                known = _BULLETS.sub(MASK, self._words.hide(known))
            self._known[text, near] = known
        return known


class _Needles:
    """Texts to be found, by their first characters and their lengths."""

    __slots__ = ("_lengths", "_prefix", "_texts", "_whole")

    def __init__(self, texts: set[str], prefix: int, *, whole: bool) -> None:
        self._texts = texts
        self._prefix = prefix
        self._whole = whole
        lengths: dict[str, set[int]] = {}
        for text in texts:
            lengths.setdefault(text[:prefix], set()).add(len(text))
        self._lengths = {start: sorted(found, reverse=True) for start, found in lengths.items()}

    def hide(self, text: str) -> str:
        if not self._texts:
            return text
        plain = _SPACES.sub(" ", text)
        folded = _folded(plain)
        lengths, texts, prefix, whole = self._lengths, self._texts, self._prefix, self._whole
        parts: list[str] = []
        begin = place = 0
        while place + prefix <= len(folded):
            for length in lengths.get(folded[place : place + prefix], ()):
                end = place + length
                if folded[place:end] in texts and not (whole and _in_word(folded, place, end)):
                    parts += (plain[begin:place], MASK)
                    begin = place = end
                    break
            else:
                place += 1
        return "".join((*parts, plain[begin:])) if parts else text


def _in_word(text: str, begin: int, end: int) -> bool:
    before, after = text[begin - 1 : begin], text[end : end + 1]
    return (before.isalnum() and text[begin].isalnum()) or (after.isalnum() and text[end - 1].isalnum())


def _spelt(text: str) -> set[str]:
    plain = _SPACES.sub(" ", text.strip())
    return {plain, _folded(plain)} - {""}


def _folded(text: str) -> str:
    plain = _SPACES.sub(" ", text)
    lower = plain.lower()
    return lower if len(lower) == len(plain) else plain  # places in the one are places in the other
