"""The Celery application of a worker process; making it connects to nothing.

    PAGESTATE_WORKER_BROKER=redis://127.0.0.1:6379/0 celery -A workers.app worker --pool=threads --concurrency=2

`--concurrency` is the batches in flight; PAGESTATE_WORKER_CONCURRENCY the pages of all of them together.
"""

from __future__ import annotations

import difflib
import logging
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from typing import Any, Final

from celery import Celery, signals

from schemas.delivery import DeliverySettings, broker_address
from schemas.errors import SettingError
from schemas.settings import RunSettings
from workers.browser.find import find_browser
from workers.claims import ClaimTimes
from workers.engine import EngineThread
from workers.policy_file import read_policy
from workers.queues import delivery_app
from workers.store import open_store
from workers.store.s3_client import S3Options
from workers.tasks import register

_LOG = logging.getLogger("pagestate.worker")
PREFIX: Final = "PAGESTATE_WORKER_"


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What shapes a worker process, but no row."""

    delivery: DeliverySettings
    run: RunSettings
    s3: S3Options
    stores: tuple[str, ...] = ()
    """The folders and s3:// URLs that a message may name; none given: any."""
    grace: timedelta = timedelta(minutes=2)
    """To finish in once asked to end; then the process ends by itself, and its batches come to another worker."""


def _seconds(text: str) -> timedelta:
    return timedelta(seconds=float(text))


def _yes_or_no(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError(f"{text!r} is neither 0 nor 1")
    return text == "1"


_LEAST: Final[dict[str, float]] = {
    "visibility_timeout": 1,
    "claim_lapse": 0.3,
    "grace": 1,
    "concurrency": 1,
    "host_concurrency": 1,
    "host_delay": 0,
    "processes": 1,
}
_DELIVERY: Final[dict[str, Callable[[str], Any]]] = {
    "broker": str,
    "visibility_timeout": _seconds,
    "claim_lapse": _seconds,
}
_RUN: Final[dict[str, Callable[[str], Any]]] = {
    "concurrency": int,
    "host_concurrency": int,
    "host_delay": _seconds,
    "processes": int,
    "policy": read_policy,
    "allow_private": _yes_or_no,
}
_S3: Final[dict[str, Callable[[str], Any]]] = {
    "endpoint_url": str,
    "addressing": str,
    "region": str,
    "encryption": str,
    "kms_key": str,
}
_OWN: Final[dict[str, Callable[[str], Any]]] = {"stores": lambda text: tuple(text.split("\n")), "grace": _seconds}
KNOWN: Final = (*_DELIVERY, *_RUN, *_OWN, *(f"s3_{name}" for name in _S3))


def worker_settings(environment: Mapping[str, str]) -> WorkerSettings:
    """The settings that PAGESTATE_WORKER_... variables give, and PAGESTATE_BROWSER.

    Raises SettingError for an unknown or impossible one, and where no broker is given.
    """
    given = {name.removeprefix(PREFIX).lower(): text for name, text in environment.items() if name.startswith(PREFIX)}
    for name in given:
        if name not in KNOWN:
            near = difflib.get_close_matches(name, KNOWN, n=1)
            hint = f"did you mean {_variable(near[0])}?" if near else f"known are {', '.join(map(_variable, KNOWN))}."
            raise SettingError(f"There is no setting {_variable(name)}; {hint}")
    if not given.get("broker"):
        raise SettingError(
            f"No broker is given; set {_variable('broker')} to its URL, such as redis://127.0.0.1:6379/0."
        )
    return WorkerSettings(
        delivery=DeliverySettings(**_values(given, _DELIVERY, "")),
        run=RunSettings(
            browser_path=environment.get("PAGESTATE_BROWSER", ""),
            closed=(broker_address(given["broker"]),),
            **_values(given, _RUN, ""),
        ),
        s3=S3Options(**_values(given, _S3, "s3_")),
        **_values(given, _OWN, ""),
    )


def make_app(settings: WorkerSettings) -> Celery:
    """An application whose tasks share one engine, which ends with the worker."""
    open_one = partial(open_store, options=settings.s3)
    engine = EngineThread(
        settings.run,
        browser=partial(find_browser, settings.run.browser_path),
        open_store=open_one,
        times=ClaimTimes.of(settings.delivery.claim_lapse),
        allowed=frozenset(open_one(place).where for place in settings.stores),
    )
    app = delivery_app(settings.delivery)
    register(app, engine)
    # held by the closures: Celery keeps only weak references to what listens
    signals.worker_shutting_down.connect(lambda **_: engine.stop(), weak=False)
    signals.worker_shutting_down.connect(lambda **_: _end_after(settings.grace), weak=False)
    signals.worker_shutdown.connect(lambda **_: engine.close(), weak=False)
    return app


def _end_after(grace: timedelta) -> None:
    """Ends the process when the grace is over: unacknowledged messages come back to another worker."""

    def end() -> None:
        _LOG.error("the worker did not finish within %g s; it gives its batches back", grace.total_seconds())
        os._exit(1)

    timer = threading.Timer(grace.total_seconds(), end)
    timer.daemon = True
    timer.start()


@cache
def _of_this_process() -> Celery:
    return make_app(worker_settings(os.environ))


def __getattr__(name: str) -> Celery:
    """`app`, which `celery -A workers.app` looks for, is made when it is asked for: nothing happens at import."""
    if name == "app":
        return _of_this_process()
    raise AttributeError(f"module {__name__} has no attribute {name}")


def _values(given: Mapping[str, str], kinds: Mapping[str, Callable[[str], Any]], prefix: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, kind in kinds.items():
        text = given.get(f"{prefix}{name}")
        if text is None:
            continue
        try:
            values[name] = kind(text)
        except ValueError as error:
            raise SettingError(f"{_variable(prefix + name)} is {text!r}; give a number.") from error
        if name in _LEAST and not float(text) >= _LEAST[name]:
            raise SettingError(f"{_variable(prefix + name)} is {text}; give {_LEAST[name]:g} or more.")
    return values


def _variable(name: str) -> str:
    return f"{PREFIX}{name.upper()}"
