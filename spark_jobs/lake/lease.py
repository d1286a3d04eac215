"""One writer per lake: a lock file that the operating system releases when its holder dies.

The lease saves work, it does not keep tables right: guards in the commits do that (a lease can be lost between a
check and a commit). Within one process it may be taken again, as the steps of a run do.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from spark_jobs.lake.errors import LeaseHeld

LEASE_FILE = "lease.json"


@dataclass(slots=True)
class _Held:
    descriptor: int
    depth: int


_held: dict[str, _Held] = {}
_guard = threading.Lock()


@contextlib.contextmanager
def hold(lake: str, purpose: str) -> Iterator[None]:
    """Hold the lease of ``lake`` while the block runs.

    Args:
        purpose: what the holder does, for the one who is refused: ``loglake run``, ``compaction``.

    Raises:
        LeaseHeld: another process holds it; the text names process, host and purpose.
    """
    os.makedirs(lake, exist_ok=True)
    path = os.path.join(os.path.realpath(lake), LEASE_FILE)
    with _guard:
        held = _held.get(path)
        if held is None:
            held = _held[path] = _Held(_take(path, purpose), 0)
        held.depth += 1
    try:
        yield
    finally:
        with _guard:
            held.depth -= 1
            if held.depth == 0:
                del _held[path]
                os.close(held.descriptor)


def _take(path: str, purpose: str) -> int:
    # The descriptor is close-on-exec, so that a JVM started meanwhile does not keep the lock after its parent died.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _describe(os.pread(descriptor, 4096, 0))
        os.close(descriptor)
        raise LeaseHeld(
            f"The lake {os.path.dirname(path)} is being worked on by {holder}. "
            "Wait until it has ended, or end it; what it has not finished is taken up by the next run."
        ) from None
    holder_json = json.dumps({"purpose": purpose, "pid": os.getpid(), "host": socket.gethostname()})
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, holder_json.encode(), 0)
    return descriptor


def _describe(content: bytes) -> str:
    try:
        holder = json.loads(content)
        return f"{holder['purpose']!r} (process {holder['pid']} on {holder['host']})"
    except (ValueError, KeyError, TypeError):
        return "another process"
