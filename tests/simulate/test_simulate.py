"""The protocol of a fleet holds in simulated time whatever dies, and the simulation sees where it does not."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from scheduler.fleet import FleetTimes
from workers import claims, delivered
from workers.batch import Execution
from workers.store.s3 import S3Store

Broken = tuple[str, dict[str, Any]]
"""What the simulation says of a broken protocol, and where it shows."""
CALM = {
    **dict.fromkeys(("deaths", "pauses", "scheduler_deaths", "broker_losses", "redelivered"), 0.0),
    "schedulers": 1,
}
SEEDS = range(1, 13)
"""In which a fault must show itself; most do in the first three."""


@pytest.fixture(scope="module")
def simulated() -> Iterator[ModuleType]:
    """The simulator beside this file, which `make simulate` runs."""
    folder = str(Path(__file__).parent)
    sys.path.insert(0, folder)
    before = set(sys.modules)
    try:
        yield importlib.import_module("fleet")
    finally:
        sys.path.remove(folder)
        for name in ("fleet", "bucket", "clock"):
            if name not in before:
                sys.modules.pop(name, None)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """A fleet under fire has much to say."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def simulate(simulated: ModuleType, tmp_path: Path) -> Any:
    """Simulates a crawl under fire; what it was, and what was wrong with it."""

    def run(seed: int, **changes: Any) -> tuple[Any, list[str]]:
        faults = simulated.Faults(lost_answers=0.02, conflicts=0.02)
        rough = {
            **{"pages": 300, "pages_per_host": 20, "workers": 4, "lanes": 12, "deaths": 20.0, "pauses": 20.0},
            **{"scheduler_deaths": 10.0, "schedulers": 2, "broker_losses": 5.0, "redelivered": 0.1, "faults": faults},
            **{"visibility": 120.0, "hours": 12.0},
        }
        fleet = simulated.Fleet(simulated.Scenario(seed=seed, **{**rough, **changes}), tmp_path / str(seed))
        fleet.prepare()
        return fleet, fleet.run()

    return run


@pytest.mark.parametrize("seed", range(1, 7))
def test_every_page_is_committed_once_and_politely_whatever_dies(simulate, seed):
    fleet, wrong = simulate(seed, poison=1)
    assert wrong == []
    assert fleet.seen.events["worker killed"] > 0


def test_an_undisturbed_crawl_visits_every_page_once_and_leaves_nothing(simulate, simulated):
    fleet, wrong = simulate(1, **CALM, faults=simulated.Faults())
    assert wrong == []
    assert set(fleet.seen.started.values()) == {1}
    assert len(fleet.seen.started) == 300
    assert fleet.seen.events == {"files of who died": 0}
    assert set(fleet.seen.results) == {"won"}
    assert fleet.bucket.names("journal/") == []


def test_batches_at_once_are_committed_once_too(simulate):
    fleet, wrong = simulate(1, in_detail=False, pages=2_000)
    assert wrong == []
    assert fleet.seen.events["worker killed"] > 0


def test_a_calm_seed_is_a_run(simulate, simulated, tmp_path):
    """Disturbed ones are alike only: asyncio cancels the tasks of a group in no order."""
    runs = []
    for _ in range(2):
        fleet, _ = simulate(3, **CALM, faults=simulated.Faults())
        runs.append((fleet.bucket.by_kind, fleet.seconds))
        for path in sorted(tmp_path.rglob("*.parquet")):
            path.unlink()
    assert runs[0] == runs[1]


def test_a_page_that_kills_its_worker_is_quarantined_and_no_other(simulate, simulated):
    fleet, wrong = simulate(2, **CALM, poison=2, faults=simulated.Faults())
    assert wrong == []
    assert len(fleet.bucket.names("quarantine/")) == 2


def markers_without_a_condition(monkeypatch: pytest.MonkeyPatch) -> Broken:
    """A marker is put whether or not there is one."""
    proper = S3Store.put_if_absent

    def put(store: S3Store, path: str, data: bytes) -> bool:
        if not path.startswith("commits/"):
            return proper(store, path, data)
        store.client.put_object(Bucket=store.bucket, Key=path, Body=data)
        return True

    monkeypatch.setattr(S3Store, "put_if_absent", put)
    # a slow bucket, so that a worker may well stand still while it commits
    return "was written twice", {**{"pages": 60, "batch_size": 2, "pauses": 60.0, "deaths": 0.0, "slowness": 40.0}}


def claims_that_nobody_minds(monkeypatch: pytest.MonkeyPatch) -> Broken:
    """A living holder's claim is taken over at once."""

    async def is_free(*_: object) -> bool:
        return True

    monkeypatch.setattr(claims, "_is_free", is_free)
    return "an execution that another had taken over went on", {}


def a_lost_claim_that_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> Broken:
    """Who could not renew goes on."""
    monkeypatch.setattr(Execution, "may_not_start", property(lambda _: False))
    return "an execution that another had taken over went on", {}


def delays_that_end_with_the_batch(monkeypatch: pytest.MonkeyPatch) -> Broken:
    """The next batch begins at once, on a worker that knows nothing of the last visit."""
    monkeypatch.setattr(delivered, "Execution", lambda *parts: Execution(*parts[:4]))
    return "s after the last time", {"host_delay": 3.0}


@pytest.mark.parametrize(
    "broken",
    [
        markers_without_a_condition,
        claims_that_nobody_minds,
        a_lost_claim_that_stops_nobody,
        delays_that_end_with_the_batch,
    ],
)
def test_a_broken_protocol_is_seen(simulate, monkeypatch, broken):
    says, changes = broken(monkeypatch)
    for seed in SEEDS:
        _, wrong = simulate(seed, **changes)
        if any(says in line for line in wrong):
            return
    pytest.fail(f"{broken.__name__} went unnoticed")


def test_lanes_that_nobody_looks_after_are_seen(simulate, simulated, monkeypatch):
    """Given a broker that forgets and a scheduler that sends a lane only once, then the crawl never ends."""
    monkeypatch.setattr(simulated, "FleetTimes", lambda: FleetTimes(stall=timedelta(days=365)))
    wrong = [line for seed in SEEDS for line in simulate(seed, scheduler_deaths=0.0, broker_losses=60.0, hours=1.0)[1]]
    assert any("is not over after 1 hours" in line for line in wrong)
