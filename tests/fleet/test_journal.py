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
            await journal.leave(left)

    asyncio.run(run())


def test_a_batch_without_losses_is_not_careful(store):
    async def run() -> None:
        journal = Journal(store, BATCH, "one")
        await journal.enter(A)
        await journal.leave(A)
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


def test_a_damaged_journal_is_named(store):
    store.put_if_absent(journal_path(0, BATCH.batch_id, "one"), b"no json")
    with pytest.raises(StoreDamaged, match=r"journal .* is not what a worker wrote"):
        losses_of(store, BATCH)
