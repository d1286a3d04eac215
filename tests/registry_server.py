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
    """Answers while the block lasts. `asked` has the paths in their order."""

    def __init__(self, answers: Mapping[str, object]) -> None:
        self.asked: list[str] = []
        self.status = 200
        self.delay_s = 0.0
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                path = unquote(self.path)
                registry.asked.append(path)
                time.sleep(registry.delay_s)
                answer = answers.get(path)
                status = 404 if registry.status == 200 and answer is None else registry.status
                body = json.dumps(answer or {"error_code": 40403}).encode()
                with contextlib.suppress(BrokenPipeError):  # the client that does not wait is part of a test
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        super().__init__(ThreadingHTTPServer(("127.0.0.1", 0), Handler))


class OddServer(_Served):
    """Answers each request with the same bytes while the block lasts, and closes the connection."""

    def __init__(self, answer: bytes) -> None:
        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                while self.rfile.readline().strip():
                    pass
                with contextlib.suppress(ConnectionError):
                    self.wfile.write(answer)

        super().__init__(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler))
