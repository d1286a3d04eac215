"""An interrupt that arrives while a finalizer runs still ends the work."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
import time

import pytest

from pipelines.errors.interrupts import lost_interrupts_repeated

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("signals_act")]


class Interrupted:
    """Is interrupted when it is finalized."""

    def __init__(self) -> None:
        self.itself = self  # so that only the garbage collector ends it

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)


@pytest.mark.long
def test_an_interrupt_that_a_finalizer_dropped_arrives_later() -> None:
    def works() -> None:
        with lost_interrupts_repeated():
            Interrupted()
            gc.collect()
            time.sleep(5)

    with pytest.raises(KeyboardInterrupt):
        works()


def test_an_interrupt_that_arrives_while_another_is_being_repeated_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a thread needs longer to start than the delay after which it sends the interrupt."""
    start, started = threading.Timer.start, []

    def interrupted_start(self: threading.Timer) -> None:
        start(self)
        started.append(self)
        if len(started) == 1:
            self.cancel()
            os.kill(os.getpid(), signal.SIGINT)

    def works() -> None:
        with lost_interrupts_repeated():
            Interrupted()
            gc.collect()
            time.sleep(5)

    monkeypatch.setattr(threading.Timer, "start", interrupted_start)
    with pytest.raises(KeyboardInterrupt):
        works()
    assert len(started) == 2


def test_what_else_a_finalizer_drops_is_reported_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fails:
        def __del__(self) -> None:
            raise ValueError("kept")

    reported: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: reported.append(str(dropped.exc_value)))
    before = sys.unraisablehook
    with lost_interrupts_repeated():
        Fails()
        gc.collect()
    assert reported == ["kept"]
    assert sys.unraisablehook is before


def test_when_the_work_has_ended_nothing_is_interrupted_any_more() -> None:
    # On a busy machine it may arrive before the work has ended.
    with contextlib.suppress(KeyboardInterrupt), lost_interrupts_repeated():
        Interrupted()
        gc.collect()
    try:
        time.sleep(0.2)
    except KeyboardInterrupt:
        pytest.fail("the work had ended")


def test_if_more_follows_a_dropped_interrupt_arrives_at_the_end_of_the_block() -> None:
    def works() -> None:
        with lost_interrupts_repeated(more_follows=True):
            Interrupted()
            gc.collect()
        time.sleep(2)

    with pytest.raises(KeyboardInterrupt):
        works()
