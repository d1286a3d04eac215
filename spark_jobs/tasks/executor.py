"""What runs the tasks of a job. Jobs know this interface alone; Spark is its one implementation.

A task is a small value and its result another: bytes go from the worker to files, never through the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

Values = dict[str, Any]
"""A task, or its result, as JSON has it."""
Work = Callable[[Values], Values]
"""A function of an importable module: workers import it by name."""


class Executor(Protocol):
    """Runs independent tasks."""

    def run(self, tasks: Sequence[Values], work: Work, sizes: Sequence[int] | None = None) -> list[Values]:
        """Run ``work`` on every task and return the results in the order of ``tasks``.

        Args:
            work: handles the faults of its own input; an exception out of it fails the whole job.
            sizes: bytes that each task reads, so that small ones may share a worker's time; None if it is not known.
        """
        ...
