"""A journal names what an execution of a batch has in flight, so that a page that kills its worker is found.

An entry is one look at a page: its URL and profile. It is on record before the page is started, and taken out when the
next one is entered or a moment after it has ended: a request for each page, not two. What an execution that was lost
had in flight then tells: in company a page may be innocent, alone it is not.
So after a loss a batch goes on in careful mode, one page at a time, and a page that was alone in flight at two losses
is `quarantined`.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field

from schemas.batch import Batch
from schemas.errors import StoreDamaged
from workers.store.layout import journal_path, journals_of
from workers.store.objects import ObjectStore

LOSSES_TO_QUARANTINE = 2
LINGER_SECONDS = 0.5
"""How long a page that has ended may stay on record, for the next one's entry to take it out."""


@dataclass(frozen=True, slots=True)
class Losses:
    """What earlier executions of a batch, which never ended, had in flight."""

    executions: int = 0
    alone: Counter[str] = field(default_factory=Counter)
    """How often each look at a page was alone in flight when an execution was lost."""

    @property
    def careful(self) -> bool:
        """Whether the batch is to go on one page at a time."""
        return self.executions > 0

    def quarantined(self, look: str) -> bool:
        """Whether a page is not to be fetched any more."""
        return self.alone[look] >= LOSSES_TO_QUARANTINE


class Journal:
    """The journal of one execution; pages are entered and left from one event loop."""

    def __init__(self, store: ObjectStore, batch: Batch, attempt: str) -> None:
        self._store = store
        self._path = journal_path(batch.round, batch.batch_id, attempt)
        self._coming = 0
        self._in_flight: set[str] = set()
        self._tag: str | None = None
        self._writing = asyncio.Lock()
        self._changes = self._written = 0

    def expect(self, looks: int) -> None:
        """So many looks at pages are to come, at most; after the last none is waited for."""
        self._coming = looks

    async def enter(self, look: str) -> None:
        """A page is about to be started; it is on record when this returns. Raises StoreError."""
        self._coming -= 1
        self._in_flight.add(look)
        self._changes += 1
        await self._write(self._changes)

    def leave(self, look: str) -> None:
        """A page has ended: it goes from the record with the next that is entered, or with `settle`."""
        self._in_flight.discard(look)
        self._changes += 1

    async def settle(self) -> None:
        """Returns when every page that has ended by now is off the record. Raises StoreError."""
        change = self._changes
        if self._coming > 0 or self._in_flight:
            await asyncio.sleep(LINGER_SECONDS)
        await self._write(change)

    async def close(self) -> None:
        """The execution has ended by itself: whatever it had in flight is to blame for nothing."""
        if self._tag is not None:
            await asyncio.to_thread(self._store.delete, self._path)

    async def _write(self, change: int) -> None:
        async with self._writing:
            if self._written >= change:
                return  # while this one waited, another wrote down what it had to say
            now = self._changes
            data = json.dumps({"in_flight": sorted(self._in_flight)}).encode()
            if self._tag is not None:
                self._tag = await asyncio.to_thread(self._store.put_if_match, self._path, data, self._tag)
            if self._tag is None:
                # it is not there yet, or the result of the last write is not known
                made = await asyncio.to_thread(self._store.put_if_absent, self._path, data)
                found = await asyncio.to_thread(self._store.read_tagged, self._path)
                self._tag = found[1] if found else None
                if found is not None and not made and found[0] != data:
                    self._tag = await asyncio.to_thread(self._store.put_if_match, self._path, data, found[1])
            self._written = now


def losses_of(store: ObjectStore, batch: Batch) -> Losses:
    """The journals that executions of a batch left behind. Call it with the batch's claim held: who wrote them is gone.

    Raises StoreDamaged for a journal that is none.
    """
    losses = Losses()
    executions = 0
    alone: Counter[str] = Counter()
    for path in store.list(journals_of(batch.round, batch.batch_id)):
        data = store.read(path)
        if data is None:
            continue
        try:
            in_flight = json.loads(data)["in_flight"]
        except (ValueError, TypeError, KeyError) as error:
            raise StoreDamaged(f"The journal {path} in {store.where} is not what a worker wrote; delete it.") from error
        executions += 1
        if len(in_flight) == 1:
            alone[in_flight[0]] += 1
    return Losses(executions, alone) if executions else losses
