"""Makes sure that interrupts reach the command, and that cancels reach a run of Dagster.

Python runs a signal's handler between any two instructions of the main thread. If these belong to a finalizer or to a
callback of the garbage collector, as PySpark and Dagster have them, Python prints the handler's exception and drops it.
The command would then continue as if Ctrl-C had not been pressed, and the run as if nobody had canceled it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

DELAY_S = 0.05
"""Seconds after which a dropped interrupt is sent again; the callback has ended by then."""


def interrupt_types() -> tuple[type[BaseException], ...]:
    """The exceptions of an interrupt: Python's, and Dagster's own in a run of Dagster.

    This does not import Dagster: if it is not loaded, its exception cannot be raised.
    """
    of_dagster = getattr(sys.modules.get("dagster"), "DagsterExecutionInterruptedError", None)
    return (KeyboardInterrupt,) if of_dagster is None else (KeyboardInterrupt, of_dagster)


def is_interrupt(error: BaseException | None) -> bool:
    """Whether an error is an interrupt, or was raised because of one."""
    interrupts = interrupt_types()
    while error is not None and not isinstance(error, interrupts):
        error = error.__cause__
    return error is not None


@contextmanager
def lost_interrupts_repeated(*, more_follows: bool = False) -> Iterator[None]:
    """Send an interrupt again if Python dropped its exception. Other dropped exceptions are reported as before.

    Args:
        more_follows: Whether other work follows the block. Then an interrupt that was not sent again before the end of
            the block is sent there.
    """
    before = sys.unraisablehook
    repeats: list[threading.Timer] = []

    def repeat() -> None:
        again = threading.Timer(DELAY_S, _send_interrupt)
        repeats.append(again)
        again.start()

    def take(dropped: sys.UnraisableHookArgs) -> None:
        interrupts = interrupt_types()
        if not issubclass(dropped.exc_type, interrupts):
            before(dropped)
            return
        is_sent = False
        while not is_sent:
            try:
                repeat()
                is_sent = True
            except interrupts:
                # On a busy machine the next interrupt may already arrive here, and Python would drop it too.
                pass

    sys.unraisablehook = take
    try:
        yield
    finally:
        if sys.unraisablehook is take:  # a generator that is closed late must not disturb another block
            sys.unraisablehook = before
        waiting = [again for again in repeats if not again.finished.is_set()]
        for again in waiting:  # if the work has ended, there is nothing to interrupt
            again.cancel()
        if waiting and more_follows:
            _send_interrupt()


def _send_interrupt() -> None:
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as in background processes of a shell
    os.kill(os.getpid(), signal.SIGTERM if ignored else signal.SIGINT)


@contextmanager
def stopped_by_signals(*, twice_ends: bool = False) -> Iterator[threading.Event]:
    """An event that SIGTERM or SIGINT sets. Processes that are started inside the block have the default handlers.

    Args:
        twice_ends: Whether a second signal ends the process at once.

    Raises:
        KeyboardInterrupt: There was a second signal.
    """
    stop = threading.Event()

    def handle(number: int, _: FrameType | None) -> None:
        if twice_ends and stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
