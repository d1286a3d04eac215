"""Which stretches of a log's offsets a replacement reads and writes, so that the table keeps its layout.

    part        one stretch of offsets that becomes one file: where an old file began, a new one begins
    connected   parts that share a file: all of them are rewritten, or none

A range between two files becomes a file of its own. A range inside a file is merged into it.
This module handles offsets and files. ``rewritten_file`` handles rows; ``replace`` handles requests and commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from spark_jobs.lake.delta.files.file_contents import read_contents
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.ledger.offset_ranges import Ranges, clipped, meets
from spark_jobs.lake.setup.compression import DEFAULT, Compression
from spark_jobs.row_files.archived_bytes import TASK_BYTES, ArchivedBytes, grouped
from spark_jobs.row_files.records_file import WriteTask
from spark_jobs.row_files.rewritten_file import TABLE, RowStretch

PART_BYTES = 4 * TASK_BYTES
"""Archived bytes above which a part is split even where no file begins."""


class MixedFile(Exception):
    """A file with rows of several logs: another engine merged it without regard to the layout."""


@dataclass(frozen=True, slots=True)
class LogOf:
    """The columns of a row that identify its log."""

    topic: str
    partition: int
    log_id: str


@dataclass(frozen=True, slots=True)
class FileSpan:
    """A live file with rows of one log, and the offsets [start, end) that it spans."""

    path: str
    start: int
    end: int
    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class SizedStretch:
    """A stretch, and the estimated bytes to read for it."""

    stretch: RowStretch
    size: int


class RecordFiles:
    """Looks up to which logs the rows of a table's files belong."""

    def __init__(self, lake: str, shared: Iterable[tuple[str, int]]) -> None:
        """Create the lookup.

        Args:
            shared: Topics and partitions of several logs of the lake, such as incarnations.
        """
        self._lake = lake
        self._shared = frozenset(shared)

    def of(self, files: Iterable[LiveFile], log: LogOf, ranges: Ranges) -> tuple[FileSpan, ...]:
        """The files with rows of the log that meet the ranges, by their first offset.

        Raises:
            MixedFile: One of them has rows of other logs too.
            FileUnreadable: One of them cannot be read, and its statistics do not name its log.
        """
        spans = []
        for file in files:
            if file.partition_values["topic"] != log.topic or not file.may_hold("partition", log.partition):
                continue
            if not file.may_hold("log_id", log.log_id):
                continue
            start, end, rows = file.min_offset, None if file.max_offset is None else file.max_offset + 1, file.rows
            if start is not None and end is not None and not meets(ranges, start, end):
                continue
            is_told = file.log_id is not None or (
                "log_id" not in file.least and (log.topic, log.partition) not in self._shared
            )
            if start is None or end is None or file.partition is None or rows < 0 or not is_told:
                logs = read_contents(self._lake, TABLE, file.path).logs
                held = logs.get((log.log_id, log.partition))
                if held is None or not meets(ranges, held.start, held.end):
                    continue
                if len(logs) > 1:
                    raise MixedFile(
                        f"the file {file.path} of the table {TABLE} has rows of several logs; rewrite it in the order "
                        "of the logs first"
                    )
                start, end, rows = held.start, held.end, held.rows
            spans.append(FileSpan(file.path, start, end, rows, file.size))
        return tuple(sorted(spans, key=lambda span: (span.start, span.path)))


def by_topic(files: Iterable[LiveFile]) -> dict[str, list[LiveFile]]:
    """Files by topic; all rows of a file have the same topic."""
    found: dict[str, list[LiveFile]] = {}
    for file in files:
        found.setdefault(file.partition_values["topic"], []).append(file)
    return found


def parts_of(
    log: LogOf,
    key: str,
    ranges: Ranges,
    visible: Ranges,
    files: Sequence[FileSpan],
    held: ArchivedBytes,
    *,
    begins: Iterable[int] = (),
    extra: str = "",
    published_ms: int | None = None,
    compression: Compression = DEFAULT,
) -> list[SizedStretch]:
    """The parts that tile the ranges and the files that meet them, in offset order.

    Args:
        key: Log key in the archive.
        visible: Offsets of the ranges that have rows.
        begins: Offsets where lost files began.
        extra: Columns that users added, as ``table_columns`` writes them.
        published_ms: Clock of the run, for rows that are written again.
        compression: Of the files that are written.
    """
    parts = []
    old_begins = {*begins, *(file.start for file in files)}
    for start, end in _joined([*ranges, *((file.start, file.end) for file in files)]):
        cuts = sorted({start, *(begin for begin in old_begins if start < begin < end)})
        for low, high in pairwise([*cuts, end]):
            for first, stop in _small_enough(key, clipped(visible, low, high), low, high, held):
                part = _part(log, key, ranges, visible, files, held, first, stop, extra, published_ms, compression)
                parts.append(part)
    return parts


def connected(parts: Sequence[SizedStretch], different: Iterable[SizedStretch]) -> list[SizedStretch]:
    """The parts that must be rewritten together with these, because a file is replaced as a whole."""
    chosen = set(different)
    while True:
        gone = {path for part in chosen for path in part.stretch.files}
        more = {part for part in parts if gone.intersection(part.stretch.files)} - chosen
        if not more:
            return [part for part in parts if part in chosen]
        chosen |= more


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join overlapping spans; spans that only touch stay separate."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def _small_enough(key: str, visible: Ranges, start: int, end: int, held: ArchivedBytes) -> list[tuple[int, int]]:
    """Split [start, end) where its archived bytes are too many for one file."""
    pieces = held.pieces(key, visible) if visible else []
    if sum(piece.end - piece.start for piece in pieces) <= PART_BYTES:
        return [(start, end)]
    cuts = [group[0].first_offset for group in grouped(pieces)]
    return list(pairwise([start, *(cut for cut in cuts[1:] if start < cut < end), end]))


def _part(
    log: LogOf,
    key: str,
    ranges: Ranges,
    visible: Ranges,
    files: Sequence[FileSpan],
    held: ArchivedBytes,
    start: int,
    end: int,
    extra: str,
    published_ms: int | None,
    compression: Compression,
) -> SizedStretch:
    shown = tuple(clipped(visible, start, end))
    pieces = tuple(held.pieces(key, shown)) if shown else ()
    mine = [file for file in files if file.start < end and file.end > start]
    source = WriteTask(held.lake, log.topic, log.log_id, log.partition, pieces, shown, published_ms, compression)
    stretch = RowStretch(
        source, start, end, tuple(clipped(ranges, start, end)), tuple(file.path for file in mine), extra
    )
    return SizedStretch(stretch, source.size + sum(file.size for file in mine))
