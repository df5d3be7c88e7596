"""The plan made on disk is the plan."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pyarrow.fs import FileSystem, PyFileSystem

from scheduler import large_plan, seed_plan
from scheduler.cli import main
from scheduler.large_plan import plan_large
from scheduler.plan import plan
from scheduler.rounds import remaining
from scheduler.seed_plan import seeds_for_plan
from scheduler.sources import SeedStream
from schemas.batch import PlannedPage
from schemas.errors import StoreDamaged
from schemas.settings import CrawlSettings
from workers.store import FolderStore, StoredPlan, read_plan, store_plan
from workers.store import plan as plans
from workers.store.arrow_files import StoredFiles

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
    stored = StoredPlan(store, 0)
    for batch in whole[::400]:
        assert stored.batch(batch.lane, batch.sequence, batch.batch_id) == batch
        assert batch in stored.batches_of_lane(batch.lane)
        following = [(b.sequence, b.batch_id) for b in whole if b.lane == batch.lane and b.sequence > batch.sequence]
        assert list(stored.places_after(batch.lane, batch.sequence)) == following


def test_the_command_line_s_seeds_make_one_plan_in_memory_and_on_disk(tmp_path, monkeypatch):
    """Given a list and a second one, read as the command line reads them, then both ways store the same batches."""
    first = "".join(f"http://h{n % 7}.org/{n % 40}#{n}\n" for n in range(60))
    second = "".join(f"http://h{n % 9}.org/{n % 50}#{n}\n" for n in range(90))
    plans = []
    for large in (1_000_000, 30):
        monkeypatch.setattr(seed_plan, "LARGE", large)
        store = FolderStore.for_run(tmp_path / str(large))
        for text in (first, second, first):
            with seeds_for_plan(SeedStream(["-"], io.BytesIO(text.encode()))) as plan_seeds:
                plan_seeds(store, "c", 0, SETTINGS)
        # a small list on top of a plan that is large by now
        with seeds_for_plan(SeedStream(["http://h1.org/new"], io.BytesIO())) as plan_seeds:
            plan_seeds(store, "c", 0, SETTINGS)
        plans.append({path: store.read(path) for path in store.list("plan")})
    assert plans[0] == plans[1]
    assert len(plans[0]) == 3, "the first list, what the second adds, and the one new page"
    keys = [page.url_key for batch in read_plan(store, 0) for page in batch.pages]
    assert len(keys) == len(set(keys))


def test_seeds_that_are_refused_leave_the_store_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(seed_plan, "LARGE", 2)
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("".join(f"http://127.0.0.1:9/{n}\n" for n in range(9)) + "nonsense\n")
    store = tmp_path / "store"
    assert main(["crawl", str(seeds), "--store", str(store), "--strict"]) == 2
    assert not store.exists()


def test_a_plan_that_is_gone_is_not_made_again(tmp_path):
    store = FolderStore.for_run(tmp_path)
    store.put_if_absent(f"commits/0/{'ab' * 16}.json", b"{}")
    with pytest.raises(StoreDamaged, match="has commits of round 0 but not its plan"):
        plan_large(store, "c", 0, [PlannedPage("http://h/", "http://h/")], SETTINGS)


class Counting:
    """A store whose files are read in pieces, as S3's are; it counts them."""

    def __init__(self, store: FolderStore) -> None:
        self._store = store
        self.lists, self.pieces, self.bytes = 0, 0, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def list(self, prefix: str) -> Iterator[str]:
        self.lists += 1
        return self._store.list(prefix)

    def arrow(self) -> FileSystem:
        return PyFileSystem(StoredFiles(self))

    def read_range(self, path: str, start: int, length: int) -> bytes:
        self.pieces += 1
        self.bytes += length
        with (self._store.folder / path).open("rb") as file:
            file.seek(start)
            return file.read(length)


def test_batches_are_whole_where_row_groups_divide_them_and_a_lane_is_read_without_the_rest(tmp_path, monkeypatch):
    monkeypatch.setattr(large_plan, "PART_PAGES", 10_000)
    monkeypatch.setattr(plans, "ROW_GROUP_PAGES", 1_000)
    urls = [f"http://h{n % 97}.org/{sha256(str(n).encode()).hexdigest()}" for n in range(40_000)]
    pages = [PlannedPage(url, url) for url in urls]
    settings = CrawlSettings(lanes=16, batch_size=7)
    store = FolderStore.for_run(tmp_path / "store")
    plan_large(store, "c", 0, pages, settings)
    whole = read_plan(store, 0)
    assert whole == plan("c", 0, pages, settings)
    size = sum(store.size_of(path) or 0 for path in store.list("plan"))
    # Given a worker that has read the footers of the lane's parts
    counting = Counting(store)
    stored = StoredPlan(counting, 0)  # type: ignore[arg-type]  # stands in for a store
    lane = [batch for batch in whole if batch.lane == 5]
    assert list(stored.batches_of_lane(5)) == lane
    # When it asks for a batch and for the one after it
    counting.lists = counting.pieces = counting.bytes = 0
    middle = lane[len(lane) // 2]
    assert stored.batch(5, middle.sequence, middle.batch_id) == middle
    assert next(stored.places_after(5, middle.sequence))[0] == middle.sequence + 1
    # Then it has listed nothing and read a small part of the plan
    assert counting.lists == 0
    assert counting.pieces <= 8
    assert counting.bytes < size / 4


def test_a_batch_that_two_schedulers_stored_in_a_part_each_is_there_once(tmp_path):
    store = FolderStore.for_run(tmp_path / "store")
    pages = [PlannedPage(f"http://h{n}.org/", f"http://h{n}.org/") for n in range(20)]
    more = [*pages, *(PlannedPage(f"http://h3.org/{n}", f"http://h3.org/{n}") for n in range(4))]
    one, other = plan("c", 0, pages, SETTINGS), plan("c", 0, more, SETTINGS)
    store_plan(store, 0, one)
    store_plan(store, 0, other)
    union = {batch.batch_id: batch for batch in [*one, *other]}
    assert len(union) < len(one) + len(other)
    assert {batch.batch_id: batch for batch in read_plan(store, 0)} == union
    assert len(read_plan(store, 0)) == len(union)
    left = remaining(store, 0)
    assert sum(map(len, left.values())) == len(union) == sum(len(list(batches)) for batches in left.values())
