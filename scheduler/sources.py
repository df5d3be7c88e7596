"""Seeds come from URLs, text files and standard input; a line that is no URL is reported and the rest goes on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from schemas.batch import PlannedPage
from schemas.errors import SeedError
from schemas.urls import NotAWebUrl, url_key, without_userinfo

MAX_LINE_BYTES: Final = 64 * 1024
"""Far above what browsers take as a URL; guards against a binary file without line ends."""
PROBLEMS_KEPT: Final = 1000
"""More are counted, not kept: a wrong file of a million lines needs no million reports."""

_SHOWN_CHARS = 80
_WEB = re.compile(r"https?:", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_USERINFO = re.compile(r"(?<=//)[^/?#\s]*@|^[^/?#\s@]*:[^/?#\s@]*@")
_BOM = b"\xef\xbb\xbf"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class SeedProblem:
    """A line that is no seed: in which file ("-" is standard input, "" the command line), where, and why.

    `line` counts from 1 (on the command line: the position of the argument); `text` is cut, escaped and without
    userinfo, fit for a terminal.
    """

    file: str
    line: int
    text: str
    reason: str

    def __str__(self) -> str:
        where = f"{_file_name(self.file)}:{self.line}" if self.file else f"argument {self.line}"
        return f"{where}: {self.text} is no seed: {self.reason}"


@dataclass(frozen=True, slots=True)
class SeedList:
    """The pages of a seed list, by URL key, and what was wrong with the rest.

    `problems` are the first PROBLEMS_KEPT of `problem_count`; `given` counts seeds before those of one key became one.
    """

    pages: tuple[PlannedPage, ...]
    given: int
    problems: tuple[SeedProblem, ...]
    problem_count: int


def read_seeds(arguments: Sequence[str], stdin: BinaryIO) -> SeedList:
    """All seeds of the command line: http(s) URLs, `-` for standard input, or text files with one URL a line.

    Of several seeds with one key the smallest text is kept, so that the order of files and lines does not matter.
    Raises SeedError where a file cannot be read or no seed is left.
    """
    seeds: dict[str, str] = {}
    problems: list[SeedProblem] = []
    given = problem_count = 0
    for found in _seeds(arguments, stdin):
        if isinstance(found, SeedProblem):
            problem_count += 1
            if len(problems) < PROBLEMS_KEPT:
                problems.append(found)
            continue
        given += 1
        known = seeds.get(found.url_key)
        if known is None or found.seed < known:
            seeds[found.url_key] = found.seed
    if not seeds:
        raise SeedError(_nothing_left(arguments, problems, problem_count))
    pages = tuple(PlannedPage(key, seeds[key]) for key in sorted(seeds))
    return SeedList(pages=pages, given=given, problems=tuple(problems), problem_count=problem_count)


def _seeds(arguments: Sequence[str], stdin: BinaryIO) -> Iterator[PlannedPage | SeedProblem]:
    for number, argument in enumerate(arguments, start=1):
        if argument == "-":
            try:
                yield from _lines("-", stdin)
            except (OSError, ValueError) as error:
                raise SeedError(f"Standard input cannot be read: {error}; give a seed file or URLs.") from error
        elif _WEB.match(argument) or (_SCHEME.match(argument) and not Path(argument).exists()):
            yield _seed("", number, argument)
        else:
            try:
                with Path(argument).open("rb") as file:
                    yield from _lines(argument, file)
            except (OSError, ValueError) as error:
                raise SeedError(_unreadable(argument, error)) from error


def _lines(name: str, file: BinaryIO) -> Iterator[PlannedPage | SeedProblem]:
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if number == 1:
            line = line.removeprefix(_BOM)
        if len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
            yield SeedProblem(name, number, _shown(line), f"it is longer than {MAX_LINE_BYTES} bytes")
            while line and not line.endswith(b"\n"):
                line = file.readline(MAX_LINE_BYTES)
            continue
        if number == 1 and line.startswith(_UTF_16):
            raise SeedError(f"The seed file {_shown(name)} is UTF-16 text; save it as UTF-8.")
        try:
            text = line.decode("utf-8").strip()
        except UnicodeDecodeError:
            yield SeedProblem(name, number, _shown(line), "it is not UTF-8 text")
            continue
        # a file of an old Mac has one line for us, and several for its writer
        for one in map(str.strip, text.split("\r")):
            if one and not one.startswith("#"):
                yield _seed(name, number, one)


def _seed(file: str, number: int, text: str) -> PlannedPage | SeedProblem:
    try:
        key = url_key(text)
    except NotAWebUrl as error:
        return SeedProblem(file, number, _shown(text), str(error))
    return PlannedPage(key, without_userinfo(text.strip()))


def _shown(line: str | bytes) -> str:
    """The line as a message may show it: without userinfo, cut, nothing that a terminal would act on."""
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    text = _USERINFO.sub("", text.strip())
    cut = text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)


def _file_name(file: str) -> str:
    return "standard input" if file == "-" else file


def _unreadable(argument: str, error: OSError | ValueError) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (
        f"The seed file {_shown(argument)} cannot be read: {reason};"
        " give a text file with one URL a line, an http or https URL, or - for standard input."
    )


def _nothing_left(arguments: Sequence[str], problems: Sequence[SeedProblem], problem_count: int) -> str:
    if not arguments:
        return "There are no seeds; give URLs, text files with one URL a line, or - for standard input."
    where = ", ".join(_file_name(_shown(argument)) for argument in arguments[:3]) + (", ..." if arguments[3:] else "")
    if problems:
        return f"No line of {where} is an http or https URL ({problem_count} refused, the first: {problems[0]})."
    return f"There is no URL in {where}; give at least one, one a line."
