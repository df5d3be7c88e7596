"""Links of stored documents become pages of the next round: the same ones, whoever plans it and however often."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from scheduler import large_plan
from scheduler.cli import main
from scheduler.follow_rules import FollowSettings
from scheduler.following import Follow, StoppedPlanning, next_round_following
from scheduler.links_found import links_found
from scheduler.rounds import plan_round
from schemas.batch import Batch, PlannedPage
from schemas.capture import Capture, Payload
from schemas.errors import StoreDamaged, StoreError
from schemas.identifiers import page_id
from schemas.outcomes import Outcome
from schemas.records import PageRecord
from schemas.settings import CrawlSettings
from workers.store import FolderStore, ObjectStore, commit_batch, encode_capture, open_crawl, open_store, read_plan

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SETTINGS = CrawlSettings(lanes=3, batch_size=2)
FOLLOW = Follow(FollowSettings(depth=2))
Site = dict[str, list[str]]


def planned_after(*asked: Any) -> list[Batch]:
    """The batches of the next round."""
    return list(next_round_following(*asked))


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "folder":
        return FolderStore.for_run(tmp_path / "store")
    return open_store(request.getfixturevalue("s3_url"))


def document(url: str, links: list[str]) -> bytes:
    """The DOM document of a page with these links; "!" before one is nofollow."""
    anchors = [
        {
            "nodeType": 1,
            "nodeName": "A",
            "backendNodeId": 9,
            "attributes": ["href", link.removeprefix("!"), *(["rel", "x NoFollow"] if link[0] == "!" else [])],
        }
        for link in links
    ]
    root = {"nodeType": 9, "nodeName": "#document", "backendNodeId": 1, "childNodeCount": len(links)}
    return json.dumps({"root": root | {"children": anchors, "documentURL": url, "baseURL": url}}).encode()


def commit(
    store: ObjectStore, batch: Batch, links: Site, outcome: Callable[[str], Outcome] = lambda key: "ok", **row: Any
) -> None:
    listing = {
        "degradations": [],
        "redirects": [],
        **dict.fromkeys(("duration_ms", "scale"), 1.0),
        **dict.fromkeys(("viewport_width", "viewport_height", "surrogates_replaced", "secrets_masked"), 0),
        **dict.fromkeys(("payload_bytes", "dialogs", "popups", "downloads"), 0),
        **dict.fromkeys(("locale", "time_zone", "settings_hash", "serializer", "serializer_version"), ""),
        "started_at": NOW,
        **row,
    }
    records = []
    for page in batch.pages:
        key = page.url_key
        own = Payload("dom_document", document(key, links.get(key.partition("/")[2][1:], [])))
        elsewhere = Payload("dom_document", document(key, ["/of-a-frame"]), target=1)
        identity = page_id(batch.crawl, batch.round, key, "desktop")
        captures = encode_capture(Capture((Payload("layout_snapshot", b"{}"), own, elsewhere)))
        records.append(PageRecord(key, identity, "desktop", outcome(key), listing, captures=captures))
    assert commit_batch(store, batch, "a" * 32, records, now=NOW).result == "won"


def crawl(store: ObjectStore, links: Site, seeds: list[str], follow: Follow = FOLLOW) -> list[list[str]]:
    """Rounds until nothing is left: the pages of each."""
    plan_round(store, "c", 0, [PlannedPage(seed, seed) for seed in seeds], SETTINGS)
    rounds: list[list[str]] = []
    while batches := read_plan(store, len(rounds)):
        for batch in batches:
            commit(store, batch, links)
        rounds.append(sorted(page.url_key for batch in batches for page in batch.pages))
        planned_after(store, "c", len(rounds) - 1, SETTINGS, 0, follow)
    return rounds


LINKS: Site = {
    "h/": ["a", "b#part", "http://h/", "//other/", "mailto:x@y", "!secret", "http://h:81/"],
    "h/a": ["a/deep", "b", "http://user:pw@g/x", "!b"],
    "h/a/deep": ["a/deeper"],
    "h/b": ["//g/", "c", "/a/deep"],
    "g/": ["y", "http://h/c"],
    "g/y": ["z"],
    "g/z": ["zz"],
}


def test_links_are_followed_so_deep(store):
    rounds = crawl(store, LINKS, ["http://h/", "http://g/"])
    assert rounds == [
        ["http://g/", "http://h/"],
        ["http://g/y", "http://h/a", "http://h/b", "http://h/c"],
        ["http://g/x", "http://g/z", "http://h/a/deep"],
    ]
    depths = [{page.depth for batch in read_plan(store, n) for page in batch.pages} for n in range(3)]
    assert depths == [{0}, {1}, {2}]
    found = links_found(store)
    assert sorted(found) == [0, 1, 2]
    assert found[0].refused == {"nofollow": 1, "out_of_scope": 2}
    assert found[0].examples["nofollow"] == "http://h/secret"
    assert (found[0].links, found[0].planned, found[0].known, found[0].sources) == (8, 4, 1, 2)
    assert (found[2].sources, found[2].links) == (0, 0), "pages of the last depth are not read"


def test_planning_again_reads_nothing_and_changes_nothing(store):
    plan_round(store, "c", 0, [PlannedPage("http://h/", "http://h/")], SETTINGS)
    (batch,) = read_plan(store, 0)
    with pytest.raises(StoreError, match="not committed"):
        planned_after(store, "c", 0, SETTINGS, 0, FOLLOW)
    assert list(store.list("links/")) == []
    commit(store, batch, LINKS)
    told: list[Any] = []
    follow = replace(FOLLOW, told=told.append)
    first = planned_after(store, "c", 0, SETTINGS, 0, follow)
    files = [path for folder in ("plan/", "links/") for path in store.list(folder)]
    # what was read is not read again, even where it is gone
    for path in list(store.list("data/captures/")):
        store.delete(path)
    assert planned_after(store, "c", 0, SETTINGS, 0, follow) == first == read_plan(store, 1)
    assert [path for folder in ("plan/", "links/") for path in store.list(folder)] == files
    assert told == [links_found(store)[0]]


def test_a_scheduler_that_is_killed_before_it_is_done_costs_nothing(store):
    """The plan is stored, its report is not; and the round may have begun meanwhile."""
    plan_round(store, "c", 0, [PlannedPage("http://h/", "http://h/")], SETTINGS)
    (batch,) = read_plan(store, 0)
    commit(store, batch, LINKS)
    planned = planned_after(store, "c", 0, SETTINGS, 0, FOLLOW)
    report = links_found(store)
    for path in list(store.list("links/")):
        store.delete(path)
    commit(store, planned[0], LINKS)
    assert planned_after(store, "c", 0, SETTINGS, 0, FOLLOW) == planned
    assert links_found(store) == report


def test_the_order_of_seeds_does_not_matter_nor_does_memory(tmp_path, monkeypatch):
    links = {f"h{host}/{n}": [f"/{n}/{m}" for m in range(30)] for host in range(4) for n in range(5)}
    seeds = ["http://" + key for key in links]
    plans = []
    for number, order in enumerate((seeds, seeds[::-1])):
        monkeypatch.setattr(large_plan, "CHUNK", 7 + 1000 * number)
        store = FolderStore.for_run(tmp_path / str(number))
        crawl(store, links, order, Follow(FollowSettings(depth=1, digit_variants=100, per_host=70), memory_mb=64))
        plans.append((read_plan(store, 1), links_found(store)[0]))
    assert plans[0] == plans[1]
    assert sum(len(batch.pages) for batch in plans[0][0]) == 4 * 70
    assert plans[0][1].refused == {"digit_variants": 4 * 50, "host_budget": 4 * 30}


def test_pages_that_failed_come_again_alongside_with_their_depth(tmp_path):
    store = FolderStore.for_run(tmp_path / "store")
    plan_round(store, "c", 0, [PlannedPage("http://h/", "http://h/")], SETTINGS)
    (batch,) = read_plan(store, 0)
    commit(store, batch, LINKS)
    for batch in planned_after(store, "c", 0, SETTINGS, 1, FOLLOW):
        commit(store, batch, LINKS, lambda key: "dns_error" if key == "http://h/b" else "ok")
    planned = planned_after(store, "c", 1, SETTINGS, 1, FOLLOW)
    pages = {page.url_key: (page.depth, page.tries) for batch in planned for page in batch.pages}
    assert pages == {"http://h/a/deep": (2, 0), "http://h/b": (1, 1)}
    for batch in planned:
        commit(store, batch, LINKS)
    # what comes a round late is followed as deep as the others
    late = planned_after(store, "c", 2, SETTINGS, 1, FOLLOW)
    assert [(page.url_key, page.depth) for batch in late for page in batch.pages] == [("http://h/c", 2)]


@pytest.mark.parametrize("directive", ["nofollow", "none"])
def test_a_page_that_says_nofollow_is_not_followed(tmp_path, directive):
    store = FolderStore.for_run(tmp_path / "store")
    plan_round(store, "c", 0, [PlannedPage("http://h/", "http://h/")], SETTINGS)
    (batch,) = read_plan(store, 0)
    commit(store, batch, LINKS, robots_directives=["noarchive", directive])
    assert planned_after(store, "c", 0, SETTINGS, 0, FOLLOW) == []
    assert links_found(store)[0].refused == {"nofollow": 3, "out_of_scope": 2}


def test_pages_that_ended_otherwise_are_not_followed(tmp_path):
    store = FolderStore.for_run(tmp_path / "store")
    plan_round(store, "c", 0, [PlannedPage("http://h/", "http://h/")], SETTINGS)
    (batch,) = read_plan(store, 0)
    commit(store, batch, LINKS, lambda key: "challenge")
    assert planned_after(store, "c", 0, SETTINGS, 0, FOLLOW) == []
    assert links_found(store)[0].links == 0


def test_a_second_seed_list_is_followed_too(tmp_path):
    store = FolderStore.for_run(tmp_path / "store")
    crawl(store, LINKS, ["http://h/"])
    plan_round(store, "c", 0, [PlannedPage("http://g/", "http://g/")], SETTINGS)
    for number in range(3):
        for batch in read_plan(store, number):
            if not any(batch.batch_id in path for path in store.list(f"commits/{number}/")):
                commit(store, batch, LINKS)
        planned_after(store, "c", number, SETTINGS, 0, FOLLOW)
    pages = {page.url_key for n in range(3) for batch in read_plan(store, n) for page in batch.pages}
    assert {"http://g/", "http://g/y", "http://g/z", "http://g/x"} <= pages
    assert links_found(store)[0].batches == 2


def test_who_wants_to_stop_waits_for_no_plan(tmp_path):
    store = FolderStore.for_run(tmp_path / "store")
    plan_round(store, "c", 0, [PlannedPage("http://h/", "http://h/")], SETTINGS)
    (batch,) = read_plan(store, 0)
    commit(store, batch, LINKS)
    with pytest.raises(StoppedPlanning):
        planned_after(store, "c", 0, SETTINGS, 0, replace(FOLLOW, stopped=lambda: True))
    assert read_plan(store, 1) == []
    assert list(store.list("links/")) == []


def test_status_tells_what_became_of_links(tmp_path, capsys):
    """What looks like a trap is reported, with an example (pain 34)."""
    store = FolderStore.for_run(tmp_path / "store")
    open_crawl(store, "c", SETTINGS, now=NOW)
    links = {"h/": ["/go/go/go", *(f"/?day={n}" for n in range(60))]}
    crawl(store, links, ["http://h/"], Follow(FollowSettings(depth=1)))
    assert main(["status", "--store", store.where]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "Links of round 0: 61 in 1 pages; 50 planned, 0 known; not followed: query_variants 10" in told
    assert "repeating_path 1 (such as http://h/go/go/go)." in told
    assert main(["status", "--store", store.where, "--json"]) == 0
    first, _ = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["links"]["refused"] == {"query_variants": 10, "repeating_path": 1}


def test_a_report_that_makes_no_sense_is_named(tmp_path):
    store = FolderStore.for_run(tmp_path / "store")
    store.put_if_absent("links/0/ab.json", b"{}")
    with pytest.raises(StoreDamaged, match=r"links/0/ab\.json .* delete it"):
        links_found(store)
