"""Lines on stderr that show how far a run is: which engine works, and how much of the running job is done.

Results are on stdout, and no line stays on a terminal when they are printed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

from logcore.cli.output.progress import ProgressLine, bytes_text
from spark_jobs.launch import ORDINARY_ENGINE, TaskProgress


@dataclass(slots=True)
class ProgressLines:
    """A listener to jobs that prints lines.

    Attributes:
        out: Where they are printed: stderr.
        clock: Reads a clock that only moves forward, seconds.
    """

    out: TextIO
    clock: Callable[[], float] = time.monotonic
    _engine: str = ""
    _job: str = ""
    _line: ProgressLine = field(init=False)

    def __post_init__(self) -> None:
        self._line = ProgressLine(self.out, self.clock)

    def job_starts(self, job: str, engine: str) -> None:
        """Print the engine once, unless it is the one where nobody chose anything."""
        if engine not in (self._engine, ORDINARY_ENGINE):
            self.out.write(f"job engine {engine}\n")
            self.out.flush()
        self._engine, self._job = engine, job
        self._line.begin()

    def progressed(self, progress: TaskProgress) -> None:
        """Print how far the job is, if the last line is long enough ago."""
        self._line.show(lambda seconds: f"{self._job}: {described(progress, seconds)}")

    def job_ended(self) -> None:
        """Remove the line from a terminal."""
        self._line.clear()


def described(progress: TaskProgress, seconds: float) -> str:
    """How far a job is after so many seconds: ``3 of 20 segments, 1.2 of 4.0 GiB, 410 MB/s, 7 s left``."""
    tasks = f"{progress.done:,} of {progress.total:,} {progress.what}"
    if progress.done_bytes is None or not progress.total_bytes:
        return tasks
    return f"{tasks}, {bytes_text(progress.done_bytes, progress.total_bytes, seconds)}"
