"""Simulated time: an event loop that jumps to what comes next, and store calls that take time in the middle of code.

The product's protocol code asks the store from worker threads (`asyncio.to_thread`). Here each such call runs in a
greenlet on the loop's own thread: where it asks the store, it steps aside until the simulated answer is there, so that
other workers go on in between, at every single request, and always in the same order for one seed.
"""

from __future__ import annotations

import asyncio
import contextvars
import selectors
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Protocol

from greenlet import greenlet

from scheduler import fleet
from workers import batch, claims
from workers.store import s3


class Process(Protocol):
    """What may stand still, as by SIGSTOP."""

    wakes_at: float


PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)
"""Whose code is running."""


class _NoSelector(selectors.SelectSelector):
    """Waits for nothing: time goes on by as much as it was asked to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("nobody in the simulation has anything left to wait for")
        self.now += max(timeout, 0.0)
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Its clock begins at 0 and moves only when nothing is left to do at the moment."""

    def __init__(self) -> None:
        self._simulated = _NoSelector()
        self._put_off = 0
        super().__init__(self._simulated)

    def time(self) -> float:
        return self._simulated.now

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:
        """A timer of a process that stands still goes off when the process goes on, in the order of what is due."""
        process = (context or contextvars.copy_context()).get(PROCESS)
        if process is None:
            return super().call_at(when, callback, *args, context=context)

        def due() -> None:
            if handle.cancelled():
                return
            if process.wakes_at > self.time():
                self._put_off += 1
                super(SimulatedLoop, self).call_at(process.wakes_at + self._put_off * 1e-9, due, context=context)
            else:
                callback(*args)

        handle = super().call_at(when, due, context=context)
        return handle


class _Hub(greenlet):
    """A greenlet whose code may step aside."""


def step_aside(wanted: Awaitable[Any]) -> Any:
    """Called in code under `in_greenlet`: lets others go on until something has come about; gives its result."""
    current = greenlet.getcurrent()
    assert isinstance(current, _Hub)
    return current.parent.switch(wanted)


def may_step_aside() -> bool:
    """Whether the code that asks runs under `in_greenlet`."""
    return isinstance(greenlet.getcurrent(), _Hub)


async def in_greenlet(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Runs a function whose store calls step aside, in the place of `asyncio.to_thread`.

    As with a thread, who waits may be cancelled; the function then goes on by itself.
    """
    task = asyncio.ensure_future(_driven(function, arguments, named))
    return await asyncio.shield(task)


async def _driven(function: Callable[..., Any], arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    running = _Hub(lambda: function(*arguments, **named))
    wanted = running.switch()
    while not running.dead:
        try:
            answer = await wanted
        except BaseException as error:  # noqa: BLE001 - it is raised where it belongs, in the function
            wanted = running.throw(error)
        else:
            wanted = running.switch(answer)
    return wanted


@contextmanager
def simulated_time(loop: SimulatedLoop) -> Iterator[None]:
    """The protocol's modules look at the loop's clock, and their threads are greenlets."""
    clock = SimpleNamespace(monotonic=loop.time)
    modules: tuple[Any, ...] = (fleet, batch, claims)
    before = [module.time for module in modules], asyncio.to_thread, s3.time
    for module in modules:
        module.time = clock
    asyncio.to_thread = in_greenlet  # type: ignore[assignment]
    s3.time = SimpleNamespace(sleep=lambda seconds: step_aside(asyncio.sleep(seconds)))  # type: ignore[assignment]
    try:
        yield
    finally:
        for module, clock_before in zip(modules, before[0], strict=True):
            module.time = clock_before
        asyncio.to_thread, s3.time = before[1:]
