"""Dagster's history is opened beside a run, and an interrupted run does not wait for it."""

from __future__ import annotations

from threading import Event

import pytest

from pipelines.command.running import HistoryInBackground


class History:
    """Takes the place of Dagster's; opening it ends when the test allows it."""

    def __init__(self) -> None:
        self.begun, self.allowed, self.closed = Event(), Event(), Event()

    def open(self) -> History:
        self.begun.set()
        self.allowed.wait(10)
        return self

    def close(self) -> None:
        self.closed.set()


def test_an_interrupt_does_not_wait_for_a_history_that_is_still_being_opened():
    history = History()

    def interrupted() -> None:
        with HistoryInBackground(history.open) as in_background:
            in_background.begin()
            assert history.begun.wait(10)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not history.closed.is_set()
    history.allowed.set()
    assert history.closed.wait(10)


def test_a_run_without_an_error_waits_for_the_history_and_closes_it():
    history = History()
    history.allowed.set()
    with HistoryInBackground(history.open) as in_background:
        in_background.begin()
    assert history.closed.is_set()
    with HistoryInBackground(history.open):
        history.closed.clear()
    assert not history.closed.is_set(), "an unopened one has nothing to close"
