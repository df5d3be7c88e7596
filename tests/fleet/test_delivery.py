"""What a worker takes from its broker and when: no more than it can do, and again after the broker was away."""

from __future__ import annotations

import shutil
import threading
from contextlib import suppress

import pytest
import redis

from workers.store import FolderStore, markers

pytestmark = pytest.mark.browser


def test_a_slow_page_holds_up_no_batch_but_its_own(
    tmp_path, broker, start_pagestate_worker, plan_batch, wait_until, site
):
    """Given a worker whose one batch does not end, then what comes after it goes to another worker (pain 38)."""
    asked, let_go = threading.Event(), threading.Event()

    def hold(handler) -> None:
        asked.set()
        while not let_go.wait(0.05) and not site.closing.is_set():
            continue
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.end_headers()
        handler.wfile.write(b"<button>held</button>")

    urls = [site.answer("/held", hold), *(site.page(f"/{n}", f"<button>{n}</button>") for n in range(3))]
    stores = [FolderStore.for_run(tmp_path / f"store{n}") for n in range(len(urls))]
    batches = [plan_batch(store, [url]) for store, url in zip(stores, urls, strict=True)]
    more = [argument for store in stores[1:] for argument in ("--store", store.where)]
    busy = start_pagestate_worker(broker.url, stores[0].where, *more, "--allow-private", "--batches", "1")
    broker.send(stores[0].where, batches[0])
    assert asked.wait(120)
    for store, batch in zip(stores[1:], batches[1:], strict=True):
        broker.send(store.where, batch)
    free = start_pagestate_worker(broker.url, stores[0].where, *more, "--allow-private", "--batches", "1")
    wait_until(lambda: all(markers(store) for store in stores[1:]), "the other batches are committed")
    assert (markers(stores[0]), broker.waiting, broker.in_hand) == ([], 0, 1)
    assert (busy.said(": won"), free.said(": won")) == (0, 3)
    let_go.set()
    wait_until(lambda: markers(stores[0]) and broker.is_empty, "the slow one is committed too")
    assert busy.said(": won") == 1


def test_a_worker_goes_on_after_its_broker_was_away(
    tmp_path, running, free_ports, start_pagestate_worker, plan_batch, wait_until, site, make_broker
):
    """Given a Redis that is killed and comes back empty, then the worker that was there takes what comes (pain 39)."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no broker: redis-server is not installed; infra/servers.sh installs it")
    (port,) = free_ports(1)
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)]

    def answers() -> bool:
        with redis.Redis(port=port) as client, suppress(redis.ConnectionError):
            return bool(client.ping())
        return False

    stores = [FolderStore.for_run(tmp_path / f"store{n}") for n in range(3)]
    batches = [plan_batch(store, [site.page(f"/{n}", f"<button>{n}</button>")]) for n, store in enumerate(stores)]
    worker = None
    for life, (store, batch) in enumerate(zip(stores, batches, strict=True)):
        with running(command, tmp_path / f"redis{life}.log", answers) as server:
            broker = make_broker(f"redis://127.0.0.1:{port}/0")
            if worker is None:
                more = [argument for other in stores[1:] for argument in ("--store", other.where)]
                worker = start_pagestate_worker(broker.url, stores[0].where, *more, "--allow-private")
            broker.send(store.where, batch)
            wait_until(lambda store=store, broker=broker: markers(store) and broker.is_empty, f"life {life} is served")
            broker.close()
            server.kill()
            server.wait()
    assert worker.process.poll() is None
    assert worker.said(": won") == 3
