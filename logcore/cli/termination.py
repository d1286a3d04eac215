"""SIGTERM ends a command as Ctrl-C does.

Supervisors such as systemd, Kubernetes and Dagster send SIGTERM. Its default action ends the process at once. Then a
lease on an object store is not released, and the lake is blocked until the lease expires.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Raise KeyboardInterrupt in the block when SIGTERM arrives.

    A handler that the calling program has set stays. In another thread than the main one nothing changes: signals do
    not reach it.
    """
    is_ours = threading.current_thread() is threading.main_thread() and (
        signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
    if not is_ours:
        yield
        return
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
