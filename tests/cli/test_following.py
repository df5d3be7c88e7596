"""`crawl --follow` as a user meets it, in a real browser."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from workers.store import FolderStore, latest_listings, markers, verify_markers

pytestmark = pytest.mark.browser


def outcomes(store, origin):
    rows = latest_listings(FolderStore.for_reading(store), ["url_key", "outcome"]).to_pylist()
    return {row["url_key"].removeprefix(origin): row["outcome"] for row in rows}


def visits(site):
    return Counter(path for path in site.hits if path not in ("/favicon.ico", "/robots.txt"))


@pytest.fixture
def linked_site(site):
    """Pages that link to each other, to a page that robots.txt refuses, and to a calendar without an end."""
    site.page("/robots.txt", "User-agent: *\nDisallow: /shut\n", content_type="text/plain")
    site.page(
        "/", "<base href=/dir/><a href=a>A</a><a href=/shut>B</a><a href=../day?n=1>C</a><a href=//g.invalid>D</a>"
    )
    site.page("/dir/a", "<a href=/quiet>A</a><map><area href='/b#x'></map><a rel=nofollow href=/asked-not-to>B</a>")
    site.page("/quiet", "<a href=/never>A</a><p>quiet text</p>", headers={"X-Robots-Tag": "nofollow"})
    site.page("/b", "<a href=/too-deep>A</a><a href=/>B</a>")

    def day(handler):
        number = int(handler.path.partition("=")[2])
        body = "".join(f"<a href='/day?n={number + n}'>{n}</a>" for n in range(1, 9)).encode()
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    site.answer("/day", day)
    return site


FOLLOW = ["--follow", "2", "--follow-query-variants", "3", "--robots", "always"]


def test_links_are_followed_and_a_calendar_without_an_end_is_not(run, linked_site, browser_path, tmp_path):
    """Each round has the pages that the one before linked to; traps are named and not fetched (pain 34)."""
    store, start = tmp_path / "store", linked_site.origin + "/"
    done = run("crawl", start, "--store", store, *FOLLOW, "--json", browser=browser_path)
    assert done.code == 0, done.err
    fetched = ["/", "/dir/a", "/day?n=1", "/quiet", "/b", "/day?n=2", "/day?n=3"]
    assert outcomes(store, linked_site.origin) == dict.fromkeys(fetched, "ok") | {"/shut": "robots_denied"}
    assert visits(linked_site) == dict.fromkeys(fetched, 1)
    first, second, last = json.loads(done.out)["links"]
    assert (first["links"], first["planned"], first["refused"]) == (4, 3, {"out_of_scope": 1})
    assert first["examples"] == {"out_of_scope": "http://g.invalid/"}
    assert (second["links"], second["planned"], second["known"]) == (11, 4, 0)
    assert second["refused"] == {"nofollow": 1, "query_variants": 6}
    assert (last["sources"], last["links"]) == (0, 0)
    assert "Links of round 1: 11 in 2 pages; 4 planned" in done.err

    # the same command has nothing to do, and says the same
    again = run("crawl", start, "--store", store, *FOLLOW, "--json", browser=browser_path)
    assert again.code == 0, again.err
    assert json.loads(again.out)["links"] == json.loads(done.out)["links"]
    assert visits(linked_site) == dict.fromkeys(fetched, 1)
    assert run("verify", "--store", store).code == 0


def test_a_crawl_that_is_killed_follows_the_same_links(start, run, linked_site, browser_path, tmp_path):
    store, seed = tmp_path / "store", linked_site.origin + "/"
    undisturbed = run("crawl", seed, "--store", tmp_path / "other", *FOLLOW, browser=browser_path)
    assert undisturbed.code == 0, undisturbed.err
    linked_site.hits.clear()
    for killed_at in "/dir/a", "/b":
        crawl = start("crawl", seed, "--store", store, *FOLLOW)
        while killed_at not in linked_site.hits:
            assert crawl.process.poll() is None, "it ended before it was killed"
        crawl.kill()
    done = run("crawl", seed, "--store", store, *FOLLOW, browser=browser_path)
    assert done.code == 0, done.err
    assert outcomes(store, "") == outcomes(tmp_path / "other", "")
    assert {m.batch_id for m in markers(FolderStore.for_reading(store))} == {
        m.batch_id for m in markers(FolderStore.for_reading(tmp_path / "other"))
    }
    assert list(verify_markers(FolderStore.for_reading(store), hashes=True)) == []


def test_what_fails_for_a_time_is_tried_again_in_the_round_of_its_links(run, site, browser_path, tmp_path):
    """Only so often, after a pause, while links go on."""
    answers = iter([503, 200, 200])
    site.page("/", "<a href=/flaky>A</a><a href=/down>B</a>")
    site.page("/down", "down", status=503)
    site.page("/after", "<p>text")

    def flaky(handler):
        handler.send_response(next(answers))
        handler.send_header("Content-Type", "text/html")
        handler.end_headers()
        handler.wfile.write(b"<a href=/after>A</a><p>up again</p>")

    site.answer("/flaky", flaky)
    store = tmp_path / "store"
    options = ["--follow", "2", "--retries", "2", "--retry-pause", "0.1", "--json"]
    done = run("crawl", site.origin + "/", "--store", store, *options, browser=browser_path)
    assert done.code == 0, done.err
    assert outcomes(store, site.origin) == {"/": "ok", "/flaky": "ok", "/after": "ok", "/down": "http_error"}
    assert visits(site) == {"/": 1, "/flaky": 2, "/down": 3, "/after": 1}
    assert done.err.count("are tried again in 0.") == 2


def test_links_need_stored_captures(run, tmp_path):
    done = run("crawl", "http://127.0.0.1:9/", "--store", tmp_path / "store", "--follow", "1", "--no-captures")
    assert done.code == 2
    assert "leave out --no-captures, or --follow" in done.err
    assert not (tmp_path / "store").exists()
