"""A sitemap is XML that names pages, or other sitemaps; it is read under caps, since anybody may have written it.

Source: sitemaps.org protocol 0.9: at most 50,000 entries and 50 MiB uncompressed a file.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from lxml import etree

MAX_SITEMAP_BYTES: Final = 50 * 1024 * 1024
MAX_ENTRIES: Final = 50_000
MAX_SITEMAPS: Final = 50_000
"""Files that one sitemap may lead to, which is what one index may name."""
MAX_DEPTH: Final = 3
"""The protocol has one level of indexes; some sites have two."""

_PART = 65536
_GZIP = b"\x1f\x8b"

Fetch = Callable[[str], bytes]
"""Gives the bytes of a sitemap by its URL. Raises NoSitemap."""


class NoSitemap(Exception):
    """Bytes are no sitemap, or could not be had; the text says why, fit to follow its name and a colon."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One `loc` of a sitemap: where it stands, and its text; or, where `reason` is set, a sitemap that is none."""

    sitemap: str
    line: int
    text: str
    reason: str = ""


def pages_of(name: str, data: bytes, fetch: Fetch) -> Iterator[Entry]:
    """The pages of a sitemap and of all that it leads to, in its order; each sitemap is read once.

    Raises NoSitemap for the first one only; another that cannot be read is an entry with a reason.
    """
    known = {name}
    ways: list[tuple[Iterator[tuple[bool, Entry]], int]] = [(_entries(name, unpacked(data)), 0)]
    while ways:
        entries, depth = ways[-1]
        try:
            is_page, entry = next(entries)
        except StopIteration:
            ways.pop()
            continue
        except NoSitemap as error:
            ways.pop()
            if not ways:
                raise
            yield Entry(name, 0, "", str(error))
            continue
        if is_page:
            yield entry
        elif entry.text not in known:
            known.add(entry.text)
            if depth >= MAX_DEPTH or len(known) > MAX_SITEMAPS:
                limit = f"{MAX_DEPTH} levels" if depth >= MAX_DEPTH else f"{MAX_SITEMAPS} sitemaps"
                yield Entry(entry.sitemap, entry.line, entry.text, f"it lies beyond {limit}")
                continue
            try:
                below = unpacked(fetch(entry.text))
            except NoSitemap as error:
                yield Entry(entry.sitemap, entry.line, entry.text, str(error))
                continue
            ways.append((_entries(entry.text, below), depth + 1))


def unpacked(data: bytes) -> bytes:
    """The bytes of a sitemap, gzip taken off. Raises NoSitemap for what is too large or damaged."""
    if data.startswith(_GZIP):
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            data = unpacker.decompress(data, MAX_SITEMAP_BYTES + 1)
        except zlib.error as error:
            raise NoSitemap("its compression is damaged") from error
        if len(data) <= MAX_SITEMAP_BYTES and not unpacker.eof:
            raise NoSitemap("its compression is damaged")
    if len(data) > MAX_SITEMAP_BYTES:
        raise NoSitemap(f"it is larger than {MAX_SITEMAP_BYTES} bytes")
    return data


def _entries(name: str, data: bytes) -> Iterator[tuple[bool, Entry]]:
    """Whether it is a page, and the entry, of every `loc` that stands in a `url` or a `sitemap`."""
    # no entity is replaced and nothing else is loaded, so that the file costs what it weighs
    parser = etree.XMLPullParser(
        events=("start", "end"), resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    )
    count = 0
    root = ""
    try:
        for start in range(0, len(data), _PART):
            parser.feed(data[start : start + _PART])
            events: Iterator[tuple[str, Any]] = parser.read_events()
            for event, element in events:
                local = etree.QName(element).localname if isinstance(element.tag, str) else ""
                if not root:
                    root = local
                    if root not in ("urlset", "sitemapindex"):
                        raise NoSitemap(f"its root is {root[:40]!r}, not urlset or sitemapindex")
                if event == "start" or local not in ("url", "sitemap"):
                    continue
                found = [loc for loc in element if isinstance(loc.tag, str) and etree.QName(loc).localname == "loc"]
                for loc in found[:1]:
                    count += 1
                    if count > MAX_ENTRIES:
                        raise NoSitemap(f"it has more than {MAX_ENTRIES} entries")
                    yield local == "url", Entry(name, loc.sourceline or 0, "".join(loc.itertext()).strip())
                element.clear()
                while element.getprevious() is not None:
                    del element.getparent()[0]
        parser.close()
    except etree.XMLSyntaxError as error:
        raise NoSitemap(f"its XML ends at line {error.lineno or 1}: {error.msg}") from error
    if not root:
        raise NoSitemap("it is empty")
