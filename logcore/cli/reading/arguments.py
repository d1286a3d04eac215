"""Values of options (times, ranges of offsets, keys, globs) and the options that commands share.

An invalid value raises `argparse.ArgumentTypeError`, which is reported as wrong usage (64).
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from logcore.logs.model.log_selection import LogSelection

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets start..end, end exclusive; None is open."""

    start: int | None = None
    end: int | None = None

    def __contains__(self, offset: int) -> bool:
        return (self.start is None or offset >= self.start) and (self.end is None or offset < self.end)

    def overlaps(self, first: int, last: int) -> bool:
        """Whether any offset of first..last (inclusive) is in the range."""
        return (self.start is None or last >= self.start) and (self.end is None or first < self.end)


def offset_range(text: str) -> OffsetRange:
    """Parse `A..B`, `A..` or `..B`."""
    match = re.fullmatch(r"([0-9]*)\.\.([0-9]*)", text, re.ASCII)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a range of offsets; write A..B, A.. or ..B (B is exclusive)")
    start, end = (int(part) if part else None for part in match.groups())
    if start is not None and end is not None and end < start:
        raise argparse.ArgumentTypeError(f"{text!r} ends before it begins")
    return OffsetRange(start, end)


def time_ms(text: str) -> int:
    """Parse a time: ISO-8601, also a year or a date without dashes, or epoch milliseconds.

    Milliseconds have 13 digits or more, or the suffix `ms`. A time without a zone is in UTC.
    """
    number = re.fullmatch(r"([0-9]{13,18})|(-?[0-9]{1,18})ms", text, re.ASCII)
    if number is not None:
        return int(number[1] or number[2])
    is_year = re.fullmatch(r"[0-9]{4}", text, re.ASCII) is not None
    try:
        moment = datetime.fromisoformat(f"{text}0101" if is_year else text)
    except ValueError:
        message = f"{text!r} is neither an ISO-8601 time nor epoch milliseconds"
        if text.removeprefix("-").isdecimal():
            message += f"; for milliseconds write {text}ms"
        raise argparse.ArgumentTypeError(message) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def binary(text: str) -> bytes:
    """Parse `0x` and hex digits, or return the text's UTF-8 bytes."""
    if not text.startswith("0x"):
        return text.encode("utf-8", "surrogateescape")
    try:
        return bytes.fromhex(text[2:])
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not hex; a key that begins with 0x must be given in hex"
        ) from None


def header_match(text: str) -> tuple[bytes, bytes | None]:
    """Parse `NAME` or `NAME=VALUE`, where the value may be 0xHEX; None means any value."""
    name, equals, value = text.partition("=")
    return name.encode("utf-8", "surrogateescape"), binary(value) if equals else None


def natural(text: str) -> int:
    """Parse a number that is not negative."""
    if not re.fullmatch(r"[0-9]{1,18}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


def high_watermark(text: str) -> str | int:
    """Parse `checkpoint`, `log-end` or an offset."""
    if text in ("checkpoint", "log-end"):
        return text
    if re.fullmatch(r"[0-9]{1,18}", text, re.ASCII):
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is neither checkpoint, nor log-end, nor an offset")


def add_paths(parser: argparse.ArgumentParser, also: str = "") -> None:
    """Add the PATH arguments of a command that reads. also: What else a path may be, for the help text."""
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help=f"a .log file, a partition directory (orders-0) or a log directory; repeatable{also}",
    )


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose topic partitions."""
    parser.add_argument("--topic", action="append", metavar="GLOB", help="only topics that match; repeatable")
    parser.add_argument(
        "--partition", action="append", type=natural, metavar="N", help="only this partition number; repeatable"
    )


def selection_of(arguments: argparse.Namespace) -> LogSelection:
    """Return the selection by the options of `add_choice`."""
    return LogSelection.of(arguments.topic, arguments.partition)
