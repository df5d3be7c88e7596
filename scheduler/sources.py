"""Seeds come from URLs, files, sitemaps and standard input; what is no URL is reported and the rest goes on."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from scheduler.seed_files import SeedFormat, format_of, unpacking, urls_of
from scheduler.sitemaps import MAX_SITEMAP_BYTES, Fetch, NoSitemap, pages_of
from schemas.batch import PlannedPage
from schemas.errors import SeedError
from schemas.urls import NotAWebUrl, url_key, without_userinfo

PROBLEMS_KEPT: Final = 1000
"""More are counted, not kept: a wrong file of a million lines needs no million reports."""

_SHOWN_CHARS = 80
_WEB = re.compile(r"https?:", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_USERINFO = re.compile(r"(?<=//)[^/?#\s]*@|^[^/?#\s@]*:[^/?#\s@]*@")
_SITEMAP: Final = "sitemap:"
_UNREADABLE: Final = (OSError, ValueError, EOFError, zlib.error)


def _no_fetching(url: str) -> bytes:
    raise NoSitemap(f"{url} would have to be fetched, which nothing here does")


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


def read_seeds(
    arguments: Sequence[str],
    stdin: BinaryIO,
    *,
    kind: SeedFormat = "auto",
    strict: bool = False,
    fetch: Fetch = _no_fetching,
) -> SeedList:
    """All seeds of the command line: http(s) URLs, seed files, `-` for standard input, or `sitemap:` and a URL.

    kind     the format of files and of standard input; `auto` goes by a file's name
    strict   a seed that is none is an error
    fetch    how sitemaps are had that others lead to
    Of several seeds with one key the smallest text is kept, so that the order of files and lines does not matter.
    Raises SeedError where a file cannot be read or no seed is left.
    """
    stream = SeedStream(arguments, stdin, kind=kind, strict=strict, fetch=fetch)
    seeds: dict[str, str] = {}
    for found in stream:
        known = seeds.get(found.url_key)
        if known is None or found.seed < known:
            seeds[found.url_key] = found.seed
    pages = tuple(PlannedPage(key, seeds[key]) for key in sorted(seeds))
    problems = tuple(stream.problems)
    return SeedList(pages=pages, given=stream.given, problems=problems, problem_count=stream.problem_count)


class SeedStream:
    """All seeds of the command line, one after the other and as often as they are given; to be read once.

    The arguments are those of `read_seeds`. `given`, `problems` and `problem_count` count what was read so far. Reading
    raises SeedError where a file cannot be read, and at the end where there was no seed.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        stdin: BinaryIO,
        *,
        kind: SeedFormat = "auto",
        strict: bool = False,
        fetch: Fetch = _no_fetching,
    ) -> None:
        self._arguments = arguments
        self._found = _seeds(arguments, stdin, kind, fetch)
        self._strict = strict
        self.given = self.problem_count = 0
        self.problems: list[SeedProblem] = []

    def __iter__(self) -> Iterator[PlannedPage]:
        for found in self._found:
            if isinstance(found, PlannedPage):
                self.given += 1
                yield found
                continue
            if self._strict:
                raise SeedError(f"{found}; mend it, or leave --strict out to go on without it.")
            self.problem_count += 1
            if len(self.problems) < PROBLEMS_KEPT:
                self.problems.append(found)
        if not self.given:
            raise SeedError(_nothing_left(self._arguments, self.problems, self.problem_count))


def _seeds(
    arguments: Sequence[str], stdin: BinaryIO, kind: SeedFormat, fetch: Fetch
) -> Iterator[PlannedPage | SeedProblem]:
    for number, argument in enumerate(arguments, start=1):
        if argument == "-":
            try:
                yield from _file("-", stdin, "text" if kind == "auto" else kind, fetch)
            except _UNREADABLE as error:
                raise SeedError(f"Standard input cannot be read: {error}; give a seed file or URLs.") from error
        elif argument.lower().startswith(_SITEMAP):
            yield from _sitemap_at(number, argument, fetch)
        elif _WEB.match(argument) or (_SCHEME.match(argument) and not Path(argument).exists()):
            yield _seed("", number, argument)
        else:
            try:
                with Path(argument).open("rb") as file:
                    yield from _file(argument, file, format_of(argument) if kind == "auto" else kind, fetch)
            except _UNREADABLE as error:
                raise SeedError(_unreadable(argument, error)) from error


def _file(name: str, file: BinaryIO, kind: SeedFormat, fetch: Fetch) -> Iterator[PlannedPage | SeedProblem]:
    if kind == "sitemap":
        data = file.read(MAX_SITEMAP_BYTES + 1)
        try:
            yield from _of_sitemap(name, data, fetch)
        except NoSitemap as error:
            raise SeedError(f"The seed file {_file_name(_shown(name))} is no sitemap: {error}.") from error
        return
    for number, text, reason in urls_of(unpacking(file), kind, _file_name(_shown(name))):
        yield SeedProblem(name, number, _shown(text), reason) if reason else _seed(name, number, text)


def _sitemap_at(number: int, argument: str, fetch: Fetch) -> Iterator[PlannedPage | SeedProblem]:
    seed = _seed("", number, argument[len(_SITEMAP) :])
    if isinstance(seed, SeedProblem):
        raise SeedError(f"The sitemap {seed.text} is none: {seed.reason}; give sitemap: and an http or https URL.")
    try:
        yield from _of_sitemap(seed.seed, fetch(seed.url_key), fetch)
    except NoSitemap as error:
        raise SeedError(f"The sitemap {_shown(seed.seed)} cannot be used: {error}.") from error


def _of_sitemap(name: str, data: bytes, fetch: Fetch) -> Iterator[PlannedPage | SeedProblem]:
    for entry in pages_of(name, data, _by_key(fetch)):
        if entry.reason:
            reason = f"it is a sitemap that cannot be used ({entry.reason})"
            yield SeedProblem(entry.sitemap, entry.line, _shown(entry.text), reason)
        else:
            yield _seed(entry.sitemap, entry.line, entry.text)


def _by_key(fetch: Fetch) -> Fetch:
    """Fetches by the URL key of what a sitemap names."""

    def by_key(text: str) -> bytes:
        try:
            return fetch(url_key(text))
        except NotAWebUrl as error:
            raise NoSitemap(str(error)) from error

    return by_key


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


def _unreadable(argument: str, error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (
        f"The seed file {_shown(argument)} cannot be read: {reason};"
        " give a seed file, an http or https URL, or - for standard input."
    )


def _nothing_left(arguments: Sequence[str], problems: Sequence[SeedProblem], problem_count: int) -> str:
    if not arguments:
        return "There are no seeds; give URLs, seed files, or - for standard input."
    where = ", ".join(_file_name(_shown(argument)) for argument in arguments[:3]) + (", ..." if arguments[3:] else "")
    if problems:
        return f"No line of {where} is an http or https URL ({problem_count} refused, the first: {problems[0]})."
    return f"There is no URL in {where}; give at least one, one a line."
