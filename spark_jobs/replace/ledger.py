"""Records in the offset ledger that a replacement published its ranges.

This module writes the rows of ``offset_ledger``, split at the bounds of these ranges. ``replace`` selects the ranges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from logcore.logs.model.offset_ledger import joined, split
from spark_jobs.lake.delta.commits.commit_guards import TableVersions
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.ledger.offset_ranges import clipped
from spark_jobs.lake.published import withdrawals
from spark_jobs.lake.segments import ledger_ranges
from spark_jobs.lake.segments.ledger_ranges import count_below


def mark_published(
    lake: str, done: Mapping[str, Sequence[tuple[int, int]]], run_id: str, *, include_withdrawn: bool = False
) -> None:
    """Set the ledger's `published` on replaced ranges. Writes nothing if nothing changes.

    Args:
        include_withdrawn: Withdrawn rows are published again, so their withdrawals are deleted.
    """
    if not done:
        return
    if include_withdrawn:
        withdrawals.take_back(lake, done, run_id)
    expected = TableVersions.of(lake, "offset_ledger")
    ledger = ledger_ranges.sync_published(lake, run_id, list(done), expected)
    marked = {
        log: joined(_marked(lake, rows, done[log], include_withdrawn=include_withdrawn)) for log, rows in ledger.items()
    }
    moved = [log for log in marked if marked[log] != ledger[log]]
    frontier.commit_ledger(lake, [row for log in moved for row in marked[log]], moved, run_id, expected)


def _marked(
    lake: str, rows: Sequence[LedgerRow], ranges: Sequence[tuple[int, int]], *, include_withdrawn: bool
) -> list[LedgerRow]:
    marked = []
    for row in rows:
        rest = row
        is_due = not row.published or (row.withdrawn and include_withdrawn)
        for start, end in [] if not is_due else clipped(ranges, row.start_offset, row.end_offset):
            if start > rest.start_offset:
                left, rest = split(rest, start, partial(count_below, lake))
                marked.append(left)
            right = None
            if end < rest.end_offset:
                rest, right = split(rest, end, partial(count_below, lake))
            marked.append(replace(rest, published=True, withdrawn=rest.withdrawn and not include_withdrawn))
            if right is None:
                break
            rest = right
        else:
            marked.append(rest)
    return marked
