"""What every test may ask for, and the rule that CI skips nothing for want of a server or a browser.

On a laptop a test skips with its reason where something it needs is absent. Where CI is `true` that skip is a failure,
unless its reason is one of `ALLOWED_SKIPS`.
"""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import pytest
from servers import BUCKET, S3, free_ports

from scheduler.example.server import ExampleSite, serve_example
from schemas.errors import BrowserMissing

ALLOWED_SKIPS = (
    "PAGESTATE_SHARED is not set",  # whoever has only the project can still run its tests
    "this machine has no IPv6",
    "the oracle is not set up",  # make oracle: hundreds of packages that only the comparison with the peer needs
    "the compiled core is not built",  # make compiled: it takes minutes and a C compiler, and nothing needs it
    "this kernel lets nobody make networks",  # hosts that are cut off are simulated by cut connections too
    "this kernel lets nobody mount",  # a full disk is tested another way too
    "this user may write everywhere",  # root is not held by permissions; the refusal is tested another way too
)
Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def in_ci() -> bool:
    """True where a missing server or browser is a fault of the machine's set-up."""
    return os.environ.get("CI") == "true"


@pytest.fixture(scope="session")
def example_site() -> Iterator[ExampleSite]:
    """The built-in example site, on free ports, so that nothing else on this machine disturbs it."""
    with serve_example(ports=(0, 0)) as site:
        yield site


class LoopbackSite:
    """Pages of a test's own on a free port; `hits` are the paths that were asked for, in order, `times` when (s)."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.hits: list[str] = []
        self.times: list[float] = []
        self.closing = threading.Event()
        self._answers: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.hits.append(self.path)
                site.times.append(time.monotonic())
                answer = site._answers.get(self.path.partition("?")[0])
                if answer is None:
                    self.send_error(404)
                else:
                    answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                """Says nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Says nothing: a browser that closes a page hangs up in the middle of an answer."""

        self._server = Server((host, 0), Handler)
        self.origin = f"http://{host}:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def page(
        self,
        path: str,
        body: str | bytes,
        status: int = 200,
        content_type: str = "text/html; charset=utf-8",
        headers: dict[str, str] | None = None,
    ) -> str:
        """Answers a path with this page; returns its URL."""
        data = body.encode() if isinstance(body, str) else body

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(status)
            handler.send_header("Content-Type", content_type)
            handler.send_header("Content-Length", str(len(data)))
            for name, value in (headers or {}).items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(data)

        return self.answer(path, answer)

    def hang(self, path: str) -> str:
        """Never answers a path, until the site closes; returns its URL."""
        return self.answer(path, lambda handler: self.closing.wait() and None)

    def answer(self, path: str, how: Callable[[BaseHTTPRequestHandler], None]) -> str:
        """Answers a path by a function of the request's handler; returns its URL."""
        self._answers[path] = how
        return self.origin + path

    def close(self) -> None:
        """Frees the port."""
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def open_site() -> Iterator[Callable[..., LoopbackSite]]:
    """Opens sites on loopback addresses; they are closed after the test."""
    sites: list[LoopbackSite] = []

    def open_one(host: str = "127.0.0.1") -> LoopbackSite:
        sites.append(LoopbackSite(host))
        return sites[-1]

    yield open_one
    for site in sites:
        site.close()


@pytest.fixture
def site(open_site: Callable[..., LoopbackSite]) -> LoopbackSite:
    """One site of the test's own."""
    return open_site()


@pytest.fixture(scope="session")
def listings_made_again() -> Callable[[Path], int]:
    """Makes every stored listing again from its stored capture, without a browser, and counts those that it made.

    Fails where one is not the same, byte for byte.
    """
    from hashlib import sha256

    from workers.merge import merge
    from workers.serialize.listing import serialize_listing
    from workers.store import FolderStore, latest_listings, load_capture

    def make_again(folder: Path) -> int:
        store = FolderStore.for_reading(folder)
        rows = latest_listings(store, ["url_key", "page_id", "listing", "listing_sha256"]).to_pylist()
        stored = [row for row in rows if row["listing"] is not None]
        for row in stored:
            again = serialize_listing(merge(load_capture(store, row["page_id"]))).text
            assert again == row["listing"], row["url_key"]
            assert sha256(again.encode()).hexdigest() == row["listing_sha256"], row["url_key"]
        return len(stored)

    return make_again


@pytest.fixture(scope="session")
def shared() -> Path:
    """The shared folder; the test skips without one."""
    given = os.environ.get("PAGESTATE_SHARED", "")
    if not given:
        pytest.skip("PAGESTATE_SHARED is not set; point it at the shared folder to run this test")
    folder = Path(given)
    if not folder.is_dir():
        pytest.skip(f"PAGESTATE_SHARED is {given}, which is no folder")
    return folder


@pytest.fixture(scope="session")
def browser_path() -> Path:
    """A Chromium, found as the product finds it; the test skips without one."""
    from workers.browser.find import find_browser

    try:
        return find_browser(os.environ.get("PAGESTATE_BROWSER", ""))
    except BrowserMissing as missing:
        pytest.skip(str(missing))


@dataclass(frozen=True)
class S3Server:
    """A running S3 server with an empty bucket; `environment` is what a process needs to speak to it."""

    bucket: str
    environment: dict[str, str]


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real S3 server (SeaweedFS) on free ports of this machine; the test skips where it is not installed."""
    try:
        server = S3(tmp_path_factory.mktemp("s3"))
    except FileNotFoundError as error:
        pytest.skip(str(error))
    with server.up():
        yield S3Server(BUCKET, server.environment(server.port))


@pytest.fixture
def s3_url(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """A prefix of its own on the S3 server, which this process is set up to speak to."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{s3_server.bucket}/{random.getrandbits(64):016x}"


@pytest.fixture(scope="session", name="free_ports")
def free_ports_fixture() -> Callable[[int], list[int]]:
    """`free_ports`, for tests that start a server of their own."""
    return free_ports


@pytest.fixture(scope="session", name="running")
def running_fixture() -> Callable[..., AbstractContextManager[subprocess.Popen[bytes]]]:
    """`running`, for tests that start a server of their own."""
    return running


@contextmanager
def running(command: list[str], log: Path, ready: Callable[[], bool]) -> Iterator[subprocess.Popen[bytes]]:
    """A server process, from when it is ready until its end."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=log.parent, start_new_session=True)
    try:
        for _ in range(300):
            if process.poll() is not None or ready():
                break
            time.sleep(0.2)
        else:
            pytest.fail(f"{command[0]} was not ready after a minute:\n{log.read_text()[-2000:]}")
        if process.poll() is not None:
            pytest.fail(f"{command[0]} ended at its start:\n{log.read_text()[-2000:]}")
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return without_forbidden_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return without_forbidden_skip((yield))


def without_forbidden_skip(report: Report) -> Report:
    """The report itself; in CI a skip that is not allowed there becomes a failure."""
    if not in_ci() or not report.skipped or hasattr(report, "wasxfail"):
        return report
    said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = said.removeprefix("Skipped: ")
    if not reason.startswith(ALLOWED_SKIPS):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {reason}"
    return report
