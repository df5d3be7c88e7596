"""The options that say who captures: this process, or workers behind a broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import click

from schemas.delivery import DEFAULT_PRIORITY, PRIORITIES, Priority
from schemas.errors import SettingError

MAX_RETRIES = 9


@dataclass(frozen=True, slots=True)
class EngineGiven:
    """What the command line says about the engine."""

    engine: Literal["local", "celery"]
    broker: str
    window: int
    retries: int
    retry_pause: float
    resend_after: float
    priority: Priority

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> EngineGiven:
        """Raises SettingError for options that contradict each other."""
        made = cls(
            **{
                name: options[name]
                for name in ("engine", "broker", "window", "retries", "retry_pause", "resend_after", "priority")
            }
        )
        if made.engine == "celery" and not made.broker:
            raise SettingError(
                "The engine celery needs a broker; give its URL as --broker, such as redis://127.0.0.1:6379/0."
            )
        return made


def engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--engine`, `--broker`, `--window`, `--retries`, `--retry-pause`, `--resend-after`, `--priority`."""
    for option in reversed(
        (
            click.option(
                "--engine",
                type=click.Choice(["local", "celery"]),
                default="local",
                show_default=True,
                help="Capture in this process, or on workers (`pagestate worker`).",
            ),
            click.option(
                "--broker",
                default="",
                envvar="PAGESTATE_BROKER",
                metavar="URL",
                help="Of the workers [PAGESTATE_BROKER].",
            ),
            click.option(
                "--window",
                type=click.IntRange(1, 4096),
                default=64,
                show_default=True,
                help="Lanes that workers have in flight.",
            ),
            click.option(
                "--retries",
                type=click.IntRange(0, MAX_RETRIES),
                default=0,
                show_default=True,
                help="How often a page that failed for a time is tried again, in a later round.",
            ),
            click.option(
                "--retry-pause",
                type=click.FloatRange(0, 600),
                default=30.0,
                show_default=True,
                metavar="SECONDS",
                help="Before a page's first such round; twice as long before each further one, up to 10 min.",
            ),
            click.option(
                "--resend-after",
                type=click.FloatRange(1, 3600),
                default=45.0,
                show_default=True,
                metavar="SECONDS",
                help="A lane on which no worker has moved for so long is sent again; longer than a claim's lapse.",
            ),
            click.option(
                "--priority",
                type=click.Choice(PRIORITIES),
                default=DEFAULT_PRIORITY,
                show_default=True,
                help="Of this crawl among those that share the workers.",
            ),
        )
    ):
        command = option(command)
    return command
