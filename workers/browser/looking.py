"""One look into a settled page, by a script in a world of its own: title, number of elements, what kind of page it is.

The page's scripts have no hand in that world, but its elements do: one named `title` takes the place of
`document.title`. So everything is read through the prototype.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

MAX_TITLE_CHARS = 4096
"""A longer title is cut (`text_truncated`); the whole one is in the captured document."""

COUNT_ELEMENTS = 'Document.prototype.querySelectorAll.call(document, "*").length'

_SCRIPT = """
new Promise((resolve) => {
  const quietMs = %(quiet)s, capMs = %(cap)s, maxTitle = %(title)d, marks = %(marks)s;
  const of = (name) => Object.getOwnPropertyDescriptor(Document.prototype, name).get.call(document);
  const all = (selector) => Document.prototype.querySelectorAll.call(document, selector);
  const done = (reason) => {
    const title = of("title"), elements = all("*").length, root = of("documentElement");
    resolve(JSON.stringify({
      reason, title: title.slice(0, maxTitle), title_is_cut: title.length > maxTitle, elements,
      is_bare: !root || (elements <= 3 && !root.textContent.trim()),
      is_viewer: /xml$/.test(of("contentType")) && of("contentType") != "application/xhtml+xml" &&
        all("html > head > style#xml-viewer-style").length > 0,
      marks: Object.keys(marks).filter((name) => all(marks[name]).length > 0)}));
  };
  if (!quietMs) return done("quiet");
  let timer = setTimeout(() => done("quiet"), quietMs);
  setTimeout(() => done("quiet_cap"), capMs);
  new MutationObserver(() => { clearTimeout(timer); timer = setTimeout(() => done("quiet"), quietMs); })
    .observe(document, {subtree: true, childList: true, characterData: true, attributes: true});
})
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look showed."""

    reason: Literal["quiet", "quiet_cap"]
    title: str
    title_is_cut: bool
    elements: int
    """Of the top document, shadow trees and frames not counted."""
    is_bare: bool
    """No text, and no element but what the browser makes of nothing."""
    is_viewer: bool
    """The browser's own view of an XML tree, which is no page."""
    marks: list[str]
    """Names of the marks that are in the document."""


def script(quiet_ms: float, cap_ms: float, marks: Mapping[str, str]) -> str:
    """The script, which answers when the DOM has not changed for `quiet_ms`, or after `cap_ms`; 0 is at once."""
    return _SCRIPT % {"quiet": quiet_ms, "cap": cap_ms, "title": MAX_TITLE_CHARS, "marks": json.dumps(dict(marks))}


def seen_in(answer: str) -> Seen:
    """What the script's answer says."""
    return Seen(**json.loads(answer))
