"""The tasks are thin: a message becomes a reference, the engine does the work, and what fails is retried or not here.

Nothing else decides about retries. A message that is given up loses nothing: what is left to do is the plan minus the
markers, and the scheduler sends it again.
"""

from __future__ import annotations

import logging
import random
from typing import Any, Final

from celery import Celery, Task
from celery.exceptions import Reject
from kombu.exceptions import OperationalError

from schemas.delivery import CAPTURE_BATCH, PRIORITY_HEADER, BatchReference, Priority, priority_of
from schemas.errors import BrowserLost, BrowserMissing, DiskFull, MessageRefused, PagestateError, StoreUnavailable
from workers.engine import EngineThread
from workers.queues import queue_names, send_batch

RETRIED: Final = (StoreUnavailable, BrowserLost, BrowserMissing, DiskFull)
"""What another try, maybe on another machine, can mend."""
MAX_RETRIES: Final = 8
FIRST_PAUSE_SECONDS: Final = 2.0
LONGEST_PAUSE_SECONDS: Final = 60.0
"""Well below the visibility timeout: a message that waits here is not acknowledged."""

_LOG = logging.getLogger("pagestate.tasks")


def register(app: Celery, engine: EngineThread) -> None:
    """Give an application its tasks, which all work with one engine."""

    @app.task(name=CAPTURE_BATCH, bind=True, max_retries=MAX_RETRIES)
    def capture_batch(task: Task[Any, Any], message: object) -> None:
        try:
            reference = BatchReference.decode(message)
            done = engine.capture(reference)
        except MessageRefused as error:
            _LOG.error("%s", error)
            raise Reject(error, requeue=False) from error
        except RETRIED as error:
            pause = pause_seconds(task.request.retries, random.random())
            _LOG.warning("batch of %s: %s Trying again in %.0f s.", _said(message), error, pause)
            raise task.retry(exc=error, countdown=pause) from error
        except PagestateError as error:
            _LOG.error("batch of %s is given up: %s", _said(message), error)
            raise
        _LOG.info("batch %s of round %d in %s: %s", done.batch_id, reference.round, reference.store, done.result)
        if done.result in ("won", "duplicate"):
            _send_following(app, engine, reference, priority_of(task.request.get(PRIORITY_HEADER)))
        if done.result == "unstarted":
            # this worker is ending; the next one may have the batch at once
            raise Reject("the worker is ending", requeue=True)


def _send_following(app: Celery, engine: EngineThread, reference: BatchReference, priority: Priority) -> None:
    """The lane's next batch is sent before this one's message is acknowledged: no crash in between stops a lane.

    Where the store or the broker cannot be asked, the scheduler sends it when the lane stands still.
    """
    try:
        following = engine.following(reference)
        if following is not None:
            send_batch(app, following, priority, queue_names(app)[-1])
    except (PagestateError, OperationalError) as error:
        _LOG.warning("the batch after %s was not sent: %s", reference.batch_id, error)


def pause_seconds(retries: int, chance: float) -> float:
    """How long to wait before a try: twice as long each time, up to a minute; `chance` (0 to 1) takes off up to half.

    Otherwise all the workers of a store that was away would come back in step.
    """
    longest: float = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2**retries)
    return longest * (1 - chance / 2)


def _said(message: object) -> str:
    reference: Any = message
    return f"{reference.get('batch_id')} in {reference.get('store')}"
