"""The plan made on disk is the plan."""

from __future__ import annotations

import tempfile

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from scheduler import large_plan
from scheduler.large_plan import plan_large
from scheduler.plan import plan
from schemas.batch import PlannedPage
from schemas.settings import CrawlSettings
from workers.store import FolderStore, batches_of_lane, planned_batch, read_plan

SETTINGS = CrawlSettings(lanes=4, batch_size=3)
PAGES = st.lists(
    st.builds(
        lambda host, path, seed: PlannedPage(f"http://{host}/{path}", f"http://{host}/{path}{seed}"),
        st.sampled_from(["h", "xn--h-zga.org", "h1", "h10", "h1:8080", "h-1"]),
        st.integers(0, 9),
        st.sampled_from(["", "#a", "#b", " "]),
    ),
    max_size=60,
)


@hypothesis_settings(max_examples=30, deadline=None)
@given(PAGES, PAGES)
def test_it_is_the_plan_also_of_a_second_list(one: list[PlannedPage], two: list[PlannedPage]):
    with tempfile.TemporaryDirectory() as folder:
        store = FolderStore.for_run(folder)
        first = plan("c", 0, one, SETTINGS)
        assert plan_large(store, "c", 0, one, SETTINGS) == len(first)
        assert read_plan(store, 0) == first
        second = plan("c", 0, [*one, *two], SETTINGS, first)
        assert plan_large(store, "c", 0, [*two, *one], SETTINGS) == len(second)
        key = lambda batch: (batch.lane, batch.sequence)  # noqa: E731
        assert read_plan(store, 0) == sorted(first + second, key=key)


def test_it_comes_in_parts_and_spills(tmp_path, monkeypatch):
    monkeypatch.setattr(large_plan, "PART_PAGES", 1_000)
    monkeypatch.setattr(large_plan, "CHUNK", 700)
    pages = [PlannedPage(f"http://h{n % 37}.org/{n}", f"http://h{n % 37}.org/{n}") for n in range(5_000)]
    store = FolderStore.for_run(tmp_path / "store")
    added = plan_large(store, "c", 0, iter(pages), SETTINGS, memory_mb=64)
    whole = plan("c", 0, pages, SETTINGS)
    assert added == len(whole)
    assert read_plan(store, 0) == whole
    assert len(list(store.list("plan"))) == 5
    for batch in whole[::400]:
        assert planned_batch(store, 0, batch.batch_id) == batch
        assert (batch.sequence, batch.batch_id) in batches_of_lane(store, 0, batch.lane)
