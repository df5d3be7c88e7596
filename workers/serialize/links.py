"""The links of a page are the addresses that its own document leads to by a click: a[href] and area[href].

Those of its frames are theirs, and theirs to permit; they are left out. Whether they may be followed is another matter,
which `nofollow` in a link's rel is a word on (HTML Standard, 4.6.7.12).
"""

from __future__ import annotations

from typing import Final

import ada_url
import msgspec
from msgspec import Struct

from schemas.capture import Capture, Payload
from schemas.urls import NotAWebUrl, url_key
from workers.merge.document import own_document
from workers.merge.payloads import DomNode, decode
from workers.merge.tree import attribute_pairs

LINKING: Final = frozenset({"A", "AREA"})


class _Root(Struct, gc=False):
    """Where a document says that it is, and against what its links are resolved."""

    baseURL: str = ""
    documentURL: str = ""


class _Document(Struct, gc=False):
    root: _Root


_DECODER: Final = msgspec.json.Decoder(_Document)


def links_of(capture: Capture, final_url: str) -> dict[str, bool]:
    """The URL keys that the page's document links to, each with whether any of its links may be followed.

    final_url   what links are resolved against where the document does not say
    Raises PayloadError for a document that makes no sense.
    """
    found: dict[str, bool] = {}
    stack = [own_document(capture)]
    base = _base(next(capture.of("dom_document")), final_url)
    while stack:
        node = stack.pop()
        if node.nodeName.upper() in LINKING:
            _note(node, base, found)
        if node.children:
            stack.extend(node.children)
        if node.shadowRoots:
            stack.extend(node.shadowRoots)
    return found


def _base(document: Payload, final_url: str) -> str:
    root = decode(_DECODER, document)[0].root
    return root.baseURL or root.documentURL or final_url


def _note(node: DomNode, base: str, found: dict[str, bool]) -> None:
    attributes = {name.lower(): value for name, value in attribute_pairs(node.attributes)}
    href = attributes.get("href")
    if href is None:
        return
    try:
        key = url_key(str(ada_url.URL(href.strip(), base or None).href))
    except (ValueError, NotAWebUrl):
        return
    found[key] = found.get(key, False) or "nofollow" not in attributes.get("rel", "").lower().split()
