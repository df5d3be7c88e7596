"""`pagestate show` and `pagestate why` make their answers from a stored capture, without a browser."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from scheduler.cli import main
from scheduler.cli.show import printable
from schemas.batch import Batch, PlannedPage
from schemas.capture import Capture, Payload
from schemas.identifiers import batch_id, page_id, settings_hash
from schemas.records import PageRecord
from schemas.settings import CrawlSettings, ListingSettings
from workers.serialize.outline import serialize_outline
from workers.store import FolderStore, commit_batch, encode_capture, open_crawl, store_plan

URL = "http://127.0.0.1:9/page.html"
NOW = datetime(2026, 1, 2, tzinfo=UTC)
DATA = Path(__file__).parents[1] / "data" / "browser_use"

ROW: dict[str, Any] = {
    "degradations": [],
    "redirects": [],
    "started_at": NOW,
    "duration_ms": 1.0,
    "viewport_width": 1280,
    "viewport_height": 1100,
    "scale": 1.0,
    "locale": "en-US",
    "time_zone": "UTC",
    "settings_hash": "0" * 32,
    "serializer": "x",
    "serializer_version": "1",
    "listing": "[1]<a />",
    "surrogates_replaced": 0,
    "secrets_masked": 0,
    "payload_bytes": 0,
    "dialogs": 0,
    "popups": 0,
    "downloads": 0,
}
Say = Callable[..., tuple[int, str, str]]


def payloads_of(name: str) -> tuple[list[Payload], dict[str, Any]]:
    """The payloads of a recording of one process, and what browser-use said about it."""
    with gzip.open(DATA / f"{name}.raw.json.gz", "rt") as file:
        raw = json.load(file)
    with gzip.open(DATA / f"{name}.expected.json.gz", "rt") as file:
        said = json.load(file)
    (target,) = raw["targets"]
    names = {"target_id": target["target_id"], "session_id": target["session_id"]}
    about = {"url": URL, "title": "T", "targets": [names]}
    found = [{"type": "click", "backendNodeId": i} for i in target["js_click_listener_backend_ids"]]
    made = [
        ("targets", about),
        ("listeners", {"element_count": 1, "listeners": found}),
        ("layout_snapshot", target["snapshot"]),
        ("dom_document", target["dom_tree"]),
        ("ax_tree", target["ax_tree"]),
    ]
    return [Payload(kind, json.dumps(value).encode()) for kind, value in made], said  # type: ignore[arg-type]


@pytest.fixture
def store_with(tmp_path: Path) -> Callable[..., Path]:
    """Commits one page with these payloads into a new store."""

    def make(payloads: list[Payload], listing: ListingSettings | None = None) -> Path:
        folder = tmp_path / "store"
        store = FolderStore.for_run(folder)
        open_crawl(store, "test", CrawlSettings(listing=listing or ListingSettings()), now=NOW)
        batch = Batch("test", 0, 1, 0, batch_id("test", 0, 1, 0, [URL]), (PlannedPage(URL, URL),))
        store_plan(store, 0, [batch])
        captures = encode_capture(Capture(tuple(payloads)))
        record = PageRecord(URL, page_id("test", 0, URL, "desktop"), "desktop", "ok", ROW, [], [], captures)
        commit_batch(store, batch, "0" * 32, [record], now=NOW)
        return folder

    return make


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Runs the command line; gives its exit code, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        code = main([str(a) for a in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_eval_form_and_rows_are_made_from_the_capture(store_with: Callable[..., Path], say: Say) -> None:
    payloads, said = payloads_of("forms.html")
    store = store_with(payloads)
    assert say("show", URL, "--store", store, "--form", "eval")[:2] == (0, said["eval_representation"] + "\n")
    code, out, _ = say("show", URL, "--store", store, "--form", "rows", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [r["index"] for r in rows if "index" in r] == [e["index"] for e in said["selector_map"]]
    code, out, _ = say("show", URL, "--store", store, "--form", "rows")
    assert len(out.splitlines()) == len(rows) + 1


def test_the_page_state_is_truncated_where_the_settings_say_or_the_option(
    store_with: Callable[..., Path], say: Say
) -> None:
    payloads, said = payloads_of("forms.html")
    store = store_with(payloads, ListingSettings(max_chars=30))
    text = said["llm_representation"]
    for arguments, limit in (((), 30), (("--truncate", 12), 12)):
        code, out, _ = say("show", URL, "--store", store, "--form", "page-state", *arguments)
        assert code == 0
        assert f"(truncated to {limit} characters):\n[Start of page]\n{text[:limit]}" in out
    code, out, _ = say("show", URL, "--store", store, "--form", "page-state", "--truncate", 10**6, "--json")
    assert text in json.loads(out)["text"]


def test_the_crawls_listing_settings_hold(store_with: Callable[..., Path], say: Say) -> None:
    payloads, _ = payloads_of("forms.html")
    store = store_with(payloads, ListingSettings(include_attributes=("id",)))
    _, out, _ = say("show", URL, "--store", store, "--form", "rows", "--json")
    names = {name for line in out.splitlines() for name, _ in json.loads(line).get("attributes", [])}
    assert names <= {"id", "format", "expected_format", "placeholder", "value"}
    assert "id" in names


def test_why_tells_a_story_for_each_match(store_with: Callable[..., Path], say: Say) -> None:
    payloads, said = payloads_of("forms.html")
    store = store_with(payloads)
    number = said["selector_map"][0]["backend_node_id"]
    code, out, _ = say("why", URL, "--store", store, "--backend-id", number, "--json")
    story = json.loads(out)
    assert (code, story["index"], story["fate"]) == (0, said["selector_map"][0]["index"], "printed")
    code, out, err = say("why", URL, "--store", store, "--css", "*")
    assert code == 0
    assert "elements answer to --css *; the first 20 are told" in err
    assert out.count("(backend node ") >= 20
    code, out, _ = say("why", URL, "--store", store, "--match", "no such text anywhere")
    assert (code, out) == (0, f"Nothing in the document of {URL} answers to --match no such text anywhere.\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--css", "a["), "The selector 'a[' cannot be matched: Expected"),
        (("--css", "a:hover"), "the pseudo-class :hover depends on a browser"),
        ((), "Give one of --match TEXT, --css SELECTOR and --backend-id N"),
        (("--match", "x", "--backend-id", "1"), "Give one of"),
        (("--match", ""), "Give one of"),
    ],
)
def test_a_question_that_cannot_be_asked_is_one_sentence(
    store_with: Callable[..., Path], say: Say, arguments: tuple[str, ...], sentence: str
) -> None:
    store = store_with(payloads_of("forms.html")[0])
    code, out, err = say("why", URL, "--store", store, *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("arguments", [("why", "--match", "x"), ("show", "--form", "rows"), ("show", "--form", "eval")])
def test_what_is_not_stored_is_one_sentence(
    store_with: Callable[..., Path], say: Say, arguments: tuple[str, ...]
) -> None:
    verb, *options = arguments
    store = store_with([])
    code, _, err = say(verb, URL, "--store", store, *options)
    assert code == 2
    assert "holds no capture of http://127.0.0.1:9/page.html" in err
    assert say(verb, "http://127.0.0.1:9/other", "--store", store, *options)[0] == 2


def test_a_capture_that_makes_no_sense_is_one_sentence(store_with: Callable[..., Path], say: Say) -> None:
    store = store_with([Payload("dom_document", b'{"root": 7}')])
    code, _, err = say("show", URL, "--store", store, "--form", "eval")
    assert code == 1
    assert err.startswith(f"pagestate: The capture of {URL} makes no sense (dom_document: ")


OLDEST_SETTINGS = frozenset(
    {"batch_deadline", "batch_size", "budgets", "lanes", "max_reply_bytes", "profile", "robots", "site_per_process"}
    | {"store_captures"}
)


def make_older(folder: Path) -> None:
    """The store as a pagestate without outlines would have written it: no outline column, table or setting.

    Nor did it know several profiles, or pictures.
    """
    (plan_file,) = (folder / "plan" / "round=0").iterdir()
    plan = pq.read_table(plan_file, partitioning=None).drop_columns(["profiles", "depth", "tries"])
    pq.write_table(plan.replace_schema_metadata({**plan.schema.metadata, b"schema_version": b"1"}), plan_file)
    (marker_file,) = (folder / "commits" / "0").glob("*.json")
    marker = json.loads(marker_file.read_text())
    marker["files"] = [file for file in marker["files"] if file["table"] != "outline_maps"]
    for file in marker["files"]:
        path = folder / file["path"]
        table = pq.read_table(path, partitioning=None)
        newer = [name for name in table.schema.names if name.startswith(("outline", "agreement"))]
        newer += [name for name in ("depth", "hydrated_nodes") if file["table"] == "stage_metrics"]
        older = table.drop_columns(newer)
        pq.write_table(older.replace_schema_metadata({**older.schema.metadata, b"schema_version": b"1"}), path)
        file |= {"bytes": path.stat().st_size, "sha256": sha256(path.read_bytes()).hexdigest()}
    marker_file.write_text(json.dumps(marker | {"schema_version": 1}))
    crawl_file = folder / "crawl.json"
    crawl = json.loads(crawl_file.read_text())
    was = crawl["settings"]
    was["profile"] = was.pop("profiles")[0]
    was["profile"].pop("mobile")
    newer = [name for name in was if name not in OLDEST_SETTINGS]
    assert "outline" in newer
    for name in newer:
        was.pop(name)
    crawl |= {"settings_hash": settings_hash(crawl["settings"]), "schema_version": 1}
    crawl_file.write_text(json.dumps(crawl))


def test_a_store_from_before_there_were_outlines_makes_them(store_with: Callable[..., Path], say: Say) -> None:
    payloads, _ = payloads_of("forms.html")
    store = store_with(payloads)
    make_older(store)
    outline = serialize_outline(Capture(tuple(payloads)))
    assert say("show", URL, "--store", store, "--form", "outline") == (0, printable(outline.text) + "\n", "")
    code, out, _ = say("show", URL, "--store", store, "--form", "outline", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, [row["encoded_id"] for row in rows]) == (0, list(outline.rows.id))
    assert say("show", URL, "--store", store, "--form", "stages")[0] == 0
    assert say("agree", URL, "--store", store)[0] == 0
    assert say("status", "--store", store)[0] == 0
    assert say("verify", "--store", store, "--quick")[1].endswith("; 0 problems\n")


def test_an_outline_of_a_part_is_made_from_the_capture(store_with: Callable[..., Path], say: Say) -> None:
    payloads, _ = payloads_of("forms.html")
    store = store_with(payloads)
    show = ("show", URL, "--store", store, "--form", "outline")
    code, out, _ = say(*show, "--focus", "select")
    assert code == 0
    assert out.splitlines()[0].partition("] ")[2].startswith(("select", "combobox"))
    _, whole, _ = say(*show)
    _, left, _ = say(*show, "--ignore", "select", "--ignore", "xpath=//input")
    assert len(out.splitlines()) < len(left.splitlines()) < len(whole.splitlines())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--focus", "#nope"), "matches no element"),
        (("--focus", "p["), "no CSS selector"),
        (("--ignore", "xpath=//p["), "no XPath"),
        (("--focus", "h1 >> p"), "shows no frame"),
    ],
)
def test_a_selector_that_leads_nowhere_is_said_in_one_sentence(
    store_with: Callable[..., Path], say: Say, arguments: tuple[str, str], words: str
) -> None:
    store = store_with(payloads_of("forms.html")[0])
    code, out, err = say("show", URL, "--store", store, "--form", "outline", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert arguments[1] in err
    assert len(err.splitlines()) == 1


def test_focus_is_for_outlines(store_with: Callable[..., Path], say: Say) -> None:
    store = store_with(payloads_of("forms.html")[0])
    code, _, err = say("show", URL, "--store", store, "--focus", "p")
    assert code == 2
    assert "--form outline" in err


def test_a_page_without_an_outline_says_so_in_json_too(store_with: Callable[..., Path], say: Say) -> None:
    store = store_with([])
    for options in ((), ("--json",)):
        code, out, err = say("show", URL, "--store", store, "--form", "outline", *options)
        assert (code, out, err) == (0, "", f"pagestate: {URL} has no outline: ok.\n")
