"""Pages at the limits of browser-use's capture and just beyond, on loopback sites of their own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOSTS = tuple(f"127.0.0.{n}" for n in range(1, 9))
"""Each address is a site of its own, so that frames of the others get processes of their own."""
DEPTHS = (144, 145, 600, 5000)
"""Chromium dies laying out 3,000 boxes in each other, so the deepest page nests elements without boxes."""
OTHERS = ("listeners100", "listeners101", "elements10000", "elements10001", "frames101", "remote101", "chain", "hidden")
NAMES = (*(f"deep{depth}" for depth in DEPTHS), *OTHERS)

_DEEP = """<!doctype html><body><script>
let at = document.body;
for (let i = 0; i < %d; i++) {
  at = at.appendChild(document.createElement("div"));
  at.style.display = "%s";
}
at.innerHTML = "<button>Deep down</button>";
</script>"""
_LISTENERS = """<!doctype html><body>%s<button>Native</button><script>
for (const e of document.querySelectorAll("div")) e.addEventListener("click", () => {});
</script>"""
_ELEMENTS = """<!doctype html><html><head></head><body><div id=live>Listens</div>%s<script>
document.getElementById("live").addEventListener("click", () => {});
</script></body></html>"""
_FRAME = '<iframe width=60 height=20 srcdoc="<!doctype html><button>%d</button>"></iframe>'
_REMOTE = '<iframe width=60 height=20 src="http://%s:%d/leaf?%d"></iframe>'
_CHAIN = "<!doctype html><body>Level %d<button>Go %d</button>%s"


def page(path: str, host: str, port: int) -> str:
    """The page of a path, as this host serves it."""
    name, _, rest = path.strip("/").partition("?")
    if name.startswith("deep"):
        depth = int(name.removeprefix("deep"))
        return _DEEP % (depth, "contents" if depth > 2000 else "block")
    if name.startswith("listeners"):
        return _LISTENERS % ("<div>text</div>" * int(name.removeprefix("listeners")))
    if name.startswith("elements"):
        # html, head, body, div and script are five of them
        return _ELEMENTS % ("<i></i>" * (int(name.removeprefix("elements")) - 5))
    if name == "frames101":
        return "<!doctype html><body>" + "".join(_FRAME % i for i in range(101))
    if name == "remote101":
        return "<!doctype html><body>" + "".join(_REMOTE % (HOSTS[1], port, i) for i in range(101))
    if name == "hidden":
        return "<!doctype html><html style='display: none'><button>Nobody sees it</button>"
    if name == "leaf":
        return f"<!doctype html><button>{rest}</button>"
    level = HOSTS.index(host)
    inner = f'<iframe width=600 height=400 src="http://{HOSTS[level + 1]}:{port}/chain"></iframe>' if level < 7 else ""
    return _CHAIN % (level, level, inner)


@contextmanager
def limit_site() -> Iterator[dict[str, str]]:
    """Serves the pages on all hosts, one port; gives name -> URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host, _, port = self.headers["Host"].partition(":")
            known = self.path.strip("/").partition("?")[0] in (*NAMES, "leaf")
            data = page(self.path, host, int(port)).encode() if known else b""
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    with ExitStack() as stack:
        first = ThreadingHTTPServer((HOSTS[0], 0), Handler)
        servers = [first, *(ThreadingHTTPServer((host, first.server_port), Handler) for host in HOSTS[1:])]
        for server in servers:
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield {name: f"http://{HOSTS[0]}:{first.server_port}/{name}" for name in NAMES}
