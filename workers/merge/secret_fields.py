"""A secret field is known by its tag and attributes, and its value by where HTML keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser

import msgspec
from msgspec import Raw

from schemas.capture import Payload
from workers.merge.errors import PayloadError
from workers.merge.payloads import replace_surrogates
from workers.merge.secret_texts import MASK, SecretTexts, is_value

OBJECT_DECODER = msgspec.json.Decoder(dict[str, Raw])
LIST_DECODER = msgspec.json.Decoder(list[Raw])
ENCODER = msgspec.json.Encoder()

SECRET_AUTOCOMPLETE = frozenset({"current-password", "new-password", "one-time-code"})
CARD_PREFIX = "cc-"
FIELD_TAGS = frozenset({"input", "textarea", "select"})
"""The elements that take `autocomplete`."""
DATE_TYPES = frozenset({"date", "datetime-local", "month", "time", "week"})
REPEATS_CHOICE = "selectedcontent"
"""The element inside a select into which the browser copies the selected option (HTML, 4.10)."""

VALUE_ATTRIBUTES = frozenset({"value", "aria-valuetext", "aria-valuenow"})
"""Attributes of a field that say its value and nothing else (WAI-ARIA 1.2, 6.7)."""
CHOICE_ATTRIBUTES = frozenset({"selected", "aria-selected"})
"""Attributes of an option that tell whether it is the one."""
KEPT_ATTRIBUTES = frozenset(
    {
        "type", "name", "id", "class", "autocomplete", "form", "list", "role", "inputmode", "enterkeyhint", "tabindex",
        "min", "max", "minlength", "maxlength", "size", "step", "rows", "cols", "pattern", "style", "dir", "lang",
    }
)  # fmt: skip
"""Attributes of a field that say which one it is or what it takes; every other one may repeat its value."""

MAX_NESTING = 4
"""So many documents inside documents inside a `srcdoc` are read; a deeper one is masked unread."""
MAX_SOURCE_CHARS = 100_000
"""A longer `srcdoc` is masked unread: Chromium cuts an attribute of a DOM node at a tenth of that."""


@dataclass(slots=True)
class SecretFields:
    """What is known about the secret fields of one target while its payloads are gone through.

    fields   backend node ids of the fields
    selects  those of them that are selects
    inner    backend node ids of the nodes inside the fields that repeat their values
    above    backend node ids of the elements that a field stands in, without html and body
    texts    the values that were found
    choices  the texts of the options that were found to be selected: on a page many say the same
    masked   backend node ids of the fields that had a value
    """

    fields: set[int] = field(default_factory=set)
    selects: set[int] = field(default_factory=set)
    inner: set[int] = field(default_factory=set)
    above: set[int] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    choices: set[str] = field(default_factory=set)
    masked: set[int] = field(default_factory=set)

    def add(self, backend_node_id: int, tag: str) -> None:
        """Remember a field."""
        if backend_node_id:
            self.fields.add(backend_node_id)
            if tag == "select":
                self.selects.add(backend_node_id)

    def values_of(self, tag: str) -> set[str]:
        """Where values of a field with this tag are remembered."""
        return self.choices if tag == "select" else self.texts

    def searchable(self) -> SecretTexts:
        """The values, to be searched for."""
        return SecretTexts(self.texts, self.choices)


def is_secret(node_name: str, attributes: Iterable[tuple[str, str]]) -> bool:
    """True if an element of this name with these attributes is a secret field."""
    tag = node_name.lower()
    if tag not in FIELD_TAGS:
        return False
    for name, value in attributes:
        name = name.lower()
        if name == "type" and tag == "input" and value.strip().lower() == "password":
            return True
        if name == "autocomplete":
            tokens = value.lower().split()
            if any(t in SECRET_AUTOCOMPLETE or t.startswith(CARD_PREFIX) for t in tokens):
                return True
    return False


def is_placeholder(attributes: Iterable[tuple[str, str]]) -> bool:
    """True for the part of a field that Chromium makes for its placeholder, which is page text."""
    return any(name == "pseudo" and value.endswith("placeholder") for name, value in attributes)


def values_in(attributes: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The values that the attributes of a field, or of an element inside it, say."""
    return (value for name, value in attributes if name.lower() in VALUE_ATTRIBUTES and is_value(value))


def masked_attribute(name: str, value: str, hidden: SecretTexts) -> str:
    """What an attribute of a field, or of an element inside it, becomes."""
    name = name.lower()
    if name in VALUE_ATTRIBUTES:
        return MASK if is_value(value) else value
    return value if name in KEPT_ATTRIBUTES else hidden.hide(value, near=True)


def masked_source(source: str, hidden: SecretTexts) -> str:
    """What a `srcdoc` becomes: the mask if there is a secret field with a value in it, or one that it spells oddly."""
    if _holds_secret(source, MAX_NESTING):
        return MASK
    masked = hidden.hide(source)
    plain = masked
    for _ in range(MAX_NESTING):
        plain = unescape(plain)
    return masked if hidden.hide(plain) == plain else MASK


def _holds_secret(source: str, nesting: int) -> bool:
    if not any(sign in source.lower() for sign in ("password", CARD_PREFIX, "one-time-code", "&#", "srcdoc")):
        return False
    if len(source) > MAX_SOURCE_CHARS or not nesting:
        return True
    reader = _SourceReader(nesting)
    reader.feed(source)
    reader.close()
    return reader.found


class _SourceReader(HTMLParser):
    """Looks for a secret field with a value; every select has one."""

    def __init__(self, nesting: int) -> None:
        super().__init__()
        self.found = False
        self._nesting = nesting
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pairs = [(name, value or "") for name, value in attrs]
        if is_secret(tag, pairs):
            self._inside = tag == "textarea"
            self.found |= tag == "select" or any(values_in(pairs))
        elif self._inside:
            self.found = True
        elif tag == "iframe":
            self.found |= any(name == "srcdoc" and _holds_secret(value, self._nesting - 1) for name, value in pairs)

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "textarea"

    def handle_data(self, data: str) -> None:
        self.found |= self._inside and bool(data.strip())


def decodable(payload: Payload) -> bytes | bytearray | memoryview:
    """The payload's bytes, without lone surrogates if it has any."""
    try:
        OBJECT_DECODER.decode(payload.data)
    except msgspec.ValidationError as error:
        raise PayloadError(payload.kind, "$", str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return replace_surrogates(payload.data)[0]
    except RecursionError as error:
        raise PayloadError(payload.kind, "$", "is nested too deeply") from error
    return payload.data
