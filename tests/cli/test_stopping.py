"""A crawl that is stopped, gently, at once or by a kill, goes on with the same command and captures nothing twice."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import termios
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from workers.store import FolderStore, latest_listings, markers, read_table, verify_markers

pytestmark = pytest.mark.browser

PATIENCE_SECONDS = 60.0


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.02)


def command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def outcomes(store: Path) -> dict[str, str]:
    found = latest_listings(FolderStore.for_reading(store), ["url_key", "outcome"]).to_pylist()
    return {str(row["url_key"]): str(row["outcome"]) for row in found}


class Gated:
    """Pages of a site that are answered only while the gate is open."""

    def __init__(self, site, count: int) -> None:
        self.site = site
        self.open = threading.Event()
        self.urls = [self._page(f"/{n}", f"<title>{n}</title><a href=/>page {n}</a>".encode()) for n in range(count)]

    def _page(self, path: str, body: bytes) -> str:
        def answer(handler) -> None:
            while not (self.open.wait(0.05) or self.site.closing.is_set()):
                pass
            handler.send_response(200)
            handler.send_header("Content-Type", "text/html")
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)

        return self.site.answer(path, answer)

    def asked(self) -> Counter[str]:
        return Counter(path for path in self.site.hits if path != "/favicon.ico")


class Terminal:
    """A real terminal: what is typed becomes signals, what is printed is kept."""

    def __init__(self) -> None:
        self._master, self.end = os.openpty()
        self.printed = bytearray()
        threading.Thread(target=self._read, daemon=True).start()

    def options(self) -> dict[str, object]:
        """What makes it the controlling terminal of a new process."""
        return {
            "stdin": self.end,
            "stdout": self.end,
            "stderr": self.end,
            "preexec_fn": lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        }

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def text(self) -> str:
        """Everything that was printed so far."""
        return bytes(self.printed).decode("utf-8", "replace")

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:
                return
            self.printed += data

    def close(self) -> None:
        os.close(self.end)
        os.close(self._master)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()


def test_a_crawl_that_is_killed_three_times_completes(
    start, run, open_site, browser_path, tmp_path, listings_made_again
):
    """kill -9 at random moments, then the same command: each URL stands once, nothing is lost, nobody is left (pains 2,
    3, 48, 52)."""
    seed = random.randrange(1 << 30)
    print(f"moments drawn from {seed}")
    moments = random.Random(seed)
    store = tmp_path / "store"
    pages = [Gated(open_site(f"127.0.0.{host}"), 6) for host in (1, 2, 3)]
    for gated in pages:
        gated.open.set()
    urls = [url for gated in pages for url in gated.urls]
    command = ("crawl", *urls, "--store", store, "--batch-size", "2", "--concurrency", "2")
    committed: dict[str, str] = {}
    # on a busy machine all moments of a fixed span could lie before the browser starts
    begins: list[Callable[..., bool]] = [
        lambda running: True,
        lambda running: any("spawn_main" in part for process in running.started for part in command_line(process)),
        lambda running: len(list((store / "commits").glob("*/*.json"))) > len(committed),
    ]
    for begun in begins:
        running = start(*command)
        ends = float("inf")
        while time.monotonic() < ends and running.process.poll() is None:
            running.look()
            if ends == float("inf") and begun(running):
                ends = time.monotonic() + moments.uniform(0.0, 2.0)
            time.sleep(0.02)
        running.kill()
        assert not running.survivors(), "browser and pool processes end with the command"
        if (store / "commits").exists():
            now = {marker.batch_id: marker.attempt for marker in markers(FolderStore.for_reading(store))}
            assert committed.items() <= now.items(), "what was committed stays as it was"
            committed = now
    ran = run(*command, browser=browser_path)
    assert ran.code == 0, ran.err
    table = read_table(FolderStore.for_reading(store), "listings", ["url_key", "outcome"]).to_pydict()
    assert sorted(table["url_key"]) == sorted(urls)
    assert set(table["outcome"]) == {"ok"}
    assert listings_made_again(store) == len(urls)
    assert not list(verify_markers(FolderStore.for_reading(store), hashes=True))
    now = {marker.batch_id: marker.attempt for marker in markers(FolderStore.for_reading(store))}
    assert committed.items() <= now.items()


def test_ctrl_c_finishes_the_pages_in_flight_and_commits(start, run, site, terminal, browser_path, tmp_path):
    """Ctrl-C reaches every process of the terminal's group; the pages in flight are finished all the same (pain 52)."""
    gated, store = Gated(site, 6), tmp_path / "store"
    command = ("crawl", *gated.urls, "--store", store, "--concurrency", "2")
    running = start(*command, **terminal.options())
    wait_until(lambda: len(gated.asked()) == 2)
    running.look()
    terminal.type(b"\x03")
    wait_until(lambda: "stopping; the pages in flight are finished" in terminal.text())
    time.sleep(0.3)
    gated.open.set()
    assert running.wait() == 130, terminal.text()[-3000:]
    assert not running.survivors()
    assert "Traceback" not in terminal.text()
    assert "Stopped before the end; the same command goes on from here." in terminal.text()
    assert "round 0" in terminal.text()
    assert "pages/s" in terminal.text(), "a terminal has a bar"
    assert Counter(outcomes(store).values()) == {"ok": 2, "deferred": 4}
    asked = gated.asked()
    assert len(asked) == 2

    ran = run(*command, browser=browser_path)
    assert ran.code == 0, ran.err
    assert outcomes(store) == dict.fromkeys(gated.urls, "ok")
    assert set(gated.asked().values()) == {1}, "no page is captured twice"


def test_a_second_ctrl_c_stops_at_once(start, run, site, terminal, browser_path, tmp_path):
    """Pages that never end do not keep the command; nothing of their batch is committed, and nobody is left."""
    gated, store = Gated(site, 3), tmp_path / "store"
    command = ("crawl", *gated.urls, "--store", store, "--concurrency", "2")
    running = start(*command, **terminal.options())
    wait_until(lambda: len(gated.asked()) == 2)
    running.look()
    terminal.type(b"\x03")
    wait_until(lambda: "stopping" in terminal.text())
    assert running.process.poll() is None
    terminal.type(b"\x03")
    begun = time.monotonic()
    assert running.wait() == 130, terminal.text()[-3000:]
    assert time.monotonic() - begun < 25
    assert "Traceback" not in terminal.text()
    assert "the same command goes on from there" in terminal.text()
    assert not running.survivors()
    assert outcomes(store) == {}

    gated.open.set()
    ran = run(*command, browser=browser_path)
    assert ran.code == 0, ran.err
    assert outcomes(store) == dict.fromkeys(gated.urls, "ok")


def test_term_is_a_graceful_stop_too(start, site, tmp_path):
    """What ends services ends a crawl in order; a batch of which nothing was started is not committed."""
    gated, store = Gated(site, 4), tmp_path / "store"
    running = start("crawl", *gated.urls, "--store", store, "--concurrency", "1", "--batch-size", "2")
    wait_until(lambda: len(gated.asked()) == 1)
    running.look()
    running.process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    gated.open.set()
    assert running.wait() == 130
    assert not running.survivors()
    assert Counter(outcomes(store).values()) == {"ok": 1, "deferred": 1}


def test_two_crawls_do_not_share_a_store(start, run, site, browser_path, tmp_path):
    gated, store = Gated(site, 1), tmp_path / "store"
    running = start("crawl", *gated.urls, "--store", store)
    wait_until(lambda: len(gated.asked()) == 1)
    second = run("crawl", *gated.urls, "--store", store, browser=browser_path)
    assert (second.code, second.out) == (2, "")
    assert second.err.count("\n") == 1
    assert f"in use by process {running.process.pid}" in second.err
    status = run("status", "--store", store)
    assert status.code == 0, "reading needs no lock"
    gated.open.set()
    assert running.wait() == 0
    assert outcomes(store) == dict.fromkeys(gated.urls, "ok")
