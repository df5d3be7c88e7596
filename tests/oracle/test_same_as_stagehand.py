"""What the real Stagehand says of a tab is what our capture of that tab says, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from scheduler.example.server import ExampleSite

CORPUS_PAGES = 8
"""The smallest of the real pages; `make differential ARGS=--corpus` compares all of them."""
SECONDS = 300.0
NOT_SEEN_BY_STAGEHAND = {"own/xorigin.html"}
"""It holds a frame in a process of its own within another such frame, which Stagehand does not attach to."""

Compare = Callable[..., Awaitable[list[Any]]]


@pytest.fixture
def same(outline_harness: ModuleType, stagehand_is_there: None, browser_path: Path) -> Compare:
    """Compares pages and fails where one differs, but for those named."""

    async def compare(group: str, urls: dict[str, str], site_per_process: bool = False) -> list[Any]:
        verdicts: list[Any] = await outline_harness.compare_all(
            group, urls, browser_path, site_per_process=site_per_process, seconds=SECONDS
        )
        assert len(verdicts) == len(urls)
        bad = [v for v in verdicts if (v.failure or v.difference) and v.name not in NOT_SEEN_BY_STAGEHAND]
        assert [outline_harness.told(v) for v in bad] == []
        return verdicts

    return compare


@pytest.mark.browser
async def test_the_example_site(same: Compare, example_site: ExampleSite) -> None:
    await same("example", {url.rpartition("/")[2]: url for url in example_site.urls})


@pytest.mark.browser
@pytest.mark.shared
@pytest.mark.parametrize("site_per_process", [False, True])
async def test_own_pages_with_frames(
    same: Compare, outline_harness: ModuleType, shared: Path, tmp_path: Path, site_per_process: bool
) -> None:
    with outline_harness.ExitStack() as stack:
        urls = outline_harness.urls_of("own", shared, 0, tmp_path, stack)
        urls = {name: url for name, url in urls.items() if not name.startswith(("heavy", "overlap", "09_deep"))}
        verdicts = await same("own", urls, site_per_process)
    if not site_per_process:
        assert [v.name for v in verdicts if v.difference] == []


@pytest.mark.browser
@pytest.mark.shared
async def test_real_pages(same: Compare, outline_harness: ModuleType, shared: Path) -> None:
    with outline_harness.corpus_site(shared, port=8673) as urls:
        await same("corpus", dict(list(urls.items())[:CORPUS_PAGES]))


def test_packages_of_the_oracle_are_pinned_by_hash_alone() -> None:
    lock = json.loads((Path(__file__).parent / "stagehand" / "package-lock.json").read_text())
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert packages["node_modules/@browserbasehq/stagehand"]["version"] == "3.7.3"
    assert [name for name, package in packages.items() if not package.get("integrity")] == []
    assert [name for name, package in packages.items() if "resolved" in package] == []


def test_a_difference_is_told_with_its_first_line(outline_harness: ModuleType, pages: ModuleType) -> None:
    # Given what Stagehand would have said, but for one letter of one line
    root = pages.document(pages.Node("BUTTON", role="button", ax_name="Press"))
    capture = pages.capture(root)
    said = {"frames": [], "tree": "[0-4] button: Dress", "xpath_map": [], "url_map": []}
    # Then the verdict names the line and both sides
    verdict = outline_harness.compared("own/x", capture, said)
    assert (verdict.difference.what, verdict.difference.place) == ("tree", 0)
    assert "Dress" in verdict.difference.theirs
    assert "Press" in verdict.difference.ours
    assert outline_harness.told(verdict).startswith("own/x (")
