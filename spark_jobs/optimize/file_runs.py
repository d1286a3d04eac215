"""Which small files of a table are merged: runs of adjacent files in the table's order, and how many files they become.

Pure: input is add actions, output is merges. For the tables of records a run has files of one log only, and never skips
a file that is between two others. The other tables are small; their files are merged in the order of their rows.

A second plan after the merges is empty: each merged file is either not small, or its neighbours are not small.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from spark_jobs.groups import by_key
from spark_jobs.lake.delta.files.live_files import LiveFile

FILE_OVERHEAD = 4096
"""Minimum size of a file's footer, in bytes. It is not copied into a merged file."""

FULL_ROWS = 500_000
"""A file with this many rows is not small, whatever its bytes: more rows would be hard to sort at once."""

SEPARATED_FILES = 10
"""Number of files that are merged at once if they hold history, which no plan opens: a merge writes all of it again."""

TASK_OUTPUTS = 8
"""Maximum number of merged files per task."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """File sizes in bytes: files below ``small`` are merged into files near ``target``."""

    small: int
    target: int


@dataclass(frozen=True, slots=True)
class Merge:
    """Files that become ``outputs`` files, with their rows in this order. One task."""

    table: str
    partition_values: Mapping[str, str]
    files: tuple[LiveFile, ...]
    outputs: int
    topic: str | None = None
    log_id: str | None = None
    partition: int | None = None
    separated_by: str | None = None
    """Column whose values get a file each."""

    @property
    def separates(self) -> bool:
        """Whether it only separates the rows of one file, so that its small parts may be merged next."""
        return len(self.files) == 1

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(file.size for file in self.files)

    @property
    def rows(self) -> int:
        """Rows, as the statistics count them."""
        return sum(file.rows for file in self.files)

    @property
    def log(self) -> str | None:
        """Log key; None in a table whose files have rows of several logs."""
        return None if self.log_id is None else f"{self.log_id}/{self.partition}"


def log_merges(
    table: str,
    files: Iterable[LiveFile],
    sizes: Sizes,
    log_ids: Mapping[tuple[str, int], Sequence[str]],
    ends: Mapping[str, int | None] | None = None,
) -> tuple[list[Merge], list[str]]:
    """Plan merges of a table whose files have rows of one log each: of records, or of a topic.

    Also returns the topics that are skipped because the log of a file is unknown.

    Args:
        log_ids: Incarnations by topic and partition.
        ends: By log key: files that reach this offset are not merged. None: no limits.
    """
    merges: list[Merge] = []
    unplaced: list[str] = []
    own = table.partition("/")[2]
    by_topic = sorted(files, key=lambda file: file.partition_values.get("topic", own))
    for topic, of_topic in groupby(by_topic, key=lambda file: file.partition_values.get("topic", own)):
        logs: dict[tuple[str, int], list[LiveFile]] = {}
        for file in of_topic:
            place = file.log_in_statistics(log_ids)
            if place is None:
                unplaced.append(topic)
                break
            logs.setdefault(place, []).append(file)
        else:
            for (log_id, partition), of_log in sorted(logs.items()):
                end = None if ends is None else ends.get(f"{log_id}/{partition}") or 0
                for run in _runs(of_log, sizes.small, end):
                    for part, outputs in _tasks(run, sizes.target):
                        values = part[0].partition_values
                        merges.append(Merge(table, values, tuple(part), outputs, topic, log_id, partition))
    return merges, unplaced


def state_merges(table: str, files: Iterable[LiveFile], sizes: Sizes, separated_by: str | None = None) -> list[Merge]:
    """Plan merges of a state table: all its small files, ordered by their first rows.

    Args:
        separated_by: Only files with the same value of this column are merged. A file that mixes values is rewritten,
            also if it is not small: the worker separates its rows.
    """
    sortable = [f for f in files if 0 <= f.rows < FULL_ROWS]
    if separated_by is None:
        return [Merge(table, {}, group, 1) for group in _groups(sortable, sizes.small)]
    mixed = [file for file in sortable if file.mixes(separated_by)]
    pure = by_key((f for f in sortable if not f.mixes(separated_by)), lambda file: file.only(separated_by))
    groups: list[tuple[LiveFile, ...]] = [(file,) for file in mixed]
    for value, of_value in pure.items():
        groups += _groups(of_value, sizes.small, 2 if value is None else SEPARATED_FILES)
    return [Merge(table, {}, group, 1, separated_by=separated_by) for group in groups]


def _groups(files: Iterable[LiveFile], small: int, least: int = 2) -> list[tuple[LiveFile, ...]]:
    """Small files that become one, if there are at least ``least`` small ones."""
    found = sorted((file for file in files if file.size < small), key=_first_row)
    if len(found) < least:
        return []
    groups: list[list[LiveFile]] = []
    for file in found:
        if not groups or _is_full(groups[-1], small):
            groups.append([])
        groups[-1].append(file)
    if len(groups) > 1 and not _is_full(groups[-1], small):
        groups[-2] += groups.pop()  # otherwise it would be another small file, merged again and again
    return [tuple(group) for group in groups if len(group) > 1]


def _runs(files: Iterable[LiveFile], small: int, end: int | None) -> list[list[LiveFile]]:
    """Runs of at least two small adjacent files of one log. A file that overlaps an earlier one is not merged."""
    runs: list[list[LiveFile]] = [[]]
    reached = -1
    for file in sorted(files, key=lambda file: (file.least["offset"], file.path)):
        overlaps = file.least["offset"] <= reached
        reached = max(reached, file.greatest["offset"])
        if file.size < small and not overlaps and (end is None or reached < end):
            runs[-1].append(file)
        else:
            runs.append([])
    return [run for run in runs if len(run) > 1]


def _tasks(run: Sequence[LiveFile], target: int) -> list[tuple[Sequence[LiveFile], int]]:
    """Split a run into parts of nearly equal size, each with the number of files that it becomes."""
    total = sum(map(_payload, run))
    outputs = -(-total // target)
    tasks = -(-outputs // TASK_OUTPUTS)
    parts: list[list[LiveFile]] = [[] for _ in range(tasks)]
    before = 0
    for file in run:
        parts[min(before * tasks // total, tasks - 1)].append(file)
        before += _payload(file)
    return [(part, max(1, round(sum(map(_payload, part)) * outputs / total))) for part in parts if len(part) > 1]


def _payload(file: LiveFile) -> int:
    return max(file.size - FILE_OVERHEAD, 1)


def _is_full(files: Iterable[LiveFile], small: int) -> bool:
    files = tuple(files)
    return sum(map(_payload, files)) >= small or sum(file.rows for file in files) >= FULL_ROWS


def _first_row(file: LiveFile) -> tuple[str, int, str]:
    offset = next((file.least[c] for c in ("base_offset", "start_offset", "first_offset") if c in file.least), 0)
    return str(file.least.get("log") or ""), offset or 0, file.path
