"""CSS selectors are matched in every document and shadow tree of a page."""

from __future__ import annotations

from types import ModuleType

import pytest

from workers.merge import PageTree, merge
from workers.serialize.selectors import BadSelector, select


@pytest.fixture
def tree(pages: ModuleType) -> PageTree:
    """A list, a frame with a list, and a shadow tree."""

    def items(start: int) -> list[object]:
        return [
            pages.Node("LI", {"class": f"item n{i}", "data-n": f"a-{i}"}, backend_node_id=start + i) for i in range(4)
        ]

    inner = pages.document(pages.Node("OL", {}, items(200), backend_node_id=299), frame_id="F")
    root = pages.Node(
        "#document-fragment", kind=11, shadow_type="open", children=[pages.Node("P", backend_node_id=301)]
    )
    page = pages.document(
        pages.Node("UL", {"id": "list"}, items(100), backend_node_id=199),
        pages.Node("IFRAME", content=inner, backend_node_id=198),
        pages.Node("MY-BOX", {"@click": "x", "title": ""}, [pages.Node("P", backend_node_id=302)], shadow=[root]),
    )
    tree: PageTree = merge(pages.capture(page))
    return tree


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("ul > li:first-child", [100]),
        ("li:first-child", [100, 200]),
        ("ol li", [200, 201, 202, 203]),
        ("body ol", [299]),
        ("my-box p", [302]),
        ("p", [302, 301]),
        ("#list .n2", [102]),
        ("li.item.n1, ol", [101, 299, 201]),
        ("[data-n='a-3']", [103, 203]),
        ("#list [data-n|=a]:not(.n0):not([data-n$='3'])", [101, 102]),
        ("#list li:nth-child(2n+1)", [100, 102]),
        ("#list li:nth-last-child(1), #list li:last-of-type", [103]),
        ("ul li + li:is(.n1, .n2)", [101, 102]),
        ("ul .n1 ~ li", [102, 103]),
        ("LI.N1", []),
        ("my-box[title]:root", []),
        ("#list .n0 ~ .n1 ~ .n3, ol > li:nth-last-of-type(2)", [103, 202]),
        ("#list .n3 ~ li, #list .n1 ~ .n0", []),
        ("html body ul .n1", [101]),
        ("html ul body .n1", []),
        ("*|ol", [299]),
    ],
)
def test_matches(tree: PageTree, selector: str, found: list[int]) -> None:
    assert [int(tree.backend_node_id[node]) for node in select(tree, selector)] == found


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("input[type=PASSWORD]", [100, 101]),
        ("[type=password]", [100, 101]),
        ("[TYPE^=pass]", [100, 101]),
        ("[rel~=NOFOLLOW]", [102]),
        ("[lang|=EN]", [102]),
        ("[type$=Script], [type*=SCRIPT]", []),
        ("[type$=Word], [type*=ASSW]", [100, 101]),
        ("[http-equiv=Refresh]", [103]),
        ("[name=ONE]", []),
        ("[name=One]", [100]),
        ("[data-type=PASSWORD]", []),
        ("[type=table]", []),
        ("[type=TABLE]", [104]),
        ("[type='\u212aelvin']", []),
        ("[name=ONE i]", [100]),
        ("[type=table i]", [104]),
        ("[type=PASSWORD s]", []),
        ("[type=password s]", [100]),
    ],
)
def test_values_that_html_lists_match_in_either_case(pages: ModuleType, selector: str, found: list[int]) -> None:
    page = pages.document(
        pages.Node("INPUT", {"type": "password", "name": "One"}, backend_node_id=100),
        pages.Node("INPUT", {"type": "PassWord", "data-type": "password"}, backend_node_id=101),
        pages.Node("A", {"rel": "me nofollow", "lang": "en-GB", "type": "kelvin"}, backend_node_id=102),
        pages.Node("META", {"http-equiv": "refresh"}, backend_node_id=103),
        pages.Node("feColorMatrix", {"type": "TABLE"}, backend_node_id=104),
    )
    tree = merge(pages.capture(page))
    assert [int(tree.backend_node_id[node]) for node in select(tree, selector)] == found


@pytest.mark.parametrize(
    "selector",
    [
        *("", "a[", "li:hover", "li::before", "li:has(a)", "li:nth-child(x y)", "li:lang(en)", "svg|a", "[x|y]"),
        "li" + " li" * 3000,
    ],
)
def test_what_cannot_be_matched_says_so(tree: PageTree, selector: str) -> None:
    with pytest.raises(BadSelector, match=r"\w"):
        select(tree, selector)


def test_empty_is_what_has_no_children_but_comments(pages: ModuleType) -> None:
    node = pages.Node
    inside = node("#document-fragment", kind=11, shadow_type="user-agent", children=[node("DIV", backend_node_id=109)])
    page = pages.document(
        node("P", children=[node("#comment", kind=8, text="c")], backend_node_id=100),
        node("P", children=[pages.text("t")], backend_node_id=101),
        node("P", children=[node("B", backend_node_id=108)], backend_node_id=102),
        node("INPUT", shadow=[inside], backend_node_id=103),
        node("IFRAME", content=pages.document(pages.text("t"), frame_id="F"), backend_node_id=104),
    )
    tree = merge(pages.capture(page))
    assert [int(tree.backend_node_id[n]) for n in select(tree, ":empty")] == [100, 108, 103, 109, 104]


@pytest.mark.parametrize("selector", ["nav div div div div div div a", "nav ~ a ~ a ~ a ~ a ~ a ~ a ~ a"])
def test_a_deep_page_is_asked_of_each_ancestor_once(
    pages: ModuleType, monkeypatch: pytest.MonkeyPatch, selector: str
) -> None:
    below = [pages.Node("A") for _ in range(40)]
    for _ in range(40):
        below = [pages.Node("DIV", children=below)]
    tree = merge(pages.capture(pages.document(*below)))
    asked = 0
    tag = PageTree.tag

    def counted(self: PageTree, node: int) -> str:
        nonlocal asked
        asked += 1
        assert asked < 10 * len(tree) * selector.count(" ")
        return tag(self, node)

    monkeypatch.setattr(PageTree, "tag", counted)
    assert select(tree, selector) == []
