"""A log directory put together from what our maintenance makes of another, for a broker to start on.

The expectation for a consumer comes from what a real consumer found before, from the names and sizes of files and
from batch headers read with `struct`: the library has no part in it.
"""

from __future__ import annotations

import json
import shutil
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logcore.cli.main import main
from tests.kafka.conftest import LEVELS, Produced

CLEAN_MARKER = ".kafka_cleanshutdown"
ROOT_FILES = tuple(
    f"{name}-checkpoint"
    for name in ("recovery-point-offset", "log-start-offset", "replication-offset", "cleaner-offset")
)
DAY_MS = 86_400_000
EVERYTHING = ("--config", "min.cleanable.dirty.ratio=0", "--config", "cleanup.policy=compact")

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Expected:
    """What a broker and its consumers must say of a partition."""

    begins: int
    ends: int
    read: dict[str, list[Line]]
    """By isolation level: the records, as `Consume` writes them."""


@dataclass(frozen=True, slots=True)
class Before:
    """A partition as the broker left it, and what its consumers had read."""

    directory: Path
    running: Path
    """Of the copy that was taken while the broker ran."""
    begins: int
    ends: int
    stable: int
    read: dict[str, list[Line]]
    interval: str
    """The topic's `index.interval.bytes`."""
    as_of_ms: int
    """The clock after the broker stopped: the metadata names the topic by then. The broker's own clock decides which
    producers it has forgotten."""

    def shared(self, target: Path) -> tuple[object, ...]:
        """The options of every command."""
        interval = ("--config", f"index.interval.bytes={self.interval}")
        return ("--checkpoints-out", target.parent, "--as-of", self.as_of_ms, *interval)

    @property
    def bases(self) -> list[int]:
        return [int(path.stem) for path in segment_files(self.directory)]

    @property
    def cleanable_end(self) -> int:
        """Base of the segment that holds the last stable offset, or of the active one."""
        return max(base for base in self.bases if base <= min(self.stable, self.bases[-1]))


def partitions(produced: Produced) -> list[Before]:
    """Every partition that clients wrote to."""
    said = [line for line in map(json.loads, produced.said) if "settings" in line]
    intervals = {line["topic"]: line["settings"]["index.interval.bytes"] for line in said}
    now_ms = time.time_ns() // 1_000_000
    found = []
    for (topic, number), (begins, ends) in sorted(produced.bounds["read_uncommitted"].items()):
        name = f"{topic}-{number}"
        found.append(
            Before(
                produced.log_dir / name,
                produced.running / name,
                begins,
                ends,
                produced.bounds["read_committed"][topic, number][1],
                {level: produced.consumed[level].get((topic, number), []) for level in LEVELS},
                intervals[topic],
                now_ms,
            )
        )
    return found


def segment_files(directory: Path) -> list[Path]:
    """The logs of a partition directory, ascending."""
    return sorted(directory.glob("*.log"))


def loglake(*arguments: object, damaged: bool = False) -> None:
    """Run our command line; it must find nothing worse than a warning, or the damage that is there."""
    code = main([str(each) for each in arguments])
    assert code <= (2 if damaged else 1), f"exit {code}: {arguments}"


# What is done to a partition, and what must come of it


def compacted(before: Before, target: Path) -> Expected:
    """One round of cleaning."""
    loglake("compact", before.directory, "--out", target, *before.shared(target), *EVERYTHING)
    return _after_cleaning(before, drops_tombstones=False)


def compacted_twice(before: Before, target: Path) -> Expected:
    """Two rounds, the second when tombstones may go."""
    between = target.parent / "between" / target.name
    loglake("compact", before.directory, "--out", between, *before.shared(between), *EVERYTHING)
    later = ("--first-dirty-offset", before.begins, "--as-of", before.as_of_ms + 2 * DAY_MS)
    loglake("compact", between, "--out", target, *before.shared(target), *EVERYTHING, *later)
    shutil.rmtree(between.parent)
    return _after_cleaning(before, drops_tombstones=True)


def retained_by_size(before: Before, target: Path) -> Expected:
    """Retention by half of the size."""
    sizes = [path.stat().st_size for path in segment_files(before.directory)]
    limit = sum(sizes) // 2
    limits = ("--config", f"retention.bytes={limit}", "--config", "retention.ms=-1")
    loglake("retain", before.directory, "--out", target, *before.shared(target), *limits)
    gone, left = 0, sum(sizes)
    # Before that, what lies below the log start goes.
    while gone + 1 < len(sizes) and before.bases[gone + 1] <= before.begins:
        left, gone = left - sizes[gone], gone + 1
    while gone + 1 < len(sizes) and left - limit >= sizes[gone]:
        left, gone = left - sizes[gone], gone + 1
    return _from(before, max(before.begins, before.bases[gone]))


def records_deleted(before: Before, target: Path) -> Expected:
    """What deleteRecords up to the middle does, and then retention."""
    middle = (before.begins + before.ends) // 2
    limits = ("--config", "retention.ms=-1", "--delete-records-before", middle)
    loglake("retain", before.directory, "--out", target, *before.shared(target), *limits)
    return _from(before, middle)


def reindexed(before: Before, target: Path) -> Expected:
    """All side files made again from the logs alone."""
    bare = target.parent / "between" / target.name
    shutil.copytree(before.directory, bare, ignore=shutil.ignore_patterns("*index", "*.snapshot"))
    for name in ROOT_FILES:
        shutil.copy2(before.directory.parent / name, bare.parent / name)
    loglake("reindex", bare, "--out", target, *before.shared(target))
    shutil.rmtree(bare.parent)
    return _from(before, before.begins)


def recovered(before: Before, target: Path) -> Expected:
    """What an unclean start makes of a copy that was taken while the broker ran."""
    loglake("recover", before.running, "--out", target, *before.shared(target), "--log-start-offset", before.begins)
    return _from(before, before.begins)


def recovered_from_a_torn_tail(before: Before, target: Path) -> Expected:
    """The same with the first bytes of a batch after the last."""
    hurt = target.parent / "between" / target.name
    shutil.copytree(before.running, hurt)
    active = segment_files(hurt)[-1]
    content = active.read_bytes()
    active.write_bytes(content + (content or bytes(100))[:70])
    start = ("--log-start-offset", before.begins, "--recovery-point", 0)
    loglake("recover", hurt, "--out", target, *before.shared(target), *start, damaged=True)
    shutil.rmtree(hurt.parent)
    return _from(before, before.begins)


def recovered_from_a_flipped_bit(before: Before, target: Path) -> Expected:
    """The same with a wrong checksum in the middle: the log ends before it."""
    hurt = target.parent / "between" / target.name
    shutil.copytree(before.running, hurt)
    behind = [path for path in segment_files(hurt) if int(path.stem) >= before.begins] or segment_files(hurt)
    middle = behind[len(behind) // 2]
    content = bytearray(middle.read_bytes())
    found = [each for each in headers(bytes(content)) if each[2] >= before.begins]
    position, end, first = found[len(found) // 2][:3]
    content[end - 1] ^= 1
    middle.write_bytes(content)
    start = ("--log-start-offset", before.begins, "--recovery-point", 0)
    loglake("recover", hurt, "--out", target, *before.shared(target), *start, damaged=True)
    before_it = b"".join(path.read_bytes() for path in segment_files(hurt) if path.name < middle.name)
    stable = _stable(headers(before_it + bytes(content[:position])), first)
    shutil.rmtree(hurt.parent)
    ends = {"read_uncommitted": first, "read_committed": min(stable, before.stable)}
    read = {level: [line for line in before.read[level] if line["offset"] < ends[level]] for level in LEVELS}
    return Expected(before.begins, first, read)


RECOVERIES: Sequence[Callable[[Before, Path], Expected]] = (
    recovered,
    recovered_from_a_torn_tail,
    recovered_from_a_flipped_bit,
)
WAYS: Sequence[Callable[[Before, Path], Expected]] = (*(retained_by_size, records_deleted),)


def put_together(
    produced: Produced, data: Path, ways: Sequence[Callable[[Before, Path], Expected]]
) -> dict[str, tuple[str, Expected]]:
    """A log directory in which every partition that clients wrote to was maintained, in turn in each of these ways;
    Kafka's own are as they were. By partition directory: how, and what must be found."""
    before = partitions(produced)
    names = [each.directory.name for each in before]
    shutil.copytree(produced.log_dir, data, ignore=shutil.ignore_patterns(*names, *ROOT_FILES))
    made = {}
    for turn, each in enumerate(before):
        way = ways[turn % len(ways)]
        made[each.directory.name] = way.__name__, way(each, data / each.directory.name)
    shutil.rmtree(data / "between", ignore_errors=True)
    return made


def headers(content: bytes) -> list[tuple[int, int, int, int, int, int, int]]:
    """Position, end, base offset, last offset, attributes, producer id and control type (-1: none) of every batch."""
    found, at = [], 0
    while at + 61 <= len(content):
        base, length = struct.unpack_from(">qi", content, at)
        attributes, delta, _, _, producer = struct.unpack_from(">hiqqq", content, at + 21)
        end = at + 12 + length
        control = content[end - 9] if attributes & 0x20 else -1
        found.append((at, end, base, base + delta, attributes, producer, control))
        at = end
    return found


def _from(before: Before, begins: int) -> Expected:
    read = {level: [line for line in before.read[level] if line["offset"] >= begins] for level in LEVELS}
    return Expected(begins, before.ends, read)


def _after_cleaning(before: Before, *, drops_tombstones: bool) -> Expected:
    end = before.cleanable_end
    committed = {line["offset"] for line in before.read["read_committed"]}
    newest = {
        line["key"]: line["offset"]
        for line in before.read["read_uncommitted"]
        if line["key"] is not None and line["offset"] < end and line["offset"] in committed
    }

    def stays(line: Line) -> bool:
        if line["offset"] >= end:
            return True
        if drops_tombstones and line["value"] is None:
            return False
        return newest.get(line["key"]) == line["offset"]

    read = {level: [line for line in before.read[level] if stays(line)] for level in LEVELS}
    return Expected(before.begins, before.ends, read)


def _stable(batches: Sequence[tuple[int, int, int, int, int, int, int]], end: int) -> int:
    """First offset of a transaction that is open at the end, else the end."""
    opened: dict[int, int] = {}
    for _, _, base, _, attributes, producer, control in batches:
        if control >= 0:
            opened.pop(producer, None)
        elif attributes & 0x10:
            opened.setdefault(producer, base)
    return min(opened.values(), default=end)
