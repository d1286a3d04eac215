"""Interrupts from the terminal that reach the command.

Python runs a signal's handler between any two instructions of the main thread. Where these belong to a finalizer or to
a callback of the garbage collector, which PySpark and Dagster have, the exception of the handler is printed and
dropped, and the command would go on as if nobody had pressed Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

DELAY_S = 0.05
"""Seconds after which a dropped interrupt is sent again: the callback has ended by then."""

INTERRUPTS = frozenset({"KeyboardInterrupt", "DagsterExecutionInterruptedError"})
"""Names of the exceptions that an interrupt becomes, in and outside of a run of Dagster."""


@contextmanager
def lost_interrupts_repeated() -> Iterator[None]:
    """Send an interrupt again whose exception Python dropped. Everything else that is dropped is reported as before."""
    before = sys.unraisablehook
    repeats: list[threading.Timer] = []

    def take(dropped: sys.UnraisableHookArgs) -> None:
        if dropped.exc_type.__name__ in INTERRUPTS:
            again = threading.Timer(DELAY_S, os.kill, (os.getpid(), signal.SIGINT))
            repeats.append(again)
            again.start()
        else:
            before(dropped)

    sys.unraisablehook = take
    try:
        yield
    finally:
        sys.unraisablehook = before
        for again in repeats:  # the work has ended: nothing is left to interrupt
            again.cancel()
