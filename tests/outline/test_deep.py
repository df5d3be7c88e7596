"""Pages of thousands of levels end in an outline; an XPath longer than the cap costs nothing and is flagged."""

from __future__ import annotations

from itertools import pairwise
from types import ModuleType

import pytest

from schemas.capture import Capture
from workers.merge import merge
from workers.serialize.outline import serialize_outline
from workers.serialize.outline_options import OutlineOptions

LEVELS = 3000


@pytest.fixture(scope="module")
def deep(pages: ModuleType) -> Capture:
    """3,000 nested divs, cut off every 100 levels as the depth ladder does, each with a name that prints."""
    inner = pages.Node("BUTTON", role="button", ax_name="deep inside")
    levels = [inner]
    for level in range(LEVELS):
        levels.append(pages.Node("DIV", children=[levels[-1]], role="group", ax_name=f"level {LEVELS - level}"))
    cuts = levels[100::100][::-1]
    for node in cuts:
        node.cut = True
    root = pages.document(levels[-1])
    made = pages.capture(root, ax=False)
    subtrees = tuple(pages.subtree_until_cut(node) for node in cuts)
    chain = [{"nodeId": str(n.backend_node_id), "backendDOMNodeId": n.backend_node_id} for n in levels[::-1]]
    for node, level in zip(chain, levels[::-1], strict=True):
        node |= {"role": {"value": level.role}, "name": {"value": level.ax_name}}
    for above, node in pairwise(chain):
        node["parentId"] = above["nodeId"]
        above["childIds"] = [node["nodeId"]]
    return Capture((*made.payloads, *subtrees, pages.payload("ax_tree", {"nodes": chain})))


def test_three_thousand_levels_are_an_outline(deep: Capture) -> None:
    outline = serialize_outline(deep)
    assert len(outline.rows) == LEVELS + 1
    assert max(outline.rows.depth) == LEVELS
    assert outline.text.endswith("button: deep inside")
    assert outline.hydrated == 30
    assert serialize_outline(deep, OutlineOptions(focus="button")).text.strip().endswith("button: deep inside")
    assert len(serialize_outline(deep, OutlineOptions(ignore=("div",))).rows) == 0


@pytest.mark.parametrize("cap", [50, 300, 4096])
def test_no_path_is_longer_than_the_cap(deep: Capture, cap: int) -> None:
    outline = serialize_outline(deep, OutlineOptions(max_xpath_chars=cap))
    paths = outline.xpath_map
    assert len(paths) == LEVELS + 4
    assert max(map(len, paths.values())) <= cap
    whole = sum(map(len, set(paths.values())))
    assert whole <= cap * cap
    assert len({id(path) for path in paths.values()}) < cap, "a path that does not fit is no string of its own"
    flags = [outline.xpath(row)[1] for row in range(len(outline.rows))]
    assert flags == sorted(flags)
    assert flags[-1]
    assert not flags[0]
    assert outline.xpath(LEVELS)[0] == outline.xpath(flags.index(True) - 1)[0], "the nearest ancestor that fits"


def test_without_a_cap_paths_are_whole(deep: Capture) -> None:
    outline = serialize_outline(deep, OutlineOptions(max_xpath_chars=None))
    path, truncated = outline.xpath(LEVELS)
    assert path == "/html[1]/body[1]" + "/div[1]" * LEVELS + "/button[1]"
    assert not truncated


def test_the_merge_may_be_had_already(deep: Capture) -> None:
    assert serialize_outline(deep, tree=merge(deep)).text == serialize_outline(deep).text
