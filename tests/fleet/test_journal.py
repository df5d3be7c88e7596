"""A page is to blame for a loss when it was alone in flight, twice; neighbours never are."""

from __future__ import annotations

import asyncio

import pytest

from schemas.batch import Batch, PlannedPage
from schemas.errors import StoreDamaged
from workers.journal import Journal, losses_of
from workers.store import FolderStore
from workers.store.layout import journal_path

A, B = "http://example.org/a", "http://example.org/b"
BATCH = Batch("crawl", 0, 3, 1, "ab" * 16, (PlannedPage(A, A), PlannedPage(B, B)))


@pytest.fixture
def store(tmp_path) -> FolderStore:
    return FolderStore.for_run(tmp_path / "store")


def lose(store: FolderStore, attempt: str, *entered: str, left: str = "") -> None:
    """An execution that enters pages, leaves one, and never ends."""

    async def run() -> None:
        journal = Journal(store, BATCH, attempt)
        await asyncio.gather(*map(journal.enter, entered))
        if left:
            journal.leave(left)
            await journal.settle()

    asyncio.run(run())


def test_a_batch_without_losses_is_not_careful(store):
    async def run() -> None:
        journal = Journal(store, BATCH, "one")
        await journal.enter(A)
        journal.leave(A)
        await journal.close()

    asyncio.run(run())
    assert not losses_of(store, BATCH).careful


def test_pages_lost_in_company_are_not_to_blame(store):
    for attempt in "one", "two", "three":
        lose(store, attempt, A, B)
    losses = losses_of(store, BATCH)
    assert losses.careful
    assert not losses.quarantined(A)
    assert not losses.quarantined(B)


def test_a_page_lost_alone_twice_is_quarantined(store):
    lose(store, "one", A)
    assert not losses_of(store, BATCH).quarantined(A)
    lose(store, "two", A, B, left=B)
    losses = losses_of(store, BATCH)
    assert losses.quarantined(A)
    assert not losses.quarantined(B)


def test_a_page_that_has_ended_is_to_blame_for_nothing_though_no_other_follows_it(store):
    for attempt in "one", "two":

        async def run(attempt: str = attempt) -> None:
            journal = Journal(store, BATCH, attempt)
            journal.expect(2)
            await journal.enter(A)
            journal.leave(A)
            await journal.settle()

        asyncio.run(run())
    losses = losses_of(store, BATCH)
    assert losses.executions == 2
    assert not losses.quarantined(A)


def test_the_next_page_takes_the_one_before_off_the_record(store):
    for attempt in "one", "two":

        async def run(attempt: str = attempt) -> None:
            journal = Journal(store, BATCH, attempt)
            await journal.enter(A)
            journal.leave(A)
            await journal.enter(B)

        asyncio.run(run())
    losses = losses_of(store, BATCH)
    assert losses.quarantined(B)
    assert not losses.quarantined(A)


class Counting(FolderStore):
    """Counts what is written."""

    writes = 0

    def put_if_match(self, path: str, data: bytes, tag: str) -> str | None:
        Counting.writes += 1
        return super().put_if_match(path, data, tag)


def test_pages_in_two_slots_cost_a_write_each_and_few_besides(tmp_path, monkeypatch):
    counting, pages = Counting.for_run(tmp_path / "store"), 40
    monkeypatch.setattr(Counting, "writes", 0)

    async def run() -> None:
        journal, slots = Journal(counting, BATCH, "one"), asyncio.Semaphore(2)
        journal.expect(pages)

        async def page(name: str) -> None:
            async with slots:
                await journal.enter(name)
                await asyncio.sleep(0.01)
                journal.leave(name)
            await journal.settle()

        await asyncio.gather(*(page(str(n)) for n in range(pages)))

    asyncio.run(run())
    assert pages / 2 <= Counting.writes <= pages + 3
    assert losses_of(counting, BATCH).alone.total() == 0


def test_a_damaged_journal_is_named(store):
    store.put_if_absent(journal_path(0, BATCH.batch_id, "one"), b"no json")
    with pytest.raises(StoreDamaged, match=r"journal .* is not what a worker wrote"):
        losses_of(store, BATCH)
