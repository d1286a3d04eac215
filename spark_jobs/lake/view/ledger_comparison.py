"""Whether ``records`` has the rows that the offset ledger counts: a comparison by statistics, file by file.

Whether the files of ``records`` have exactly the rows that the ledger says are published, by statistics if possible.

For each file the Delta log keeps the number of rows and their least and greatest offset. So a log's published rows can
be proved file by file: all offsets of one file are before those of the next, and each has as many rows as the ledger
counts published records up to its end. If a file ends inside a range whose gaps are only counted, it is combined with
the next one.

Other engines join the rows of several logs in one file, and leave files of one log that overlap. Such files are opened
(``file_contents``), and each range of a log's offsets in one of them counts as a file of its own.

``expectations`` and ``replace`` check whether rows are equal to the archive.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from logcore.logs.model.findings import found, offsets_text
from spark_jobs.lake.delta.files.file_contents import FileUnreadable, LogKey, OffsetCounts, read_contents
from spark_jobs.lake.delta.files.live_files import LiveFile, newest_files
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.ledger.finding_rows import record
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.segments.ledger_ranges import with_published
from spark_jobs.placed_finding import PlacedFinding


@dataclass(frozen=True, slots=True)
class Difference:
    """Offsets [start_offset, end_offset) of a log, in which ``records`` has other rows than it should."""

    log: str
    topic: str
    partition: int
    start_offset: int
    end_offset: int
    expected: int
    """Number of published records in the ledger."""
    found: int
    """Number of rows in the files' statistics, or counted in files of several logs."""
    what: str

    @property
    def topic_partition(self) -> str:
        """Kafka's directory name."""
        return f"{self.topic}-{self.partition}"

    @property
    def offsets(self) -> str:
        """``[3, 9)``."""
        return offsets_text(self.start_offset, self.end_offset)

    @property
    def counts(self) -> str:
        """``5 rows, the ledger counts 6 (rows are missing)``."""
        return f"{self.found} rows, the ledger counts {self.expected} ({self.what})"

    @property
    def message(self) -> str:
        """The text of a finding about the difference."""
        return f"{self.topic_partition}, offsets {self.offsets}: {self.counts}"


@dataclass(frozen=True, slots=True)
class Section:
    """Rows of one log in one file; no other file has rows of the log between their offsets."""

    path: str
    least: int
    greatest: int
    rows: int


@dataclass(frozen=True, slots=True)
class FileShare:
    """The rows of one log in a file."""

    file: LiveFile
    least: int
    greatest: int
    rows: int
    offsets: OffsetCounts | None
    """None: its statistics are sufficient."""


def differences(lake: str, logs: Sequence[str] | None = None) -> tuple[Difference, ...]:
    """Return where table and ledger differ, by log and offset; empty if every published record is there once.

    Args:
        logs: Log keys to check; None: all, with rows of logs that have no ledger.
    """
    ledger = frontier.read_ledger(lake, logs)
    frontiers = frontier.read_frontiers(lake, list(ledger))
    keys = {(row.log_id, row.partition) for rows in ledger.values() for row in rows[:1]}
    parts: dict[str, list[FileShare]] = {}
    topics: dict[str, tuple[str, int]] = {}
    found: list[Difference] = []
    for file in newest_files(lake, "records"):
        if logs is not None and not any(file.may_have(*key) for key in keys):
            continue
        try:
            held = _parts(lake, file)
        except FileUnreadable as unreadable:
            found.append(_strange(file, str(unreadable)))
            continue
        for (log_id, partition), part in held.items():
            log = f"{log_id}/{partition}"
            topics[log] = file.partition_values["topic"], partition
            parts.setdefault(log, []).append(part)
    for log in sorted(ledger if logs is not None else ledger.keys() | parts.keys()):
        rows = with_published(lake, ledger.get(log, ()), frontiers.get(log))
        place = (rows[0].topic, rows[0].partition) if rows else topics[log]
        sections, unreadable_files = _sections(lake, log, parts.get(log, []))
        found += [_strange(file, why) for file, why in unreadable_files]
        found += _of_log(log, *place, rows, sections)
    return tuple(found)


def _parts(lake: str, file: LiveFile) -> dict[LogKey, FileShare]:
    """Return the rows of each log in a file; by its statistics if they show that it has only one log."""
    least, greatest = file.min_offset, file.max_offset
    if file.log is not None and least is not None and greatest is not None and file.rows >= 0:
        return {(str(file.log_id), int(file.partition or 0)): FileShare(file, least, greatest, file.rows, None)}
    return {
        key: FileShare(file, offsets.start, offsets.end - 1, offsets.rows, offsets)
        for key, offsets in read_contents(lake, "records", file.path).logs.items()
    }


def _sections(lake: str, log: str, parts: list[FileShare]) -> tuple[list[Section], list[tuple[LiveFile, str]]]:
    """Return a log's parts in offset order; overlapping parts are cut where one continues instead of the other."""
    sections: list[Section] = []
    unreadable: list[tuple[LiveFile, str]] = []
    parts.sort(key=lambda part: (part.least, part.greatest, part.file.path))
    for group in _overlapping(parts):
        if len(group) == 1:
            sections.append(Section(group[0].file.path, group[0].least, group[0].greatest, group[0].rows))
            continue
        cut: list[Section] = []
        for part in group:
            try:
                cut += _cut(lake, log, part)
            except FileUnreadable as error:
                unreadable.append((part.file, str(error)))
        for section in sorted(cut, key=lambda each: (each.least, each.greatest)):
            last = sections[-1] if sections else None
            if last is not None and last.path == section.path and last.greatest < section.least:
                sections[-1] = Section(last.path, last.least, section.greatest, last.rows + section.rows)
            else:
                sections.append(section)
    return sections, unreadable


def _overlapping(parts: Sequence[FileShare]) -> Iterator[list[FileShare]]:
    group: list[FileShare] = []
    reached = -1
    for part in parts:
        if group and part.least > reached:
            yield group
            group = []
        group.append(part)
        reached = max(reached, part.greatest)
    if group:
        yield group


def _cut(lake: str, log: str, part: FileShare) -> Iterator[Section]:
    offsets = part.offsets
    if offsets is None:
        held = read_contents(lake, "records", part.file.path).logs
        offsets = next((o for (log_id, partition), o in held.items() if f"{log_id}/{partition}" == log), None)
    if offsets is None:
        return
    for start, end in offsets.stretches():
        yield Section(part.file.path, start, end - 1, offsets.below(end) - offsets.below(start))


def _strange(file: LiveFile, why: str) -> Difference:
    topic, partition = file.partition_values.get("topic", ""), file.partition
    start, end = file.min_offset or 0, -1 if file.max_offset is None else file.max_offset
    return Difference("", topic, -1 if partition is None else partition, start, end + 1, 0, max(file.rows, 0), why)


def _of_log(
    log: str, topic: str, partition: int, ledger: Sequence[LedgerRow], files: Sequence[Section]
) -> Iterator[Difference]:
    published = [r for r in ledger if r.has_rows]

    def difference(start: int, end: int, expected: int, found: int, what: str) -> Difference:
        return Difference(log, topic, partition, start, end, expected, found, what)

    count = _Counts(published)
    for before, after in pairwise(files):
        start, end = after.least, before.greatest + 1
        if start < end:
            yield difference(start, end, 0, 0, f"the files {before.path} and {after.path} both hold offsets there")
    start = rows = 0
    first = None
    for number, file in enumerate(files):
        rows += file.rows
        first = file if first is None else first
        border = file.greatest + 1
        is_last = number == len(files) - 1
        room = count.end if is_last else files[number + 1].least
        at = count.countable(border, max(border, room))
        if at is None and not is_last:
            continue
        end = max(count.end, border) if at is None or is_last else at
        expected = count.below(end) - count.below(start)
        if rows != expected:
            yield difference(start, end, expected, rows, "rows and published records differ in number")
        elif not (count.holds(first.least) and count.holds(border - 1)):
            yield difference(first.least, border, expected, rows, "rows lie where none is published")
        start, rows, first = end, 0, None
    if not files and count.below(count.end):
        yield difference(published[0].start_offset, count.end, count.below(count.end), 0, "no file holds any of them")


class _Counts:
    """How many published records lie below an offset."""

    def __init__(self, published: Sequence[LedgerRow]) -> None:
        self._ranges = published
        self._starts = [r.start_offset for r in published]
        self._before = [0, *accumulate(r.records for r in published)]
        self.end = published[-1].end_offset if published else 0

    def below(self, offset: int) -> int:
        """Return the number of records below an offset that is not among gaps."""
        place = bisect_right(self._starts, offset) - 1
        if place < 0:
            return 0
        each = self._ranges[place]
        inside = each.records if offset >= each.end_offset else offset - each.start_offset
        return self._before[place] + inside

    def countable(self, offset: int, latest: int) -> int | None:
        """Return the first from ``offset`` to ``latest`` at which records can be counted; None: there is none."""
        place = bisect_right(self._starts, offset) - 1
        if place < 0:
            return offset
        each = self._ranges[place]
        if not each.gaps or offset >= each.end_offset or offset == each.start_offset:
            return offset
        return each.end_offset if each.end_offset <= latest else None

    def holds(self, offset: int) -> bool:
        """Return whether an offset lies in a published range."""
        place = bisect_right(self._starts, offset) - 1
        return place >= 0 and offset < self._ranges[place].end_offset


@dataclass(frozen=True, slots=True)
class LedgerComparison:
    """A comparison of the table ``records`` with the ledger."""

    lake: str
    differences: tuple[Difference, ...]
    """Differences by log and offset; empty: every published record is there once."""

    def record(self, run_id: str, as_of_ms: int) -> None:
        """Append the differences of known logs to the table ``findings``, each once.

        Raises:
            ConcurrentChange: Other runs kept recording findings meanwhile.
        """
        placed = []
        for each in self.differences:
            if each.log:
                finding = found(
                    "rows-differ-from-ledger",
                    each.message,
                    start_offset=each.start_offset,
                    end_offset=each.end_offset,
                )
                placed.append(PlacedFinding(finding, each.log, each.topic, each.partition))
        record(self.lake, placed, run_id, as_of_ms)


def compare_with_ledger(lake: str, logs: Sequence[str] | None = None) -> LedgerComparison:
    """Compare table and ledger.

    Args:
        logs: Log keys to check; None: all, with rows of logs that have no ledger.

    Raises:
        TableUnreadable: A table cannot be read.
    """
    return LedgerComparison(lake, differences(lake, logs))
