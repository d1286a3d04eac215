"""Lines on stderr that show how far a run is: which engine works, and how much of the running job is done.

On a terminal there is one line, which is written again. Elsewhere, for instance in a file, each is a line of its own,
and they are further apart. Results are on stdout, and no line stays on a terminal when they are printed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

from spark_jobs.launch import TaskProgress

TERMINAL_SECONDS, FILE_SECONDS = 2.0, 10.0
"""Least time from one line to the next; a job that ends earlier shows none."""
_CLEAR = "\r\x1b[2K"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


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
    _begun: float = 0.0
    _printed: float = 0.0
    _is_open: bool = False
    _is_terminal: bool = field(init=False)

    def __post_init__(self) -> None:
        self._is_terminal = self.out.isatty()

    def job_starts(self, job: str, engine: str) -> None:
        """Print the engine once."""
        if engine != self._engine:
            self._write(f"job engine {engine}\n")
        self._engine, self._job = engine, job
        self._begun = self._printed = self.clock()

    def progressed(self, progress: TaskProgress) -> None:
        """Print how far the job is, if the last line is long enough ago."""
        now = self.clock()
        if now - self._printed < (TERMINAL_SECONDS if self._is_terminal else FILE_SECONDS):
            return
        self._printed = now
        line = f"{self._job}: {described(progress, now - self._begun)}"
        self._write(f"{_CLEAR}{line}" if self._is_terminal else f"{line}\n")
        self._is_open = self._is_terminal

    def job_ended(self) -> None:
        """Remove the line from a terminal."""
        if self._is_open:
            self._write(_CLEAR)
            self._is_open = False

    def _write(self, text: str) -> None:
        self.out.write(text)
        self.out.flush()


def described(progress: TaskProgress, seconds: float) -> str:
    """How far a job is after so many seconds: ``3 of 20 segments, 1.2 of 4.0 GiB, 410 MB/s``."""
    parts = [f"{progress.done:,} of {progress.total:,} {progress.what}"]
    if progress.done_bytes is not None and progress.total_bytes:
        unit = min((progress.total_bytes.bit_length() - 1) // 10, len(_UNITS) - 1)
        done, total = (nbytes / (1 << 10 * unit) for nbytes in (progress.done_bytes, progress.total_bytes))
        parts.append(f"{done:.1f} of {total:.1f} {_UNITS[unit]}")
        if seconds > 0:
            parts.append(f"{progress.done_bytes / seconds / 1e6:,.0f} MB/s")
    return ", ".join(parts)
