"""Which queue a message goes to, and how it is put before others: the one place that knows how brokers differ in that.

Redis keeps a list for each priority of a queue, and every version of a worker takes the first that is not empty.
RabbitMQ orders within a queue that was declared for it, and no queue is declared anew; so there is a second one beside
the one that earlier versions know.
"""

from __future__ import annotations

from typing import Any, Final

from celery import Celery
from kombu import Exchange, Queue

from schemas.delivery import (
    CAPTURE_BATCH,
    PRIORITY_HEADER,
    QUEUE,
    BatchReference,
    DeliverySettings,
    Priority,
    celery_settings,
    message_priority,
    orders_by_queue,
)

ORDERED_QUEUE: Final = "pagestate.ordered"
"""RabbitMQ's queue that knows priorities."""
HIGHEST: Final = 3
"""What that queue is declared with; the message priorities of schemas.delivery fit in."""


def delivery_app(settings: DeliverySettings) -> Celery:
    """An application of either end of a broker, without tasks; making it connects to nothing."""
    app = Celery("pagestate", set_as_current=False)
    app.conf.update(celery_settings(settings))
    if orders_by_queue(settings.broker):
        app.conf.task_queues = [_queue(QUEUE), _queue(ORDERED_QUEUE, {"x-max-priority": HIGHEST})]
    return app


def send_batch(
    app: Celery, reference: BatchReference, priority: Priority, queue: str, *, urgent: bool = False, **options: Any
) -> None:
    """Sends a batch of a crawl of this priority; what comes after it in its lane has that again.

    `urgent` puts this one among those of the highest priority. Raises what the broker library raises.
    """
    app.send_task(
        CAPTURE_BATCH,
        [reference.encode()],
        queue=queue,
        priority=message_priority(app.conf.broker_url, "high" if urgent else priority),
        headers={PRIORITY_HEADER: priority},
        **options,
    )


def queue_names(app: Celery) -> tuple[str, ...]:
    """The queues that a worker takes messages from, the one that is sent to last."""
    return (QUEUE, ORDERED_QUEUE) if orders_by_queue(app.conf.broker_url) else (QUEUE,)


def _queue(name: str, arguments: dict[str, Any] | None = None) -> Queue:
    """A queue as Celery itself declares one of this name."""
    return Queue(name, Exchange(name, type="direct"), routing_key=name, queue_arguments=arguments)
