"""Delivery brings batches to workers: what a message holds, and how the broker must treat it.

Messages carry references, never batches: the batch itself is read from the plan in the store, which everyone can check.
Both ends of a broker read this module, so that they cannot disagree; it imports no Celery, and does nothing itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Final, Literal, TypeAlias, get_args
from urllib.parse import SplitResult, urlsplit

from schemas.batch import Batch
from schemas.errors import MessageRefused, SettingError

CAPTURE_BATCH: Final = "pagestate.capture_batch"
"""The task's name; written out, because a name made from a module would change when the module moves."""
QUEUE: Final = "pagestate"
MESSAGE_VERSION: Final = 2
BROKER_PORTS: Final = {"redis": 6379, "rediss": 6379, "amqp": 5672, "amqps": 5671}
"""The schemes of brokers that redeliver the message of a lost worker, with their ports; kombu knows others, which do
not."""


Priority: TypeAlias = Literal["low", "normal", "high"]
PRIORITIES: tuple[Priority, ...] = get_args(Priority)
DEFAULT_PRIORITY: Final[Priority] = "normal"
PRIORITY_HEADER: Final = "pagestate_priority"
"""A header of the message and no part of the reference, since earlier versions refuse a reference with more in it."""
_ORDERED: Final = ("amqp", "amqps")
"""The brokers that put a higher number first; for kombu's Redis 0 is first, and a message without a number has 0."""


@dataclass(frozen=True, slots=True)
class BatchReference:
    """Which planned batch is to be captured: its store as a path or s3:// URL, its place in the plan, and its id."""

    store: str
    round: int
    lane: int
    sequence: int
    batch_id: str

    @classmethod
    def to(cls, store: str, batch: Batch) -> BatchReference:
        """The reference to a batch of the plan in a store."""
        return cls(store, batch.round, batch.lane, batch.sequence, batch.batch_id)

    def encode(self) -> dict[str, object]:
        """The message, as a JSON object."""
        return {"version": MESSAGE_VERSION, **asdict(self)}

    @classmethod
    def decode(cls, message: object) -> BatchReference:
        """The reference in a message. Raises MessageRefused for any other message, an older or newer one included."""
        if not isinstance(message, Mapping) or message.get("version") != MESSAGE_VERSION:
            version = message.get("version") if isinstance(message, Mapping) else None
            raise MessageRefused(
                f"A message of version {version!r} came to {CAPTURE_BATCH}, which knows {MESSAGE_VERSION};"
                " run the scheduler and the workers in one version."
            )
        kinds: dict[str, type] = {"store": str, "round": int, "lane": int, "sequence": int, "batch_id": str}
        wrong = sorted(message.keys() ^ {"version", *kinds}) or [
            name for name, kind in kinds.items() if type(message[name]) is not kind
        ]
        if wrong:
            raise MessageRefused(f"A message to {CAPTURE_BATCH} has no proper {wrong[0]}; send what schedulers send.")
        return cls(**{name: message[name] for name in kinds})


@dataclass(frozen=True, slots=True)
class DeliverySettings:
    """Where the broker is and when it gives an unacknowledged message to another worker."""

    broker: str = field(repr=False)
    """A URL; it may hold a password, so it is never printed."""
    visibility_timeout: timedelta = timedelta(minutes=10)
    """Longer than any batch takes: below that a batch runs twice at once, which costs work but commits once. Ten
    minutes is the batch deadline (two minutes, or 25 polite pages) and after it a last page with all its budgets."""
    claim_lapse: timedelta = timedelta(seconds=30)
    """How long a claim stands still before another worker takes it over: the batch of a lost worker waits that long
    after its message has come back."""
    restore_interval: timedelta = timedelta(seconds=2)
    """How often the Redis transport looks for messages whose timeout is over; with kombu's own defaults a killed
    worker's batch was not back after 90 s."""


def broker_address(broker: str) -> tuple[str, int]:
    """Host and port of a broker's URL, which no page may reach. Raises SettingError as `broker_name` does."""
    parts = _broker_parts(broker)
    return parts.hostname or "", parts.port or BROKER_PORTS[parts.scheme]


def broker_name(broker: str) -> str:
    """A broker's URL without user name, password and query. Raises SettingError for one that is none."""
    parts = _broker_parts(broker)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


def orders_by_queue(broker: str) -> bool:
    """Whether priorities hold only in a queue that was declared for them."""
    return urlsplit(broker).scheme in _ORDERED


def message_priority(broker: str, priority: Priority) -> int:
    """The number by which a broker orders the messages of crawls of this priority.

    With Redis it is one of kombu's four steps (0, 3, 6, 9), which workers of all versions look at in this order.
    """
    place = PRIORITIES.index(priority)
    return place + 1 if orders_by_queue(broker) else 3 * (len(PRIORITIES) - 1 - place)


def priority_of(header: object) -> Priority:
    """The priority in a message's header; of a message without one, as earlier versions send it, the default."""
    return next((priority for priority in PRIORITIES if priority == header), DEFAULT_PRIORITY)


def _broker_parts(broker: str) -> SplitResult:
    try:
        parts = urlsplit(broker)
        # looked at for what it raises
        _ = parts.port
    except ValueError as error:
        raise SettingError("The broker's URL makes no sense; give one such as redis://127.0.0.1:6379/0.") from error
    if parts.scheme not in BROKER_PORTS or not parts.hostname:
        raise SettingError(
            f"The broker's URL does not start with one of {', '.join(f'{s}://' for s in BROKER_PORTS)} and a host;"
            " give one such as redis://127.0.0.1:6379/0 or amqp://127.0.0.1:5672//."
        )
    return parts


def celery_settings(settings: DeliverySettings) -> dict[str, Any]:
    """The Celery settings of both ends: JSON only, acknowledged late, one batch a thread and none in hand besides."""
    return {
        "broker_url": settings.broker,
        "broker_transport_options": {
            "visibility_timeout": settings.visibility_timeout.total_seconds(),
            "unacked_restore_interval": settings.restore_interval.total_seconds(),
            # the scan runs at each interval, not at every tenth
            "unacked_restore_throttle": 1,
            # RabbitMQ has the lane's next batch before the acknowledgement of this one, which goes another way
            **({"confirm_publish": True} if orders_by_queue(settings.broker) else {}),
        },
        "broker_connection_retry_on_startup": True,
        "accept_content": ["json"],
        "task_serializer": "json",
        "result_serializer": "json",
        "task_ignore_result": True,  # the marker is the result
        "task_acks_late": True,
        "task_create_missing_queues": True,
        "task_default_queue": QUEUE,
        "task_routes": {"pagestate.*": {"queue": QUEUE}},
        "worker_prefetch_multiplier": 1,
        "worker_send_task_events": False,
        "worker_hijack_root_logger": False,
        "enable_utc": True,
    }
