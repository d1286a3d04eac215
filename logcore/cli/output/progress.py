"""How far a command is, on stderr: bytes done of all, MB/s, and the time that is left.

On a terminal there is one line, which is written again. Elsewhere, for instance in a file, each is a line of its own,
and they are further apart. Short work shows nothing.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

from logcore.cli.output.terminal import Terminal, duration_text, part_text, size_text
from logcore.storage.source_errors import shown

TERMINAL_SECONDS, FILE_SECONDS = 2.0, 10.0
"""Least time from one line to the next, and from the begin of the work to the first."""
CLEAR = "\r\x1b[2K"
"""Removes a line from a terminal."""


def bytes_text(done: int, total: int | None, seconds: float) -> str:
    """Return how far work is after so many seconds: `1.2 of 4.0 GiB, 410 MB/s, 7 s left`.

    Args:
        done: Bytes that are done.
        total: Bytes of all; None if it is not known.
        seconds: Since the work began.
    """
    parts = [size_text(done) if total is None else part_text(min(done, total), total)]
    if seconds > 0:
        parts.append(f"{done / seconds / 1e6:,.0f} MB/s")
        if total is not None and 0 < done < total:
            parts.append(f"{duration_text(math.ceil(seconds * (total - done) / done))} left")
    return ", ".join(parts)


@dataclass(slots=True)
class ProgressLine:
    """The line of the progress.

    Attributes:
        out: Where it is printed: stderr.
        clock: Reads a clock that only moves forward, seconds.
    """

    out: TextIO = field(default_factory=lambda: sys.stderr)
    clock: Callable[[], float] = time.monotonic
    begun: float = field(init=False)
    """When the work began."""
    _printed: float = field(init=False)
    _is_open: bool = field(init=False, default=False)
    _terminal: Terminal = field(init=False)

    def __post_init__(self) -> None:
        self._terminal = Terminal.of(self.out)
        self.begun = self._printed = self.clock()

    def begin(self) -> None:
        """Begin other work: its time counts from now on."""
        self.begun = self._printed = self.clock()

    @property
    def seconds(self) -> float:
        """Seconds since the work began."""
        return self.clock() - self.begun

    def show(self, text: Callable[[float], str]) -> None:
        """Print a line, if the last one is long enough ago.

        Args:
            text: Returns the line for the seconds since the work began.
        """
        now = self.clock()
        is_renewed = self._terminal.can_renew
        if now - self._printed < (TERMINAL_SECONDS if is_renewed else FILE_SECONDS):
            return
        self._printed = now
        line = text(now - self.begun)
        # A line that wraps could not be removed.
        self._write(f"{CLEAR}{line[: _columns(self.out) - 1]}" if is_renewed else f"{line}\n")
        self._is_open = is_renewed

    def clear(self) -> None:
        """Remove the line from a terminal, before something else is printed or at the end."""
        if self._is_open:
            self._write(CLEAR)
            self._is_open = False

    def _write(self, text: str) -> None:
        self.out.write(text)
        self.out.flush()


class ReadProgress:
    """The progress of reading files, one after another.

    Args:
        total: Bytes of all files; None if it is not known.
        line: Where it is shown.
    """

    def __init__(self, total: int | None = None, line: ProgressLine | None = None) -> None:
        self.line = ProgressLine() if line is None else line
        self._total = total
        self._path = ""
        self._size = self._before = 0

    def at(self, path: str, position: int, size: int) -> None:
        """Report the position up to which a file is done.

        Args:
            path: The file.
            position: The bytes before this position are done.
            size: Of the file, in bytes.
        """
        if path != self._path:
            self._before += self._size
            self._path, self._size = path, size
        done = self._before + position
        name = "/".join(path.split("/")[-2:])
        self.line.show(lambda seconds: f"{bytes_text(done, self._total, seconds)}, {shown(name)}")

    def close(self) -> None:
        """Remove the line."""
        self.line.clear()


def _columns(out: TextIO) -> int:
    """The width of a terminal; 80 if it is not known."""
    try:
        return os.get_terminal_size(out.fileno()).columns or 80
    except (OSError, ValueError):  # it is no file, or no terminal
        return 80
