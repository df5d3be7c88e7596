"""In the accessibility tree a secret value is the value of the field, a value text, or the text inside the field."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from schemas.capture import Payload
from workers.merge.errors import PayloadError
from workers.merge.payloads import AX_NODE_DECODER
from workers.merge.secret_document import MASK, SecretFields, decodable, is_value

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_LIST = msgspec.json.Decoder(list[Raw])
_ENCODER = msgspec.json.Encoder()
VALUE_PROPERTIES = frozenset({"value", "valuetext"})


class _Head(Struct, gc=False):
    nodeId: str = ""
    childIds: list[str] = []
    backendDOMNodeId: int = 0


_HEAD = msgspec.json.Decoder(_Head)


def mask_accessibility(payload: Payload, fields: SecretFields) -> bytes | None:
    """The payload with values masked, None if it holds none; the fields are those that the document named."""
    if not fields.fields:
        return None
    data = decodable(payload)
    try:
        whole = _OBJECT.decode(data)
        nodes = _LIST.decode(whole["nodes"])
        heads = [_HEAD.decode(node) for node in nodes]
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError) as error:
        raise PayloadError(payload.kind, "nodes", f"{type(error).__name__}: {error}") from error
    place_of = {head.nodeId: place for place, head in enumerate(heads)}
    changed = False
    inner = {place: 0 for place, head in enumerate(heads) if head.backendDOMNodeId in fields.inner}
    for place, head in enumerate(heads):
        if head.backendDOMNodeId not in fields.fields:
            continue
        if _mask_node(nodes, place, fields, inside=False):
            changed = True
            fields.masked.add(head.backendDOMNodeId)
        stack = list(head.childIds) if head.backendDOMNodeId not in fields.selects else []
        seen = {head.nodeId}
        while stack:
            node_id = stack.pop()
            if node_id in seen or node_id not in place_of:
                continue
            seen.add(node_id)
            inner[place_of[node_id]] = head.backendDOMNodeId
            stack += heads[place_of[node_id]].childIds
    for place, owner in inner.items():
        if _mask_node(nodes, place, fields, inside=True):
            changed = True
            if owner:
                fields.masked.add(owner)
    if not changed:
        return None
    whole["nodes"] = Raw(_ENCODER.encode(nodes))
    return _ENCODER.encode(whole)


def _mask_node(nodes: list[Raw], place: int, fields: SecretFields, *, inside: bool) -> bool:
    """Mask one node in place; True if there was something to mask. A node inside a field has no name of its own."""
    try:
        AX_NODE_DECODER.decode(nodes[place])  # so that the members below are what they should be
        node: dict[str, Any] = msgspec.json.decode(nodes[place])
    except msgspec.DecodeError as error:
        raise PayloadError("ax_tree", f"nodes[{place}]", str(error)) from error
    masked = _mask_value(node.get("value"))
    for item in node.get("properties") or ():
        if item.get("name") in VALUE_PROPERTIES:
            masked |= _mask_value(item.get("value"))
    name = node.get("name")
    text = name.get("value") if isinstance(name, dict) else None
    if is_value(text) and (inside or text in fields.texts):
        masked |= _mask_value(name)
    if masked:
        nodes[place] = Raw(_ENCODER.encode(node))
    return masked


def _mask_value(value: Any) -> bool:
    """Mask an AXValue, with the sources it was computed from; True if there was something to mask."""
    if not isinstance(value, dict) or value.get("value") in (None, "", MASK):
        return False
    value["value"] = MASK
    value.pop("sources", None)
    return True
