"""In the DOM document a secret value stands in attributes, in the text inside the field, and in the frame's source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import Raw

from schemas.capture import Payload
from workers.merge.payloads import DOCUMENT_DECODER, SUBTREE_DECODER, DomNode, decode
from workers.merge.secret_fields import (
    CHOICE_ATTRIBUTES,
    DATE_TYPES,
    ENCODER,
    FIELD_TAGS,
    LIST_DECODER,
    OBJECT_DECODER,
    REPEATS_CHOICE,
    SecretFields,
    decodable,
    is_placeholder,
    is_secret,
    masked_attribute,
    masked_source,
    tag_of,
    values_in,
)
from workers.merge.secret_texts import MASK, SecretTexts, is_value
from workers.merge.tree import attribute_pairs

T = TypeVar("T")
Step: TypeAlias = tuple[str, int]
"""One step down: the member's name and the place in its list (0 for `contentDocument`)."""
Path: TypeAlias = tuple[Step, ...]

_NOT_ABOVE = frozenset({"html", "body", "#document", "#document-fragment"})


class _Link(NamedTuple):
    """The way to a node, from below."""

    step: Step
    node: DomNode
    above: _Link | None


class SecretDocument:
    """The document of a target, or a part of it that was asked for later."""

    def __init__(self, payload: Payload) -> None:
        self._data = decodable(payload)
        self._kind = payload.kind
        whole = Payload(payload.kind, self._data, payload.target)
        if payload.kind == "dom_document":
            self._root = decode(DOCUMENT_DECODER, whole)[0].root
        else:
            self._root = decode(SUBTREE_DECODER, whole)[0].node

    def find(self, fields: SecretFields) -> None:
        """Note the secret fields, what they hold, and what they stand in."""
        for node, link in _walk(self._root, fields):
            tag = tag_of(node.nodeName)
            if node is self._root and node.backendNodeId in fields.part_of:
                _note_parts([_as_part(node, node.backendNodeId, fields)], fields.part_of[node.backendNodeId], fields)
                continue
            if tag not in FIELD_TAGS:
                continue
            fields.add(node.backendNodeId, tag)
            _note(node, tag, fields)
            while link is not None:
                if tag_of(link.node.nodeName) not in _NOT_ABOVE:
                    fields.above.add(link.node.backendNodeId)
                link = link.above

    def mask(self, fields: SecretFields, hidden: SecretTexts) -> bytes | None:
        """The payload with values masked, None if it holds none; notes the fields that had one."""
        paths: list[Path] = []
        for _, link in _walk(self._root, fields):
            path: list[Step] = []
            while link is not None:
                path.append(link.step)
                link = link.above
            paths.append(tuple(reversed(path)))
        if not paths:
            return None
        whole = OBJECT_DECODER.decode(self._data)
        member = "root" if self._kind == "dom_document" else "node"
        part = self._root.backendNodeId
        if part in fields.part_of:
            node: dict[str, Any] = msgspec.json.decode(whole[member])
            if not _mask_parts([_as_part(node, part, fields)], hidden):
                return None
            fields.masked.add(fields.part_of[part])
            edited: Raw | None = Raw(ENCODER.encode(node))
        else:
            edited = _edit(whole[member], paths, fields, hidden)
        if edited is None:
            return None
        whole[member] = edited
        return ENCODER.encode(whole)


def _walk(root: DomNode, fields: SecretFields) -> Iterator[tuple[DomNode, _Link | None]]:
    """Every secret field, and every frame with its source in an attribute, with the way to it.

    A part of the document may begin inside a field.
    """
    if root.backendNodeId in fields.part_of:
        yield root, None
        return
    stack: list[tuple[DomNode, _Link | None]] = [(root, None)]
    while stack:
        node, link = stack.pop()
        tag = tag_of(node.nodeName)
        if tag in FIELD_TAGS:
            if node.backendNodeId in fields.fields or is_secret(tag, attribute_pairs(node.attributes)):
                yield node, link
                continue
        elif tag == "iframe" and any(name.lower() == "srcdoc" for name, _ in attribute_pairs(node.attributes)):
            yield node, link
        stack += [(child, _Link(("children", i), node, link)) for i, child in enumerate(node.children or ())]
        stack += [(below, _Link(("shadowRoots", i), node, link)) for i, below in enumerate(node.shadowRoots or ())]
        if node.contentDocument is not None:
            stack.append((node.contentDocument, _Link(("contentDocument", 0), node, link)))


def _note(field: DomNode, tag: str, fields: SecretFields) -> None:
    """Remember what a field holds, and which nodes inside it repeat that."""
    attributes = list(attribute_pairs(field.attributes))
    fields.values_of(tag).update(values_in(attributes))
    # a date shows in parts, and each part is a word or a number that may stand anywhere
    in_parts = tag == "select" or any(name == "type" and value.lower() in DATE_TYPES for name, value in attributes)
    if in_parts:
        fields.wordy.add(field.backendNodeId)
    parts = [(child, tag != "select", False) for child in field.children or ()]
    parts += [(root, True, True) for root in field.shadowRoots or ()]
    _note_parts(parts, field.backendNodeId, fields)


def _as_part(node: T, backend_node_id: int, fields: SecretFields) -> tuple[T, bool, bool]:
    """A node in a field with which a part of the document begins, as `_note_parts` wants it."""
    repeats = backend_node_id in fields.inner
    return node, repeats, repeats


def _note_parts(stack: list[tuple[DomNode, bool, bool]], field: int, fields: SecretFields) -> None:
    """Remember the nodes inside a field; of each is known if it repeats the value, and if the browser made it."""
    told = fields.choices if field in fields.wordy else fields.texts
    while stack:
        node, repeats, made = stack.pop()
        own = list(attribute_pairs(node.attributes))
        if made and is_placeholder(own):
            continue
        repeats = repeats or tag_of(node.nodeName) == REPEATS_CHOICE
        if node.backendNodeId and field:
            fields.part_of[node.backendNodeId] = field
        if repeats:
            fields.inner.add(node.backendNodeId)
            told.update(values_in(own))
            if is_value(node.nodeValue):
                told.add(node.nodeValue)
        else:
            fields.offered.add(node.backendNodeId)
            if any(name.lower() == "selected" for name, _ in own):
                fields.choices.update(value for name, value in own if name.lower() in ("value", "label"))
                fields.choices.add(_text(node))
        stack += [(below, repeats, made) for below in (*(node.children or ()), *(node.shadowRoots or ()))]


def _text(option: DomNode) -> str:
    texts: list[str] = []
    stack = [option]
    while stack:
        node = stack.pop()
        texts.append(node.nodeValue)
        stack += reversed(node.children or ())
    return "".join(texts)


def _edit(raw: Raw, paths: list[Path], fields: SecretFields, hidden: SecretTexts) -> Raw | None:
    """The node with everything at the ends of the paths masked; what is not on a path is copied byte for byte.

    None if there was nothing to mask.
    """
    members = OBJECT_DECODER.decode(raw)
    changed = False
    by_step: dict[Step, list[Path]] = {}
    for path in paths:
        if path:
            by_step.setdefault(path[0], []).append(path[1:])
            continue
        node: dict[str, Any] = msgspec.json.decode(raw)
        if tag_of(node["nodeName"]) != "iframe":
            if not _mask_field(node, hidden):
                return None
            fields.masked.add(node.get("backendNodeId", 0))
            return Raw(ENCODER.encode(node))
        if _mask_frame(node["attributes"], hidden):
            fields.masked.add(node.get("backendNodeId", 0))
            members["attributes"] = Raw(ENCODER.encode(node["attributes"]))
            changed = True
    lists: dict[str, list[Raw]] = {}
    for (name, place), rest in by_step.items():
        below = members[name]
        if name != "contentDocument":
            if name not in lists:
                lists[name] = LIST_DECODER.decode(below)
            below = lists[name][place]
        edited = _edit(below, rest, fields, hidden)
        if edited is None:
            continue
        changed = True
        if name == "contentDocument":
            members[name] = edited
        else:
            lists[name][place] = edited
            members[name] = Raw()
    for name, items in lists.items():
        if not members[name]:
            members[name] = Raw(ENCODER.encode(items))
    return Raw(ENCODER.encode(members)) if changed else None


def _mask_frame(flat: list[str], hidden: SecretTexts) -> bool:
    before = list(flat)
    for place in range(0, len(flat) - 1, 2):
        if flat[place].lower() == "srcdoc":
            flat[place + 1] = masked_source(flat[place + 1], hidden)
    return flat != before


def _mask_field(field: dict[str, Any], hidden: SecretTexts) -> bool:
    """Mask a field in place; True if there was something to mask."""
    is_select = tag_of(field["nodeName"]) == "select"
    changed = _mask_attributes(field, hidden)
    stack = [(child, not is_select, False) for child in field.get("children") or ()]
    stack += [(root, True, True) for root in field.get("shadowRoots") or ()]
    changed |= _mask_parts(stack, hidden)
    if changed and not is_select and field.get("isScrollable"):
        field["isScrollable"] = False
    return changed


def _mask_parts(stack: list[tuple[dict[str, Any], bool, bool]], hidden: SecretTexts) -> bool:
    """Mask the nodes inside a field in place; True if there was something to mask."""
    changed = False
    scrolled: list[dict[str, Any]] = []
    while stack:
        node, repeats, made = stack.pop()
        flat = _attributes(node)
        if made and is_placeholder(zip(flat[::2], flat[1::2], strict=False)):
            changed |= _mask_placeholder(node, hidden)
            continue
        repeats = repeats or tag_of(node["nodeName"]) == REPEATS_CHOICE
        if repeats:
            changed |= _mask_attributes(node, hidden)
            if is_value(node.get("nodeValue")):
                node["nodeValue"] = MASK
                changed = True
        elif any(name.lower() in CHOICE_ATTRIBUTES for name in flat[::2]):
            pairs = zip(flat[::2], flat[1::2], strict=False)
            node["attributes"] = [x for pair in pairs if pair[0].lower() not in CHOICE_ATTRIBUTES for x in pair]
            changed = True
        if repeats and node.get("isScrollable"):
            scrolled.append(node)
        stack += [(below, repeats, made) for below in _below(node)]
    if changed:  # that it can be scrolled says that the value is longer than the field
        for node in scrolled:
            node["isScrollable"] = False
    return changed


def _mask_placeholder(placeholder: dict[str, Any], hidden: SecretTexts) -> bool:
    """A placeholder is page text, but its attribute is masked where it repeats the value, and so is this copy."""
    changed = False
    stack = [placeholder]
    while stack:
        node = stack.pop()
        text = node.get("nodeValue") or ""
        masked = hidden.hide(text, near=True)
        if masked != text:
            node["nodeValue"] = masked
            changed = True
        stack += _below(node)
    return changed


def _below(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [*(node.get("children") or ()), *(node.get("shadowRoots") or ())]


def _attributes(node: dict[str, Any]) -> list[str]:
    flat = node.get("attributes")
    return flat if isinstance(flat, list) else []  # the typed look at them takes a digit for an empty list


def _mask_attributes(node: dict[str, Any], hidden: SecretTexts) -> bool:
    flat = _attributes(node)
    before = list(flat)
    for place in range(0, len(flat) - 1, 2):
        flat[place + 1] = masked_attribute(flat[place], flat[place + 1], hidden)
    return bool(flat != before)
