"""What a worker does with a delivered batch, whatever captures it: claim, journal, capture, commit, the lane's next.

A committed batch is captured by nobody, and a claimed one by its holder alone. This is the protocol of a fleet, without
browser, broker and threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

from schemas.batch import Batch
from schemas.delivery import BatchReference
from schemas.errors import StoreError
from workers.batch import BatchDone, Execution, new_attempt
from workers.claims import ClaimTimes, claimed
from workers.journal import Journal, Losses, losses_of
from workers.store import ObjectStore, StoredPlan
from workers.store.layout import marker_path


async def carry_out(
    store: ObjectStore, batch: Batch, times: ClaimTimes, capture: Callable[[Execution], Awaitable[BatchDone]]
) -> BatchDone:
    """Claims a batch and has it captured; `held` where another execution has claimed it. Raises what `capture` does."""
    attempt = new_attempt()
    async with claimed(store, batch, attempt, times) as claim:
        if claim is None:
            return BatchDone(batch.batch_id, "held", {})
        if claim.number and await asyncio.to_thread(_is_committed, store, batch.round, batch.batch_id):
            # whoever held it before had committed it, and no more
            return BatchDone(batch.batch_id, "duplicate", {})
        losses = await asyncio.to_thread(losses_of, store, batch) if claim.number else Losses()
        journal = Journal(store, batch, attempt)
        follows = bool(batch.round or batch.sequence or claim.number)
        try:
            return await capture(Execution(attempt, claim, journal, losses, follows))
        finally:
            with suppress(StoreError):  # a journal that stays makes the next execution careful, and no more
                await journal.close()


def following(store: ObjectStore, plan: StoredPlan, reference: BatchReference) -> BatchReference | None:
    """The first uncommitted batch of the lane after a committed one. Raises StoreError."""
    while True:
        for sequence, batch_id in plan.places_after(reference.lane, reference.sequence):
            if not _is_committed(store, reference.round, batch_id):
                return replace(reference, sequence=sequence, batch_id=batch_id)
        # a second list of seeds may have gone on with the lane
        if not plan.refresh():
            return None


def _is_committed(store: ObjectStore, round_number: int, batch_id: str) -> bool:
    return store.size_of(marker_path(round_number, batch_id)) is not None
