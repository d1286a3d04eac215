"""Rows against ledger through a shuffle: a task reads the offsets of a file, another one compares ranges of logs.

What moves are runs of neighbouring offsets, one block for each file and range: a row for each record would cost more
than the rest of the verification. So neither the driver nor one task has all offsets of a large log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake_verification.files import offsets_in
from spark_jobs.lake_verification.published_offsets import ComparedOffsets, ExpectedOffsets
from spark_jobs.lake_verification.runs import HeldOffsets, Offsets
from spark_jobs.lake_verification.verified_thing import DataUnreadable
from spark_jobs.reads import Reads
from spark_jobs.tasks.shuffle import Block, Blocks, Shuffle, ShufflingExecutor, shuffled

PART_ROWS = 1 << 20
"""Rows that a task compares, or those of one file if it has more."""
_LEAST, _GREATEST = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class ComparedLog:
    """A log, what its ledger says, and the files that may have rows of it."""

    log: str
    expected: ExpectedOffsets
    files: Sequence[LiveFile]


@dataclass(frozen=True, slots=True)
class ComparedRange:
    """Offsets of a log that are compared at once."""

    log: str
    start: int
    end: int
    expected: ExpectedOffsets


@dataclass(frozen=True, slots=True)
class Cuts:
    """The ranges of a log: all offsets, in order.

    Attributes:
        bounds: First offset of each range, and the end of the last.
        parts: The part that has each range.
        places: The place of each range in its part.
    """

    bounds: Offsets
    parts: Offsets
    places: Offsets


@dataclass(frozen=True, slots=True)
class FileTask:
    """Reads the offsets of a file. Its statistics do not say which ranges it has: they may be wrong."""

    lake: str
    path: str
    number: int
    cuts: dict[str, Cuts] = field(default_factory=dict)

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return Reads("offsets", self.path)


def compare_shuffled(executor: ShufflingExecutor, lake: str, logs: Sequence[ComparedLog]) -> dict[str, ComparedOffsets]:
    """Compare the rows of logs with their ledgers; returns the result by log."""
    parts: list[list[ComparedRange]] = []
    tasks: dict[str, FileTask] = {}
    sizes: dict[str, int] = {}
    room = 0
    for each in logs:
        bounds, counts = _bounds(each.files)
        places = []
        for start, end, rows in zip(bounds, bounds[1:], counts, strict=False):
            if not parts or rows > room:
                parts.append([])
                room = PART_ROWS
            room -= rows
            places.append((len(parts) - 1, len(parts[-1])))
            parts[-1].append(ComparedRange(each.log, start, end, each.expected.within(start, end)))
        cuts = Cuts(np.array(bounds), *np.array(places).T)
        for file in each.files:
            tasks.setdefault(file.path, FileTask(lake, file.path, len(tasks))).cuts[each.log] = cuts
            sizes[file.path] = file.size
    if not parts:
        return {}
    shuffle = Shuffle(emit_offsets, list(tasks.values()), compare_ranges, parts, sizes=list(sizes.values()))
    found: dict[str, list[ComparedOffsets]] = {}
    for part, compared in zip(parts, shuffled(executor, shuffle), strict=True):
        for chosen, one in zip(part, compared, strict=True):
            found.setdefault(chosen.log, []).append(one)
    return {log: ComparedOffsets.joined(of_log) for log, of_log in found.items()}


def _bounds(files: Sequence[LiveFile]) -> tuple[list[int], list[int]]:
    """Cut a log where files end: the bounds of its ranges, and about how many rows lie in each range."""
    bounds, counts = [_LEAST], [0]
    reached = _LEAST
    for file in sorted(files, key=_end_of):
        rows = PART_ROWS if file.rows < 0 else file.rows
        if counts[-1] and counts[-1] + rows > PART_ROWS and bounds[-1] < reached:
            bounds.append(reached)
            counts.append(0)
        counts[-1] += rows
        reached = _end_of(file)
    return [*bounds, _GREATEST], counts


def _end_of(file: LiveFile) -> int:
    return _GREATEST if file.max_offset is None else file.max_offset + 1


def emit_offsets(task: FileTask, only: int | None) -> Iterator[Block]:
    """Send the offsets of a file to their ranges. A damaged file has none: its own verification reports it."""
    try:
        runs = offsets_in(task.lake, "records", task.path)
    except (DataUnreadable, FileNotFoundError):
        return
    for log, cuts in task.cuts.items():
        if log not in runs:
            continue
        starts, ends = runs[log].spans()
        for at, part in enumerate(cuts.parts.tolist()):
            first, end = cuts.bounds[at], cuts.bounds[at + 1]
            inside = (starts < end) & (ends > first)
            if only in (None, part) and inside.any():
                held = np.maximum(starts[inside], first), np.minimum(ends[inside], end)
                yield Block(part, task.number, np.concatenate((cuts.places[at : at + 1], *held)).tobytes())


def compare_ranges(ranges: Sequence[ComparedRange], blocks: Blocks) -> list[ComparedOffsets]:
    """Compare each of some ranges with the ledger."""
    held: Mapping[int, list[tuple[Offsets, Offsets]]] = {at: [] for at in range(len(ranges))}
    for content in blocks():
        numbers: Offsets = np.frombuffer(content, np.int64)
        middle = 1 + len(numbers) // 2
        held[int(numbers[0])].append((numbers[1:middle], numbers[middle:]))
    return [
        each.expected.compare(HeldOffsets.of_spans(held[at]), each.start, each.end) for at, each in enumerate(ranges)
    ]
