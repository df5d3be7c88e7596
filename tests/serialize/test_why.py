"""Every way in which an element can be lost is told, with the numbers that decided."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from workers.merge import merge
from workers.serialize.indices import FinalTree, final_tree
from workers.serialize.listing import serialize_listing
from workers.serialize.options import ListingOptions
from workers.serialize.why import FATES, Fate, Story, Why, with_backend_node_id, with_text

DATA = Path(__file__).parents[1] / "data" / "browser_use"
OPAQUE = {"background-color": "rgb(255, 255, 255)"}
LIMIT = 40_000

Case = Callable[[ModuleType], tuple[Any, ListingOptions]]


def told(final: FinalTree, backend_node_id: int, max_chars: int = LIMIT) -> Story:
    (node,) = with_backend_node_id(final.view.tree, backend_node_id)
    return Why(final, max_chars).story(node)


def page_of(*nodes: Any) -> Case:
    return lambda pages: (pages.capture(pages.document(*(node(pages) for node in nodes))), ListingOptions())


def one(name: str = "BUTTON", **more: Any) -> Callable[[ModuleType], Any]:
    more = {"backend_node_id": 70, **more}
    below = more.pop("below", ())
    return lambda pages: pages.Node(name, children=[child(pages) for child in below], **more)


def remote_page(
    pages: ModuleType, frame_box: tuple[float, float, float, float], options: ListingOptions
) -> tuple[Any, ListingOptions]:
    """A page with a frame in a process of its own, with a button in it."""
    frame = pages.Node("IFRAME", box=frame_box, frame_id="F1", backend_node_id=60)
    top = pages.capture(pages.document(frame))
    inner = pages.capture(pages.document(pages.Node("BUTTON", backend_node_id=70), frame_id="F1"))
    targets = {
        "url": "http://x/",
        "title": "X",
        "targets": [{"target_id": "T0", "session_id": "S0"}, {"target_id": "T1", "session_id": "S1"}],
        "frames": {"F1": {"target_id": "T1", "url": "http://y/"}},
    }
    own = [p for p in top.payloads if p.kind != "targets"]
    below = [type(p)(p.kind, p.data, 1) for p in inner.payloads if p.kind != "targets"]
    return type(top)((pages.payload("targets", targets), *own, *below)), options


CASES: dict[str, tuple[Case, Fate, str]] = {
    "a button": (page_of(one()), "printed", "line 1 of the listing"),
    "hidden by display": (page_of(one(styles={"display": "none"})), "not_visible", "display is none"),
    "hidden by visibility": (page_of(one(styles={"visibility": "hidden"})), "not_visible", "visibility is hidden"),
    "hidden by opacity": (page_of(one(styles={"opacity": "0"})), "not_visible", "opacity is 0"),
    "without a layout box": (page_of(one(box=None)), "not_visible", "it has no layout box"),
    "below the viewport": (
        page_of(one(box=(0.0, 2500.0, 80.0, 20.0))),
        "not_visible",
        "at 0,2500 80x20 it lies more than 1000 px below the viewport of 1280x1100 of <html>, backend node 2",
    ),
    "left of the viewport": (
        page_of(one(box=(-90.0, 0.0, 80.0, 20.0))),
        "not_visible",
        "at -90,0 80x20 it lies to the left of the viewport of 1280x1100",
    ),
    "no rule": (page_of(one("DIV")), "not_interactive", "no rule says that it is interactive"),
    "a label that points elsewhere": (
        page_of(one("LABEL", attributes={"for": "x"})),
        "not_interactive",
        "no rule says that it is interactive",
    ),
    "covered": (
        page_of(
            one(), lambda pages: pages.Node("DIV", {"id": "veil"}, styles=OPAQUE, paint_order=9, backend_node_id=80)
        ),
        "covered",
        "what was painted later covers it: <div id=veil>, backend node 80 at 0,0 200x60",
    ),
    "swallowed by a link": (
        page_of(
            lambda pages: pages.Node("A", {}, [one("DIV", attributes={"tabindex": "0"})(pages)], backend_node_id=60)
        ),
        "folded",
        "100.0% of it lies in <a>, backend node 60 at 0,0 200x60, which stands for it",
    ),
    "excluded by attribute": (
        page_of(
            lambda pages: pages.Node("DIV", {"data-browser-use-exclude": "true"}, [one()(pages)], backend_node_id=60)
        ),
        "excluded",
        "<div>, backend node 60 has the attribute data-browser-use-exclude=true",
    ),
    "in the head": (
        page_of(lambda pages: pages.Node("HEAD", {}, [one("LINK")(pages)])),
        "dropped",
        "<link> holds nothing to see",
    ),
    "part of a drawing": (
        page_of(lambda pages: pages.Node("svg", {}, [one("path")(pages)])),
        "dropped",
        "<path> is a drawing",
    ),
    "a link inside an svg": (
        page_of(lambda pages: pages.Node("svg", {}, [one("a")(pages)], backend_node_id=60)),
        "in_svg",
        "<svg>, backend node 60 prints none of its content",
    ),
    "a scroll container with a button": (
        page_of(
            lambda pages: pages.Node(
                "DIV",
                {"tabindex": "0"},
                [pages.Node("BUTTON", backend_node_id=80)],
                scroll=(0.0, 0.0, 200.0, 900.0),
                client=(0.0, 0.0, 200.0, 60.0),
                styles={"overflow": "auto"},
                backend_node_id=70,
            )
        ),
        "scroll_container",
        "it scrolls and is no dropdown, and holds <button>, backend node 80, which is interactive",
    ),
    "a frame too small": (
        lambda pages: remote_page(pages, (0.0, 0.0, 8.0, 8.0), ListingOptions()),
        "frame_cut_off",
        "the frame <iframe>, backend node 60 is 0,0 8x8, smaller than 10 px",
    ),
    "a frame too deep": (
        lambda pages: remote_page(pages, (0.0, 0.0, 300.0, 200.0), ListingOptions(max_iframe_depth=0)),
        "frame_cut_off",
        "1 levels of processes deep, and max_iframe_depth is 0",
    ),
    "a frame out of sight": (
        lambda pages: remote_page(pages, (0.0, 9000.0, 300.0, 200.0), ListingOptions()),
        "frame_cut_off",
        "is not visible: at 0,9000 300x200 it lies more than 1000 px below",
    ),
    "a frame too many": (
        lambda pages: remote_page(pages, (0.0, 0.0, 300.0, 200.0), ListingOptions(max_iframes=0)),
        "frame_cut_off",
        "max_iframes",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_became_of_it(pages: ModuleType, name: str) -> None:
    case, fate, found = CASES[name]
    capture, options = case(pages)
    story = told(final_tree(merge(capture), options), 70)
    assert story.fate == fate
    assert story.steps[-1].found.startswith(found) or found in story.steps[-1].found
    assert (story.index is not None) == (fate in ("printed", "in_svg"))
    assert story.steps[-1].stood == (fate == "printed")
    assert story.steps[-1].found in story.summary() or fate in ("printed", "in_svg")


def test_without_a_record_in_the_snapshot(pages: ModuleType) -> None:
    # Given a button that the document has and the snapshot has not
    page = pages.document(pages.Node("BUTTON", backend_node_id=70), pages.Node("BUTTON"))
    capture = pages.capture(page)
    without = pages.capture(pages.document(pages.Node("DIV", backend_node_id=99), pages.Node("BUTTON")))
    snapshot = next(without.of("layout_snapshot"))
    capture = type(capture)(tuple(snapshot if p.kind == "layout_snapshot" else p for p in capture.payloads))
    # Then it is told so
    story = told(final_tree(merge(capture)), 70)
    assert story.fate == "not_in_snapshot"
    assert (
        story.summary()
        == "<button> (backend node 70) has no number: not in snapshot; the snapshot has no record of it."
    )


def test_beyond_the_truncation(pages: ModuleType) -> None:
    page = pages.document(pages.Node("DIV", children=[pages.text("y" * 50)]), pages.Node("BUTTON", backend_node_id=70))
    story = told(final_tree(merge(pages.capture(page))), 70, max_chars=60)
    assert (story.fate, story.index, story.line) == ("truncated", 70, 2)
    assert story.steps[-1].found == "its line ends at character 65, and the page state is truncated at 60"


def test_what_no_rule_says_lists_every_rule_that_was_tried(pages: ModuleType) -> None:
    story = told(final_tree(merge(pages.capture(pages.document(pages.Node("DIV", backend_node_id=70))))), 70)
    rules = [rule.partition(":")[0] for rule in story.steps[-1].tried]
    assert rules == [
        "listener",
        "frame",
        "search_word",
        "ax_state",
        "tag",
        "attribute",
        "role",
        "ax_role",
        "icon",
        "cursor",
    ]


def test_the_number_around_it_is_told(pages: ModuleType) -> None:
    button = pages.Node("BUTTON", {}, [pages.Node("B", backend_node_id=70)], backend_node_id=60)
    story = told(final_tree(merge(pages.capture(pages.document(button)))), 70)
    assert "<button>, backend node 60 around it is [60]" in [step.found for step in story.steps]


def test_elements_are_found_by_text_name_and_attribute(pages: ModuleType) -> None:
    page = pages.document(
        pages.Node("P", children=[pages.text("Pay NOW")], backend_node_id=70),
        pages.Node("BUTTON", role="button", ax_name="pay now", backend_node_id=71),
        pages.Node("INPUT", {"placeholder": "how to Pay Now?"}, backend_node_id=72),
        pages.Node("SCRIPT", children=[pages.text("'pay now'")], backend_node_id=69),
        pages.Node("P", children=[pages.text("later")], backend_node_id=74),
    )
    tree = merge(pages.capture(page))
    assert [int(tree.backend_node_id[n]) for n in with_text(tree, "pay now")] == [70, 71, 72, 69]


def test_what_is_no_element_has_no_story(pages: ModuleType) -> None:
    # Given a frame with a document, and a text
    inner = pages.document(pages.text("inside", backend_node_id=72), frame_id="F")
    inner.backend_node_id = 71
    page = pages.document(pages.Node("IFRAME", content=inner, backend_node_id=70))
    final = final_tree(merge(pages.capture(page)))
    tree = final.view.tree
    why = Why(final, LIMIT)
    # Then neither has a fate, and the error says what to ask for
    for node in (tree.kind != 1).nonzero()[0].tolist():
        with pytest.raises(ValueError, match=r"backend node \d+\) is no element.*; ask for the element around it"):
            why.story(node)
    # And by its backend node id, the document stands for its frame
    (frame,) = with_backend_node_id(tree, 71)
    assert why.story(frame).backend_node_id == 70


def test_a_document_in_an_object_is_left_out(pages: ModuleType) -> None:
    # Given an object that shows a document, with a button in it and one to fall back to
    inner = pages.document(pages.Node("BUTTON", backend_node_id=71), frame_id="F")
    shows = pages.Node("OBJECT", {}, [pages.Node("BUTTON", backend_node_id=72)], content=inner, backend_node_id=70)
    final = final_tree(merge(pages.capture(pages.document(shows))))
    # Then the one is left out with the document, and the other counts
    lost = told(final, 71)
    assert lost.fate == "dropped"
    assert lost.steps[-1].found == "<object>, backend node 70 is no frame, so the document it shows is left out"
    assert told(final, 72).fate == "printed"


def test_a_text_node_stands_for_its_element(pages: ModuleType) -> None:
    page = pages.document(pages.Node("P", children=[pages.text("x", backend_node_id=71)], backend_node_id=70))
    tree = merge(pages.capture(page))
    assert with_backend_node_id(tree, 71) == with_backend_node_id(tree, 70)
    assert with_backend_node_id(tree, 12345) == []


@pytest.mark.parametrize("name", sorted(p.name.removesuffix(".raw.json.gz") for p in DATA.glob("*.raw.json.gz")))
def test_every_element_of_the_recordings_has_a_story(recording: ModuleType, name: str) -> None:
    # Given every element of a real page
    final = final_tree(merge(recording.load(name, DATA)[0]))
    lines = serialize_listing(final.view.tree, final=final).text.split("\n")
    why = Why(final, LIMIT)
    for node in (final.view.tree.kind == 1).nonzero()[0].tolist():
        story = why.story(node)
        # Then it has a fate that is explained, its number is the listing's, and its line is there
        assert story.fate in FATES
        assert story.index == final.index_of.get(node)
        assert story.summary()
        if story.fate == "printed":
            assert f"[{story.index}]<{story.tag}" in lines[(story.line or 0) - 1]
        if story.fate == "covered":
            assert "several elements" not in story.steps[-1].found
            assert final.painting.ignores(node)
        if story.fate == "in_svg":
            assert story.line is None
