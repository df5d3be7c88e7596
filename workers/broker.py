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
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from schemas.delivery import DEFAULT_PRIORITY, BatchReference, DeliverySettings, Priority, broker_name
from schemas.errors import BrokerError
from workers.queues import delivery_app, queue_names, send_batch

CONNECT_SECONDS: Final = 5.0


class Broker:
    """A connection to the broker for one thread; `where` names it without credentials."""

    def __init__(self, settings: DeliverySettings, priority: Priority = DEFAULT_PRIORITY) -> None:
        self.where = broker_name(settings.broker)
        self._app = delivery_app(settings)
        self._priority: Priority = priority

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

    def send(self, reference: BatchReference, *, urgent: bool = False) -> None:
        """Sends a batch by the task's name, `urgent` before those of other priorities. Raises BrokerError."""
        with self._translated("send to"):
            send_batch(
                self._app,
                reference,
                self._priority,
                self._queue_with_workers(),
                urgent=urgent,
                retry=True,
                retry_policy={"max_retries": 2},
            )

    def waiting(self) -> int:
        """Messages that no worker has in hand. Raises BrokerError."""
        with self._translated("look at"), self._connection() as connection:
            return sum(declared.message_count for declared in self._declared(connection))

    def _queue_with_workers(self) -> str:
        """The queue to send to: that of earlier versions only where nobody but their workers is there."""
        names = queue_names(self._app)
        if len(names) == 1:
            return names[0]
        with self._connection() as connection:
            earlier, ordered = self._declared(connection)
        return names[0] if earlier.consumer_count and not ordered.consumer_count else names[-1]

    def _declared(self, connection: Any) -> list[Any]:
        """How many messages wait in each queue, and for how many consumers.

        They are declared as workers declare them: a queue that nobody has used yet is an empty one.
        """
        queues: list[Any] = [self._app.amqp.queues[name](connection.default_channel) for name in queue_names(self._app)]
        return [queue.queue_declare(passive=False) for queue in queues]

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
