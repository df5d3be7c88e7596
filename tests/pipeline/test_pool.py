"""The pool's processes, apart from what they do."""

from __future__ import annotations

import asyncio
import gc
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import pytest

from workers.pool import ProcessPool


@pytest.mark.asyncio
async def test_a_job_that_nobody_waits_for_leaves_no_complaint():
    """Given a stop while the processes still load, then nothing is written about a process that is ended for it."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    pool = ProcessPool(1)
    waiting = asyncio.create_task(pool.run(60, len, ()))
    # told after the job itself is, which is the first to wait for the process
    process = pool._idle[0]
    await asyncio.sleep(0)
    assert not pool._idle, "the job waits for its process"
    ended = asyncio.wrap_future(process.ready)
    del process  # which holds what waited for it
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    try:
        with pytest.raises(BrokenProcessPool):
            await ended
        gc.collect()
        assert complaints == []
    finally:
        pool.close()
