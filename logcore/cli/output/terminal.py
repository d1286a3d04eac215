"""Output for people: colours, sizes and durations. They are used only where a stream is a terminal.

In files and pipes the text of every command stays as docs/cli.md has it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TextIO

from logcore.logs.model.findings import Severity
from logcore.logs.model.offset_ledger import OffsetState

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class Style(StrEnum):
    """Parameters of the ANSI sequence that sets a style (ECMA-48, SGR)."""

    BOLD = "1"
    DIM = "2"
    RED = "31"
    GREEN = "32"
    YELLOW = "33"
    CYAN = "36"


OF_SEVERITY: Mapping[str, Style] = {
    Severity.ERROR: Style.RED,
    Severity.WARNING: Style.YELLOW,
    Severity.INFO: Style.CYAN,
}
OF_STATE: Mapping[str, Style] = {
    OffsetState.PRESENT: Style.GREEN,
    OffsetState.CONTROL: Style.GREEN,
    OffsetState.ABORTED: Style.DIM,
    OffsetState.OPEN: Style.YELLOW,
    OffsetState.COMPACTED: Style.DIM,
    OffsetState.EMPTY: Style.DIM,
    OffsetState.TRIMMED: Style.DIM,
    OffsetState.REMOTE: Style.CYAN,
    OffsetState.UNKNOWN: Style.YELLOW,
    OffsetState.MISSING: Style.RED,
    OffsetState.CORRUPT: Style.RED,
}


@dataclass(frozen=True, slots=True)
class Terminal:
    """What a stream can show.

    Attributes:
        is_terminal: A person reads it.
        can_style: It shows colours, and the user has not switched them off.
        can_renew: A line can be written again.
    """

    is_terminal: bool = False
    can_style: bool = False
    can_renew: bool = False

    @classmethod
    def of(cls, stream: TextIO) -> Terminal:
        """Find out what a stream can show, also from `TERM` and `NO_COLOR`."""
        if not stream.isatty():
            return cls()
        can_renew = os.environ.get("TERM", "") not in ("", "dumb")
        return cls(True, can_renew and not os.environ.get("NO_COLOR"), can_renew)

    def styled(self, text: str, *styles: Style) -> str:
        """Return the text in some styles; unchanged where there are none."""
        return f"\x1b[{';'.join(styles)}m{text}\x1b[0m" if self.can_style and styles else text


FILE = Terminal()
"""A file or a pipe."""


def size_text(nbytes: int) -> str:
    """Return a number of bytes for a person: `80 B`, `1.2 GiB`."""
    unit = unit_of(nbytes)
    return f"{nbytes} B" if unit == 0 else f"{nbytes / (1 << 10 * unit):.1f} {_UNITS[unit]}"


def unit_of(nbytes: int) -> int:
    """Return the number of the unit in which a size has one to four digits: 0 for bytes, 1 for KiB, up to 4 for TiB."""
    return min(max(nbytes.bit_length() - 1, 0) // 10, len(_UNITS) - 1)


def part_text(done: int, total: int) -> str:
    """Return bytes of a total, in the unit of the total: `1.2 of 4.0 GiB`."""
    unit = unit_of(total)
    return f"{done / (1 << 10 * unit):.1f} of {total / (1 << 10 * unit):.1f} {_UNITS[unit]}"


def duration_text(seconds: float) -> str:
    """Return a duration for a person: `0.3 s`, `8 s`, `2 min 3 s`, `5 h 12 min`, `3 days 4 h`."""
    whole = round(seconds)
    if whole < 1:
        return f"{seconds:.1f} s"
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    hours, minutes = whole // 3600, whole % 3600 // 60
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} days {hours % 24} h"
