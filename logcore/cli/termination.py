"""Commands that are ended early: by SIGTERM as by Ctrl-C, or by a reader of their output who closes the pipe.

Supervisors such as systemd, Kubernetes and Dagster send SIGTERM. Its default action ends the process at once. Then a
lease on an object store is not released, and the lake is blocked until the lease expires.
"""

from __future__ import annotations

import os
import signal
import sys
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


def abandon_output() -> None:
    """Send everything else that goes to stdout to /dev/null, when its reader has closed the pipe, as `| head` does.

    Python itself flushes stdout once more at exit.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
