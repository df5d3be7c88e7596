"""Serves the example site on two loopback origins: the site itself, and another site for its foreign iframe.

    with serve_example() as site:
        crawl(site.urls)

Only files that lay in `pages/` when the server started are served, from memory, so no path leads anywhere else.
"""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import TracebackType
from typing import Any, Self

SEED_PATHS = (
    "/",
    "/article.html",
    "/form.html",
    "/table.html",
    "/modal.html",
    "/shadow.html",
    "/frames.html",
    "/app.html",
    "/rtl.html",
    "/slow.html",
    "/no-such-page.html",
    "/deep.html",
)
PREFERRED_PORTS = (8741, 8742)
"""Tried first, since a URL key holds the port and a store can be resumed only under the same keys."""

DELAYS_S = {"/slow.html": 1.5, "/slow/picture.svg": 3.0}
NOT_FOUND = "/404.html"
OTHER_ORIGIN = b"__OTHER_ORIGIN__"
"""Stands in a page where the address of the other origin belongs."""

CONTENT_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


class ExampleSite:
    """A running example site: `origin` is where it is, `urls` are its seeds; `close` ends it."""

    def __init__(self, origin: str, servers: tuple[_Server, ...]) -> None:
        self.origin = origin
        self.urls = tuple(origin + path for path in SEED_PATHS)
        self._servers = servers
        self._threads = [threading.Thread(target=s.serve_forever, args=(0.1,), daemon=True) for s in servers]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Frees the ports; a second call does nothing."""
        for server in self._servers:
            server.closing.set()
        while self._threads:
            server, thread = self._servers[len(self._threads) - 1], self._threads.pop()
            server.shutdown()
            thread.join()
            server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def serve_example(ports: tuple[int, int] = PREFERRED_PORTS) -> ExampleSite:
    """Starts the example site at these ports, or at free ones where they are taken; 0 asks for any free one.

    The site is at 127.0.0.1, its foreign iframe at localhost: other origins and other sites, too.
    """
    bodies = _bodies(files(__package__) / "pages")
    site_port, foreign_port = ports
    foreign = _listen(("127.0.0.1", "::1"), foreign_port)
    try:
        (site,) = _listen(("127.0.0.1",), site_port)
    except OSError:
        for server in foreign:
            server.server_close()
        raise
    origin = f"http://127.0.0.1:{site.server_port}"
    foreign_origin = f"http://localhost:{foreign[0].server_port}"
    site.bodies = _addressed(bodies, foreign_origin)
    for server in foreign:
        server.bodies = _addressed(bodies, origin)
    return ExampleSite(origin, (site, *foreign))


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.bodies: Mapping[str, bytes] = {}
        self.closing = threading.Event()
        super().__init__((host, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing: a browser that closes a page hangs up in the middle of an answer."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "pagestate-example"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 10

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/":
            path = "/index.html"
        # One request a connection: no idle connection keeps a thread past `close`.
        self.close_connection = True
        if self.server.closing.wait(DELAYS_S.get(path, 0)):
            return
        if path in self.server.bodies:
            self._answer(HTTPStatus.OK, path)
        else:
            self._answer(HTTPStatus.NOT_FOUND, NOT_FOUND)

    do_HEAD = do_GET

    def _answer(self, status: HTTPStatus, path: str) -> None:
        body = self.server.bodies[path]
        self.send_response(status)
        self.send_header("Content-Type", CONTENT_TYPES[path.rpartition(".")[2]])
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: the crawl reports on its pages itself."""


def _listen(hosts: tuple[str, ...], port: int) -> tuple[_Server, ...]:
    """One server a host, all at one port; a host that this machine does not have is left out."""
    for attempt in (port, 0, 0, 0):
        servers: list[_Server] = []
        try:
            for host in hosts:
                _open(host, servers[0].server_port if servers else attempt, servers)
        except OSError as error:
            for server in servers:
                server.server_close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return tuple(servers)
    raise OSError(errno.EADDRINUSE, f"no port is free at {' and '.join(hosts)}")


def _open(host: str, port: int, servers: list[_Server]) -> None:
    try:
        servers.append(_Server(host, port))
    except OSError as error:
        if ":" not in host or error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            raise


def _bodies(folder: Traversable, path: str = "") -> dict[str, bytes]:
    """Every file below `folder`, by the path of its URL."""
    found: dict[str, bytes] = {}
    for entry in folder.iterdir():
        here = f"{path}/{entry.name}"
        if entry.is_dir():
            found |= _bodies(entry, here)
        elif entry.name.rpartition(".")[2] in CONTENT_TYPES:
            found[here] = entry.read_bytes()
    return found


def _addressed(bodies: Mapping[str, bytes], other_origin: str) -> dict[str, bytes]:
    return {path: body.replace(OTHER_ORIGIN, other_origin.encode()) for path, body in bodies.items()}
