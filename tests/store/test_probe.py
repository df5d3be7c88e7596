"""A server that ignores the conditions of a write is found out before anything is written to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from scheduler.cli import main
from schemas.errors import StoreError
from workers.store import open_store


@contextmanager
def careless_server(obeys: tuple[str, ...]) -> Iterator[tuple[str, dict[str, bytes]]]:
    """A tiny S3 server that obeys only some of the conditions; gives its address and what it holds."""
    held: dict[str, bytes] = {}

    def tag(data: bytes) -> str:
        return f'"{md5(data, usedforsecurity=False).hexdigest()}"'

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_PUT(self) -> None:
            if self.headers["Expect"]:
                self.send_response_only(100)
                self.end_headers()
            data = self.rfile.read(int(self.headers["Content-Length"]))
            known = held.get(self.path)
            refused = "If-None-Match" in obeys and self.headers["If-None-Match"] and known is not None
            wanted = self.headers["If-Match"] if "If-Match" in obeys else None
            if refused or (wanted and (known is None or tag(known) != wanted)):
                self.answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
                return
            held[self.path] = data
            self.answer(200, ETag=tag(data))

        def do_GET(self) -> None:
            if "list-type=2" in self.path:
                self.answer(200, b"<ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>")
            elif self.path in held:
                self.answer(200, held[self.path], ETag=tag(held[self.path]))
            else:
                self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

        def do_DELETE(self) -> None:
            held.pop(self.path, None)
            self.answer(204)

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", held
        server.shutdown()
        thread.join()


@pytest.fixture
def speak_to(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def to(endpoint: str) -> None:
        for name, value in {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL_S3": endpoint,
        }.items():
            monkeypatch.setenv(name, value)

    return to


@pytest.mark.parametrize(
    ("obeys", "says"),
    [
        ((), "ignores If-None-Match, so that two workers could both commit a batch; use one with conditional writes"),
        (("If-None-Match",), "ignores If-Match, so that two workers could both hold a claim; use one with"),
    ],
)
def test_a_server_that_ignores_a_condition_is_refused(obeys, says, speak_to):
    with careless_server(obeys) as (endpoint, held):
        speak_to(endpoint)
        with pytest.raises(StoreError, match=r"The server of the store s3://bucket/crawl ") as refused:
            open_store("s3://bucket/crawl")
        assert says in str(refused.value)
        assert held == {}, "nothing stays of the probe"
        # who only reads needs no condition
        assert open_store("s3://bucket/crawl", reading=True).read("crawl.json") is None


def test_one_that_obeys_both_is_taken(speak_to):
    with careless_server(("If-None-Match", "If-Match")) as (endpoint, held):
        speak_to(endpoint)
        assert open_store("s3://bucket/crawl").put_if_absent("crawl.json", b"{}")
        assert held == {"/bucket/crawl/crawl.json": b"{}"}


def test_scheduler_and_worker_refuse_it_at_their_start(speak_to, capsys):
    with careless_server(()) as (endpoint, held):
        speak_to(endpoint)
        broker = ["--broker", "redis://127.0.0.1:1/0", "--store", "s3://bucket/crawl"]
        assert main(["crawl", "http://127.0.0.1:9/", "--engine", "celery", *broker]) == 2
        assert main(["worker", *broker]) == 2
        assert capsys.readouterr().err.count("ignores If-None-Match") == 2
        assert held == {}


def test_a_real_server_is_taken_and_keeps_nothing_of_the_probe(s3_url):
    store = open_store(s3_url)
    client: Any = store
    left = client.client.list_objects_v2(Bucket=client.bucket, Prefix=client.prefix)
    assert left["KeyCount"] == 0
