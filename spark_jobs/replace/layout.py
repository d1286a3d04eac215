"""Which stretches of a log's offsets a replacement reads and writes, so that the table keeps its layout.

    part        one stretch of offsets that becomes one file: where an old file began, a new one begins
    connected   parts that share a file: all of them are rewritten, or none
    disordered  a part whose rows are not in one file of one log in the order of offsets: other engines leave such files

A range between two files becomes a file of its own. A range inside a file is merged into it. Of a file with rows of
several logs, the rows of each log are a span of their own.
This module handles offsets and files. ``rewritten_file`` handles rows; ``replace`` handles requests and commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from spark_jobs.archived_rows.archived_bytes import TASK_BYTES, ArchivedBytes, grouped
from spark_jobs.archived_rows.records_file import WriteTask
from spark_jobs.groups import by_key
from spark_jobs.lake.delta.files.file_contents import LogKey, read_contents
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.ledger.offset_ranges import clipped, meets
from spark_jobs.lake.store.written_file import is_own_file
from spark_jobs.policies.compression import DEFAULT, Compression
from spark_jobs.replace.request import LogRequest
from spark_jobs.replace.rewritten_file import TABLE, RowStretch

PART_BYTES = 4 * TASK_BYTES
"""Archived bytes above which a part is split even where no file begins."""


DISORDERED_BYTES = TASK_BYTES // 2
"""Bytes of files above which a disordered part is split: its rows are sorted in memory."""


@dataclass(frozen=True, slots=True)
class FileSpan:
    """The rows of one log in a live file, and the offsets [start, end) that they span."""

    path: str
    start: int
    end: int
    rows: int
    size: int
    """Bytes; in a file of several logs the log's share of them."""
    is_ordered: bool = True
    """Whether the file has rows of this log only, and their offsets never decrease from row to row."""
    logs: tuple[LogKey, ...] = ()
    """All logs of the file, if it was opened to learn them."""


@dataclass(frozen=True, slots=True)
class SizedStretch:
    """A stretch, and the estimated bytes to read for it."""

    stretch: RowStretch
    size: int
    is_disordered: bool = False


class RecordFiles:
    """Looks up to which logs the rows of a table's files belong."""

    def __init__(self, lake: str, log_ids: Mapping[tuple[str, int], Sequence[str]]) -> None:
        """Create the lookup.

        Args:
            log_ids: Incarnations by topic and partition.
        """
        self._lake = lake
        self._log_ids = log_ids

    def of(self, files: Iterable[LiveFile], request: LogRequest) -> tuple[FileSpan, ...]:
        """The rows of the log in files that meet the request, by their first offset.

        Raises:
            FileUnreadable: One of them cannot be read, and another engine wrote it.
        """
        key = request.log_id, request.partition
        spans = []
        for file in files:
            if file.partition_values["topic"] != request.topic or not file.may_have(*key):
                continue
            start, end = file.min_offset, None if file.max_offset is None else file.max_offset + 1
            if start is not None and end is not None and not _is_met(request, file.path, start, end):
                continue
            rows, size, is_ordered = file.rows, file.size, True
            logs: tuple[LogKey, ...] = ()
            is_told = is_own_file(file.path) and file.log_in_statistics(self._log_ids) is not None
            if start is None or end is None or not is_told:
                contents = read_contents(self._lake, TABLE, file.path)
                held = contents.logs.get(key)
                if held is None or not _is_met(request, file.path, held.start, held.end):
                    continue
                start, end, rows = held.start, held.end, held.rows
                size = file.size * rows // contents.rows
                is_ordered, logs = contents.is_ordered, tuple(sorted(contents.logs))
            spans.append(FileSpan(file.path, start, end, rows, size, is_ordered, logs))
        return tuple(sorted(spans, key=lambda span: (span.start, span.path)))


def _is_met(request: LogRequest, path: str, start: int, end: int) -> bool:
    return path in request.mixed or meets(request.ranges, start, end)


def by_topic(files: Iterable[LiveFile]) -> dict[str, list[LiveFile]]:
    """Files by topic; all rows of a file have the same topic."""
    return by_key(files, lambda file: file.partition_values["topic"])


def parts_of(
    request: LogRequest,
    files: Sequence[FileSpan],
    held: ArchivedBytes,
    *,
    begins: Iterable[int] = (),
    extra: str = "",
    published_ms: int | None = None,
    compression: Compression = DEFAULT,
) -> list[SizedStretch]:
    """The parts that tile the ranges of a request and the files that meet them, in offset order.

    Args:
        begins: Offsets where lost files began.
        extra: Columns that users added, as ``table_columns`` writes them.
        published_ms: Clock of the run, for rows that are written again.
        compression: Of the files that are written.
    """
    parts = []
    old_begins = {*begins, *(file.start for file in files)}
    for start, end in _joined([*request.ranges, *((file.start, file.end) for file in files)]):
        cuts = sorted({start, *(begin for begin in old_begins if start < begin < end)})
        for low, high in pairwise([*cuts, end]):
            mine = [file for file in files if file.start < high and file.end > low]
            is_disordered = len(mine) > 1 or not all(file.is_ordered for file in mine)
            for first, stop in _small_enough(request, mine, low, high, held, is_disordered=is_disordered):
                shown = tuple(clipped(request.visible, first, stop))
                pieces = tuple(held.pieces(request.log, shown)) if shown else ()
                place = request.topic, request.log_id, request.partition
                source = WriteTask(held.lake, *place, pieces, shown, published_ms, compression)
                paths = tuple(file.path for file in mine if file.start < stop and file.end > first)
                stretch = RowStretch(source, first, stop, tuple(clipped(request.ranges, first, stop)), paths, extra)
                size = source.size + sum(file.size for file in mine)
                parts.append(SizedStretch(stretch, size, is_disordered))
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


def _small_enough(
    request: LogRequest, files: Sequence[FileSpan], start: int, end: int, held: ArchivedBytes, *, is_disordered: bool
) -> list[tuple[int, int]]:
    """Split [start, end) where its archived bytes are too many for one file, or its disordered rows for memory."""
    if is_disordered:
        count = min(-(-sum(file.size for file in files) // DISORDERED_BYTES) or 1, end - start)
        return list(pairwise(start + (end - start) * at // count for at in range(count + 1)))
    visible = clipped(request.visible, start, end)
    pieces = held.pieces(request.log, visible) if visible else []
    if sum(piece.end - piece.start for piece in pieces) <= PART_BYTES:
        return [(start, end)]
    cuts = [group[0].first_offset for group in grouped(pieces)]
    return list(pairwise([start, *(cut for cut in cuts[1:] if start < cut < end), end]))
