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

    def repeat() -> None:
        again = threading.Timer(DELAY_S, os.kill, (os.getpid(), signal.SIGINT))
        repeats.append(again)
        again.start()

    def take(dropped: sys.UnraisableHookArgs) -> None:
        if dropped.exc_type.__name__ not in INTERRUPTS:
            before(dropped)
            return
        is_sent = False
        while not is_sent:
            try:
                repeat()
                is_sent = True
            except BaseException as error:
                # On a busy machine the next interrupt may arrive in here already, and Python would drop it too.
                if type(error).__name__ not in INTERRUPTS:
                    raise

    sys.unraisablehook = take
    try:
        yield
    finally:
        sys.unraisablehook = before
        for again in repeats:  # the work has ended: nothing is left to interrupt
            again.cancel()
