"""Has a page's picture made in a process of the pool: whatever happens there, the page is kept."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool

from schemas.outcomes import StageOutcome
from schemas.records import Row, StageResult
from schemas.settings import CrawlSettings
from workers.capture.taken import Taking
from workers.pool import ProcessPool
from workers.process import Processed


async def finish_screenshot(
    pool: ProcessPool, taking: Taking, processed: Processed, settings: CrawlSettings, secrets: Sequence[str]
) -> tuple[list[Row], list[StageResult]]:
    """The row of a page's picture, if one was taken and could be made, and how the stage ended.

    The taking is told what it did without.
    """
    picture = taking.picture
    if picture is None:
        return [], []
    # nobody without pictures pays for the library that draws
    from workers.screenshot.make import Made, make_screenshot

    listed = [
        (row["index"], (row["target"], row["backend_node_id"]))
        for row in (processed.selector_map if settings.screenshot.boxes else [])
        if row["printed"]
    ]
    seconds = settings.budgets.screenshot.total_seconds()
    outcome: StageOutcome = "ok"
    try:
        made = await pool.run(
            seconds, make_screenshot, picture, taking.payloads, listed, processed.owners, settings.screenshot, secrets
        )
    except TimeoutError:
        outcome, made = "timeout", Made(error=f"drawing took more than {seconds:g} s")
    except BrokenProcessPool:
        made = Made(error="the process that drew it died, twice")
    if made.row is None:
        outcome = "timeout" if outcome == "timeout" else "error"
        taking.degradations.add("screenshot_failed")
    rows = [made.row] if made.row is not None else []
    took = picture.duration_ms + made.duration_ms
    size = rows[0]["bytes"] if rows else None
    stage = StageResult("screenshot", outcome, picture.started_ms, took, made.error, bytes=size, cpu_ms=made.cpu_ms)
    return rows, [stage]
