"""Runs in the oracle's own venv: the real browser-use looks at tabs that somebody else opened, one at a time.

    tab_peer.py ENDPOINT

ENDPOINT is the browser's WebSocket address. A line in is a target id; the line out is JSON: what browser-use says.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from typing import Any

os.environ |= {"ANONYMIZED_TELEMETRY": "false", "BROWSER_USE_CLOUD_SYNC": "false"}
os.environ |= {"BROWSER_USE_VERSION_CHECK": "false", "BROWSER_USE_LOGGING_LEVEL": "result"}
os.environ["BROWSER_USE_CONFIG_DIR"] = os.environ["TMPDIR"] = os.environ["HOME"] = tempfile.gettempdir()

from ask import element_of, prompt_of
from browser_use.browser import BrowserProfile, BrowserSession
from browser_use.dom.service import DomService


async def look(session: BrowserSession, target_id: str) -> dict[str, Any]:
    """What browser-use says about one tab."""
    tab = await session.get_or_create_cdp_session(target_id, focus=True)
    session.agent_focus_target_id = target_id
    profile = session.browser_profile
    service = DomService(
        session,
        cross_origin_iframes=profile.cross_origin_iframes,
        paint_order_filtering=profile.paint_order_filtering,
        max_iframes=profile.max_iframes,
        max_iframe_depth=profile.max_iframe_depth,
    )
    state = (await service.get_serialized_dom_tree(None))[0]
    info = await session._dom_watchdog._get_page_info()
    # the tab's own: browser-use's list of tabs learns of a title only some time after it is set
    ask = {"expression": "[location.href, document.title]", "returnByValue": True}
    url, title = (await tab.cdp_client.send.Runtime.evaluate(ask, session_id=tab.session_id))["result"]["value"]
    page = {"url": url, "title": title, "target_id": target_id, "info": info.model_dump(), "max_chars": 40_000}
    prompt = prompt_of(state, page, None)
    return {
        "text": state.llm_representation(),
        "elements": [element_of(index, node) for index, node in state.selector_map.items()],
        "eval": state.eval_representation(),
        "statistics": prompt._extract_page_statistics(),
        "page_state": prompt._get_browser_state_description(),
    }


async def main(endpoint: str) -> None:
    profile = BrowserProfile(cdp_url=endpoint, keep_alive=True, headless=True, highlight_elements=False)
    session = BrowserSession(browser_profile=profile)
    await session.start()
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        try:
            said = await look(session, line.strip())
        except Exception as error:  # noqa: BLE001  # whatever it is, it is the answer of this page
            said = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
        print(json.dumps(said), flush=True)
    await session.stop()


asyncio.run(main(sys.argv[1]))
