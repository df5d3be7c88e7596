"""The broker end of a scheduler: sends references to batches and looks at how many wait; knows no engine.

This is the only module that turns the broker library's errors into BrokerError. A broker's URL may hold a password, so
no message repeats it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self

from amqp.exceptions import AMQPError
from celery import Celery
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from schemas.delivery import CAPTURE_BATCH, QUEUE, BatchReference, DeliverySettings, broker_name, celery_settings
from schemas.errors import BrokerError

CONNECT_SECONDS: Final = 5.0


class Broker:
    """A connection to the broker for one thread; `where` names it without credentials."""

    def __init__(self, settings: DeliverySettings) -> None:
        self.where = broker_name(settings.broker)
        self._app = Celery("pagestate", set_as_current=False)
        self._app.conf.update(celery_settings(settings))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._app.close()

    def check(self) -> None:
        """Raises BrokerError where nobody answers, or refuses."""
        with self._translated("reach"), self._connection() as connection:
            connection.ensure_connection(max_retries=1, interval_start=0.2, timeout=CONNECT_SECONDS)
            connection.default_channel.close()

    def send(self, reference: BatchReference) -> None:
        """Sends a batch by the task's name. Raises BrokerError."""
        with self._translated("send to"):
            self._app.send_task(
                CAPTURE_BATCH, [reference.encode()], queue=QUEUE, retry=True, retry_policy={"max_retries": 2}
            )

    def waiting(self) -> int:
        """Messages that no worker has in hand. Raises BrokerError."""
        with self._translated("look at"), self._connection() as connection:
            # it is declared as workers declare it: a queue that nobody has used yet is an empty one
            queue: Any = self._app.amqp.queues[QUEUE](connection.default_channel)
            return int(queue.queue_declare(passive=False).message_count)

    def _connection(self) -> Any:
        return self._app.connection_for_write()

    @contextmanager
    def _translated(self, verb: str) -> Iterator[None]:
        try:
            yield
        except (KombuError, AMQPError, RedisError, OSError) as error:
            raise BrokerError(
                f"Cannot {verb} the broker {self.where}: {_reason(error)}; start it, or give its URL as --broker."
            ) from error


def _reason(error: BaseException) -> str:
    """The innermost cause in words; the library's own text may repeat the URL."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    text = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
    return (text or type(cause).__name__).split("\n")[0].rstrip(".").replace("@", " at ")
