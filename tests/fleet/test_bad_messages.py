"""A message that is not ours is refused and gone, whoever sent it, and the worker goes on with the next one."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection

from schemas.delivery import CAPTURE_BATCH, QUEUE, BatchReference
from workers.store import FolderStore, markers

pytestmark = pytest.mark.browser


class Harm:
    """What does something as soon as it is unpickled."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self._file,)


def test_old_and_pickled_messages_are_refused_and_the_next_one_is_done(
    tmp_path, broker, start_worker, plan_batch, wait_until, site
):
    store = FolderStore.for_run(tmp_path / "store")
    batch = plan_batch(store, [site.page("/", "<button>go</button>")])
    reference = BatchReference.to(store.where, batch).encode()
    harm = tmp_path / "harm"
    assert pickle.loads(pickle.dumps(Harm(tmp_path / "tried"))) is None
    assert (tmp_path / "tried").exists(), "it does do something"
    # Given a message of an older version, one of a newer one, a pickled one, one of another task, and one of ours
    for version in 0, 3:
        broker.app.send_task(CAPTURE_BATCH, [reference | {"version": version}])
    with Connection(broker.url) as connection, connection.SimpleQueue(QUEUE) as queue:
        pickled = pickle.dumps(([Harm(harm)], {}, {}))
        headers = {"task": CAPTURE_BATCH, "id": "pickled", "lang": "py"}
        producer: Any = queue.producer
        producer.publish(
            pickled,
            routing_key=QUEUE,
            headers=headers,
            content_type="application/x-python-serialize",
            content_encoding="binary",
        )
    broker.app.send_task("pagestate.another_task", [reference])
    broker.send(store.where, batch)
    # When a worker comes
    worker = start_worker(stores=store.where)
    # Then ours is done, nothing of the others was carried out, and none of them comes again
    wait_until(lambda: markers(store) and broker.is_empty, "the batch is committed and every message is gone")
    assert worker.said("A message of version 0 came to pagestate.capture_batch, which knows 2; run the")
    assert worker.said("A message of version 3 came to pagestate.capture_batch, which knows 2; run the")
    assert worker.said("Refusing to deserialize untrusted content of type pickle")
    assert worker.said("Received unregistered task of type 'pagestate.another_task'")
    assert not harm.exists()
    assert worker.end() == 0
