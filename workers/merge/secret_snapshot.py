"""In the layout snapshot a secret value is a string-table entry that attributes, live values and texts point to."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Raw

from schemas.capture import COMPUTED_STYLES, Payload
from workers.merge.errors import PayloadError
from workers.merge.secret_fields import (
    CHOICE_ATTRIBUTES,
    ENCODER,
    FIELD_TAGS,
    OBJECT_DECODER,
    REPEATS_CHOICE,
    SecretFields,
    decodable,
    is_placeholder,
    is_secret,
    masked_attribute,
    masked_source,
    values_in,
)
from workers.merge.secret_texts import MASK, SecretTexts, is_value

_OBJECTS = msgspec.json.Decoder(list[dict[str, Raw]])
_STRINGS = msgspec.json.Decoder(list[str])
_NUMBER = msgspec.json.Decoder(int)
_RARE_COLUMN = msgspec.json.Decoder(dict[str, list[int]])
_NUMBERS = msgspec.json.Decoder(list[int])
_ROWS = msgspec.json.Decoder(list[list[int]])

_SIGNED_NAMES = frozenset({"type", "autocomplete", "srcdoc"})
_SIGNED_VALUE = re.compile(r"password|cc-|one-time-code|&#", re.IGNORECASE)
_MAX_PAIRED = 200
"""Texts about secrets that one search for their pairs may hold; a page with more of them is gone through instead."""
_LIVE = ("inputValue", "textValue")
_RARE_OTHERS = ("shadowRootType", "currentSourceURL", "originURL", "pseudoType", "pseudoIdentifier")
_DOCUMENT_STRINGS = (
    "documentURL", "title", "baseURL", "contentLanguage", "encodingName", "publicId", "systemId", "frameId",
)  # fmt: skip
"""The members of a snapshot that point into its string table (CDP 1.3, DOMSnapshot)."""
_BACKGROUND = COMPUTED_STYLES.index("background-color")
"""The style by which Chromium shows what is selected in a list of options."""


def may_hold_secret(payload: Payload) -> bool:
    """False if surely no element has a secret field's type, autocomplete or source: a look at few bytes."""
    try:
        whole = OBJECT_DECODER.decode(payload.data)
        strings = _STRINGS.decode(whole["strings"])
        documents = _OBJECTS.decode(whole["documents"])
        rows = [bytes(OBJECT_DECODER.decode(d["nodes"]).get("attributes", b"")) for d in documents]
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
        return True  # masking says what is wrong with it
    names = [str(i) for i, text in enumerate(strings) if text.lower() in _SIGNED_NAMES]
    values = [str(i) for i, text in enumerate(strings) if _SIGNED_VALUE.search(text)]
    if not names or not values:
        return False
    if len(names) + len(values) > _MAX_PAIRED:
        return True
    pair = re.compile(rf"\b(?:{'|'.join(names)})\s*,\s*(?:{'|'.join(values)})\b".encode())
    return any(pair.search(row) for row in rows)


class SecretSnapshot:
    """The layout snapshot of a target."""

    def __init__(self, payload: Payload) -> None:
        self._kind = payload.kind
        data = decodable(payload)
        try:
            self._whole = OBJECT_DECODER.decode(data)
            self._strings = _STRINGS.decode(self._whole["strings"])
            added: dict[str, int] = {}
            documents = _OBJECTS.decode(self._whole["documents"])
            self._documents = [_Document(d, self._strings, added) for d in documents]
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError, IndexError) as error:
            raise PayloadError(payload.kind, "$", f"{type(error).__name__}: {error}") from error

    def find(self, fields: SecretFields) -> None:
        """Note the secret fields, those of the document included, and what they hold."""
        try:
            for document in self._documents:
                document.find(fields)
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError, IndexError) as error:
            raise PayloadError(self._kind, "$", f"{type(error).__name__}: {error}") from error

    def mask(self, fields: SecretFields, hidden: SecretTexts) -> bytes | None:
        """The payload with values masked, None if it holds none; notes the fields that had one."""
        strings = self._strings
        changed = False
        secret: set[int] = set()
        try:
            for document in self._documents:
                changed |= document.mask(fields, hidden, secret)
            if not changed:
                return None
            used = set().union(*(d.used(secret) for d in self._documents))
            for index in secret - used:
                strings[index] = MASK  # nobody else needs it: the value must not stay in the table
            self._whole["strings"] = Raw(ENCODER.encode(strings))
            self._whole["documents"] = Raw(ENCODER.encode([d.encoded() for d in self._documents]))
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError, IndexError) as error:
            raise PayloadError(self._kind, "$", f"{type(error).__name__}: {error}") from error
        return ENCODER.encode(self._whole)


class _Document:
    """One document of a snapshot; the columns that may hold a value are decoded, the rest stays as it is."""

    def __init__(self, members: dict[str, Raw], strings: list[str], added: dict[str, int]) -> None:
        self._members = members
        self._strings = strings
        self._added = added
        self._nodes: dict[str, Any] = dict(OBJECT_DECODER.decode(members["nodes"]))
        self._layout: dict[str, Any] = dict(OBJECT_DECODER.decode(members["layout"]))
        nodes = self._nodes
        self._rows = nodes["attributes"] = _ROWS.decode(nodes["attributes"]) if "attributes" in nodes else []
        self._ids = _NUMBERS.decode(nodes["backendNodeId"])
        self._names = [self._string(i).lower() for i in _NUMBERS.decode(nodes["nodeName"])]
        self._parents = _NUMBERS.decode(nodes["parentIndex"]) if "parentIndex" in nodes else [-1] * len(self._ids)
        self._values: list[int] = []
        if "nodeValue" in nodes:
            self._values = nodes["nodeValue"] = _NUMBERS.decode(nodes["nodeValue"])
        for name in (*_LIVE, "optionSelected"):
            if name in nodes:
                nodes[name] = _RARE_COLUMN.decode(nodes[name])
        self._holders: set[int] = set()
        self._owner: dict[int, int] = {}
        self._options: dict[int, int] = {}
        self._changed = False

    def find(self, fields: SecretFields) -> None:
        """Note the secret fields and what they hold."""
        for node, name in enumerate(self._names):
            if name in FIELD_TAGS and (self._ids[node] in fields.fields or is_secret(name, self._pairs(node))):
                self._holders.add(node)
                fields.add(self._ids[node], name)
        if not self._holders:
            return
        self._place()
        for node in self._holders:
            fields.values_of(self._names[node]).update(values_in(self._pairs(node)))
        for column in _LIVE:
            rare = self._nodes.get(column, {})
            for node, index in zip(rare.get("index", ()), rare.get("value", ()), strict=False):
                if node in self._holders and is_value(self._string(index)):
                    fields.values_of(self._names[node]).add(self._string(index))
        chosen = {n for n in self._options if any(name.lower() == "selected" for name, _ in self._pairs(n))}
        chosen |= self._options.keys() & set(self._nodes.get("optionSelected", {}).get("index", ()))
        told = dict.fromkeys(chosen, "")
        for node in range(len(self._values)):
            text = self._string(self._values[node])
            if self._owner.get(node, node) != node and is_value(text):
                fields.values_of(self._names[self._owner[node]]).add(text)
            if text and self._parents[node] in told:
                told[self._parents[node]] += text
        for node, text in told.items():
            fields.choices.add(text)
            fields.choices.update(v for name, v in self._pairs(node) if name.lower() in ("value", "label"))

    def mask(self, fields: SecretFields, hidden: SecretTexts, secret: set[int]) -> bool:
        """Point every value of a secret field to its mask; collects the string indexes that they had pointed to."""
        for node in self._holders:
            self._mask_attributes(node, fields, hidden, secret)
        for node, name in enumerate(self._names):
            if name == "iframe":
                self._mask_frame(node, fields, hidden, secret)
        for name in _LIVE:
            rare = self._nodes.get(name, {})
            for place, node in enumerate(rare.get("index", [])[: len(rare.get("value", []))]):
                if node in self._holders:
                    self._point(rare["value"], place, node, fields, secret)
        if self._values:
            for node in self._owner:
                self._point(self._values, node, node, fields, secret)
        if "text" in self._layout and self._owner:
            self._layout["text"] = texts = _NUMBERS.decode(self._layout["text"])
            for place, node in enumerate(_NUMBERS.decode(self._layout["nodeIndex"])[: len(texts)]):
                if node in self._owner:
                    self._point(texts, place, node, fields, secret)
        if self._options:
            self._mask_choices(fields)
        return self._changed

    def used(self, wanted: set[int]) -> set[int]:
        """Those of the wanted string indexes that something other than a secret value points to."""
        found: set[int] = set()
        for name in _DOCUMENT_STRINGS:
            if name in self._members:
                found.add(_NUMBER.decode(self._members[name]))
        for name in ("nodeName", "nodeValue"):
            if name in self._nodes:
                found.update(self._numbers(self._nodes[name]))
        for name in (*_LIVE, *_RARE_OTHERS):
            if name in self._nodes:
                rare = self._nodes[name]
                found.update((_RARE_COLUMN.decode(rare) if isinstance(rare, Raw) else rare).get("value", []))
        if "text" in self._layout:
            found.update(self._numbers(self._layout["text"]))
        for row in self._rows:
            found.update(row)
        styles = self._layout.get("styles", [])
        for row in _ROWS.decode(styles) if isinstance(styles, Raw) else styles:
            found.update(row)
        return found & wanted

    def encoded(self) -> dict[str, Raw]:
        """The document's members, re-encoded where something changed."""
        if self._changed:
            self._members["nodes"] = Raw(ENCODER.encode(self._nodes))
            self._members["layout"] = Raw(ENCODER.encode(self._layout))
        return self._members

    def _place(self) -> None:
        """Find the nodes inside the fields, and the options of the selects among them."""
        self._owner = {i: i for i in self._holders}
        selects = {i: i for i in self._holders if self._names[i] == "select"}
        for i, parent in enumerate(self._parents):  # parents stand before their children
            if i in self._holders:
                continue
            if parent in selects:
                selects[i] = selects[parent]
                if self._names[i] == REPEATS_CHOICE or (parent in self._owner and parent not in self._holders):
                    self._owner[i] = selects[i]
                elif self._names[i] == "option":
                    self._options[i] = selects[i]
            elif parent in self._owner and not is_placeholder(self._pairs(i)):
                self._owner[i] = self._owner[parent]

    def _mask_attributes(self, node: int, fields: SecretFields, hidden: SecretTexts, secret: set[int]) -> None:
        row = self._rows[node] if node < len(self._rows) else []
        for place, (name, value) in enumerate(self._pairs(node)):
            self._replace(row, 2 * place + 1, masked_attribute(name, value, hidden), node, fields, secret)

    def _mask_frame(self, node: int, fields: SecretFields, hidden: SecretTexts, secret: set[int]) -> None:
        for place, (name, value) in enumerate(self._pairs(node)):
            if name.lower() == "srcdoc":
                row = self._rows[node]
                self._replace(row, 2 * place + 1, masked_source(value, hidden), node, fields, secret)

    def _mask_choices(self, fields: SecretFields) -> None:
        """Make the options of secret selects all alike."""
        for node, select in self._options.items():
            pairs = list(zip(self._rows[node][::2], self._rows[node][1::2], strict=False))
            kept = [x for pair in pairs if self._string(pair[0]).lower() not in CHOICE_ATTRIBUTES for x in pair]
            if len(kept) < 2 * len(pairs):
                self._rows[node] = kept
                self._masked(select, fields)
        rare = self._nodes.get("optionSelected", {})
        for node in self._options.keys() & set(rare.get("index", ())):
            rare["index"] = [i for i in rare["index"] if i != node]
            self._masked(self._options[node], fields)
        if "styles" not in self._layout:
            return
        self._layout["styles"] = rows = _ROWS.decode(self._layout["styles"])
        first: dict[int, int] = {}
        for row, node in zip(rows, _NUMBERS.decode(self._layout["nodeIndex"]), strict=False):
            if node in self._options and len(row) > _BACKGROUND:
                color = first.setdefault(self._options[node], row[_BACKGROUND])
                if row[_BACKGROUND] != color:
                    row[_BACKGROUND] = color
                    self._masked(self._options[node], fields)

    def _point(self, column: list[int], place: int, node: int, fields: SecretFields, secret: set[int]) -> None:
        if is_value(self._string(column[place])):
            self._replace(column, place, MASK, node, fields, secret)

    def _replace(
        self, column: list[int], place: int, text: str, node: int, fields: SecretFields, secret: set[int]
    ) -> None:
        if text != self._string(column[place]):
            secret.add(column[place])
            if text not in self._added:
                self._added[text] = len(self._strings)
                self._strings.append(text)
            column[place] = self._added[text]
            self._masked(self._owner.get(node, node), fields)

    def _masked(self, node: int, fields: SecretFields) -> None:
        fields.masked.add(self._ids[node])
        self._changed = True

    def _string(self, index: int) -> str:
        return self._strings[index] if 0 <= index < len(self._strings) else ""

    def _pairs(self, node: int) -> list[tuple[str, str]]:
        texts = [self._string(i) for i in self._rows[node]] if node < len(self._rows) else []
        return list(zip(texts[::2], texts[1::2], strict=False))

    @staticmethod
    def _numbers(column: Raw | list[int]) -> list[int]:
        return _NUMBERS.decode(column) if isinstance(column, Raw) else column
