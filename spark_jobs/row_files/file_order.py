"""Which files of a table of records must be reordered, and the files of one log each that replace them.

Other engines join rows of several logs in one file, write rows in any order, and write files of one log that overlap.
All rows of such files go into new files: per log, in offset order. No new file spans a file that stays.

    order   files that share rows of a log, directly or through others: replaced together, in one commit
    task    adjacent outputs of an order, about as many bytes as a file should have; one worker writes them
    output  a range of offsets of one log, which becomes one file

Pure: input is files and their contents, output is orders. ``ordered_files`` reads and writes the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from spark_jobs.lake.delta.files.file_contents import FileContents, LogKey, OffsetCounts
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.store.written_file import is_own_file


@dataclass(frozen=True, slots=True)
class OutputRange:
    """Offsets [start, end) of one log, whose ``rows`` rows become one file."""

    log_id: str
    partition: int
    start: int
    end: int
    rows: int
    size: int
    """Estimated bytes of these rows in the old files."""
    digest: str
    """Digest of the offsets, from :meth:`OffsetCounts.digest`."""
    paths: tuple[str, ...]
    """Files with rows of the range."""


@dataclass(frozen=True, slots=True)
class Order:
    """Files that are replaced together, and their replacements."""

    table: str
    topic: str
    files: tuple[LiveFile, ...]
    tasks: tuple[tuple[OutputRange, ...], ...]
    rows: int

    @property
    def size(self) -> int:
        """Bytes that are read, at least once."""
        return sum(file.size for file in self.files)

    @property
    def outputs(self) -> list[OutputRange]:
        """What all tasks write, in order."""
        return [output for task in self.tasks for output in task]


@dataclass(frozen=True, slots=True)
class _Held:
    """Rows of one log in a file. ``offsets`` is None where only the file's statistics are known."""

    file: LiveFile
    start: int
    end: int
    offsets: OffsetCounts | None


def log_in_statistics(file: LiveFile, log_ids: Mapping[tuple[str, int], Sequence[str]]) -> LogKey | None:
    """The only log in a file, if its statistics give the log, its offsets and the number of rows.

    Args:
        log_ids: Incarnations by topic and partition. If there is only one, a file without log id in its statistics
            belongs to it.
    """
    partition = file.partition
    if partition is None or file.min_offset is None or file.max_offset is None or file.rows < 0:
        return None
    log_id = file.log_id
    if log_id is None and "log_id" not in file.least:
        known = log_ids.get((file.partition_values["topic"], partition), ())
        log_id = known[0] if len(known) == 1 else None
    return None if log_id is None else (log_id, partition)


def to_open(
    files: Sequence[LiveFile],
    log_ids: Mapping[tuple[str, int], Sequence[str]],
    contents: Mapping[str, FileContents],
) -> list[LiveFile]:
    """Files of one topic, besides those of ``contents``, that must be opened to decide whether they are in order.

    The contents of one file may require opening others. Call again until the result is empty.
    """
    chosen: set[str] = set()
    for file in files:
        if file.path not in contents and (log_in_statistics(file, log_ids) is None or not is_own_file(file.path)):
            chosen.add(file.path)
    for held in _by_log(files, log_ids, contents).values():
        for group in _overlapping(held):
            if len(group) > 1:
                chosen |= {each.file.path for each in group if each.offsets is None}
    return [file for file in files if file.path in chosen]


def _by_log(
    files: Sequence[LiveFile],
    log_ids: Mapping[tuple[str, int], Sequence[str]],
    contents: Mapping[str, FileContents],
) -> dict[LogKey, list[_Held]]:
    by_log: dict[LogKey, list[_Held]] = {}
    for file in files:
        opened, key = contents.get(file.path), log_in_statistics(file, log_ids)
        if opened is not None:
            for each, offsets in opened.logs.items():
                by_log.setdefault(each, []).append(_Held(file, offsets.start, offsets.end, offsets))
        elif key is not None:
            by_log.setdefault(key, []).append(_by_statistics(file))
    return by_log


def orders_of(
    table: str,
    topic: str,
    files: Sequence[LiveFile],
    contents: Mapping[str, FileContents],
    log_ids: Mapping[tuple[str, int], Sequence[str]],
    target: int,
    ends: Mapping[str, int | None] | None = None,
) -> list[Order]:
    """Orders for one topic; empty where each file has rows of one log only, and no two files overlap.

    Args:
        contents: Contents of the files that were opened, by path. For other files the statistics are used.
        ends: By log key: no output spans this offset. None: no limits.
    """
    by_log = _by_log(files, log_ids, contents)
    # A file whose statistics do not give its log would prevent merges of small files of its topic.
    known = {file.path for file in files if log_in_statistics(file, log_ids) is not None}
    disordered = {path for path, held in contents.items() if not held.is_ordered or path not in known}
    for held in by_log.values():
        for group in _overlapping(held):
            # A file that could not be opened stays, and so do the files that overlap it.
            if len(group) > 1 and all(each.offsets is not None for each in group):
                disordered |= {each.file.path for each in group}
    outputs = [
        output
        for key, held in sorted(by_log.items())
        for output in _outputs(key, held, disordered, target, None if ends is None else ends.get(_named(key)) or 0)
    ]
    named = {file.path: file for file in files}
    return [
        Order(
            table,
            topic,
            tuple(named[path] for path in sorted(paths)),
            tuple(_tasks(of_group, target)),
            sum(contents[path].rows for path in paths),
        )
        for paths, of_group in _connected(disordered, outputs)
    ]


def _named(key: LogKey) -> str:
    return f"{key[0]}/{key[1]}"


def _by_statistics(file: LiveFile) -> _Held:
    return _Held(file, file.least["offset"], file.greatest["offset"] + 1, None)


def _overlapping(held: Iterable[_Held]) -> Iterator[list[_Held]]:
    """Group entries of one log that have offsets in common, directly or through others of the group."""
    group: list[_Held] = []
    reached = -1
    for each in sorted(held, key=lambda each: (each.start, each.end, each.file.path)):
        if group and each.start >= reached:
            yield group
            group = []
        group.append(each)
        reached = max(reached, each.end)
    if group:
        yield group


def _outputs(
    key: LogKey, held: Sequence[_Held], disordered: set[str], target: int, end: int | None
) -> Iterator[OutputRange]:
    """Offset ranges of a log in disordered files, split at files that stay, at ``end``, and by size."""
    run: list[_Held] = []
    for each in sorted(held, key=lambda each: (each.start, each.end)):
        if each.file.path in disordered:
            run.append(each)
        elif run:
            yield from _cut(key, run, target, end)
            run = []
    if run:
        yield from _cut(key, run, target, end)


def _cut(key: LogKey, run: Sequence[_Held], target: int, end: int | None) -> Iterator[OutputRange]:
    parts = [(each.file, each.offsets) for each in run if each.offsets is not None]
    whole = OffsetCounts.together(offsets for _, offsets in parts)
    borders = {whole.start, whole.end} | ({end} if end is not None and whole.start < end < whole.end else set())
    for low, high in pairwise(sorted(borders)):
        first, last = whole.below(low), whole.below(high)
        size = sum(_size(file, offsets.below(high) - offsets.below(low)) for file, offsets in parts)
        count = max(1, round(size / target))
        cuts = sorted({low, high, *(whole.at_row(first + (last - first) * i // count) for i in range(1, count))})
        for start, stop in pairwise(cut for cut in cuts if low <= cut <= high):
            rows = whole.below(stop) - whole.below(start)
            if rows:
                mine = [(file, o.below(stop) - o.below(start)) for file, o in parts]
                yield OutputRange(
                    *key,
                    start,
                    stop,
                    rows,
                    sum(_size(file, count) for file, count in mine),
                    whole.clipped(start, stop).digest(),
                    tuple(sorted({file.path for file, count in mine if count})),
                )


def _size(file: LiveFile, rows: int) -> int:
    return file.size * rows // max(file.rows, rows, 1)


def _tasks(outputs: Sequence[OutputRange], target: int) -> Iterator[tuple[OutputRange, ...]]:
    task: list[OutputRange] = []
    size = 0
    for output in outputs:
        if task and size + output.size > target:
            yield tuple(task)
            task, size = [], 0
        task.append(output)
        size += output.size
    if task:
        yield tuple(task)


def _connected(disordered: Iterable[str], outputs: Sequence[OutputRange]) -> list[tuple[set[str], list[OutputRange]]]:
    """Group files and outputs into sets that share nothing with each other."""
    leader = {path: path for path in disordered}

    def of(path: str) -> str:
        while leader[path] != path:
            leader[path] = path = leader[leader[path]]
        return path

    for output in outputs:
        for path in output.paths[1:]:
            leader[of(path)] = of(output.paths[0])
    groups: dict[str, tuple[set[str], list[OutputRange]]] = {}
    for path in sorted(leader):
        groups.setdefault(of(path), (set(), []))[0].add(path)
    for output in outputs:
        groups[of(output.paths[0])][1].append(output)
    return list(groups.values())
