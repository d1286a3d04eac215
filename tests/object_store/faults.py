"""A proxy between a client and an S3 server that counts requests, and answers chosen ones itself.

It forwards whole requests and whole answers. The signature of a request stays right, because its Host header stays.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass(frozen=True, slots=True)
class Request:
    """A request as the proxy sees it.

    Attributes:
        method: `GET`, `PUT`, …
        path: The bucket and the key, decoded.
        query: The last value of each parameter.
        headers: By name in small letters.
        number: How many requests of the same kind came before it.
    """

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    number: int

    @property
    def kind(self) -> str:
        """`list`, or the method."""
        return "list" if "list-type" in self.query else self.method


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer in place of the server's."""

    status: int
    content: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def error(cls, status: int, code: str) -> Answer:
        """An error as S3 states it."""
        text = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>planted</Message></Error>'
        return cls(status, text.encode(), {"Content-Type": "application/xml"})


Rule = Callable[[Request], Answer | None]
"""Decides about a request: an answer, or None to forward it. It may change the server's objects first."""


class FaultyProxy:
    """The proxy; a context manager.

    Attributes:
        address: Its URL.
        rule: Decides about each request; None: forward all.
        seen: Every request.
        changes: Changes an answer of the server; None: none.
    """

    def __init__(self, target: str) -> None:
        where = urlsplit(target)
        self._target = (where.hostname or "127.0.0.1", where.port or 80)
        self.rule: Rule | None = None
        self.seen: list[Request] = []
        self.changes: Callable[[Request, Answer], Answer] | None = None
        self._lock = threading.Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                proxy._serve(self)

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _serve  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"

    def count(self, kind: str) -> int:
        """Count the requests of a kind: `list`, or a method."""
        return sum(request.kind == kind for request in self.seen)

    def __enter__(self) -> FaultyProxy:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        url = urlsplit(handler.path)
        query = {name: values[-1] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        headers = {name.lower(): value for name, value in handler.headers.items()}
        body = handler.rfile.read(int(headers.get("content-length", "0")))
        with self._lock:
            request = Request(handler.command, unquote(url.path), query, headers, 0)
            number = self.count(request.kind)
            request = Request(handler.command, unquote(url.path), query, headers, number)
            self.seen.append(request)
        answer = None if self.rule is None else self.rule(request)
        if answer is None:
            answer = self._forwarded(handler, body)
            if self.changes is not None:
                answer = self.changes(request, answer)
        handler.send_response_only(answer.status)
        for name, value in answer.headers.items():
            handler.send_header(name, value)
        if "content-length" not in {name.lower() for name in answer.headers}:
            handler.send_header("Content-Length", str(len(answer.content)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(answer.content)

    def _forwarded(self, handler: BaseHTTPRequestHandler, body: bytes) -> Answer:
        connection = http.client.HTTPConnection(*self._target, timeout=60)
        try:
            connection.putrequest(handler.command, handler.path, skip_host=True, skip_accept_encoding=True)
            for name, value in handler.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            got = connection.getresponse()
            content = got.read()
            dropped = {"transfer-encoding", "connection", "keep-alive"}
            headers = {name: value for name, value in got.getheaders() if name.lower() not in dropped}
            if handler.command != "HEAD":
                headers = {name: value for name, value in headers.items() if name.lower() != "content-length"}
            return Answer(got.status, content, headers)
        finally:
            connection.close()
