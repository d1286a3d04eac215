"""Rows that the ledger counts as published and that the table ``records`` does not have.

    parts    within each range of the ledger; among gaps batch by batch
    ranges   neighbouring parts joined, also across offsets that never have rows

``withdrawals`` decides whether they are withdrawn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from logcore.errors import LogError
from logcore.logs.model.offset_ledger import OffsetState
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.published.present_offsets import PresentOffsets
from spark_jobs.lake.segments import ledger_ranges

_NEVER_ROWS = frozenset(
    {
        OffsetState.CONTROL,
        OffsetState.ABORTED,
        OffsetState.EMPTY,
        OffsetState.COMPACTED,
        OffsetState.TRIMMED,
        OffsetState.REMOTE,
    }
)
"""States of offsets that never have rows: a range may include them."""


@dataclass(frozen=True, slots=True)
class Gone:
    """Published offsets [start_offset, end_offset) of a log without any of their ``records`` rows."""

    start_offset: int
    end_offset: int
    records: int


@dataclass(frozen=True, slots=True)
class Unclear:
    """Offsets of a log whose lost rows are unknown, or whose rows must not be withdrawn, and why."""

    start_offset: int
    end_offset: int
    why: str


def gone_parts(
    lake: str, ledger: Sequence[LedgerRow], offsets: PresentOffsets, start: int, end: int | None
) -> tuple[list[Gone], list[Unclear]]:
    """Return the published offsets of a log in [start, end) without a row, cut at the ledger's ranges.

    Args:
        offsets: Offsets of the existing rows.
        end: None: to the end of the ledger.
    """
    parts: list[Gone] = []
    unclear: list[Unclear] = []
    for each in ledger:
        low, high = max(each.start_offset, start), each.end_offset if end is None else min(each.end_offset, end)
        if not each.has_rows or low >= high:
            continue
        if each.gaps:
            gone, unread = _gone_among_gaps(lake, each, low, high, offsets)
            parts += gone
            unclear += unread
        else:
            parts += [Gone(first, last, last - first) for first, last in offsets.without(low, high)]
    return parts, unclear


def _gone_among_gaps(
    lake: str, row: LedgerRow, start: int, end: int, offsets: PresentOffsets
) -> tuple[list[Gone], list[Unclear]]:
    """Do the same in a range where only some offsets have a record, batch by batch. Only a batch that lost some of its
    records is read, because only its records show their offsets.
    """
    is_whole = (start, end) == (row.start_offset, row.end_offset)
    there = offsets.count(start, end)
    if is_whole and there == row.records:
        return [], []
    if is_whole and not there:
        return [Gone(start, end, row.records)], []
    gone: list[Gone] = []
    unclear: list[Unclear] = []
    for chunk in ledger_ranges.batches_within(lake, row, start, end):
        for batch in chunk.filter(pa.array(_has_lost_rows(chunk, offsets))).to_pylist():
            first, last = batch["base_offset"], batch["last_offset"] + 1
            inside = start <= first and last <= end
            there = offsets.count(first, last)
            if inside and there == batch["record_count"]:
                continue
            if inside and not there:
                gone.append(Gone(first, last, batch["record_count"]))
                continue
            low, high = max(first, start), min(last, end)
            try:
                said = ledger_ranges.offsets_in_batch(lake, row.log, batch)
            except (LogError, OSError) as error:
                why = f"only some of its rows are gone, and the archive does not show which: {error}"
                unclear.append(Unclear(low, high, why))
                continue
            lost = (at for at in said if low <= at < high and not offsets.count(at, at + 1))
            gone += [Gone(at, at + 1, 1) for at in lost]
    gone.sort(key=lambda each: each.start_offset)
    joined: list[Gone] = []
    for each in gone:
        if joined and not offsets.count(joined[-1].end_offset, each.start_offset):
            each = Gone(joined[-1].start_offset, each.end_offset, joined.pop().records + each.records)
        joined.append(each)
    return joined, unclear


def _has_lost_rows(chunk: pa.RecordBatch, offsets: PresentOffsets) -> npt.NDArray[np.bool_]:
    """Which batches have records, and fewer rows than records."""
    first, last, count = (chunk.column(name).to_numpy() for name in ("base_offset", "last_offset", "record_count"))
    lost: npt.NDArray[np.bool_] = ~ledger_ranges.is_control(chunk) & (offsets.counts(first, last + 1) != count)
    return lost


def gone_ranges(parts: Sequence[Gone], ledger: Sequence[LedgerRow], offsets: PresentOffsets) -> list[Gone]:
    """Join neighbouring parts into one range, also if only offsets without records lie between them. Otherwise the
    markers of transactions would split a range.
    """
    ranges: list[Gone] = []
    for part in parts:
        if ranges and _may_go_over(ledger, ranges[-1].end_offset, part.start_offset, offsets):
            last = ranges.pop()
            part = Gone(last.start_offset, part.end_offset, last.records + part.records)
        ranges.append(part)
    return ranges


def _may_go_over(ledger: Sequence[LedgerRow], start: int, end: int, offsets: PresentOffsets) -> bool:
    if start == end:
        return True
    at = bisect_right(ledger, start, key=lambda row: row.end_offset)
    while at < len(ledger) and ledger[at].start_offset < end:
        if not (ledger[at].has_rows or ledger[at].state in _NEVER_ROWS):
            return False
        at += 1
    return not offsets.count(start, end)
