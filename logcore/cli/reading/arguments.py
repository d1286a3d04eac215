"""Values of options (times, ranges of offsets, keys, globs), and the options that commands share, as `ReadOptions`.

An invalid value raises `argparse.ArgumentTypeError`, which is reported as wrong usage (64).
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from logcore.logs.model.log_selection import LogSelection
from logcore.reading.internal_topics.cluster_metadata import Moment
from logcore.reading.read_options import OffsetRange, ReadOptions, ReadRules
from logcore.storage.objects.addresses import is_object
from logcore.texts import shown

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_END_OF_RECORDS = "where a directory's records end (default: its replication-offset-checkpoint)"


def offset_range(text: str) -> OffsetRange:
    """Parse `A..B`, `A..` or `..B`.

    Raises:
        argparse.ArgumentTypeError: It is none of them, or it ends before it begins.
    """
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

    Raises:
        argparse.ArgumentTypeError: It is no time.
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


def clock_ms(text: str) -> int:
    """Parse a time as `time_ms` does, for a clock: it is written as a date, so it must be one.

    Raises:
        argparse.ArgumentTypeError: It is no time, or outside of the years 1 to 9999.
    """
    milliseconds = time_ms(text)
    try:
        _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise argparse.ArgumentTypeError(f"{text!r} is outside of the years 1 to 9999") from None
    return milliseconds


def binary(text: str) -> bytes:
    """Parse `0x` and hex digits, or return the text's UTF-8 bytes.

    Raises:
        argparse.ArgumentTypeError: `0x` is not before hex digits.
    """
    if not text.startswith("0x"):
        return text.encode("utf-8", "surrogateescape")
    try:
        return bytes.fromhex(text[2:])
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not hex; a key that begins with 0x must be given in hex"
        ) from None


def header_match(text: str) -> tuple[bytes, bytes | None]:
    """Parse `NAME` or `NAME=VALUE`, where the value may be 0xHEX; None means any value.

    Raises:
        argparse.ArgumentTypeError: The value is not hex after `0x`.
    """
    name, equals, value = text.partition("=")
    return name.encode("utf-8", "surrogateescape"), binary(value) if equals else None


def natural(text: str) -> int:
    """Parse a number that is not negative.

    Raises:
        argparse.ArgumentTypeError: It is no such number.
    """
    if not re.fullmatch(r"[0-9]{1,18}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


def positive(text: str) -> int:
    """Parse a number of at least 1.

    Raises:
        argparse.ArgumentTypeError: It is no such number.
    """
    if not re.fullmatch(r"0*[1-9][0-9]{0,17}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def high_watermark(text: str) -> str | int:
    """Parse `checkpoint`, `log-end` or an offset.

    Raises:
        argparse.ArgumentTypeError: It is none of them.
    """
    if text in ("checkpoint", "log-end"):
        return text
    if re.fullmatch(r"[0-9]{1,18}", text, re.ASCII):
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is neither checkpoint, nor log-end, nor an offset")


def topic_setting(text: str) -> tuple[str, str]:
    """Parse `cleanup.policy=` compact, delete, or both with a comma.

    Raises:
        argparse.ArgumentTypeError: It is another setting, or another policy.
    """
    name, _, value = text.partition("=")
    if name != "cleanup.policy":
        raise argparse.ArgumentTypeError(f"{name!r} has no effect here; use cleanup.policy")
    policies = {part.strip() for part in value.split(",")}
    if not policies or not policies <= {"compact", "delete"}:
        raise argparse.ArgumentTypeError(f"{value!r} is not a cleanup.policy: compact, delete, or compact,delete")
    return name, value


def local_path(text: str) -> str:
    """Return a path of this machine as it is.

    Raises:
        argparse.ArgumentTypeError: It is on an object store.
    """
    if is_object(text):
        raise argparse.ArgumentTypeError(f"{text} is on an object store; this command needs a copy on a local disk")
    return text


def source_around(target: str, paths: Sequence[str]) -> str | None:
    """Return the source that a new file would be in, or would replace; None if there is none. Sources are only read."""
    real = os.path.realpath(target)
    for path in paths:
        if not is_object(path):
            source = os.path.realpath(path)
            if real == source or real.startswith(source.rstrip("/") + "/"):
                return path
    return None


def refuse_inside_source(arguments: argparse.Namespace, target: str | None) -> None:
    """Refuse as wrong usage (64) a new file that would be in a source, or would replace it."""
    source = None if target is None else source_around(target, arguments.paths)
    if source is not None:
        arguments.parser.error(f"{shown(target or '')} is inside {shown(source)}, which is only read")


def add_paths(parser: argparse.ArgumentParser, also: str = "") -> None:
    """Add the PATH arguments of a command that reads.

    Args:
        parser: The parser of the command.
        also: What else a path may be, for the help text.
    """
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a .log file, a partition directory (orders-0) or a log directory, also as s3://bucket/prefix; "
        f"repeatable{also}",
    )


def add_lakes(parser: argparse.ArgumentParser) -> None:
    """Add the lakes of a command that without them is about all of the home."""
    parser.add_argument("lakes", nargs="*", metavar="LAKE", help="default: all lakes that are registered")


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose topic partitions."""
    parser.add_argument("--topic", action="append", metavar="GLOB", help="only topics that match; repeatable")
    parser.add_argument(
        "--partition", action="append", type=natural, metavar="N", help="only this partition number; repeatable"
    )


def add_remote(parser: argparse.ArgumentParser) -> None:
    """Add the option for remote storage."""
    parser.add_argument(
        "--remote",
        dest="remotes",
        action="append",
        default=[],
        metavar="DIR|s3://…",
        help="remote storage of tiered topics, read with the local segments as one log; repeatable",
    )


def add_high_watermark(parser: argparse.ArgumentParser, meaning: str = _END_OF_RECORDS) -> None:
    """Add the option for the end of committed offsets, with what it means for a command."""
    parser.add_argument(
        "--high-watermark",
        type=high_watermark,
        default="checkpoint",
        metavar="checkpoint|log-end|N",
        help=meaning,
    )


def add_isolation_level(parser: argparse.ArgumentParser, meaning: str | None = None) -> None:
    """Add the option that hides what no transaction has committed."""
    parser.add_argument(
        "--isolation.level",
        dest="isolation_level",
        choices=("read_uncommitted", "read_committed"),
        default="read_uncommitted",
        help=meaning,
    )


def add_meaning(parser: argparse.ArgumentParser) -> None:
    """Add the options that decide about gaps and committed offsets."""
    add_high_watermark(parser, "the end of committed offsets (default: a directory's replication-offset-checkpoint)")
    add_topic_settings(parser)


def add_topic_settings(parser: argparse.ArgumentParser) -> None:
    """Add the option for the topic configuration."""
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        type=topic_setting,
        metavar="NAME=VALUE",
        help="topic configuration by Kafka's names; cleanup.policy=compact makes gaps legal",
    )


def add_choice_of_moment(parser: argparse.ArgumentParser) -> None:
    """Add the option for a moment in the past."""
    parser.add_argument(
        "--at",
        type=moment,
        default=Moment(),
        metavar="OFFSET|TIME",
        help="the state before an offset of the internal topic, or at a time (default: the end)",
    )


def moment_of(arguments: argparse.Namespace) -> Moment:
    """Return the moment by the option of `add_choice_of_moment`."""
    chosen: Moment = arguments.at
    return chosen


def moment(text: str) -> Moment:
    """Parse a moment: an offset of up to 12 digits, or a time as `time_ms` parses it.

    Raises:
        argparse.ArgumentTypeError: It is neither.
    """
    if re.fullmatch(r"[0-9]{1,12}", text, re.ASCII):
        return Moment(offset=int(text))
    return Moment(time_ms=time_ms(text))


def selection_of(arguments: argparse.Namespace) -> LogSelection:
    """Return the selection by the options of `add_choice`."""
    return LogSelection.of(arguments.topic, arguments.partition)


def read_options(arguments: argparse.Namespace) -> ReadOptions:
    """Return the options of a read, of a command with `add_paths` and `add_choice`.

    Args:
        arguments: The command line. What the command has no option for keeps its default.
    """
    values = vars(arguments)
    rules = ReadRules(
        isolation_level=values.get("isolation_level", "read_uncommitted"),
        high_watermark=values.get("high_watermark", "checkpoint"),
        show_all=values.get("all", False),
    )
    return ReadOptions(
        paths=tuple(arguments.paths),
        selection=selection_of(arguments),
        offsets=values.get("offsets", OffsetRange()),
        rules=rules,
        is_compacted=_stated_compaction(values.get("config", [])),
        remotes=tuple(values.get("remotes", ())),
    )


def _stated_compaction(settings: list[tuple[str, str]]) -> bool | None:
    """Whether the last `cleanup.policy` of some settings compacts; None without one."""
    policies = [value for name, value in settings if name == "cleanup.policy"]
    return "compact" in policies[-1] if policies else None
