"""What can be written behind an option: times, ranges of offsets, keys, globs; and the options commands share.

A value that cannot be read is an `argparse.ArgumentTypeError`, which ends in wrong usage (64) with a sentence about it.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

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
    """`A..B`, `A..`, `..B`."""
    match = re.fullmatch(r"([0-9]*)\.\.([0-9]*)", text, re.ASCII)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no range of offsets; write A..B, A.. or ..B (B is not included)")
    start, end = (int(part) if part else None for part in match.groups())
    if start is not None and end is not None and end < start:
        raise argparse.ArgumentTypeError(f"{text!r} ends before it begins")
    return OffsetRange(start, end)


def time_ms(text: str) -> int:
    """ISO-8601, also a year or a date without dashes; or epoch milliseconds: 13 digits and more, or with the suffix
    `ms`. Without a zone it is UTC."""
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
    """`0x` and hex digits, or the text's UTF-8 bytes."""
    if not text.startswith("0x"):
        return text.encode("utf-8", "surrogateescape")
    try:
        return bytes.fromhex(text[2:])
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no hex; a key that begins with 0x has to be given in hex"
        ) from None


def header_match(text: str) -> tuple[bytes, bytes | None]:
    """`NAME` or `NAME=VALUE`, the value perhaps as 0xHEX; None asks for any value."""
    name, equals, value = text.partition("=")
    return name.encode("utf-8", "surrogateescape"), binary(value) if equals else None


def natural(text: str) -> int:
    """A number from 0 on."""
    if not re.fullmatch(r"[0-9]{1,18}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 on")
    return int(text)


def high_watermark(text: str) -> str | int:
    """`checkpoint`, `log-end` or an offset."""
    if text in ("checkpoint", "log-end"):
        return text
    if re.fullmatch(r"[0-9]{1,18}", text, re.ASCII):
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is neither checkpoint, nor log-end, nor an offset")


def add_paths(parser: argparse.ArgumentParser) -> None:
    """The PATH arguments of a command that reads."""
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a .log file, a partition directory (orders-0) or a log directory; several may be given",
    )


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Options that choose topic partitions."""
    parser.add_argument("--topic", action="append", metavar="GLOB", help="only topics that match; repeatable")
    parser.add_argument(
        "--partition", action="append", type=natural, metavar="N", help="only this partition number; repeatable"
    )
