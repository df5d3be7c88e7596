"""In accessibility trees a secret value is the value of its field, and part of the names that Chromium makes of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
from msgspec import Raw, Struct

from schemas.capture import Payload
from workers.merge.payloads import MASKABLE_AX_NODE_DECODER
from workers.merge.secret_fields import ENCODER, LIST_DECODER, OBJECT_DECODER, SecretFields, decodable, decoded, read
from workers.merge.secret_texts import MASK, SecretTexts, is_value

VALUE_PROPERTIES = frozenset({"value", "valuetext"})
TEXT_ROLES = frozenset({"StaticText", "InlineTextBox"})
"""Nodes that are text; inside a field they repeat its value, and anything else names a part of the field."""
NOT_SPOKEN = frozenset(
    {"nodeId", "parentId", "childIds", "frameId", "backendDOMNodeId", "role", "chromeRole", "ignoredReasons", "type",
     "attribute", "nativeSource"}
)  # fmt: skip
"""Members of CDP's AXNode, AXValue and AXValueSource that hold no text of the page."""
SPOKEN_TYPES = frozenset({"string", "computedString", "idref", "idrefList"})
"""CDP's AXValueTypes of text, and of ids, which a page writes as it likes; the text of any other is a token."""
SPOKEN_MEMBERS = frozenset({"text", "idref"})
"""Members of CDP's AXRelatedNode that hold text of the page."""


class _Related(Struct, gc=False):
    backendDOMNodeId: int = 0


class _Head(Struct, gc=False):
    nodeId: str = ""
    parentId: str = ""
    childIds: list[str] = []
    backendDOMNodeId: int = 0


_HEAD = msgspec.json.Decoder(_Head)
_ANY_OBJECT = msgspec.json.Decoder(dict[str, Any])


class SecretAccessibility:
    """The accessibility tree of one frame."""

    def __init__(self, payload: Payload, fields: SecretFields) -> None:
        self._kind = payload.kind
        self._whole = decoded(payload.kind, OBJECT_DECODER, decodable(payload), "$")
        self._nodes = read(payload.kind, LIST_DECODER, self._whole, "nodes")
        self._heads = [decoded(payload.kind, _HEAD, node, f"nodes[{i}]") for i, node in enumerate(self._nodes)]
        self._place_of = {head.nodeId: place for place, head in enumerate(self._heads)}
        self._fields = {i for i, head in enumerate(self._heads) if head.backendDOMNodeId in fields.fields}
        self._options = self._below({i for i in self._fields if self._heads[i].backendDOMNodeId in fields.selects})
        # Chromium hangs the options below the slot of the select, whose other parts repeat the choice
        self._offered = {
            i for i in self._options if self._heads[i].backendDOMNodeId in fields.offered or _is_option(self._node(i))
        }
        named = {i for i, head in enumerate(self._heads) if head.backendDOMNodeId in fields.inner}
        typed = {i for i in self._fields if self._heads[i].backendDOMNodeId not in fields.selects}
        self._inner = dict.fromkeys((*named, *self._below(named, self._offered)), -1) | self._below(typed)
        self._offered |= self._below(self._offered).keys()
        self._offered -= self._inner.keys()

    def find(self, fields: SecretFields) -> None:
        """Note what the fields hold by now: the page may have changed since the snapshot; and what they stand in."""
        for place in self._fields:
            head = self._heads[place]
            node = self._node(place)
            for value in (node.get("value"), *_values(node)):
                text = value.get("value") if isinstance(value, dict) else None
                if is_value(text):
                    fields.values_of("select" if head.backendDOMNodeId in fields.selects else "").add(str(text))
            above = self._place_of.get(head.parentId)
            seen: set[int] = set()
            while above is not None and above not in seen and self._heads[above].parentId:
                seen.add(above)
                fields.above.add(self._heads[above].backendDOMNodeId)
                above = self._place_of.get(self._heads[above].parentId)

    def mask(self, fields: SecretFields, hidden: SecretTexts) -> bytes | None:
        """The payload with values masked, None if it holds none; notes the fields that had one."""
        near = (fields.fields | fields.inner | fields.above) - {0}
        changed = False
        for place, head in enumerate(self._heads):
            node = self._node(place)
            named = b'"relatedNodes"' in bytes(self._nodes[place]) and _names(node, near)
            own = False
            if place in self._fields or place in self._inner:
                own = _mask_values(node, with_name=place in self._inner)
                owner = self._inner.get(place, place)
                if own and owner >= 0:  # a text that only the document put into a field was counted there
                    fields.masked.add(self._heads[owner].backendDOMNodeId)
            owner = self._options.get(place, place)
            if self._heads[owner].backendDOMNodeId in fields.selects and _mask_choice(node):
                fields.masked.add(self._heads[owner].backendDOMNodeId)
                own = True
            related = head.backendDOMNodeId in near or place in self._inner or named
            if place in self._offered:  # what is offered stays, or the choice were the one that is missing
                related = False
            if _mask_texts(node, hidden, near=related) or own:
                self._nodes[place] = Raw(ENCODER.encode(node))
                changed = True
        if not changed:
            return None
        self._whole["nodes"] = Raw(ENCODER.encode(self._nodes))
        return ENCODER.encode(self._whole)

    def _node(self, place: int) -> dict[str, Any]:
        # so that the members below are what they should be
        decoded(self._kind, MASKABLE_AX_NODE_DECODER, self._nodes[place], f"nodes[{place}]")
        return decoded(self._kind, _ANY_OBJECT, self._nodes[place], f"nodes[{place}]")

    def _below(self, tops: set[int], without: Collection[int] = ()) -> dict[int, int]:
        """The places of all nodes below these, with the one that each is below; not through some."""
        found: dict[int, int] = {}
        for top in tops:
            stack = list(self._heads[top].childIds)
            while stack:
                place = self._place_of.get(stack.pop())
                if place is not None and place not in found and place != top and place not in without:
                    found[place] = top
                    stack += self._heads[place].childIds
        return found


def _values(node: dict[str, Any]) -> list[Any]:
    return [item.get("value") for item in node.get("properties") or () if item.get("name") in VALUE_PROPERTIES]


def _mask_values(node: dict[str, Any], *, with_name: bool) -> bool:
    """Mask the value of a field, or the text inside it; True if there was something to mask."""
    values = [node.get("value"), *_values(node)]
    role = node.get("role")
    if with_name and isinstance(role, dict) and str(role.get("value")) in TEXT_ROLES:
        values.append(node.get("name"))
    masked = False
    for value in values:
        if isinstance(value, dict) and value.get("value") not in (None, "", MASK):
            value["value"] = MASK
            value.pop("sources", None)
            masked = True
    return masked


def _mask_choice(node: dict[str, Any]) -> bool:
    """Make a select, or an option of one, tell nothing of which option it is; True if it told."""
    told = False
    properties = node.get("properties") or []
    for item in list(properties):
        value = item.get("value")
        if item.get("name") == "activedescendant" or (item.get("name") == "focused" and _is_option(node)):
            properties.remove(item)
            told = True
        elif item.get("name") == "selected" and isinstance(value, dict) and value.get("value") is not False:
            value["value"] = False  # it stays: that an option can be selected makes it interactive
            told = True
    return told


def _is_option(node: dict[str, Any]) -> bool:
    role = node.get("role")
    return isinstance(role, dict) and role.get("value") == "option"


def _names(node: dict[str, Any], wanted: set[int]) -> bool:
    """True if the node says of itself that one of these nodes names or describes it."""
    stack: list[Any] = [node]
    while stack:
        value = stack.pop()
        if isinstance(value, list):
            stack += value
        elif isinstance(value, dict):
            related = value.get("relatedNodes")
            if isinstance(related, list) and any(
                isinstance(one, dict) and isinstance(of := one.get("backendDOMNodeId"), int) and of in wanted
                for one in related
            ):
                return True
            stack += value.values()
    return False


def _mask_texts(node: dict[str, Any], hidden: SecretTexts, *, near: bool) -> bool:
    """Mask values in everything that the node says; True if there was one."""
    masked = False
    stack: list[Any] = [node]
    while stack:
        holder = stack.pop()
        if isinstance(holder, list):
            stack += holder
            continue
        if not isinstance(holder, dict):
            continue
        kind = str(holder.get("type"))
        for name, value in holder.items():
            if isinstance(value, (dict, list)):
                if name not in NOT_SPOKEN:
                    stack.append(value)
            elif isinstance(value, str) and (name in SPOKEN_MEMBERS or (name == "value" and kind in SPOKEN_TYPES)):
                text = hidden.hide(value, near=near)
                if text != value:
                    holder[name] = text
                    masked = True
    return masked
