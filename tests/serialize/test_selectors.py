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
    "selector", ["", "a[", "li:hover", "li::before", "li:has(a)", "li:nth-child(x y)", "li:lang(en)"]
)
def test_what_cannot_be_matched_says_so(tree: PageTree, selector: str) -> None:
    with pytest.raises(BadSelector, match=r"\w"):
        select(tree, selector)
