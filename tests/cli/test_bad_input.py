"""What cannot be used is said in one sentence with what to do; exit code 2, and nothing is half-written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from scheduler.cli import main
from schemas.errors import BrowserMissing, StoreDamaged
from schemas.marker import Marker
from schemas.settings import CrawlSettings
from schemas.version import SCHEMA_VERSION
from workers.browser import find
from workers.store import FolderStore, locked, open_crawl

URL = "http://127.0.0.1:9/page"
NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture(autouse=True)
def no_browser_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing here gets as far as a page: the configured browser tells its version and does nothing else."""
    program = tmp_path / "no-browser"
    program.write_text('#!/bin/sh\n[ "$1" = --version ]\n')
    program.chmod(0o755)
    monkeypatch.setenv("PAGESTATE_BROWSER", str(program))


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command that must be refused, and gives the sentence it is refused with."""

    def run(*arguments: str | Path) -> str:
        code = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        assert code == 2
        assert said.out == ""
        (sentence,) = said.err.splitlines()
        assert sentence.startswith("pagestate: ")
        assert "Traceback" not in sentence
        assert sentence.endswith(".")
        return sentence.removeprefix("pagestate: ")

    return run


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file of a folder with its content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store that holds the crawl `mine` with default settings."""
    made = FolderStore.for_run(tmp_path / "store")
    open_crawl(made, "mine", CrawlSettings(), now=NOW)
    return made.folder


SEED_FILES: dict[str, Callable[[Path], object]] = {
    "absent.txt": lambda path: None,
    "folder.txt": lambda path: path.mkdir(),
    "empty.txt": lambda path: path.write_bytes(b""),
    "comments.txt": lambda path: path.write_text("# nothing\n\n   \n"),
    "nonsense.txt": lambda path: path.write_text("ftp://h.test/\nhello\n"),
    "binary.txt": lambda path: path.write_bytes(bytes(range(256)) * 100),
}


@pytest.mark.parametrize("name", SEED_FILES)
def test_a_seed_file_that_gives_nothing(refused, tmp_path, name):
    path = tmp_path / name
    SEED_FILES[name](path)
    sentence = refused("crawl", path, "--store", tmp_path / "store")
    assert name in sentence
    assert not (tmp_path / "store").exists()


def test_no_seed_at_all(refused, tmp_path):
    assert "give URLs, a seed file or -" in refused("crawl", "--store", tmp_path / "store")
    assert "give one of them" in refused("crawl", URL, "--example", "--store", tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_an_argument_that_is_no_web_url(refused, tmp_path):
    assert "ftp://h.test/" in refused("crawl", "ftp://h.test/", "--store", tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_an_empty_standard_input(run, tmp_path):
    ran = run("crawl", "-", "--store", tmp_path / "store")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    assert "standard input" in ran.err
    assert not (tmp_path / "store").exists()


def test_bad_lines_are_reported_with_file_and_line_and_the_rest_goes_on(capsys, tmp_path, store):
    """Each line that is no seed is named, counted, and costs nothing else; here the store refuses in the end."""
    seeds = tmp_path / "seeds.txt"
    seeds.write_text(f"{URL}\nhello world\n\n# fine\nftp://h.test/\n{URL}2\nhttp://user:secret@\n")
    assert main(["crawl", str(seeds), "--store", str(store), "--crawl", "another"]) == 2
    lines = capsys.readouterr().err.splitlines()
    for line, number in zip(lines, (2, 5, 7), strict=False):
        assert line.startswith(f"pagestate: {seeds}:{number}: ")
    assert lines[3] == "pagestate: 3 lines are no seeds and were left out."
    assert len(lines) == 5
    assert "secret" not in "".join(lines)


def test_a_store_that_is_a_file(refused, tmp_path):
    (tmp_path / "file").write_text("x")
    assert "is a file" in refused("crawl", URL, "--store", tmp_path / "file")
    assert "is a file" in refused("crawl", URL, "--store", tmp_path / "file" / "below")
    assert (tmp_path / "file").read_text() == "x"


def test_a_store_that_cannot_be_written(refused):
    """Also root cannot write here, so that this holds whoever runs the tests."""
    assert "choose another --store" in refused("crawl", URL, "--store", "/proc/store")
    assert "choose another --store" in refused("crawl", URL, "--store", "/dev/null")


def test_a_store_of_another_crawl(refused, store):
    before = snapshot(store)
    sentence = refused("crawl", URL, "--store", store, "--crawl", "yours")
    assert "belongs to the crawl mine, not yours" in sentence
    assert snapshot(store) == before


@pytest.mark.parametrize("name", ["", "../x", "a/b", "2026", "null", "a b", "-x"])
def test_a_crawl_name_that_cannot_be_part_of_a_path(refused, tmp_path, name):
    assert "crawl name" in refused("crawl", URL, "--store", tmp_path / "store", f"--crawl={name}")
    assert not (tmp_path / "store").exists()


def test_a_store_of_other_settings(refused, store):
    before = snapshot(store)
    sentence = refused("crawl", URL, "--store", store, "--budget-payload", "0.5", "--lanes", "3")
    assert "budgets.payload: stored 10.0, given 0.5" in sentence
    assert "lanes: stored 64, given 3" in sentence
    assert snapshot(store) == before


@pytest.mark.parametrize("verb", ["crawl", "status", "show"])
def test_a_store_of_a_newer_schema(refused, store, verb):
    file = store / "crawl.json"
    written = json.loads(file.read_text())
    file.write_text(json.dumps(written | {"schema_version": SCHEMA_VERSION + 1, "planets": 9}))
    before = snapshot(store)
    sentence = refused(verb, *([] if verb == "status" else [URL]), "--store", store)
    assert f"has schema version {SCHEMA_VERSION + 1}" in sentence
    assert "use a newer pagestate" in sentence
    assert snapshot(store) == before


def test_a_store_whose_crawl_file_is_damaged(refused, store):
    (store / "crawl.json").write_text("{")
    assert "damaged" in refused("crawl", URL, "--store", store)
    assert snapshot(store) == {"crawl.json": b"{"}


def test_a_store_in_use(refused, store):
    before = snapshot(store)
    with locked(FolderStore.for_run(store)):
        sentence = refused("crawl", URL, "--store", store)
    assert "is in use by process" in sentence
    assert {name: data for name, data in snapshot(store).items() if name != "lock"} == before


def test_a_missing_browser(refused, tmp_path, monkeypatch):
    assert "correct the path" in refused("crawl", URL, "--store", tmp_path / "store", "--browser", tmp_path / "none")
    monkeypatch.setenv("PAGESTATE_BROWSER", "")
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "kept"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "playwright install --only-shell chromium" in refused("crawl", URL, "--store", tmp_path / "store")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("script", ["exit 1", "echo no >&2; exit 127"])
def test_a_browser_that_does_not_tell_its_version(refused, tmp_path, script):
    """A mistyped browser does not bind a store to its seeds and settings."""
    program = tmp_path / "broken"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    assert "does not start" in refused("crawl", URL, "--store", tmp_path / "store", "--browser", program)
    assert not (tmp_path / "store").exists()


def test_a_relative_browser_path_is_the_one_in_this_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find.find_browser("no-browser") == tmp_path / "no-browser"


def test_a_browser_that_hangs_is_not_waited_for(monkeypatch, tmp_path):
    program = tmp_path / "hanging"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr(find, "START_PATIENCE_SECONDS", 0.3)
    with pytest.raises(BrowserMissing, match="says nothing"):
        find.check_starts(program)


@pytest.mark.parametrize("verb", [["crawl", URL], ["status"], ["show", URL]])
@pytest.mark.parametrize("name", ["", "  "])
def test_a_store_without_a_name(refused, tmp_path, monkeypatch, verb, name):
    """An empty shell variable does not make a store of the current folder."""
    monkeypatch.chdir(tmp_path)
    before = snapshot(tmp_path)
    assert "has no name" in refused(*verb, "--store", name)
    assert snapshot(tmp_path) == before


def test_a_store_whose_path_is_no_text(refused, tmp_path):
    assert "no UTF-8 path" in refused("crawl", URL, "--store", f"{tmp_path}/st\udcff")


@pytest.mark.parametrize("lost", ["crawl.json", "plan"])
def test_a_store_that_lost_a_part(refused, store, lost):
    """A store without its head is damaged, not new: another crawl must not move in beside its commits."""
    (store / "commits" / "0").mkdir(parents=True)
    (store / "commits" / "0" / f"{'0' * 32}.json").write_text("{}")
    part = store / lost
    shutil.rmtree(part) if part.is_dir() else part.unlink(missing_ok=True)
    assert "restore" in refused("crawl", URL, "--store", store)
    assert not (store / "data").exists()
    assert not part.exists()


@pytest.mark.parametrize(
    "change",
    [
        {"outcomes": 3},
        {"outcomes": {"ok": "x"}},
        {"round": "a"},
        {"files": [{"table": "listings", "path": "p", "rows": "1", "bytes": 1, "sha256": "0"}]},
        {"lane": None},
    ],
)
def test_a_marker_of_other_types(change):
    """A marker that somebody edited is damaged, not a stack trace."""
    marker = Marker("c", 0, 0, 0, "b", "a", (), {"ok": 1}, "2026-01-02T00:00:00Z")
    raw = json.loads(marker.encode()) | change
    with pytest.raises(StoreDamaged, match="another type"):
        Marker.decode(json.dumps(raw).encode(), "here")


def test_json_nested_too_deep_is_damage(refused, store):
    (store / "crawl.json").write_text("[" * 100_000)
    assert "damaged" in refused("status", "--store", store)


def test_a_browser_that_only_tells_its_version(capsys, tmp_path):
    """What is there then is a plan that can be carried out later, and no data."""
    assert main(["crawl", URL, "--store", str(tmp_path / "store")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    progress, sentence = said.err.splitlines()
    assert progress == "pagestate: round 0: 1 pages to capture"
    assert "could not be started" in sentence
    assert not (tmp_path / "store" / "data").exists()
    assert not (tmp_path / "store" / "commits").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["crawl", URL, "--stor", "x"], "--store"),
        (["crawl", URL, "--store", "x", "--budget-navigat", "3"], "--budget-navigate"),
        (["crawl", URL, "--store", "x", "--concurency", "3"], "--concurrency"),
        (["show", URL, "--store", "x", "--from", "listing"], "--form"),
        (["status", "--stores", "x"], "--store"),
        (["craw", URL], "crawl"),
        (["statsu"], "status"),
    ],
)
def test_an_unknown_option_or_verb_suggests_the_nearest(refused, arguments, said):
    assert f"(did you mean {said}?)" in refused(*arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--budget-navigate", "0"],
        ["--budget-navigate", "-1"],
        ["--budget-navigate", "nan"],
        ["--budget-navigate", "inf"],
        ["--budget-navigate", "soon"],
        ["--budget-settle", "3601"],
        ["--concurrency", "0"],
        ["--concurrency", "many"],
        ["--host-delay", "nan"],
        ["--host-delay", "-1"],
        ["--host-delay", "1e9"],
        ["--lanes", "0"],
        ["--batch-size", "0"],
        ["--processes", "0"],
        ["--robots", "never"],
    ],
)
def test_a_value_out_of_its_range(refused, tmp_path, arguments):
    place = ["--store", tmp_path / "store"] if arguments else []
    sentence = refused("crawl", URL, *place, *arguments)
    assert (arguments[0].removeprefix("--budget-") if arguments else "--store") in sentence
    assert not (tmp_path / "store").exists()


def test_showing_what_is_not_there(refused, tmp_path, store):
    assert "is not there" in refused("show", URL, "--store", tmp_path / "none")
    assert "is not there" in refused("status", "--store", tmp_path / "none")
    (tmp_path / "folder").mkdir()
    assert "There is no crawl in" in refused("status", "--store", tmp_path / "folder")
    assert f"has no page {URL}" in refused("show", URL, "--store", store)
    assert "is no URL of a page" in refused("show", "hello", "--store", store)
    assert "outlines" in refused("show", URL, "--store", store, "--form", "outlines")
    assert f"has no page {URL}" in refused("agree", URL, "--store", store)


def test_a_policy_that_cannot_be_used(refused, tmp_path):
    """Said before anything is written, its secrets included."""
    policy, store = tmp_path / "policy.toml", tmp_path / "new"
    policy.write_text("contakt = 'x'")
    assert "the nearest known is contact." in refused("crawl", URL, "--store", store, "--policy", policy)
    policy.write_text('[[sites]]\nhosts = ["a.test"]\nbasis = "b"\nheaders.X = { env = "PAGESTATE_TEST_NONE" }')
    assert "PAGESTATE_TEST_NONE, which the policy names for a.test, is not set" in refused(
        *("crawl", URL, "--store", store, "--policy", policy)
    )
    assert "cannot be read" in refused("crawl", URL, "--store", store, "--policy", tmp_path / "none")
    assert not store.exists()


def test_a_seed_that_is_none_under_strict(refused, tmp_path):
    (tmp_path / "urls.txt").write_text("http://127.0.0.1:9/\nwww.a.test\n")
    said = refused("crawl", tmp_path / "urls.txt", "--store", tmp_path / "new", "--strict")
    assert "urls.txt:2: www.a.test is no seed" in said
    assert not (tmp_path / "new").exists()


def test_a_sitemap_is_fetched_only_where_that_is_permitted(refused, tmp_path, site):
    """By the policy and by robots.txt, as a page is."""
    url = site.page("/map.xml", "<urlset/>", content_type="text/xml")
    site.page("/robots.txt", "User-agent: *\nDisallow: /map\n", content_type="text/plain")
    command = ("crawl", f"sitemap:{url}", "--store", tmp_path / "new")
    assert "robots.txt does not permit it: Disallow: /map" in refused(*command, "--robots", "always")
    policy = tmp_path / "policy.toml"
    policy.write_text("")
    assert "no site of the policy file names 127.0.0.1" in refused(*command, "--policy", policy)
    assert site.hits == ["/robots.txt"]
    assert "There is no URL in" in refused(*command)
    assert site.hits == ["/robots.txt", "/map.xml"]
