"""A secret field is known by its tag and attributes, and its value by where HTML keeps it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser
from typing import TypeVar

import msgspec
from msgspec import Raw

from schemas.capture import Buffer, Payload, PayloadKind
from workers.merge.errors import PayloadError
from workers.merge.payloads import replace_surrogates
from workers.merge.secret_texts import MASK, SecretTexts, is_value

T = TypeVar("T")

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
LIMIT_ATTRIBUTES = frozenset(
    {"min", "max", "minlength", "maxlength", "size", "step", "rows", "cols", "width", "height", "tabindex"}
)
"""Attributes of a field that hold a number, which a short value may be by chance."""
INPUT_TYPES = DATE_TYPES | {
    "hidden", "text", "search", "tel", "url", "email", "password", "number", "range", "color", "checkbox", "radio",
    "file", "submit", "image", "reset", "button",
}  # fmt: skip
"""HTML, 4.10.5: what `type` can say of an input. A password may be one of these words, and the field must stay one."""
_KEPT_TOKENS = re.compile(
    r"(?<!\S)((?:current-password|new-password|one-time-code|cc-(?:(?:given-|additional-|family-)?name|number"
    r"|exp(?:-month|-year)?|csc|type))(?!\S)|cc-)",
    re.IGNORECASE,
)
"""The words of `autocomplete` that make a field secret (HTML, 4.10.18.7.1); they stay for the same reason."""

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
    offered  backend node ids of the nodes inside the selects that do not: options, and what is in them
    part_of  of each of these two, the backend node id of its field
    wordy    backend node ids of the fields whose parts are words or numbers that may stand anywhere
    above    backend node ids of the elements that a field stands in, without html and body
    texts    the values that were found
    choices  the texts of the options that were found to be selected: on a page many say the same
    masked   backend node ids of the fields that had a value
    """

    fields: set[int] = field(default_factory=set)
    selects: set[int] = field(default_factory=set)
    inner: set[int] = field(default_factory=set)
    offered: set[int] = field(default_factory=set)
    part_of: dict[int, int] = field(default_factory=dict)
    wordy: set[int] = field(default_factory=set)
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


def tag_of(node_name: str) -> str:
    """The local part of an element's name in lower case: an XHTML page may write `h:input` (Namespaces in XML, 4)."""
    return node_name.rpartition(":")[2].lower()


def is_secret(tag: str, attributes: Iterable[tuple[str, str]]) -> bool:
    """True if an element of this tag with these attributes is a secret field."""
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
    if name == "type" and value.strip().lower() in INPUT_TYPES:
        return value
    if name == "autocomplete":
        parts = _KEPT_TOKENS.split(value)
        return "".join(part if i % 2 else hidden.hide(part, near=True) for i, part in enumerate(parts))
    return hidden.hide(value, near=name not in LIMIT_ATTRIBUTES)


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


def read(
    kind: PayloadKind, decoder: msgspec.json.Decoder[T], members: dict[str, Raw], name: str, within: str = ""
) -> T:
    """A member of an object, decoded; PayloadError that names it if it is missing or malformed."""
    field_name = f"{within}.{name}" if within else name
    if name not in members:
        raise PayloadError(kind, field_name, "is missing")
    return decoded(kind, decoder, members[name], field_name)


def decoded(kind: PayloadKind, decoder: msgspec.json.Decoder[T], raw: Raw | Buffer, field_name: str) -> T:
    """A part of a payload; PayloadError that names the field in it if it is malformed."""
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem, _, path = str(error).partition(" - at ")
        raise PayloadError(kind, field_name + path.strip("`").removeprefix("$"), problem) from error


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
