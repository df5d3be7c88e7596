"""In the layout snapshot a secret value is a string-table entry that attributes, live values and texts point to."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from msgspec import Raw

from schemas.capture import Payload
from workers.merge.errors import PayloadError
from workers.merge.secret_fields import (
    CHOICE_ATTRIBUTES,
    ENCODER,
    FIELD_TAGS,
    OBJECT_DECODER,
    REPEATS_CHOICE,
    SecretFields,
    decodable,
    decoded,
    is_placeholder,
    is_secret,
    masked_attribute,
    masked_source,
    read,
    tag_of,
    values_in,
)
from workers.merge.secret_layout import LAYOUT_COLUMNS, NUMBERS, STRING_ROWS, TEXT_BOX_COLUMNS, SecretLayout
from workers.merge.secret_texts import MASK, SecretTexts, is_value

_OBJECTS = msgspec.json.Decoder(list[dict[str, Raw]])
_STRINGS = msgspec.json.Decoder(list[str])
_NUMBER = msgspec.json.Decoder(int)
_RARE_COLUMN = msgspec.json.Decoder(dict[str, list[int]])

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
_MARKS = frozenset({"checkmark", "before", "after"})
"""Pseudo-elements of an option, of which the selected one may have others (CSS Forms 1, `::checkmark`)."""
KIND: Final = "layout_snapshot"


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
        self._whole = decoded(KIND, OBJECT_DECODER, decodable(payload), "$")
        self._strings = read(KIND, _STRINGS, self._whole, "strings")
        added: dict[str, int] = {}
        documents = read(KIND, _OBJECTS, self._whole, "documents")
        self._documents = [_Document(d, f"documents[{i}]", self._strings, added) for i, d in enumerate(documents)]

    def find(self, fields: SecretFields) -> None:
        """Note the secret fields, those of the document included, and what they hold."""
        for document in self._documents:
            document.find(fields)

    def mask(self, fields: SecretFields, hidden: SecretTexts) -> bytes | None:
        """The payload with values masked, None if it holds none; notes the fields that had one."""
        strings = self._strings
        secret: set[int] = set()
        changed = [document.mask(fields, hidden, secret) for document in self._documents]
        if not any(changed):
            return None
        used = set().union(*(d.used(secret) for d in self._documents))
        for index in secret - used:
            strings[index] = MASK  # nobody else needs it: the value must not stay in the table
        self._whole["strings"] = Raw(ENCODER.encode(strings))
        self._whole["documents"] = Raw(ENCODER.encode([d.encoded() for d in self._documents]))
        return ENCODER.encode(self._whole)


class _Document:
    """One document of a snapshot; the columns that may hold a value are decoded, the rest stays as it is."""

    def __init__(self, members: dict[str, Raw], path: str, strings: list[str], added: dict[str, int]) -> None:
        self._members = members
        self._path = path
        self._strings = strings
        self._added = added
        nodes: dict[str, Raw] = read(KIND, OBJECT_DECODER, members, "nodes", path)
        self._nodes: dict[str, Any] = dict(nodes)
        layout: dict[str, Raw] = read(KIND, OBJECT_DECODER, members, "layout", path)
        self._layout: dict[str, Any] = dict(layout)
        self._boxes: dict[str, Any] = {}
        path += ".nodes"
        self._ids = read(KIND, NUMBERS, nodes, "backendNodeId", path)
        self._names = [tag_of(self._string(i)) for i in read(KIND, NUMBERS, nodes, "nodeName", path)]
        self._rows: list[list[int]] = [[] for _ in self._ids]
        self._parents = [-1] * len(self._ids)
        self._values: list[int] = []
        if "attributes" in nodes:
            self._rows = self._nodes["attributes"] = read(KIND, STRING_ROWS, nodes, "attributes", path)
        if "parentIndex" in nodes:
            self._parents = read(KIND, NUMBERS, nodes, "parentIndex", path)
        if "nodeValue" in nodes:
            self._values = self._nodes["nodeValue"] = read(KIND, NUMBERS, nodes, "nodeValue", path)
        columns = (("nodeName", self._names), ("attributes", self._rows), ("parentIndex", self._parents))
        for name, column in (*columns, ("nodeValue", self._values or self._ids)):
            if len(column) != len(self._ids):
                raise PayloadError(KIND, f"{path}.{name}", f"has {len(column)} entries for {len(self._ids)} nodes")
        for name in (*_LIVE, "optionSelected"):
            if name in nodes:
                self._nodes[name] = read(KIND, _RARE_COLUMN, nodes, name, path)
        self._holders: set[int] = set()
        self._owner: dict[int, int] = {}
        self._inside: dict[int, int] = {}
        self._options: dict[int, int] = {}
        self._placeholders: dict[int, int] = {}
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
            for node in self._placeholders:
                text = self._string(self._values[node])
                self._replace(self._values, node, hidden.hide(text, near=True), node, fields, secret)
        if self._holders:
            self._mask_layout(fields, hidden, secret)
        return self._changed

    def _mask_layout(self, fields: SecretFields, hidden: SecretTexts, secret: set[int]) -> None:
        """Mask the texts that are drawn, and how large they are drawn."""
        layout = self._layout
        for name, decoder in LAYOUT_COLUMNS.items():
            if name in layout or name == "nodeIndex":
                layout[name] = read(KIND, decoder, layout, name, f"{self._path}.layout")
        if "textBoxes" in self._members:
            boxes: dict[str, Raw] = read(KIND, OBJECT_DECODER, self._members, "textBoxes", self._path)
            self._boxes = dict(boxes)
            for name, decoder in TEXT_BOX_COLUMNS.items():
                if name in boxes:
                    self._boxes[name] = read(KIND, decoder, boxes, name, f"{self._path}.textBoxes")
        if "text" in layout:
            texts = layout["text"]
            for place, node in enumerate(layout["nodeIndex"][: len(texts)]):
                if node in self._owner:
                    self._point(texts, place, node, fields, secret)
                elif node in self._placeholders:
                    text = hidden.hide(self._string(texts[place]), near=True)
                    self._replace(texts, place, text, node, fields, secret)
        drawn = SecretLayout(layout, self._boxes)
        # not by itself a value: the fields that had one are counted where it stood
        self._changed |= drawn.scroll_back(self._inside, self._owner)
        self._changed |= drawn.hide_sizes({i: of for i, of in self._owner.items() if i not in self._inside or i != of})
        if self._options:
            self._mask_choices(fields, drawn)

    def used(self, wanted: set[int]) -> set[int]:
        """Those of the wanted string indexes that something other than a secret value points to."""
        found: set[int] = set()
        for name in _DOCUMENT_STRINGS:
            if name in self._members:
                found.add(read(KIND, _NUMBER, self._members, name, self._path))
        nodes = f"{self._path}.nodes"
        for name in ("nodeName", "nodeValue"):
            found.update(self._column(self._nodes, name, NUMBERS, nodes))
        for name in (*_LIVE, *_RARE_OTHERS):
            found.update(self._column(self._nodes, name, _RARE_COLUMN, nodes, {}).get("value", []))
        found.update(self._column(self._layout, "text", NUMBERS, f"{self._path}.layout"))
        for row in (*self._rows, *self._column(self._layout, "styles", STRING_ROWS, f"{self._path}.layout")):
            found.update(row)
        return found & wanted

    def encoded(self) -> dict[str, Raw]:
        """The document's members, re-encoded where something changed."""
        if self._changed:
            self._members["nodes"] = Raw(ENCODER.encode(self._nodes))
            self._members["layout"] = Raw(ENCODER.encode(self._layout))
            if self._boxes:
                self._members["textBoxes"] = Raw(ENCODER.encode(self._boxes))
        return self._members

    def _place(self) -> None:
        """Find the nodes inside the fields, and the options of the selects among them."""
        self._owner = {i: i for i in self._holders}
        self._inside = selects = {i: i for i in self._holders if self._names[i] == "select"}
        for i, parent in enumerate(self._parents):  # parents stand before their children
            if i in self._holders:
                continue
            if parent in selects:
                selects[i] = selects[parent]
                if self._names[i] == REPEATS_CHOICE or (parent in self._owner and parent not in self._holders):
                    self._owner[i] = selects[i]
                elif self._names[i] == "option":
                    self._options[i] = selects[i]
            elif parent in self._owner:
                if self._names[parent] == "#document-fragment" and is_placeholder(self._pairs(i)):
                    self._placeholders[i] = self._owner[parent]
                else:
                    self._owner[i] = self._owner[parent]
            elif parent in self._placeholders:
                self._placeholders[i] = self._placeholders[parent]

    def _mask_attributes(self, node: int, fields: SecretFields, hidden: SecretTexts, secret: set[int]) -> None:
        row = self._rows[node] if node < len(self._rows) else []
        for place, (name, value) in enumerate(self._pairs(node)):
            self._replace(row, 2 * place + 1, masked_attribute(name, value, hidden), node, fields, secret)

    def _mask_frame(self, node: int, fields: SecretFields, hidden: SecretTexts, secret: set[int]) -> None:
        for place, (name, value) in enumerate(self._pairs(node)):
            if name.lower() == "srcdoc":
                row = self._rows[node]
                self._replace(row, 2 * place + 1, masked_source(value, hidden), node, fields, secret)

    def _mask_choices(self, fields: SecretFields, drawn: SecretLayout) -> None:
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
        group = {node: (select, "option") for node, select in self._options.items()}
        for node, parent in enumerate(self._parents):
            if parent in self._options and self._names[node] in _MARKS:
                group[node] = (self._options[parent], self._names[node])
        for node in drawn.level(group):
            self._masked(group[node][0], fields)

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
            self._masked(self._owner.get(node, self._placeholders.get(node, node)), fields)

    def _masked(self, node: int, fields: SecretFields) -> None:
        fields.masked.add(self._ids[node])
        self._changed = True

    def _string(self, index: int) -> str:
        return self._strings[index] if 0 <= index < len(self._strings) else ""

    def _pairs(self, node: int) -> list[tuple[str, str]]:
        texts = [self._string(i) for i in self._rows[node]] if node < len(self._rows) else []
        return list(zip(texts[::2], texts[1::2], strict=False))

    @staticmethod
    def _column(members: dict[str, Any], name: str, decoder: Any, path: str, default: Any = ()) -> Any:
        """A column that may not be there, or be decoded already."""
        column = members.get(name, default)
        return read(KIND, decoder, members, name, path) if isinstance(column, Raw) else column
