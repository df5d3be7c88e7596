"""Three hosts with networks of their own: the servers and the scheduler on one, a worker on each of the others.

The link of one worker is taken down while it captures. Nothing tells either side: packets are just not carried.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from servers import Wire

from scheduler.verify import verify
from schemas.urls import url_key
from workers.store import open_store, read_table

pytestmark = pytest.mark.browser

CLI = [sys.executable, "-m", "scheduler.cli"]
WORKER = ("--visibility-timeout", "12", "--claim-lapse", "9", "--allow-private", "--host-delay", "0.1")


def ip(*arguments: str) -> None:
    """Runs `ip`. Raises OSError and CalledProcessError."""
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@dataclass(frozen=True)
class Host:
    """A network namespace with one link to this machine's own network."""

    name: str
    address: str

    def connect(self) -> None:
        ip("-n", self.name, "link", "set", "eth0", "up")

    def cut(self) -> None:
        ip("-n", self.name, "link", "set", "eth0", "down")

    def inside(self, command: list[str]) -> list[str]:
        return ["ip", "netns", "exec", self.name, *command]


@pytest.fixture
def network() -> Iterator[tuple[str, list[Host]]]:
    """The address of this machine in a network of its own, and two other hosts in it."""
    if shutil.which("ip") is None:
        pytest.skip("this kernel lets nobody make networks: there is no `ip`; install iproute2")
    mark, net = f"{random.getrandbits(24):06x}", f"10.{random.randrange(200, 250)}.{random.randrange(256)}"
    hosts = [Host(f"ps{mark}{n}", f"{net}.{n + 2}") for n in range(2)]
    with ExitStack() as stack:
        try:
            for host in hosts:
                ip("netns", "add", host.name)
                stack.callback(ip, "netns", "del", host.name)
                ip("link", "add", host.name, "type", "veth", "peer", "name", "eth0", "netns", host.name)
                ip("addr", "add", f"{net}.1/32", "dev", host.name)
                ip("link", "set", host.name, "up")
                ip("route", "add", f"{host.address}/32", "dev", host.name, "src", f"{net}.1")
                ip("-n", host.name, "addr", "add", f"{host.address}/24", "dev", "eth0")
                ip("-n", host.name, "link", "set", "lo", "up")
                host.connect()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this kernel lets nobody make networks: {error.stderr.strip()}")
        yield f"{net}.1", hosts


def test_a_host_that_is_cut_off_costs_nothing(
    network: tuple[str, list[Host]],
    tmp_path: Path,
    s3_server: Any,
    s3_url: str,
    redis_url: str,
    start_process: Callable[..., Any],
    open_site: Callable[..., Any],
    wait_until: Callable[..., None],
) -> None:
    here, hosts = network
    asked, let_go, by = threading.Event(), threading.Event(), []

    def hold(handler: Any) -> None:
        by.append(handler.client_address[0])
        asked.set()
        while not let_go.wait(0.05) and not sites[0].closing.is_set():
            continue
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.end_headers()
        handler.wfile.write(b"<button>held</button>")

    sites = [open_site(here) for _ in range(3)]
    urls = [site.page(f"/{n}", f"<button>page {n}</button>") for site in sites for n in range(4)]
    urls.append(sites[0].answer("/-held", hold))
    with ExitStack() as stack:
        wires = {}
        for name, url in (("redis", redis_url), ("s3", s3_server.environment["AWS_ENDPOINT_URL_S3"])):
            wires[name] = Wire(urlsplit(url).port, here)
            stack.callback(wires[name].close)
        environment = s3_server.environment | {"AWS_ENDPOINT_URL_S3": f"http://{here}:{wires['s3'].port}"}
        broker = f"redis://{here}:{wires['redis'].port}/0"
        workers = {
            host.address: start_process(
                host.inside([*CLI, "worker", "--broker", broker, "--store", s3_url, *WORKER]), environment
            )
            for host in hosts
        }
        command = [*CLI, "crawl", *urls, "--store", s3_url, "--engine", "celery", "--broker", redis_url]
        log = (tmp_path / "scheduler.log").open("wb")
        stack.enter_context(log)
        scheduler = subprocess.Popen([*command, "--lanes", "3", "--batch-size", "3"], stdout=log, stderr=log)
        stack.callback(scheduler.wait)
        stack.callback(scheduler.terminate)
        assert asked.wait(180)
        lost = next(host for host in hosts if host.address == by[0])
        lost.cut()
        let_go.set()
        wait_until(lambda: scheduler.poll() is not None, "the other host has done the rest", 300)
        assert scheduler.returncode == 0, (tmp_path / "scheduler.log").read_text()
        hits = [list(site.hits) for site in sites]
        lost.connect()
        gone = workers[lost.address]
        wait_until(lambda: gone.said(": lost") or gone.said(": duplicate"), "the host that was cut off has given up")
        assert [list(site.hits) for site in sites] == hits
        for worker in workers.values():
            assert worker.end() == 0
    store = open_store(s3_url, reading=True)
    rows = read_table(store, "listings", ["url_key", "outcome"]).to_pylist()
    assert sorted(row["url_key"] for row in rows) == sorted(map(url_key, urls))
    assert {row["outcome"] for row in rows} == {"ok"}
    found = verify(store)
    assert (list(found.problems), found.waiting) == ([], 0)
    assert by[0] == lost.address
    assert set(by[1:]) == {host.address for host in hosts} - {lost.address}
