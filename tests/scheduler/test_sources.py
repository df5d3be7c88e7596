"""Seeds come from anywhere, a bad line costs only itself, and a list without a seed is one sentence."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scheduler.seed_files import MAX_LINE_BYTES
from scheduler.sources import PROBLEMS_KEPT, SeedList, SeedProblem, read_seeds
from schemas.errors import SeedError

NOTHING = b""


def read(*arguments: str | Path, stdin: bytes = NOTHING) -> SeedList:
    return read_seeds([str(argument) for argument in arguments], io.BytesIO(stdin))


def pages(found: SeedList) -> list[tuple[str, str]]:
    return [(page.url_key, page.seed) for page in found.pages]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "urls.txt"


def test_seeds_come_from_urls_files_and_standard_input(file):
    file.write_bytes(b"http://b.org\n")
    found = read("https://a.org/x", file, "-", stdin=b"http://c.org/\n")
    assert pages(found) == [
        ("http://b.org/", "http://b.org"),
        ("http://c.org/", "http://c.org/"),
        ("https://a.org/x", "https://a.org/x"),
    ]
    assert (found.given, found.problem_count) == (3, 0)


def test_blank_lines_comments_byte_order_mark_and_windows_line_ends_are_fine(file):
    file.write_bytes(b"\xef\xbb\xbfhttp://a.org/\r\n\r\n  # a comment\r\n \t\r\n  http://b.org/  \r\nhttp://c.org/")
    found = read(file)
    assert [key for key, _ in pages(found)] == ["http://a.org/", "http://b.org/", "http://c.org/"]
    assert found.problems == ()


def test_two_seeds_with_one_key_are_one_page_whatever_the_order(file):
    """`""` and `/`, the default port, the fragment and the case of the host do not make a second page (pain 35)."""
    lines = ["http://a.org/#x", "http://A.org:80", "http://a.org"]
    for order in (lines, lines[::-1]):
        file.write_text("\n".join(order))
        found = read(file)
        assert pages(found) == [("http://a.org/", "http://A.org:80")]
        assert found.given == 3


def test_user_names_and_passwords_are_stripped_everywhere(file):
    file.write_text("http://user:secret@a.org/\nftp://user:secret@a.org/\nhttp://user:secret@[bad/\n")
    found = read(file)
    assert pages(found) == [("http://a.org/", "http://a.org/")]
    assert found.problem_count == 2
    assert "secret" not in repr(found)


def test_a_line_that_is_no_web_url_is_reported_with_file_and_line_and_the_rest_goes_on(file):
    file.write_bytes(b"http://a.org/\nftp://a.org/\nwww.a.org\nhttp://\n\xff\xfe\nhttp://b.org/\n")
    found = read(file)
    assert len(found.pages) == 2
    assert [(p.file, p.line, p.text) for p in found.problems] == [
        (str(file), 2, "ftp://a.org/"),
        (str(file), 3, "www.a.org"),
        (str(file), 4, "http://"),
        (str(file), 5, "\ufffd\ufffd"),
    ]
    assert str(found.problems[0]) == f"{file}:2: ftp://a.org/ is no seed: its scheme is ftp, not http or https"
    assert found.problems[1].reason == "it is not an absolute URL"
    assert found.problems[3].reason == "it is not UTF-8 text"


def test_problems_on_the_command_line_and_in_standard_input_say_so():
    found = read("http://a.org", "ftp://b.org", "-", stdin=b"x\n")
    assert [str(p).split(" is no seed")[0] for p in found.problems] == [
        "argument 2: ftp://b.org",
        "standard input:1: x",
    ]


def test_a_refused_line_is_cut_and_escaped():
    """What a file holds never acts on the terminal."""
    found = read("http://a.org", "-", stdin=b"\x1b[2J" + b"y" * 500)
    (problem,) = found.problems
    assert problem.text.startswith("\\x1b[2Jyyy")
    assert problem.text.endswith("y…")
    assert len(problem.text) < 100


def test_an_endless_line_is_one_problem_and_the_next_line_counts(file):
    file.write_bytes(b"x" * (3 * MAX_LINE_BYTES) + b"\nhttp://a.org/\nhttp://a.org/?" + b"y" * MAX_LINE_BYTES)
    found = read(file)
    assert len(found.pages) == 1
    assert [(p.line, p.reason) for p in found.problems] == [
        (1, f"it is longer than {MAX_LINE_BYTES} bytes"),
        (3, f"it is longer than {MAX_LINE_BYTES} bytes"),
    ]


def test_many_problems_are_counted_and_the_first_kept():
    found = read("http://a.org", "-", stdin=b"x\n" * (PROBLEMS_KEPT + 5))
    assert (len(found.problems), found.problem_count) == (PROBLEMS_KEPT, PROBLEMS_KEPT + 5)


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path):
    for path, reason in ((tmp_path / "none.txt", "No such file"), (tmp_path, "Is a directory"), ("a\0b", "null")):
        with pytest.raises(SeedError, match=rf"^The seed file .* cannot be read: .*{reason}.*; give a seed file"):
            read("http://a.org/", path)


def test_a_list_without_a_seed_is_one_sentence(file):
    with pytest.raises(SeedError, match=r"^There are no seeds; give URLs"):
        read()
    file.write_text("# nothing\n\n")
    with pytest.raises(SeedError, match=r"^There is no URL in .*urls.txt, standard input; give at least one"):
        read(file, "-")
    file.write_text("www.a.org\n")
    with pytest.raises(SeedError, match=r"urls.txt:1: www.a.org is no seed") as refusal:
        read(file)
    assert "(1 refused" in str(refusal.value)


@given(st.binary(max_size=300))
def test_no_bytes_make_it_fail(data: bytes):
    assume(not data.startswith((b"\xff\xfe", b"\xfe\xff", b"\x1f\x8b")))  # UTF-16 and gzip are told by their starts
    found = read("http://a.org/", "-", stdin=data)
    assert found.given == 1 or found.pages
    for page in found.pages:
        page.seed.encode("utf-8")
    for problem in found.problems:
        assert isinstance(problem, SeedProblem)
        assert problem.text.isprintable()
