"""What a task reads, as errors and the rows that carry tasks to Spark's workers say it.

Tasks are opaque to Spark. These columns are for people and for the plan: an engineer sees in a DataFrame of tasks which
log, file and range each has.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable


class Reads(NamedTuple):
    """What a task reads."""

    what: str
    """Topic partition, log key or table."""
    path: str | None = None
    """The file, if it is one."""
    start: int | None = None
    """First position in the file; without a file, first offset."""
    end: int | None = None
    """The position or offset after the last one."""


@runtime_checkable
class ReadingTask(Protocol):
    """A task that says what it reads."""

    @property
    def reads(self) -> Reads:
        """What it reads."""


def reads(task: object) -> Reads:
    """What a task says that it reads; its type where it says nothing."""
    return task.reads if isinstance(task, ReadingTask) else Reads(type(task).__name__)
