"""How far the tasks of a job are, for the programs that show it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

NOUNS = {
    "copy_segment": "segments",
    "take_segment": "segments",
    "validate_one": "segments",
    "validate_log": "logs",
    "write_records": "pieces",
    "merge_files": "files",
}
"""What a task works on, by the function that does it; all others are tasks."""


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """Tasks that are done, of all that a job has at hand."""

    what: str
    """What a task works on, in the plural: ``segments``."""
    done: int
    total: int
    done_bytes: int | None
    """Bytes that the tasks which are done have read; None: not known."""
    total_bytes: int | None


OnProgress = Callable[[TaskProgress], None]


class JobListener(Protocol):
    """Gets what happens while jobs run, in the process that starts them."""

    def job_starts(self, job: str, engine: str) -> None:
        """A job starts its tasks. ``engine``: what runs them and why, for a person."""

    def progressed(self, progress: TaskProgress) -> None:
        """Some tasks of that job are done."""

    def job_ended(self) -> None:
        """The job has ended, with or without an error."""


@dataclass(slots=True)
class TaskCounter:
    """Counts the tasks of a job as they are done, and reports each."""

    progress: TaskProgress
    sizes: Sequence[int] | None
    report: OnProgress | None

    @classmethod
    def of(cls, function: str, total: int, sizes: Sequence[int] | None, report: OnProgress | None) -> TaskCounter:
        """Begin to count.

        Args:
            function: Name of the function that does the tasks.
            total: Number of tasks.
            sizes: Bytes that each of them reads; None if they are not known.
            report: Gets each step; None: nothing is reported.
        """
        begun = (None, None) if sizes is None else (0, sum(sizes))
        return cls(TaskProgress(NOUNS.get(function, "tasks"), 0, total, *begun), sizes, report if total else None)

    def add(self, *positions: int) -> None:
        """Report that the tasks at these positions are done; without positions, that the job has begun."""
        if self.report is None:
            return
        nbytes = self.progress.done_bytes
        if self.sizes is not None and nbytes is not None:
            nbytes += sum(self.sizes[at] for at in positions)
        self.progress = replace(self.progress, done=self.progress.done + len(positions), done_bytes=nbytes)
        self.report(self.progress)
