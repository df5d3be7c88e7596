"""The plan depends on what is planned, never on the order in which it came."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.plan import interleaved, plan
from schemas.batch import Batch, PlannedPage
from schemas.identifiers import batch_id, lane_of
from schemas.settings import CrawlSettings
from schemas.urls import host_of

SETTINGS = CrawlSettings(lanes=4, batch_size=3)
PAGES = st.lists(
    st.builds(
        lambda host, path: PlannedPage(f"http://h{host}.org/{path}", f"http://h{host}.org/{path}#seed"),
        st.integers(0, 6),
        st.integers(0, 9),
    ),
    max_size=60,
)


GOLDEN = [(29, 0, "c835f24b342c7c0ffca965df8b907630"), (35, 0, "388d0d45a45d7ae8a22e42be7e5730bc")]


def keys(batches: list[Batch]) -> Counter[str]:
    return Counter(page.url_key for batch in batches for page in batch.pages)


@given(PAGES, st.randoms(use_true_random=False))
def test_the_same_pages_give_the_same_plan_whatever_their_order(pages: list[PlannedPage], chance: random.Random):
    shuffled = chance.sample(pages, len(pages))
    assert plan("c", 0, pages, SETTINGS) == plan("c", 0, shuffled, SETTINGS)


@given(PAGES)
def test_every_page_is_planned_once_in_its_host_s_lane(pages: list[PlannedPage]):
    batches = plan("c", 0, pages, SETTINGS)
    assert keys(batches) == Counter({page.url_key for page in pages})
    for batch in batches:
        assert 1 <= len(batch.pages) <= SETTINGS.batch_size
        assert {lane_of(host_of(page.url_key), SETTINGS.lanes) for page in batch.pages} == {batch.lane}
        assert batch.batch_id == batch_id("c", 0, batch.lane, batch.sequence, [p.url_key for p in batch.pages])
    for lane in {batch.lane for batch in batches}:
        of_lane = [batch for batch in batches if batch.lane == lane]
        assert [batch.sequence for batch in of_lane] == list(range(len(of_lane)))
        assert all(len(batch.pages) == SETTINGS.batch_size for batch in of_lane[:-1])


@given(PAGES, PAGES)
def test_a_second_list_adds_only_what_is_new_and_continues_each_lane(one: list[PlannedPage], two: list[PlannedPage]):
    first = plan("c", 0, one, SETTINGS)
    second = plan("c", 0, [*two, *one], SETTINGS, first)
    assert keys(first + second) == Counter({page.url_key for page in one + two})
    places = [(batch.lane, batch.sequence) for batch in first + second]
    assert len(set(places)) == len(places)
    for lane in {batch.lane for batch in second}:
        sequences = sorted(sequence for of, sequence in places if of == lane)
        assert sequences == list(range(len(sequences)))
    assert plan("c", 0, one + two, SETTINGS, first + second) == []


def test_hosts_are_interleaved():
    a, b, c = (
        [PlannedPage(f"http://{host}/{n}", "") for n in range(count)] for host, count in (("a", 3), ("b", 1), ("c", 2))
    )
    order = [page.url_key[7:] for page in interleaved([a, b, c])]
    assert order == ["a/0", "b/0", "c/0", "a/1", "c/1", "a/2"]


def test_of_two_seeds_of_one_key_the_smaller_is_kept():
    """Two seeds with one key are one page (pain 35)."""
    pages = [PlannedPage("http://h/", seed) for seed in ("http://h/#b", "http://h", "http://h/#a")]
    (batch,) = plan("c", 0, pages, SETTINGS)
    assert batch.pages == (PlannedPage("http://h/", "http://h"),)


@pytest.mark.parametrize(("crawl", "round_number"), [("d", 0), ("c", 1)])
def test_crawl_and_round_are_part_of_a_batch_s_identity(crawl, round_number):
    pages = [PlannedPage("http://h/", "http://h/")]
    assert plan("c", 0, pages, SETTINGS)[0].batch_id != plan(crawl, round_number, pages, SETTINGS)[0].batch_id


def test_a_plan_never_changes_for_the_same_input():
    """Golden ids: a stored plan must be found again by every later version."""
    pages = [PlannedPage(f"http://h{n % 2}.org/{n}", "") for n in range(3)]
    found = [(b.lane, b.sequence, b.batch_id) for b in plan("c", 0, pages, CrawlSettings())]
    assert found == GOLDEN
