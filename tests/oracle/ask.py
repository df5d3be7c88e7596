"""Runs in the oracle's own venv: feeds raw trees to the real browser-use and writes down what it says.

    ask.py REPLAY_FOLDER JOB_FOLDER [--seconds S] [--processes N]

REPLAY_FOLDER holds `replay.py`. Each `<name>.job.json.gz` in JOB_FOLDER is {"raw", "previous", "options"}; its answer
is `<name>.said.json`. One process a page, so that a page that takes too long or too much costs no other one.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any

RECURSION = 2_000_000
"""browser-use recurses over the tree, several frames a level; pages are thousands of levels deep."""
STACK_BYTES = 1 << 30


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """What browser-use says about the trees of one job."""
    import replay
    from browser_use.dom.serializer import serializer
    from browser_use.dom.service import DomService

    options = job["options"]
    raw, before = job["raw"], job["previous"]
    limits = {name: options[name] for name in ("max_iframes", "max_iframe_depth", "viewport_threshold")}
    default = serializer.DOMTreeSerializer.__init__

    def with_bbox(self: Any, *given: Any, **named: Any) -> None:
        default(self, *given, **{**named, "enable_bbox_filtering": options["bbox_filtering"]})

    serializer.DOMTreeSerializer.__init__ = with_bbox

    def state_of(trees: dict[str, Any], previous: Any) -> Any:
        for target in trees["targets"]:
            # the real service cuts right after the fetch, which the replay stands in for
            target["snapshot"]["documents"] = target["snapshot"]["documents"][: options["max_iframes"]]
        service = replay.ReplayDomService(
            replay.FakeSession(trees),
            cross_origin_iframes=True,
            paint_order_filtering=options["paint_order_filtering"],
            **limits,
        )
        assert isinstance(service, DomService)
        return asyncio.run(service.get_serialized_dom_tree(previous))[0]

    begun = time.process_time()
    state = state_of(raw, state_of(before, None) if before else None)
    cpu = time.process_time() - begun
    text = state.llm_representation(list(options["include_attributes"]) or None)
    prompt = prompt_of(state, raw["page"], list(options["include_attributes"]) or None)
    return {
        "text": text,
        "elements": [element_of(index, node) for index, node in state.selector_map.items()],
        "eval": state.eval_representation(),
        "statistics": prompt._extract_page_statistics(),
        "page_state": prompt._get_browser_state_description(),
        "cpu_seconds": cpu,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def element_of(index: int, node: Any) -> list[Any]:
    """What the selector map says about one element; rectangles are in its own document and in the top viewport."""
    ax = node.ax_node
    own, absolute = (
        None if rect is None else [float(side) for side in (rect.x, rect.y, rect.width, rect.height)]
        for rect in (node.snapshot_node.bounds if node.snapshot_node else None, node.absolute_position)
    )
    attributes = [list(pair) for pair in node.attributes.items()]
    known = [index, node.backend_node_id, node.tag_name, node.xpath, node.target_id]
    return [*known, ax.role if ax else None, ax.name if ax else None, own, absolute, attributes]


def prompt_of(state: Any, page: dict[str, Any], attributes: list[str] | None) -> Any:
    """The agent's prompt about the page, in one tab."""
    from browser_use.agent.prompts import AgentMessagePrompt
    from browser_use.browser.views import BrowserStateSummary, PageInfo, TabInfo

    summary = BrowserStateSummary(
        dom_state=state,
        url=page["url"],
        title=page["title"],
        tabs=[TabInfo(url=page["url"], title=page["title"], target_id=page["target_id"])],
        page_info=PageInfo(**page["info"]),
        pending_network_requests=[],
        closed_popup_messages=[],
    )
    return AgentMessagePrompt(
        browser_state_summary=summary,
        file_system=None,
        include_attributes=attributes,
        max_clickable_elements_length=page["max_chars"],
    )


def answer_into(job_file: Path) -> None:
    """Answers one job in a thread with a stack for deep trees; a failure is an answer too."""
    said: dict[str, Any] = {}

    def work() -> None:
        try:
            with gzip.open(job_file, "rt") as file:
                job = json.load(file)
            said.update(answer(job))
        except BaseException as error:  # noqa: BLE001  # whatever it is, it is the answer of this page
            said.update({"error": f"{type(error).__name__}: {str(error)[:300]}"})

    sys.setrecursionlimit(RECURSION)
    threading.stack_size(STACK_BYTES)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    made = said_file(job_file)
    draft = made.with_suffix(".draft")
    draft.write_text(json.dumps(said))
    draft.replace(made)


def said_file(job_file: Path) -> Path:
    return job_file.with_name(job_file.name.removesuffix(".job.json.gz") + ".said.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("replay", type=Path)
    parser.add_argument("jobs", type=Path)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    sys.path.insert(0, str(arguments.replay))
    os.environ["BROWSER_USE_VERSION_CHECK"] = "false"
    os.environ["BROWSER_USE_CLOUD_SYNC"] = "false"
    os.environ["BROWSER_USE_LOGGING_LEVEL"] = "result"
    import browser_use.agent.prompts  # noqa: F401  # imported once, before the processes fork
    import replay  # noqa: F401

    waiting = sorted(arguments.jobs.glob("*.job.json.gz"))[::-1]
    running: dict[int, tuple[Path, float]] = {}
    while waiting or running:
        while waiting and len(running) < arguments.processes:
            job = waiting.pop()
            pid = os.fork()
            if pid == 0:
                try:
                    answer_into(job)
                finally:
                    os._exit(0)
            running[pid] = (job, time.monotonic())
        time.sleep(0.02)
        for pid, (job, begun) in list(running.items()):
            late = time.monotonic() - begun > arguments.seconds
            if late:
                os.kill(pid, 9)
            done, _ = os.waitpid(pid, 0 if late else os.WNOHANG)
            if done:
                del running[pid]
                if not said_file(job).exists():
                    what = f"no answer within {arguments.seconds:g} s" if late else "its process died"
                    said_file(job).write_text(json.dumps({"error": what}))


if __name__ == "__main__":
    main()
