"""A lane's batch is one worker's at a time, whoever dies; real stores, short times."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from schemas.batch import Batch, PlannedPage
from schemas.errors import StoreDamaged, StoreUnavailable
from workers.claims import ClaimTimes, claim_version, claimed
from workers.store import FolderStore, ObjectStore, open_store
from workers.store.layout import claim_path

TIMES = ClaimTimes(timedelta(seconds=0.1), timedelta(seconds=0.4), timedelta(seconds=0.8))
BATCH = Batch("crawl", 0, 3, 1, "ab" * 16, (PlannedPage("http://example.org/", "http://example.org/"),))


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path) -> ObjectStore:
    if request.param == "folder":
        return FolderStore.for_run(tmp_path / "store")
    return open_store(request.getfixturevalue("s3_url"))


class Cut:
    """A store that can be cut off from what is above it."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.is_cut = False

    def __getattr__(self, name: str) -> Callable[..., object]:
        if self.is_cut:
            raise StoreUnavailable("the line is cut")
        return getattr(self.store, name)


def test_a_free_batch_is_claimed_and_released(store):
    async def run() -> None:
        async with claimed(store, BATCH, "one", TIMES) as first:
            assert first is not None
            assert first.number == 0
        async with claimed(store, BATCH, "two", TIMES) as second:
            assert second is not None
            assert second.number == 1

    asyncio.run(run())


def test_a_held_claim_is_not_taken_however_long_one_waits(store):
    async def run() -> None:
        async with claimed(store, BATCH, "one", TIMES) as first:
            for _ in range(3):
                async with claimed(store, BATCH, "two", TIMES) as second:
                    assert second is None
            assert first is not None
            assert not first.lost.is_set()

    asyncio.run(run())


def test_the_claim_of_a_dead_holder_lapses(store):
    # Given a claim whose holder never renews it
    store.put_if_absent(claim_path(0, 3, 1, 0), json.dumps({"attempt": "x", "renewals": 0, "released": False}).encode())

    async def run() -> None:
        begun = asyncio.get_running_loop().time()
        async with claimed(store, BATCH, "two", TIMES) as claim:
            # Then it is another's, not before the lapse
            assert claim is not None
            assert claim.number == 1
            assert asyncio.get_running_loop().time() - begun >= TIMES.lapse.total_seconds()

    asyncio.run(run())


def test_of_many_that_want_a_claim_one_gets_it(store):
    async def run() -> None:
        won = []

        async def want(name: str) -> None:
            async with claimed(store, BATCH, name, TIMES) as claim:
                if claim is not None:
                    won.append(name)
                    await asyncio.sleep(1.2 * TIMES.lapse.total_seconds())

        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(want(f"attempt {number}"))
        assert len(won) == 1

    asyncio.run(run())


def test_a_holder_that_cannot_renew_stops_before_another_may_start(store):
    cut = Cut(store)

    async def run() -> None:
        async with claimed(cut, BATCH, "one", TIMES) as first:  # type: ignore[arg-type]  # stands in for a store
            assert first is not None
            cut.is_cut = True

            async def take_over() -> bool:
                async with claimed(store, BATCH, "two", TIMES) as second:
                    assert second is not None
                    return first.lost.is_set()

            assert await take_over(), "the first holder had not stopped when the second one began"

    asyncio.run(run())


def test_a_holder_whose_claim_another_rewrote_has_lost_it(store):
    async def run() -> None:
        async with claimed(store, BATCH, "one", TIMES) as first:
            assert first is not None
            read = store.read_tagged(first.path)
            assert read is not None
            while store.put_if_match(first.path, b'{"released": false}', read[1]) is None:
                read = store.read_tagged(first.path)
                assert read is not None
            await asyncio.wait_for(first.lost.wait(), 5)

    asyncio.run(run())


def test_other_batches_of_the_lane_have_claims_of_their_own(store):
    other = Batch("crawl", 0, 3, 11, "cd" * 16, BATCH.pages)

    async def run() -> None:
        async with claimed(store, BATCH, "one", TIMES) as one, claimed(store, other, "two", TIMES) as two:
            assert one is not None
            assert two is not None
            assert two.number == 0

    asyncio.run(run())


def test_a_damaged_claim_is_named(store):
    store.put_if_absent(claim_path(0, 3, 1, 0), b"[]")

    async def run() -> None:
        async with claimed(store, BATCH, "one", TIMES):
            raise AssertionError

    with pytest.raises(StoreDamaged, match=r"claims/0/3/1-0\.json in .* is not what a worker wrote"):
        asyncio.run(run())


def test_a_version_is_replaced_once(store):
    store.put_if_absent("x.json", b"one")
    data, tag = store.read_tagged("x.json")
    assert data == b"one"
    second = store.put_if_match("x.json", b"two", tag)
    assert second is not None
    assert store.read_tagged("x.json") == (b"two", second)
    assert store.put_if_match("x.json", b"three", tag) is None
    assert store.put_if_match("absent.json", b"three", tag) is None
    assert store.read("x.json") == b"two"
    assert list(store.list("")) == ["x.json"]


def test_claims_are_found_without_a_listing_from_any_number_on(store):
    for number in range(4):
        data = json.dumps({"attempt": "x", "renewals": 0, "released": number < 3}).encode()
        store.put_if_absent(claim_path(0, 3, 1, number), data)
    first = claim_version(store, BATCH)
    assert first is not None
    assert first[0] == 3
    assert claim_version(store, BATCH, first) == claim_version(store, BATCH, (1, "older")) == first
    store.put_if_match(claim_path(0, 3, 1, 3), b'{"released": true}', first[1])
    assert claim_version(store, BATCH, first) not in (None, first)
    assert claim_version(store, Batch("crawl", 0, 3, 2, "ab" * 16, ())) is None
