"""What a worker process is made of: nothing at import, settings read once, JSON only, messages of one version."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from schemas.delivery import CAPTURE_BATCH, BatchReference, DeliverySettings, celery_settings
from schemas.errors import BrowserMissing, MessageRefused, SettingError, StoreUnavailable
from schemas.settings import CrawlSettings, RunSettings
from workers.app import KNOWN, PREFIX, make_app, worker_settings
from workers.tasks import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, MAX_RETRIES, RETRIED, pause_seconds

BROKER = {"PAGESTATE_WORKER_BROKER": "redis://:hush@127.0.0.1:1/0"}
REFERENCE = BatchReference("s3://bucket/crawl", 3, 7, 0, "ab" * 16)


def test_importing_the_application_makes_none():
    code = "import threading, workers.app; print(threading.active_count(), workers.app._of_this_process.cache_info())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.startswith("1 CacheInfo(hits=0, misses=0")


def test_the_application_has_explicit_names_and_json_only():
    app = make_app(worker_settings(BROKER))
    assert [name for name in app.tasks if not name.startswith("celery.")] == [CAPTURE_BATCH]
    assert app.conf.accept_content == ["json"]
    assert app.conf.task_serializer == app.conf.result_serializer == "json"
    assert app.conf.task_acks_late
    assert app.conf.worker_prefetch_multiplier == 1
    assert app.conf.broker_transport_options == {
        "visibility_timeout": 600.0,
        "unacked_restore_interval": 2.0,
        "unacked_restore_throttle": 1,
    }


def test_the_default_visibility_timeout_is_longer_than_a_batch_and_a_last_page():
    crawl = CrawlSettings()
    budgets = crawl.budgets
    last_page = (
        *(budgets.permission, budgets.context, budgets.navigate, budgets.load, budgets.settle, budgets.payload),
        *(budgets.retry, budgets.needed, budgets.process, budgets.close),
    )
    longest = max(crawl.batch_deadline, timedelta(seconds=5 * crawl.batch_size)) + sum(last_page, timedelta())
    assert longest < DeliverySettings("").visibility_timeout
    assert timedelta(seconds=LONGEST_PAUSE_SECONDS) < DeliverySettings("").visibility_timeout


def test_both_ends_have_the_same_broker_settings():
    settings = worker_settings(BROKER | {"PAGESTATE_WORKER_VISIBILITY_TIMEOUT": "15"})
    assert settings.delivery == DeliverySettings(BROKER["PAGESTATE_WORKER_BROKER"], timedelta(seconds=15))
    assert celery_settings(settings.delivery)["broker_transport_options"]["visibility_timeout"] == 15
    assert "hush" not in repr(settings)


def test_settings_come_from_the_environment():
    given = BROKER | {
        "PAGESTATE_BROWSER": "/b",
        "PAGESTATE_WORKER_CONCURRENCY": "7",
        "PAGESTATE_WORKER_HOST_DELAY": "0.5",
        "PAGESTATE_WORKER_ALLOW_PRIVATE": "0",
        "PAGESTATE_WORKER_S3_ENCRYPTION": "AES256",
        "PAGESTATE_SHARED": "not a worker's",
    }
    settings = worker_settings(given)
    assert settings.run == RunSettings(
        concurrency=7, host_delay=timedelta(seconds=0.5), browser_path="/b", closed=(("127.0.0.1", 1),)
    )
    assert settings.s3.encryption == "AES256"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "No broker is given; set PAGESTATE_WORKER_BROKER"),
        (BROKER | {"PAGESTATE_WORKER_CONCURENCY": "1"}, "CONCURENCY; did you mean PAGESTATE_WORKER_CONCURRENCY"),
        (BROKER | {"PAGESTATE_WORKER_XYZZY": "1"}, "known are PAGESTATE_WORKER_BROKER, "),
        (BROKER | {"PAGESTATE_WORKER_CONCURRENCY": "many"}, "is 'many'; give a number"),
        (BROKER | {"PAGESTATE_WORKER_CONCURRENCY": "0"}, "CONCURRENCY is 0; give 1 or more"),
        (BROKER | {"PAGESTATE_WORKER_VISIBILITY_TIMEOUT": "-1"}, "VISIBILITY_TIMEOUT is -1; give 1 or more"),
        (BROKER | {"PAGESTATE_WORKER_S3_ADDRESSING": "p"}, "no S3 addressing 'p'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(given, says):
    with pytest.raises(SettingError, match=says):
        worker_settings(given)


def test_every_setting_of_a_worker_is_in_the_readme():
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    assert [name for name in KNOWN if f"`{PREFIX}{name.upper()}`" not in readme] == []


def test_a_message_is_a_reference_and_back():
    assert REFERENCE.encode() == {
        "version": 2,
        "store": "s3://bucket/crawl",
        "round": 3,
        "lane": 7,
        "sequence": 0,
        "batch_id": "ab" * 16,
    }
    assert BatchReference.decode(REFERENCE.encode()) == REFERENCE


@pytest.mark.parametrize(
    "message",
    [
        None,
        [],
        "text",
        {},
        {"version": 1, "store": "s", "round": 0, "batch_id": "b"},
        {"version": 2, "store": "s", "round": 0, "lane": 1, "sequence": 2},
        {"version": 2, "store": "s", "round": "0", "lane": 1, "sequence": 2, "batch_id": "b"},
        {"version": 2, "store": "s", "round": True, "lane": 1, "sequence": 2, "batch_id": "b"},
        {"version": 2, "store": "s", "round": 0, "lane": 1, "sequence": 2, "batch_id": "b", "more": 1},
    ],
)
def test_any_other_message_is_refused(message):
    with pytest.raises(MessageRefused):
        BatchReference.decode(message)


def test_pauses_grow_to_a_minute_and_are_spread():
    assert [pause_seconds(n, 0) for n in range(MAX_RETRIES)] == [2, 4, 8, 16, 32, 60, 60, 60]
    assert pause_seconds(0, 1) == FIRST_PAUSE_SECONDS / 2
    assert {StoreUnavailable, BrowserMissing} < set(RETRIED)


def test_stored_settings_come_back_as_they_were():
    settings = CrawlSettings(lanes=3, batch_deadline=timedelta(seconds=1.5))
    assert CrawlSettings.from_json(settings.as_json()) == settings
    with pytest.raises(SettingError, match=r"no setting named budgets\.sleep in this version"):
        CrawlSettings.from_json({"budgets": {"sleep": 1}})
