"""In the DOM document a secret value stands in the `value` attribute and in the text inside the field."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw

from schemas.capture import Payload
from workers.merge.errors import PayloadError
from workers.merge.payloads import DOCUMENT_DECODER, SUBTREE_DECODER, DomNode, replace_surrogates
from workers.merge.tree import attribute_pairs

MASK: Final = "•" * 8
"""What a secret value becomes; one length for all."""
SECRET_AUTOCOMPLETE = frozenset({"current-password", "new-password", "one-time-code"})
CARD_PREFIX = "cc-"
FIELD_TAGS = frozenset({"input", "textarea", "select"})
"""The elements that take `autocomplete`. Of a select only the accessible value is masked: its options are page text."""

Step: TypeAlias = tuple[str, int]
"""One step down: the member's name and the place in its list (0 for `contentDocument`)."""
Path: TypeAlias = tuple[Step, ...]

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_LIST = msgspec.json.Decoder(list[Raw])
_ENCODER = msgspec.json.Encoder()


@dataclass(slots=True)
class SecretFields:
    """What is known about the secret fields of one target while its payloads are gone through.

    fields   backend node ids of the fields
    selects  those of them that are selects
    inner    backend node ids of the nodes inside the fields
    texts    the secret values that were found
    masked   backend node ids of the fields that had a value
    """

    fields: set[int] = field(default_factory=set)
    selects: set[int] = field(default_factory=set)
    inner: set[int] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    masked: set[int] = field(default_factory=set)


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


def is_value(text: object) -> bool:
    """True for a text that is there and not masked yet."""
    return isinstance(text, str) and text not in ("", MASK)


def mask_document(payload: Payload, fields: SecretFields) -> bytes | None:
    """The payload with values masked, None if it holds none; notes the fields of the target in `fields`."""
    data = decodable(payload)
    member = "root" if payload.kind == "dom_document" else "node"
    try:
        if payload.kind == "dom_document":
            root = DOCUMENT_DECODER.decode(data).root
        else:
            root = SUBTREE_DECODER.decode(data).node
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PayloadError(payload.kind, "$", str(error)) from error
    paths = [path for node, path in _walk(root) if _note(node, fields)]
    if not paths:
        return None
    whole = _OBJECT.decode(data)
    whole[member] = _edit(whole[member], paths)
    return _ENCODER.encode(whole)


def decodable(payload: Payload) -> bytes | bytearray | memoryview:
    """The payload's bytes, without lone surrogates if it has any."""
    try:
        _OBJECT.decode(payload.data)
    except msgspec.ValidationError as error:
        raise PayloadError(payload.kind, "$", str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return replace_surrogates(payload.data)[0]
    except RecursionError as error:
        raise PayloadError(payload.kind, "$", "is nested too deeply") from error
    return payload.data


def _below(node: DomNode) -> list[tuple[DomNode, Step]]:
    out = [(child, ("children", i)) for i, child in enumerate(node.children or ())]
    out += [(root, ("shadowRoots", i)) for i, root in enumerate(node.shadowRoots or ())]
    if node.contentDocument is not None:
        out.append((node.contentDocument, ("contentDocument", 0)))
    return out


def _walk(root: DomNode) -> Iterable[tuple[DomNode, Path]]:
    """Every element with attributes that is a secret field, with the way to it."""
    # a path is a chain of (step, chain above) pairs: only the few that are wanted become tuples
    stack: list[tuple[DomNode, Any]] = [(root, None)]
    while stack:
        node, chain = stack.pop()
        if node.nodeType == 1 and is_secret(node.nodeName, attribute_pairs(node.attributes)):
            path: list[Step] = []
            link = chain
            while link is not None:
                path.append(link[0])
                link = link[1]
            yield node, tuple(reversed(path))
            continue
        stack += [(below, (step, chain)) for below, step in _below(node)]


def _note(field_node: DomNode, fields: SecretFields) -> bool:
    """Remember the field; True if it holds a value."""
    fields.fields.add(field_node.backendNodeId)
    if field_node.nodeName.lower() == "select":
        fields.selects.add(field_node.backendNodeId)
        return False
    found = [v for k, v in attribute_pairs(field_node.attributes) if k.lower() == "value" and is_value(v)]
    stack = [below for below, _ in _below(field_node)]
    while stack:
        node = stack.pop()
        fields.inner.add(node.backendNodeId)
        if is_value(node.nodeValue):
            found.append(node.nodeValue)
        stack += [below for below, _ in _below(node)]
    fields.texts.update(found)
    if found:
        fields.masked.add(field_node.backendNodeId)
    return bool(found)


def _edit(raw: Raw, paths: list[Path]) -> Raw:
    """The node with everything at the ends of the paths masked; what is not on a path is copied byte for byte."""
    members = _OBJECT.decode(raw)
    by_step: dict[Step, list[Path]] = {}
    for path in paths:
        if not path:
            return Raw(_ENCODER.encode(_masked_field(msgspec.json.decode(raw))))
        by_step.setdefault(path[0], []).append(path[1:])
    lists: dict[str, list[Raw]] = {}
    for (name, place), rest in by_step.items():
        if name == "contentDocument":
            members[name] = _edit(members[name], rest)
            continue
        if name not in lists:
            lists[name] = _LIST.decode(members[name])
        lists[name][place] = _edit(lists[name][place], rest)
    for name, items in lists.items():
        members[name] = Raw(_ENCODER.encode(items))
    return Raw(_ENCODER.encode(members))


def _masked_field(node: dict[str, Any]) -> dict[str, Any]:
    flat = node.get("attributes") or []
    for place in range(0, len(flat) - 1, 2):
        if flat[place].lower() == "value" and is_value(flat[place + 1]):
            flat[place + 1] = MASK
    stack = [node]
    while stack:
        inner = stack.pop()
        if inner is not node and is_value(inner.get("nodeValue")):
            inner["nodeValue"] = MASK
        stack += [*(inner.get("children") or ()), *(inner.get("shadowRoots") or ())]
    return node
