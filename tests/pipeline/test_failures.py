"""What goes wrong on the way ends in a row: a killed process, a killed browser, a deadline, a refusal."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from datetime import timedelta

import psutil
import pytest

from schemas.settings import Budgets, CrawlSettings, RunSettings
from workers.process import process_page

pytestmark = pytest.mark.browser

ONE_BY_ONE = RunSettings(concurrency=1, processes=1)
PATIENCE_SECONDS = 60.0


def below_this_process(is_it: Callable[[list[str]], bool]) -> list[psutil.Process]:
    """The processes below this one whose command line is the one; parents come before their children."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if is_it(process.cmdline()):
                found.append(process)
    return found


def kill_browser_once(ready: Callable[[], bool]) -> threading.Thread:
    """Kills the browser below this process, once it is time."""

    def look() -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            if ready() and (found := below_this_process(is_browser)):
                # the system's browser may be a script that keeps waiting for the program itself
                found[-1].kill()
                return
            time.sleep(0.01)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    return thread


def is_browser(command: list[str]) -> bool:
    return "--remote-debugging-port=0" in command and not any(part.startswith("--type=") for part in command)


def kill_pool_processes(monkeypatch, times: int) -> list[psutil.Process]:
    """Kills the process that gets a page, the first so many times; whoever notices first, it is the same page."""
    submit, killed = ProcessPoolExecutor.submit, []

    def kill_and_submit(pool, work, /, *arguments):
        if work is process_page and len(killed) < times:
            for process in pool._processes.values():
                process.kill()
                process.join()
            killed.extend(pool._processes)
        return submit(pool, work, *arguments)

    monkeypatch.setattr(ProcessPoolExecutor, "submit", kill_and_submit)
    return killed


def test_a_page_that_takes_two_processes_down_is_too_large(crawled, site, listings_made_again, monkeypatch):
    """Such a page is to blame, and the next one gets a new process (pain 40)."""
    urls = [site.page(f"/{n}", f"<a href=/>page {n}</a>") for n in range(3)]
    killed = kill_pool_processes(monkeypatch, 2)
    done = crawled(urls, run=ONE_BY_ONE)
    assert len(killed) == 2
    assert done.outcomes() == {urls[0]: "too_large", urls[1]: "ok", urls[2]: "ok"}
    row = done.rows()[urls[0]]
    assert "died" in row["outcome_detail"]
    assert (row["listing"], row["retryable"]) == (None, False)
    assert listings_made_again(done.store.folder) == 2


def test_a_process_killed_from_outside_costs_no_page(crawled, site, listings_made_again, monkeypatch):
    """The page is done once more, and the pages in the processes beside it know nothing of it (pain 40)."""
    urls = [site.page(f"/{n}", f"<a href=/>page {n}</a>") for n in range(6)]
    killed = kill_pool_processes(monkeypatch, 1)
    done = crawled(urls, run=RunSettings(concurrency=4, processes=2))
    assert len(killed) == 1
    assert set(done.outcomes().values()) == {"ok"}
    assert listings_made_again(done.store.folder) == 6


def test_a_killed_browser_costs_its_page_only(crawled, site, listings_made_again):
    """A browser that dies is a `browser_crash` of the page in flight; the next page gets a new one (pains 8, 10)."""
    hanging = site.hang("/0")
    urls = [hanging, *(site.page(f"/{n}", f"<a href=/>page {n}</a>") for n in (1, 2))]
    killer = kill_browser_once(lambda: "/0" in site.hits)
    done = crawled(urls, run=ONE_BY_ONE)
    killer.join()
    assert done.outcomes() == {urls[0]: "browser_crash", urls[1]: "ok", urls[2]: "ok"}
    assert done.rows()[hanging]["retryable"]
    assert listings_made_again(done.store.folder) == 2


def test_pages_after_the_deadline_are_deferred_and_taken_up_by_the_next_round(crawled, site):
    """A batch ends by its deadline; what it did not start is neither lost nor skipped (pain 52)."""

    def slow(handler) -> None:
        time.sleep(0.5)
        body = b"<p>text</p>"
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    urls = [site.answer(f"/{n}", slow) for n in range(3)]
    done = crawled(urls, CrawlSettings(batch_deadline=timedelta(seconds=0.2)), ONE_BY_ONE)
    by_round = {
        number: sorted(row["outcome"] for row in done.table("listings") if row["round"] == number)
        for number in range(done.rounds)
    }
    assert by_round == {0: ["deferred", "deferred", "ok"], 1: ["deferred", "ok"], 2: ["ok"]}
    assert done.outcomes() == dict.fromkeys(urls, "ok")
    deferred = next(row for row in done.table("listings") if row["outcome"] == "deferred")
    assert (deferred["retryable"], deferred["outcome_detail"]) == (True, "the batch's deadline had passed")


def test_robots_are_asked_before_a_page_is_fetched(crawled, open_site):
    """A refused page is a row with its reason, and is never fetched; an unreachable robots.txt refuses (pain 53)."""
    open_host, closed, broken = (open_site(f"127.0.0.{n}") for n in (1, 2, 3))
    urls = [each.page("/page", "<p>text</p>") for each in (open_host, closed, broken)]
    public = closed.page("/public", "<p>text</p>")
    open_host.page("/robots.txt", "User-agent: *\nAllow: /\n", content_type="text/plain")
    closed.page("/robots.txt", "User-agent: pagestate\nDisallow: /\nAllow: /public\n", content_type="text/plain")
    broken.page("/robots.txt", "", status=503)
    done = crawled([*urls, public], CrawlSettings(robots="always"))
    rows = done.rows()
    told = {url: (rows[url]["outcome"], rows[url]["robots_verdict"]) for url in rows}
    assert told == {
        urls[0]: ("ok", "allowed"),
        urls[1]: ("robots_denied", "denied"),
        public: ("ok", "allowed"),
        urls[2]: ("robots_denied", "unreachable"),
    }
    assert "answered 503" in rows[urls[2]]["robots_rule"]
    assert "/page" not in closed.hits + broken.hits
    assert [each.hits.count("/robots.txt") for each in (open_host, closed, broken)] == [1, 1, 1]


def test_no_page_is_failed_for_a_late_accessibility_tree(crawled, site, listings_made_again):
    """The accessibility tree is an extra: a budget that nothing can hold degrades the page and keeps its listing (pain
    21)."""
    url = site.page("/", "".join(f"<p><a href=/{n}>link {n}</a></p>" for n in range(3000)))
    done = crawled([url], CrawlSettings(budgets=Budgets(payload=timedelta(milliseconds=1))))
    row = done.rows()[url]
    assert row["outcome"] == "ok"
    assert "ax_timeout" in row["degradations"]
    assert "link 2999" in row["listing"]
    stages = {stage["stage"]: stage["outcome"] for stage in done.table("stage_metrics")}
    assert stages["ax_tree"] == "timeout"
    assert stages["layout_snapshot"] == "fallback", "late, and kept all the same"
    assert listings_made_again(done.store.folder) == 1
