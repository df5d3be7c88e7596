"""Selectors without a browser: XPath and CSS, through frames and shadow roots, or an error with its reason."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from schemas.capture import Capture
from workers.serialize.outline import Outline, serialize_outline
from workers.serialize.outline_options import OutlineOptions
from workers.serialize.outline_selectors import SelectorError, read_selector

OWN = Path(__file__).parents[1] / "data" / "stagehand"


@pytest.fixture(scope="module")
def framed(exchange: ModuleType) -> Capture:
    return exchange.load("03_iframes", OWN)[0]  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def shadowed(exchange: ModuleType) -> Capture:
    return exchange.load("05_shadow", OWN)[0]  # type: ignore[no-any-return]


def focus(capture: Capture, selector: str) -> Outline:
    return serialize_outline(capture, OutlineOptions(focus=selector))


@pytest.mark.parametrize(
    ("selector", "hops", "tail"),
    [
        ("#a .b", (), "#a .b"),
        ("iframe >> #x >>", ("iframe",), "#x"),
        ("iframe >> frame >> p", ("iframe", "frame"), "p"),
        ("/html/body/iframe[2]/html/p", ("/html/body/iframe[2]",), "/html/p"),
        ("xpath=//IFRAME//frame[1]", ("//IFRAME", "//frame[1]"), ""),
        ("XPATH=//iframe[@id='a/b']//p", ("//iframe[@id='a/b']",), "//p"),
        ("xpath=//p/text()[2]", (), "//p/text()[2]"),
        ("xpath=(//ul)[1]", (), "(//ul)[1]"),
        ("xpath=html/body", (), "/html/body"),
        ("//a[contains(@href, '/iframe/')]", (), "//a[contains(@href, '/iframe/')]"),
        ("/html/body/iframe/", ("/html/body/iframe",), ""),
        ("/", (), ""),
        ("//p//text()", (), "//p//text()"),
        ("//p[b/iframe[1]]/a", (), "//p[b/iframe[1]]/a"),
        ("//p[not(b/iframe)]/iframe/a", ("//p[not(b/iframe)]/iframe",), "/a"),
    ],
)
def test_the_parts_of_a_selector(selector: str, hops: tuple[str, ...], tail: str) -> None:
    path = read_selector(selector)
    assert (path.hops, path.tail) == (hops, tail)


@pytest.mark.parametrize(
    "selector",
    [
        "iframe >> button",
        "xpath=//iframe[1]//button",
        "/html[1]/body[1]/iframe[1]/html[1]/body[1]/button[1]",
        "xpath=/HTML/body/iframe/html/body/BUTTON",
        "iframe[title] >> body > button",
    ],
)
def test_through_a_frame(framed: Capture, selector: str) -> None:
    outline = focus(framed, selector)
    assert outline.rows.role == ("button",)
    assert outline.rows.name == ("C1",)
    assert outline.xpath(0)[0] == "/html[1]/body[1]/iframe[1]/html[1]/body[1]/button[1]"
    assert set(outline.xpath_map.values()) >= {"/html[1]/body[1]/iframe[1]"}


def test_every_path_of_an_outline_leads_back(framed: Capture, shadowed: Capture) -> None:
    for capture in (framed, shadowed):
        outline = serialize_outline(capture)
        for row, role in enumerate(outline.rows.role):
            path, _ = outline.xpath(row)
            if path is None or role not in ("button", "link", "heading", "StaticText") or "input" in path:
                continue
            found = focus(capture, f"xpath={path}")
            assert found.rows.id[0].split("-")[1] == outline.rows.id[row].split("-")[1]


def test_into_shadow_roots_open_and_closed(shadowed: Capture) -> None:
    assert focus(shadowed, "xpath=//x-closed//button").rows.name == ("Closed btn",)
    assert focus(shadowed, "div > a").rows.name[0] == "nested link"
    assert focus(shadowed, "button:first-child").rows.name == ("Open btn",)
    assert focus(shadowed, "xpath=//x-open//button").rows.name == ("Open btn",)
    with pytest.raises(SelectorError):
        focus(shadowed, "x-closed button")  # a selector is matched in one tree, as a browser does
    with pytest.raises(SelectorError):
        focus(shadowed, "xpath=//x-closed//input//div")  # the browser's own shadow root
    assert serialize_outline(shadowed, OutlineOptions(ignore=("button",))).rows.role.count("button") == 0


def test_an_iframe_at_the_end_of_an_xpath_is_its_document(framed: Capture) -> None:
    assert focus(framed, "xpath=//iframe[1]").rows.role[0] == "RootWebArea"
    left = serialize_outline(framed, OutlineOptions(ignore=("xpath=/html/body/iframe[1]",)))
    assert not any(id_.startswith("1-") for id_ in left.rows.id)
    assert "/html[1]/body[1]/iframe[1]" in left.xpath_map.values()


def test_ignored_frames_go_with_what_is_in_them(framed: Capture) -> None:
    whole, left = serialize_outline(framed), serialize_outline(framed, OutlineOptions(ignore=("iframe", "object")))
    assert {id_.partition("-")[0] for id_ in left.rows.id} == {"0"}
    assert {id_.partition("-")[0] for id_ in left.xpath_map} == {"0"}
    assert not set(left.url_map) - set(whole.url_map)
    assert "Iframe" not in left.text


def test_what_is_in_a_frame_can_be_ignored_without_its_line(framed: Capture) -> None:
    whole, left = serialize_outline(framed), serialize_outline(framed, OutlineOptions(ignore=("xpath=//iframe[1]",)))
    hosts = [{frame.host for frame in outline.frames if frame.parent == 0} for outline in (whole, left)]
    assert hosts[0] == hosts[1]
    assert hosts[0] & set(left.rows.id) == hosts[0] & set(whole.rows.id)
    assert set(left.text.split("\n")) < set(whole.text.split("\n"))


def test_focus_and_ignore_together(framed: Capture) -> None:
    outline = serialize_outline(framed, OutlineOptions(focus="iframe >> body", ignore=("iframe >> button",)))
    assert "button" not in outline.rows.role
    assert len(outline.rows) > 1


@pytest.mark.parametrize(
    ("selector", "problem"),
    [
        ("#nope", "no_match"),
        ("xpath=//nope", "no_match"),
        ("p[", "syntax"),
        ("p::before", "syntax"),
        ("a:hover-over", "syntax"),
        ("xpath=//p[", "syntax"),
        ("xpath=//p[nope()]", "syntax"),
        ("", "syntax"),
        ("  ", "syntax"),
        ("h1 >> button", "no_frame"),
        ("#nope >> button", "no_frame"),
        ("script", "not_in_tree"),
        ("xpath=count(//p)", "syntax"),
        ("/html/body/object/html/body/nope", "no_match"),
        ("/html/body/p/html/body", "no_match"),
        ("/html/body/nope/iframe/html", "no_frame"),
        ("xpath=", "syntax"),
        ("//", "syntax"),
        ("xpath=//iframe//", "syntax"),
        ("xpath=//title/text()", "not_in_tree"),
        ("xpath=//iframe/@title", "no_match"),
        ("xpath=//h1/@*", "no_match"),
        ("xpath=//namespace::*", "no_match"),
        ("/text()", "no_match"),
    ],
)
def test_what_leads_nowhere_says_why(framed: Capture, selector: str, problem: str) -> None:
    with pytest.raises(SelectorError) as caught:
        focus(framed, selector)
    assert caught.value.problem == problem
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_an_ignored_selector_that_matches_nothing_takes_nothing_away(framed: Capture) -> None:
    assert serialize_outline(framed, OutlineOptions(ignore=("#nope",))).text == serialize_outline(framed).text
    with pytest.raises(SelectorError):
        serialize_outline(framed, OutlineOptions(ignore=("p[",)))


def test_names_and_values_that_xml_has_not(pages: ModuleType) -> None:
    node = pages.Node
    odd = node('A"B<', {"@click": "x\x00y", "data-x": "\x01", "x:y": "1"}, role="button", ax_name="odd")
    spaced = node("Q:EL", role="button", ax_name="spaced", children=[pages.text("a\x02b")])
    capture = pages.capture(pages.document(odd, spaced))
    assert focus(capture, "[data-x]").rows.name == ("odd",)
    assert focus(capture, "xpath=//*[name()='q:el'][1]").rows.name == ("spaced",)
    assert focus(capture, "xpath=//body/*[.='a\x02b']").rows.name == ("spaced",)
    for unknown in ("xpath=//p[.='\x00']", "xpath=//p[.='\udcff']", "xpath=//\ud800"):
        with pytest.raises(SelectorError):
            focus(capture, unknown)


def test_an_html_element_need_not_be_a_document(pages: ModuleType) -> None:
    node = pages.Node
    embedded = node("html", children=[node("BUTTON", role="button", ax_name="own")])
    drawing = node("svg", {"viewBox": "0 0 9 9"}, [node("foreignObject", children=[embedded])], role="image")
    capture = pages.capture(pages.document(drawing))
    assert focus(capture, "/html/body/svg/foreignobject[1]/html[1]/button[1]").rows.name == ("own",)
    assert focus(capture, "xpath=//svg[@viewBox='0 0 9 9']").rows.role == ("image",)
    assert serialize_outline(capture, OutlineOptions(ignore=("//foreignObject/html",))).rows.name == (None,)


def test_names_are_lower_case_in_an_xpath_and_texts_as_they_are(pages: ModuleType) -> None:
    capture = pages.capture(pages.document(pages.Node("P", {"title": "Ada's"}, role="paragraph", ax_name="one")))
    assert focus(capture, 'xpath=//P[@TITLE="Ada\'s"]').rows.name == ("one",)
    with pytest.raises(SelectorError):
        focus(capture, 'xpath=//P[@TITLE="ada\'s"]')


def test_texts_and_comments_are_told_apart(pages: ModuleType) -> None:
    node, text = pages.Node, pages.text
    comment = node("#comment", kind=8, text="--c-")

    def said(value: str) -> Any:
        return text(value, role="StaticText", ax_name=value)

    link = node("A", children=[said("l")], role="link", ax_name="Link")
    inner: list[Any] = [said("a"), said("b"), link, said("c"), comment, said("d\x00"), said("e")]
    capture = pages.capture(pages.document(node("P", {"title": "x"}, inner, role="paragraph"), said("f")))
    whole = serialize_outline(capture)
    for row, role in enumerate(whole.rows.role):
        path, _ = whole.xpath(row)
        assert focus(capture, f"xpath={path}").rows.id == (whole.rows.id[row],), role
    assert focus(capture, "xpath=//p/text()[5]").rows.name == ("e",)
    assert focus(capture, "//p[contains(., 'abl')]").rows.role == ("paragraph",)
    with pytest.raises(SelectorError, match="matches no element"):
        focus(capture, "xpath=//p/@title")
    # what is ignored are the texts, and nothing around them
    left = serialize_outline(capture, OutlineOptions(ignore=("//p/text()", "//comment()")))
    assert left.rows.role == ("paragraph", "link", "StaticText", "StaticText")
    assert left.rows.name[2:] == ("l", "f")
    assert set(whole.xpath_map.values()) - set(left.xpath_map.values()) == {
        *(f"/html[1]/body[1]/p[1]/text()[{number}]" for number in range(1, 6)),
        "/html[1]/body[1]/p[1]/comment()[1]",
    }
