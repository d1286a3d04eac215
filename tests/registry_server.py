"""A schema registry's address for tests: servers on loopback that give the answers they were given."""

from __future__ import annotations

import contextlib
import json
import socketserver
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import unquote


class _Served:
    """Serves while the block lasts."""

    def __init__(self, server: socketserver.TCPServer) -> None:
        self.server = server
        self.address = f"http://127.0.0.1:{server.server_address[1]}"
        self.thread = threading.Thread(target=server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Registry(_Served):
    """Answers while the block lasts. `asked` has the paths in their order, `authorizations` what was sent with them."""

    def __init__(self, answers: Mapping[str, object], authorization: str | None = None) -> None:
        """Create it.

        Args:
            authorization: Requests without this value of the header get status 401; None: all get an answer.
        """
        self.asked: list[str] = []
        self.authorizations: list[str | None] = []
        self.moved_to: str | None = None
        """The beginning of an address to which each path that has no answer leads."""
        self.status = 200
        self.delay_s = 0.0
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                path = unquote(self.path)
                registry.asked.append(path)
                registry.authorizations.append(self.headers["Authorization"])
                time.sleep(registry.delay_s)
                answer = answers.get(path)
                status = 404 if registry.status == 200 and answer is None else registry.status
                if status == 404 and registry.moved_to is not None:
                    status = 307
                if authorization is not None and self.headers["Authorization"] != authorization:
                    status, answer = 401, None
                body = json.dumps(answer or {"error_code": 40403}).encode()
                with contextlib.suppress(BrokenPipeError):  # the client that does not wait is part of a test
                    self.send_response(status)
                    if status == 307:
                        self.send_header("Location", f"{registry.moved_to}{self.path}")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        super().__init__(ThreadingHTTPServer(("127.0.0.1", 0), Handler))


class OddServer(_Served):
    """Answers each request with the same bytes while the block lasts, and closes the connection.

    Args:
        answer: The bytes.
        pause_s: Between two bytes; 0: they are sent at once.
    """

    def __init__(self, answer: bytes, pause_s: float = 0) -> None:
        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                while self.rfile.readline().strip():
                    pass
                with contextlib.suppress(ConnectionError):
                    for at in range(len(answer) if pause_s else 0):
                        self.wfile.write(answer[at : at + 1])
                        time.sleep(pause_s)
                    self.wfile.write(b"" if pause_s else answer)

        super().__init__(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler))
