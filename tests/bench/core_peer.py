"""Runs in the side venv: browser-use's own build and serialize on recorded raw trees, timed; knows nothing of us.

A line in names a folder, which holds the raw trees (`raw.json`) and the payloads that they came from (`*.payload`), and
how often to run; the line out is JSON: the CPU milliseconds of each run, those of them that went into decoding the
payloads, and the text.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ |= {"ANONYMIZED_TELEMETRY": "false", "BROWSER_USE_LOGGING_LEVEL": "result"}
os.environ["BROWSER_USE_CONFIG_DIR"] = os.environ["TMPDIR"] = tempfile.gettempdir()

from browser_use.dom.service import DomService
from browser_use.dom.views import TargetAllTrees

RECURSION = 2_000_000
STACK_BYTES = 1 << 30
"""browser-use recurses over the tree, several frames a level; pages are thousands of levels deep."""


class RecordedSession:
    """What the DOM service asks of a browser session once the raw trees are there."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw
        self.id = raw["bs_id"]
        self.agent_focus_target_id = raw["focus_target_id"]
        self.logger = logging.getLogger("recorded")
        self.session_manager = self
        self._sessions = {
            t["target_id"]: SimpleNamespace(session_id=t["session_id"], cdp_client=None) for t in raw["targets"]
        }

    async def get_or_create_cdp_session(self, target_id: str | None = None, focus: bool = True) -> Any:
        if target_id not in self._sessions:
            raise ValueError(target_id)
        return self._sessions[target_id]

    async def get_all_frames(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.raw["all_frames"] or {}, {}

    def get_target(self, target_id: str) -> None:
        return None


class RecordedService(DomService):
    """The DOM service with recorded raw trees in place of a browser's."""

    async def _get_all_trees(self, target_id: str) -> TargetAllTrees:
        for target in self.browser_session.raw["targets"]:
            if target["target_id"] == target_id:
                return TargetAllTrees(
                    snapshot=target["snapshot"],
                    dom_tree=target["dom_tree"],
                    ax_tree=target["ax_tree"],
                    device_pixel_ratio=target["device_pixel_ratio"],
                    cdp_timing={},
                    js_click_listener_backend_ids=set(target["js_click_listener_backend_ids"]) or None,
                )
        raise TimeoutError("not recorded")


async def measure(raw: dict[str, Any], payloads: list[bytes], runs: int) -> dict[str, Any]:
    """The CPU of decoding, building, serializing and printing one page, `runs` times."""
    gc.collect()
    gc.freeze()  # the trees that are decoded below stand for these, which a real run would not hold twice
    costs, decoding = [], []
    text = ""
    for _ in range(runs):
        service = RecordedService(RecordedSession(raw), cross_origin_iframes=True, paint_order_filtering=True)
        started = time.process_time()
        decoded = [json.loads(payload) for payload in payloads]
        decoding.append((time.process_time() - started) * 1000)
        state, _, _ = await service.get_serialized_dom_tree(None)
        text = state.llm_representation()
        costs.append((time.process_time() - started) * 1000)
        del decoded
    gc.unfreeze()
    return {"costs": costs, "decoding": decoding, "text": text}


def answer() -> None:
    """Reads and answers until there is nothing more to read."""
    sys.setrecursionlimit(RECURSION)
    for line in sys.stdin:
        name, count = line.rsplit(" ", 1)
        payloads = [path.read_bytes() for path in sorted(Path(name).glob("*.payload"))]
        raw = json.loads((Path(name) / "raw.json").read_bytes())
        print(json.dumps(asyncio.run(measure(raw, payloads, int(count)))), flush=True)


threading.stack_size(STACK_BYTES)
thread = threading.Thread(target=answer)
thread.start()
thread.join()
