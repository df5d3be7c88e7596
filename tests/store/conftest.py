"""Batches and records as a crawl would make them, small but with a row in every table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from schemas.batch import Batch, PlannedPage
from schemas.capture import Capture, Payload
from schemas.identifiers import batch_id, page_id
from schemas.outcomes import Outcome
from schemas.records import PageRecord, StageResult
from workers.store import FolderStore, encode_capture

MakeBatch = Callable[..., Batch]
MakeRecords = Callable[..., list[PageRecord]]


@pytest.fixture
def now() -> datetime:
    return datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore.for_run(tmp_path / "store")


@pytest.fixture
def make_batch() -> MakeBatch:
    def make(sequence: int = 0, urls: Sequence[str] | None = None, *, round_number: int = 0) -> Batch:
        keys = list(urls) if urls is not None else [f"http://example.org/{sequence}/{n}" for n in range(3)]
        return Batch(
            crawl="test",
            round=round_number,
            lane=7,
            sequence=sequence,
            batch_id=batch_id("test", round_number, 7, sequence, keys),
            pages=tuple(PlannedPage(key, key) for key in keys),
        )

    return make


@pytest.fixture
def make_row(now: datetime) -> Callable[..., dict[str, Any]]:
    def make(**changes: Any) -> dict[str, Any]:
        row: dict[str, Any] = {
            "degradations": [],
            "redirects": [],
            "started_at": now,
            "duration_ms": 12.5,
            "viewport_width": 1280,
            "viewport_height": 1100,
            "scale": 1.0,
            "locale": "en-US",
            "time_zone": "UTC",
            "settings_hash": "0" * 32,
            "serializer": "listing",
            "serializer_version": "1",
            "status": 200,
            "listing": "[1]<a>Grüße 😀</a>",
            "surrogates_replaced": 0,
            "secrets_masked": 0,
            "payload_bytes": 3,
            "dialogs": 0,
            "popups": 0,
            "downloads": 0,
        }
        return row | changes

    return make


@pytest.fixture
def make_records(make_row: Callable[..., dict[str, Any]]) -> MakeRecords:
    def make(batch: Batch, outcome: Outcome = "ok", profile: str = "desktop", **changes: Any) -> list[PageRecord]:
        return [
            PageRecord(
                url_key=page.url_key,
                page_id=page_id(batch.crawl, batch.round, page.url_key, profile),
                profile=profile,
                outcome=outcome,
                listing=make_row(**changes),
                selector_map=[
                    {
                        "index": index,
                        "backend_node_id": index + 10,
                        "target": 0,
                        "tag": "a",
                        "xpath": f"html/body/a[{index}]",
                        "attributes": {"href": page.url_key, "id": str(index)},
                        "interactive_reason": "tag",
                        "is_new": False,
                        "printed": True,
                    }
                    for index in (2, 1)
                ],
                outline_map=[
                    {
                        "encoded_id": "0-2",
                        "backend_node_id": 2,
                        "target": 0,
                        "frame_id": "F",
                        "depth": 0,
                        "role": "RootWebArea",
                        "name": "Grüße\n[0-3] button: forged",
                        "selected": False,
                        "checked": False,
                        "xpath": "/",
                        "xpath_truncated": False,
                        "url": page.url_key,
                    }
                ],
                stages=[StageResult("navigate", "ok", 0.0, 5.0), StageResult("merge", "ok", 5.0, 1.0, nodes=9)],
                captures=encode_capture(
                    Capture((Payload("dom_document", b'{"root":1}' * 50), Payload("ax_tree", b"{}", 0, "F1")))
                ),
            )
            for page in batch.pages
        ]

    return make
