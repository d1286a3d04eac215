"""The table ``transactions`` as columns, one log at a time: a log may have as many transactions as batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.table_schemas import TRANSACTIONS

UNDECIDED = np.iinfo(np.int64).max
"""Replaces the marker offset of a transaction without a marker: it may end anywhere."""


@dataclass(frozen=True, slots=True)
class LogTransactions:
    """The transactions of one log."""

    rows: pa.Table
    """With the columns of the table."""
    first: npt.NDArray[np.int64]
    marker: npt.NDArray[np.int64]

    @classmethod
    def of(cls, rows: pa.Table) -> LogTransactions:
        """Create it from rows of the table, all of one log."""
        marker = rows["marker_offset"].fill_null(UNDECIDED).to_numpy()  # type: ignore[arg-type]
        return cls(rows, rows["first_offset"].to_numpy(), marker)

    def in_progress_at(self, offset: int) -> npt.NDArray[np.bool_]:
        """Return which transactions have data below an offset, and their marker, if any, at or above it."""
        found: npt.NDArray[np.bool_] = (self.first < offset) & (self.marker >= offset)
        return found

    def earliest_in_progress(self, offset: int) -> int:
        """Return the first offset of transactions in progress at an offset; the offset itself if there are none."""
        return int(min(self.first[self.in_progress_at(offset)], default=offset))

    def ongoing_at(self, offset: int) -> tuple[tuple[int, int, int, int], ...]:
        """Return producer id, epoch, first and last offset below ``offset`` of those with a marker after it."""
        there = self.rows.filter(pa.array(self._decided_behind(offset)))
        return tuple(
            (row["producer_id"], row["producer_epoch"], row["first_offset"], min(row["last_offset"], offset - 1))
            for row in there.to_pylist()
        )

    def before(self, offset: int) -> pa.Table:
        """Return rows that stay if the log is read again from ``offset`` on; nothing there resolves unknown ones."""
        return self.rows.filter(pa.array((self.first < offset) & ~self._decided_behind(offset)))

    def _decided_behind(self, offset: int) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = self.in_progress_at(offset) & (self.marker != UNDECIDED)
        return found


def read_transactions(lake: str, logs: Sequence[str]) -> dict[str, LogTransactions]:
    """Return transactions by log key; every requested log has an entry."""
    rows = read_rows(lake, "transactions", where=[("log", "in", sorted(logs))]).sort_by(
        [("log", "ascending"), ("first_offset", "ascending")]
    )
    runs = pc.run_end_encode(rows["log"].combine_chunks() if rows.num_rows else pa.array([], pa.string()))  # type: ignore[attr-defined]
    found = dict.fromkeys(logs, LogTransactions.of(TRANSACTIONS.empty_table()))
    start = 0
    for log, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        found[log] = LogTransactions.of(rows.slice(start, end - start))
        start = end
    return found
