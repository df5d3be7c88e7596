"""Rights signals are what a page says about its use: recorded as it says them, never enforced and never judged.

Sources: X-Robots-Tag and meta robots (with noai and noimageai, as img2dataset looks for them), the TDM Reservation
Protocol (W3C Community Group, 10 May 2024), Content-Signal (contentsignals.org), rel=license (HTML Standard).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import ada_url
import numpy as np

from schemas.urls import without_userinfo
from workers.merge.tree import LINK_CONTENT, PageTree, attribute_pairs

HEADERS: Final = ("x-robots-tag", "tdm-reservation", "tdm-policy", "content-signal", "link")
"""The headers of the document's answer that hold such signals."""
MAX_SIGNALS: Final = 50
"""Of each kind; more is no statement but a flood."""
MAX_SIGNAL_CHARS: Final = 1000

_VALUED = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
"""Directives with a colon of their own; any other word before a colon names a crawler."""
_LINK = re.compile(r"<([^<>]*)>((?:\s*;\s*[\w*-]+(?:\s*=\s*(?:\"[^\"]*\"|[^\s;,\"]*))?)*)")
_REL = re.compile(r";\s*rel\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]*))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PageSignals:
    """What the top document says: (name, content) of its metas, the hrefs of its licence links, in document order."""

    metas: tuple[tuple[str, str], ...] = ()
    licences: tuple[str, ...] = ()


def page_signals(tree: PageTree) -> PageSignals:
    """The signals of a page tree's top document."""
    metas: list[tuple[str, str]] = []
    licences: list[str] = []
    wanted = [number for number, name in enumerate(tree.names) if name.lower() in ("meta", "link", "a")]
    for node in np.flatnonzero(np.isin(tree.name, wanted)).tolist():
        raw, is_meta = tree.attributes_raw[node], tree.tag(node) == "meta"
        # of ten thousand links hardly one is of a licence, and decoding them all would cost as much as a serializer
        if not (is_meta or b"license" in bytes(raw).lower()) or not _is_top(tree, node):
            continue
        attributes = {name.lower(): value for name, value in attribute_pairs(raw)}
        if is_meta:
            name = attributes.get("name", "").strip().lower()
            if name.endswith(("robots", "bot")) or name in ("pagestate", "tdm-reservation", "tdm-policy"):
                metas.append((name, _cut(attributes.get("content", ""))))
        elif "license" in attributes.get("rel", "").lower().split() and "href" in attributes:
            licences.append(_cut(attributes["href"]))
    return PageSignals(tuple(metas[:MAX_SIGNALS]), tuple(licences[:MAX_SIGNALS]))


def signal_columns(
    headers: Mapping[str, str], signals: PageSignals, base: str, content_signal: str | None, agent: str
) -> dict[str, object]:
    """The columns of `listings`, from the document's headers (names in lower case) and what its tree says.

    base   URL that relative links are resolved against; one that makes no URL is left out
    A header counts before a meta of the same name.
    """
    tags = _lines(headers.get("x-robots-tag", ""))
    robots = [(name, content) for name, content in signals.metas if name.endswith("bot") or "tdm-" not in name]
    directives = {word for tag in tags for word in _directives(tag, agent)}
    for name, content in robots:
        if name in ("robots", agent.lower()):
            directives |= _words(content)
    metas = dict(reversed(signals.metas))
    links = [*_licences_of(headers.get("link", "")), *signals.licences]
    resolved = [without_userinfo(url) for link in links if (url := _resolved(link, base))]
    return {
        "x_robots_tag": tags,
        "meta_robots": [f"{name}: {content}" for name, content in robots],
        "robots_directives": sorted(directives)[:MAX_SIGNALS],
        "tdm_reservation": _first(headers, metas, "tdm-reservation"),
        "tdm_policy": _first(headers, metas, "tdm-policy"),
        "content_signal": _cut(headers.get("content-signal", "")).strip() or content_signal,
        "licence_links": list(dict.fromkeys(resolved))[:MAX_SIGNALS],
    }


def _is_top(tree: PageTree, node: int) -> bool:
    parent, link = tree.plain.parent, tree.plain.link
    while node > 0:
        if link[node] == LINK_CONTENT:
            return False
        node = parent[node]
    return node == 0


def _directives(tag: str, agent: str) -> set[str]:
    """The directives of one X-Robots-Tag that are for everybody or for us."""
    name, colon, rest = tag.partition(":")
    name = name.strip().lower()
    if not colon or "," in name or name in _VALUED:
        return _words(tag)
    return _words(rest) if name in (agent.lower(), "*") else set()


def _words(text: str) -> set[str]:
    return {word for part in text.lower().split(",") if (word := " ".join(part.split()))}


def _lines(value: str) -> list[str]:
    """The values of a header that was sent several times, as far as the browser keeps them apart."""
    return [_cut(line.strip()) for line in value.split("\n") if line.strip()][:MAX_SIGNALS]


def _first(headers: Mapping[str, str], metas: Mapping[str, str], name: str) -> str | None:
    return _cut(headers.get(name, "")).strip() or metas.get(name, "").strip() or None


def _licences_of(header: str) -> Iterable[str]:
    for found in _LINK.finditer(header[: 64 * MAX_SIGNAL_CHARS]):
        rel = _REL.search(found.group(2))
        if rel is not None and "license" in (rel.group(1) or rel.group(2) or "").lower().split():
            yield found.group(1)[:MAX_SIGNAL_CHARS]


def _resolved(link: str, base: str) -> str:
    try:
        return str(ada_url.URL(link.strip(), base or None).href)
    except ValueError:
        return ""


def _cut(text: str) -> str:
    return text[:MAX_SIGNAL_CHARS]
