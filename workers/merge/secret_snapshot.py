"""In the layout snapshot a secret value is a string-table entry that attributes, live values and texts point to."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Raw

from schemas.capture import Payload
from workers.merge.errors import PayloadError
from workers.merge.secret_document import MASK, SecretFields, decodable, is_secret, is_value

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_OBJECTS = msgspec.json.Decoder(list[dict[str, Raw]])
_STRINGS = msgspec.json.Decoder(list[str])
_NUMBER = msgspec.json.Decoder(int)
_RARE_COLUMNS = msgspec.json.Decoder(dict[str, list[int]])
_NUMBERS = msgspec.json.Decoder(list[int])
_ROWS = msgspec.json.Decoder(list[list[int]])
_ENCODER = msgspec.json.Encoder()

_SECRET_NAMES = frozenset({"type", "autocomplete"})
_SECRET_VALUE = re.compile(r"password|cc-|one-time-code", re.IGNORECASE)
_MAX_PAIRED = 200
"""Texts about secrets that one search for their pairs may hold; a page with more of them is gone through instead."""
_RARE = ("inputValue", "textValue")
_RARE_OTHERS = ("shadowRootType", "currentSourceURL", "originURL", "pseudoType", "pseudoIdentifier")
_DOCUMENT_STRINGS = (
    "documentURL", "title", "baseURL", "contentLanguage", "encodingName", "publicId", "systemId", "frameId",
)  # fmt: skip
"""The members of a snapshot that point into its string table (CDP 1.3, DOMSnapshot)."""


def may_hold_secret(payload: Payload) -> bool:
    """False if surely no element of the snapshot has a secret field's type or autocomplete; a look at few bytes."""
    try:
        whole = _OBJECT.decode(payload.data)
        strings = _STRINGS.decode(whole["strings"])
        rows = [bytes(_OBJECT.decode(d["nodes"]).get("attributes", b"")) for d in _OBJECTS.decode(whole["documents"])]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
        return True  # masking says what is wrong with it
    names = [str(i) for i, text in enumerate(strings) if text.lower() in _SECRET_NAMES]
    values = [str(i) for i, text in enumerate(strings) if _SECRET_VALUE.search(text)]
    if not names or not values:
        return False
    if len(names) + len(values) > _MAX_PAIRED:
        return True
    pair = re.compile(rf"\b(?:{'|'.join(names)})\s*,\s*(?:{'|'.join(values)})\b".encode())
    return any(pair.search(row) for row in rows)


def mask_snapshot(payload: Payload, fields: SecretFields) -> bytes | None:
    """The payload with values masked, None if it holds none; notes masked fields in `fields`."""
    data = decodable(payload)
    try:
        whole = _OBJECT.decode(data)
        strings = _STRINGS.decode(whole["strings"])
        documents = [_Document(d, strings) for d in _OBJECTS.decode(whole["documents"])]
        secret = {i for d in documents for i in d.mask(fields)}
        if not secret:
            return None
        fields.texts.update(strings[i] for i in secret)
        used = set().union(*(d.used(secret) for d in documents))
        for index in secret - used:
            strings[index] = MASK  # nobody else needs it: the value must not stay in the table
        strings.append(MASK)
        whole["strings"] = Raw(_ENCODER.encode(strings))
        whole["documents"] = Raw(_ENCODER.encode([d.encoded() for d in documents]))
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, IndexError) as error:
        raise PayloadError(payload.kind, "$", f"{type(error).__name__}: {error}") from error
    return _ENCODER.encode(whole)


class _Document:
    """One document of a snapshot; the columns that may hold a value are decoded, the rest stays as it is."""

    __slots__ = ("_changed", "_layout", "_members", "_nodes", "_strings")

    def __init__(self, members: dict[str, Raw], strings: list[str]) -> None:
        self._members = members
        self._strings = strings
        self._nodes: dict[str, Any] = dict(_OBJECT.decode(members["nodes"]))
        self._layout: dict[str, Any] = dict(_OBJECT.decode(members["layout"]))
        self._changed = False

    def mask(self, fields: SecretFields) -> set[int]:
        """Point every value of a secret field to the mask; returns the string indexes that they had pointed to."""
        nodes, layout, strings = self._nodes, self._layout, self._strings
        nodes["attributes"] = rows = _ROWS.decode(nodes["attributes"]) if "attributes" in nodes else []
        ids = _NUMBERS.decode(nodes["backendNodeId"])
        names = _NUMBERS.decode(nodes["nodeName"])
        fields_here = {i for i, name in enumerate(strings) if name.lower() in ("input", "textarea")}
        holders = {
            i
            for i, (row, name) in enumerate(zip(rows, names, strict=False))
            if name in fields_here and (ids[i] in fields.fields or is_secret(strings[name], self._pairs(row)))
        }
        if not holders:
            return set()
        parents = _NUMBERS.decode(nodes["parentIndex"]) if "parentIndex" in nodes else [-1] * len(ids)
        owner = {i: i for i in holders}
        for i, parent in enumerate(parents):  # parents stand before their children
            if parent in owner:
                owner.setdefault(i, owner[parent])
        secret: set[int] = set()
        mask = len(strings)

        def point(column: list[int], place: int, node: int) -> None:
            index = column[place]
            if 0 <= index < mask and is_value(strings[index]):
                secret.add(index)
                column[place] = mask
                fields.masked.add(ids[owner[node]])

        for node in holders:
            row = rows[node] if node < len(rows) else []
            for place in range(0, len(row) - 1, 2):
                if 0 <= row[place] < mask and strings[row[place]].lower() == "value":
                    point(row, place + 1, node)
        for name in _RARE:
            if name in nodes:
                nodes[name] = rare = _RARE_COLUMNS.decode(nodes[name])
                for place, node in enumerate(rare.get("index", [])[: len(rare.get("value", []))]):
                    if node in holders:
                        point(rare["value"], place, node)
        if "nodeValue" in nodes:
            nodes["nodeValue"] = values = _NUMBERS.decode(nodes["nodeValue"])
            for node in owner:
                point(values, node, node)
        if "text" in layout:
            layout["text"] = texts = _NUMBERS.decode(layout["text"])
            for place, node in enumerate(_NUMBERS.decode(layout["nodeIndex"])):
                if node in owner and place < len(texts):
                    point(texts, place, node)
        self._changed = bool(secret)
        return secret

    def used(self, wanted: set[int]) -> set[int]:
        """Those of the wanted string indexes that something other than a secret value points to."""
        found: set[int] = set()
        for name in _DOCUMENT_STRINGS:
            if name in self._members:
                found.add(_NUMBER.decode(self._members[name]))
        for name in ("nodeName", "nodeValue"):
            if name in self._nodes:
                found.update(self._numbers(self._nodes[name]))
        for name in (*_RARE, *_RARE_OTHERS):
            if name in self._nodes:
                rare = self._nodes[name]
                found.update((_RARE_COLUMNS.decode(rare) if isinstance(rare, Raw) else rare).get("value", []))
        if "text" in self._layout:
            found.update(self._numbers(self._layout["text"]))
        rows = self._nodes.get("attributes", [])
        for row in _ROWS.decode(rows) if isinstance(rows, Raw) else rows:
            found.update(row)
        for row in _ROWS.decode(self._layout["styles"]) if "styles" in self._layout else []:
            found.update(row)
        return found & wanted

    def encoded(self) -> dict[str, Raw]:
        """The document's members, re-encoded where something changed."""
        if self._changed:
            self._members["nodes"] = Raw(_ENCODER.encode(self._nodes))
            self._members["layout"] = Raw(_ENCODER.encode(self._layout))
        return self._members

    def _pairs(self, row: list[int]) -> list[tuple[str, str]]:
        texts = [self._strings[i] if 0 <= i < len(self._strings) else "" for i in row]
        return list(zip(texts[::2], texts[1::2], strict=False))

    @staticmethod
    def _numbers(column: Raw | list[int]) -> list[int]:
        return _NUMBERS.decode(column) if isinstance(column, Raw) else column
