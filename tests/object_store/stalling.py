"""A TCP proxy that stops forwarding: connections stay open, and new ones are accepted, but nothing is answered."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from urllib.parse import urlsplit


class StallingProxy:
    """Forwards to a server until :meth:`stall` stops it; a context manager."""

    def __init__(self, target: str) -> None:
        where = urlsplit(target)
        self._target = (where.hostname or "127.0.0.1", where.port or 80)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._is_stalled = threading.Event()
        self._is_closed = threading.Event()
        self._open: list[socket.socket] = []
        self.requests = 0
        self.stall_after: int | None = None
        """Stop by itself when so many pieces of requests have been forwarded."""
        self.stalled_at: float | None = None
        """When it stopped, by the monotonic clock."""

    def stall(self) -> None:
        """Forward nothing from now on."""
        if self.stalled_at is None:
            self.stalled_at = time.monotonic()
        self._is_stalled.set()

    def __enter__(self) -> StallingProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_closed.set()
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        while not self._is_closed.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(client)
            threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        server = socket.create_connection(self._target)
        self._open.append(server)
        with selectors.DefaultSelector() as ready, suppress(OSError, ValueError):
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            while True:
                for key, _ in ready.select():
                    if key.fileobj is client:
                        self.requests += 1
                        if self.stall_after is not None and self.requests > self.stall_after:
                            self.stall()
                    if self._is_stalled.is_set():
                        self._is_closed.wait()
                        return
                    content = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
                    if not content:
                        return
                    key.data.sendall(content)
