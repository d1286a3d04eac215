"""The ledger ranges of a log: `published` by its frontier, joined, and counts of their parts.

The frontier is in the commit of the rows, the ledger's ``published`` follows in a commit of its own. A run can die
between the two, so everything that depends on ``published`` derives it again here. Published neighbours that differ in
nothing else become one range. So the ledger does not grow with the number of runs.

A range counts its records and gaps, and does not say where the gaps are. So if it is divided, the batches of one side
are counted. They are streamed and never collected. Only a batch that a border divides is read from the archive.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from logcore.logs.model.offset_ledger import OffsetState, RangeCounts, joined, mark_published, split
from logcore.records.batch import read_header
from logcore.records.record import read_records
from spark_jobs.lake.delta.commits import TableVersions
from spark_jobs.lake.delta.table import Table
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.segments import archive
from spark_jobs.lake.store import mapped_file

COLUMNS = ("base_offset", "last_offset", "record_count", "is_control", "segment_id", "position", "size")

CountBetween = Callable[[int, int], RangeCounts]
"""Counts between two offsets."""


def with_published(lake: str, rows: Sequence[LedgerRow], recorded: int | None) -> list[LedgerRow]:
    """Return the rows with ``published`` set by the frontier; None: nothing is published."""
    return joined(mark_published(rows, recorded or 0, partial(count_below, lake)))


def sync_published(
    lake: str, run_id: str, logs: Sequence[str] | None = None, expected: TableVersions | None = None
) -> dict[str, list[LedgerRow]]:
    """Update ``published`` to match the frontier, and return the updated ledger.

    Every job that changes the ledger calls this first: a run can die between the publish commit and the ledger's.

    Raises:
        ConcurrentChange: The ledger is no longer at the version of ``expected``, or was changed during this call.
    """
    expected = expected or TableVersions.of(lake, "offset_ledger")
    ledger = frontier.read_ledger(lake, logs)
    frontiers = frontier.frontiers_of(lake, ledger)
    synced = {log: with_published(lake, rows, frontiers[log]) for log, rows in ledger.items()}
    moved = [log for log in synced if synced[log] != ledger[log]]
    frontier.commit_ledger(lake, [row for log in moved for row in synced[log]], moved, run_id, expected)
    return synced


def late_from(lake: str, rows: Sequence[LedgerRow], recorded: int | None) -> int | None:
    """Return the first offset below the frontier whose records came late and wait to be published as a replacement;
    None: there is none.

    Until then they are needed as they were ingested: a replacement only accepts records that are unchanged in the
    archive.
    """
    late = (
        row.start_offset
        for row in with_published(lake, rows, recorded)
        if row.shows and not row.published and row.end_offset <= (recorded or 0)
    )
    return min(late, default=None)


def count_below(lake: str, row: LedgerRow, at: int) -> RangeCounts:
    """Count the records and the markers of a range below an offset."""
    return counts_between(lake, row, (row.start_offset, at))(row.start_offset, at)


def records_within(lake: str, row: LedgerRow, start: int, end: int) -> int:
    """Count the records of a range in [start, end)."""
    start, end = max(start, row.start_offset), min(end, row.end_offset)
    if (start, end) == (row.start_offset, row.end_offset):
        return row.records
    return counts_between(lake, row, (start, end))(start, end).records


def counts_between(lake: str, row: LedgerRow, borders: Iterable[int]) -> CountBetween:
    """Return a function that counts between any two borders, after one pass over the batches between them.

    Args:
        lake: The lake.
        row: The range.
        borders: At least two offsets from its first one to its end.
    """
    bounds = np.array(sorted(set(borders)), np.int64)
    if not row.gaps:
        return lambda low, high: RangeCounts((high - low) if row.records else 0, 0)
    has_markers = row.state is OffsetState.PRESENT
    counted = np.zeros((2, len(bounds) + 1), np.int64)
    for chunk in batches_within(lake, row, int(bounds[0]), int(bounds[-1])):
        first, last = _numbers(chunk, "base_offset"), _numbers(chunk, "last_offset")
        kind = is_control(chunk) & has_markers
        place = np.searchsorted(bounds, first, side="right")
        whole = place == np.searchsorted(bounds, last, side="right")
        np.add.at(counted, (kind[whole].astype(np.int64), place[whole]), _numbers(chunk, "record_count")[whole])
        for batch in chunk.filter(pa.array(~whole)).to_pylist():
            is_marker = int(has_markers and bool(batch["is_control"]))
            for offset in offsets_in_batch(lake, row.log, batch):
                counted[is_marker, bisect_right(bounds, offset)] += 1
    # Between two bounds lies what was counted at the place of the second one.
    sums = np.cumsum(np.insert(counted[:, 1:-1], 0, 0, axis=1), axis=1)
    below = dict(zip(bounds.tolist(), sums.T.tolist(), strict=True))
    return lambda low, high: RangeCounts(below[high][0] - below[low][0], below[high][1] - below[low][1])


def cut(lake: str, row: LedgerRow, spans: Iterable[tuple[int, int]]) -> Iterator[LedgerRow]:
    """Yield a range in parts, cut at the bounds of spans inside it. One pass over its batches counts all parts."""
    borders = sorted({row.start_offset, row.end_offset, *(bound for span in spans for bound in span)})
    counted = cache(lambda: counts_between(lake, row, borders))
    rest = row
    for border in borders[1:-1]:
        left, rest = split(rest, border, lambda each, at: counted()(each.start_offset, at))
        yield left
    yield rest


def is_control(chunk: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Which of some batches are control batches."""
    flags: npt.NDArray[np.bool_] = chunk.column("is_control").fill_null(False).to_numpy(zero_copy_only=False)
    return flags


def batches_within(lake: str, row: LedgerRow, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """Stream the good batches of a ledger range that have offsets in [start, end), with COLUMNS."""
    condition = (
        (pc.field("log") == row.log)
        & (pc.field("verdict") == "ok")
        & (pc.field("last_offset") >= start)
        & (pc.field("base_offset") < end)
    )
    # Batches of segments that were merged, filled or cut back occur a second time in their replacements.
    feeding = [segment.segment_id for segment in archive.ingested_segments(lake, [row.log])]
    condition &= pc.field("segment_id").isin(pa.array(feeding, pa.string()))
    return Table(lake, "batches").scan(COLUMNS, condition)


def offsets_in_batch(lake: str, log: str, batch: Mapping[str, Any]) -> list[int]:
    """Return the offsets of one batch's records. They are read from the archive if the batch has fewer than offsets.

    Raises:
        LogError: The bytes are missing or have changed.
    """
    first, end = batch["base_offset"], batch["last_offset"] + 1
    if batch["record_count"] == end - first:
        return list(range(first, end))
    segments = {s.segment_id: s for s in archive.read_segments(lake, [log], live=False)}
    segment = segments[batch["segment_id"]]
    position = segment.start + batch["position"]
    end = position + batch["size"]
    path, at_source = segment.local_path(lake), segment.lies_at_source
    with mapped_file.mapped(path, position, end, at_source=at_source, registered=segment.registered) as mapped:
        header = read_header(mapped, position)
        return [record.offset for record in read_records(mapped, position, header)]


def _numbers(chunk: pa.RecordBatch, name: str) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[np.int64] = chunk.column(name).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers


_OF_RECORDS = frozenset({OffsetState.PRESENT, OffsetState.CONTROL, OffsetState.ABORTED, OffsetState.OPEN})
"""States of offsets that must lie in a segment."""


NOT_ARCHIVED = "no segment of the archive has offsets [{start}, {end}), which the ledger says are in the log."


def unarchived(feeding: Sequence[archive.Segment], ledger: Sequence[LedgerRow]) -> Iterator[tuple[int, int]]:
    """Yield offsets that the log has by its ledger and that lie in no segment."""
    at = 0
    for row in ledger:
        if row.state not in _OF_RECORDS:
            continue
        start = row.start_offset
        while at < len(feeding) and feeding[at].next_offset <= start:
            at += 1
        place = at
        while start < row.end_offset:
            if place == len(feeding) or feeding[place].base_offset >= row.end_offset:
                yield start, row.end_offset
                break
            segment = feeding[place]
            # Gaps between segments of an open range are not decided yet.
            if segment.base_offset > start and row.state is not OffsetState.OPEN:
                yield start, segment.base_offset
            start = max(start, segment.next_offset)
            place += 1
