"""What another commit overtakes is tried again, with pauses that double, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spark_jobs.errors import ConcurrentChange, OutputMismatch
from spark_jobs.lake.retries import retried


def failing(*errors: Exception) -> Callable[[], str]:
    """An attempt that fails so, call by call, and then succeeds."""
    left = list(errors)

    def attempt() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return attempt


def overtaken(times: int) -> list[ConcurrentChange]:
    return [ConcurrentChange(f"commit {number}") for number in range(times)]


def test_an_attempt_that_is_not_overtaken_waits_for_nothing():
    pauses: list[float] = []
    assert retried(failing(), 8, pauses.append) == "done"
    assert pauses == []


def test_the_last_of_eight_attempts_may_succeed():
    pauses: list[float] = []
    assert retried(failing(*overtaken(7)), 8, pauses.append) == "done"
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2]


def test_after_the_last_attempt_its_own_error_is_raised_without_another_pause():
    pauses: list[float] = []
    with pytest.raises(ConcurrentChange, match="commit 2"):
        retried(failing(*overtaken(3)), 3, pauses.append)
    assert pauses == [0.05, 0.1]


def test_another_error_ends_it():
    pauses: list[float] = []
    with pytest.raises(OutputMismatch):
        retried(failing(OutputMismatch("rows"), *overtaken(1)), 8, pauses.append)
    assert pauses == []
