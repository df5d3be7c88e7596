"""The command line: one file per verb; results on stdout, progress and reports on stderr.

Exit codes: 0 done, 1 the run failed, 2 what was given cannot be used, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import difflib
import errno
import io
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path

import click

from schemas.errors import BrowserMissing, PagestateError, UsageError
from schemas.version import PAGESTATE_VERSION

VERBS: dict[str, str] = {
    "crawl": "Capture the pages of a list of URLs into a store.",
    "worker": "Capture the batches that a broker brings.",
    "agree": "Tell which elements of a page only the listing or only the outline knows.",
    "show": "Print what was captured of one page.",
    "why": "Tell why an element has a number in the listing, or why not.",
    "status": "Count the outcomes of a crawl, round by round.",
    "verify": "Check that a crawl is whole: plan, markers, files, rows.",
}


class _Verbs(click.Group):
    """A group that imports a verb only when it is used, so that `--help` needs no browser library."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command = import_module(f"scheduler.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        verb = args[0]
        if verb not in VERBS and not verb.startswith("-"):
            ctx.fail(f"No such verb {verb!r}{_nearest(verb, VERBS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(
    cls=_Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: pagestate crawl urls.txt --store ./store",
)
@click.version_option(PAGESTATE_VERSION, prog_name="pagestate")
def cli() -> None:
    """Capture the state of web pages in bulk, the way browser agents read it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code; every error is one sentence on stderr."""
    _usable_streams()
    try:
        result = cli.main(args=arguments, prog_name="pagestate", standalone_mode=False)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "pagestate"
        problem = error.format_message().rstrip(".")
        if isinstance(error, click.NoSuchOption):
            problem = f"No such option {error.option_name}{_nearest(error.option_name, error.possibilities or ())}"
        return _failed(f"{problem}; see {command} --help.", 2)
    except (UsageError, BrowserMissing) as error:
        return _failed(str(error), 2)
    except PagestateError as error:
        return _failed(str(error), 1)
    except (click.Abort, KeyboardInterrupt):
        return _failed("Stopped; what was committed is kept, and the same command goes on from there.", 130)
    except BrokenPipeError:
        # the reader of our output has gone, as `head` does; it has what it wanted
        sys.stderr.close()
        return 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return _failed("The output cannot be written: its device is full; send it somewhere else.", 1)
    return result if isinstance(result, int) else 0


def _usable_streams() -> None:
    """Streams that were closed become empty ones, and a letter that a stream cannot encode prints as `?`."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  # for the whole process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _nearest(given: str, known: Iterable[str]) -> str:
    """The nearest known name as a question; nothing where none is near."""
    near = difflib.get_close_matches(given, list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def _failed(sentence: str, code: int) -> int:
    click.echo(f"pagestate: {sentence}", err=True)
    return code


def entry_point() -> None:
    """What the console script calls."""
    sys.exit(main())
