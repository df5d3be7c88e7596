"""Pages that hide, lie and forbid give what their harmless twins give: nothing of ours runs in the page's own world."""

from __future__ import annotations

import importlib.util
import re
import sys
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from schemas.settings import Budgets, CrawlSettings
from workers.store import selector_map_of

pytestmark = pytest.mark.browser

PATIENT = CrawlSettings(budgets=Budgets(settle=timedelta(seconds=30), load=timedelta(seconds=30)))
"""So that no page is unsettled for a slow machine."""


def _faults() -> ModuleType:
    spec = importlib.util.spec_from_file_location("faults_run", Path(__file__).parents[1] / "faults" / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def fault_page(shared: Path) -> Iterator[Any]:
    """The address of a page of the shared fault site, and its HTML."""
    faults = _faults()
    with faults.fault_site(shared) as port:

        def page(name: str) -> tuple[str, str]:
            url = f"http://{faults.FAULT_HOST}:{port}/faults/{name}"
            with urllib.request.urlopen(url, timeout=10) as answer:
                return url, answer.read().decode()

        yield page


VOLATILE = {"index", "backend_node_id", "encoded_id", "frame_id", "target", "page_id", "url_key", "attempt"}
"""Columns of an element that are the browser's, the attempt's or the address's own."""


def without_ids(text: str) -> str:
    return re.sub(r"\[(0-)?\d+\]", r"[\1#]", text)


def seen_of(done: Any, url: str) -> tuple[str, str, list[dict[str, Any]]]:
    """The listing, the outline and the numbered elements of a page, without what another capture has otherwise."""
    row = done.rows()[url]
    assert (row["outcome"], row["degradations"]) == ("ok", [])
    elements = selector_map_of(done.store, row["page_id"])
    bare = [{name: value for name, value in element.items() if name not in VOLATILE} for element in elements]
    return without_ids(row["listing"]), without_ids(row["outline"]), bare


@pytest.mark.shared
@pytest.mark.parametrize(("name", "text"), [("hostile-globals", "real text"), ("csp-strict", "MARKER strict csp")])
def test_a_page_that_lies_or_forbids_gives_what_its_harmless_twin_gives(crawled, fault_page, site, name, text):
    """What the page put in place of the browser's functions, or forbade, is asked by nobody."""
    url, html = fault_page(name)
    harmless = re.sub(r"<script>.*?</script>", "<script></script>", html, flags=re.DOTALL)
    assert harmless != html
    twin = site.page("/twin", harmless)
    done = crawled([url, twin], PATIENT)
    assert text in seen_of(done, url)[0]
    assert seen_of(done, url)[2], "it has elements to compare"
    assert seen_of(done, url) == seen_of(done, twin)


HIDDEN = r"<p(?: [^>]*)?>H{0} [^<]*</p>|<!-- H{0} comment -->|<template>H{0} template</template>|H{0} details"


@pytest.mark.shared
@pytest.mark.parametrize(
    ("form", "shown"),
    [
        # colour, size, clip path and ARIA do not hide an element from browser-use 0.13.14
        (0, {4, 5, 6, 7}),
        # nor do opacity and place from the accessibility tree, which leaves out what ARIA hides
        (1, {2, 3, 4, 5, 7}),
    ],
    ids=["listing", "outline"],
)
def test_text_that_is_hidden_is_as_if_it_were_not_there(crawled, fault_page, site, form, shown):
    """Of twelve ways to hide a text each form shows those that its peer shows, and the others change nothing."""
    url, html = fault_page("hidden-text")
    twin_html = html
    for number in set(range(1, 13)) - shown:
        twin_html, count = re.subn(HIDDEN.format(number), "", twin_html)
        assert count == 1, number
    twin = site.page("/twin", twin_html)
    done = crawled([url, twin], PATIENT)
    found = seen_of(done, url)[form]
    assert {int(number) for number in re.findall(r"H(\d+) ", found)} == shown
    assert found == seen_of(done, twin)[form]


TRAPS = """<!doctype html><title>quiet</title><body><p id=p>text</p><button>press</button><input value=v><script>
const told = (what) => { document.title = what; };
const trap = (owner, name) => {
  const real = owner[name];
  owner[name] = function (...given) { told(name); return real.apply(this, given); };
};
for (const name of ["querySelectorAll", "querySelector", "createTreeWalker", "getElementById", "elementFromPoint"])
  trap(document, name);
for (const name of ["getAttribute", "setAttribute", "getBoundingClientRect", "matches", "closest"])
  trap(Element.prototype, name);
for (const name of ["getComputedStyle", "setTimeout", "requestAnimationFrame"]) trap(window, name);
for (const name of ["map", "push", "forEach"]) trap(Array.prototype, name);
trap(JSON, "stringify");
trap(EventTarget.prototype, "addEventListener");
new MutationObserver(() => told("touched")).observe(document.body, {
  attributes: true, childList: true, characterData: true, subtree: true,
});
trap(MutationObserver.prototype, "observe");
const children = Object.getOwnPropertyDescriptor(Node.prototype, "childNodes").get;
Object.defineProperty(Node.prototype, "childNodes", {get() { told("childNodes"); return children.call(this); }});
</script>"""


def test_a_page_notices_nothing_of_its_capture(crawled, site):
    """Given a page that writes into its title whatever is called in its world, then its title stays."""
    url = site.page("/", TRAPS)
    sprung = site.page("/sprung", TRAPS + "<script>document.querySelector('p')</script>")
    rows = crawled([url, sprung], PATIENT).rows()
    assert rows[sprung]["title"] == "querySelector", "the traps work"
    assert (rows[url]["title"], rows[url]["outcome"]) == ("quiet", "ok")
    assert "press" in rows[url]["listing"]
