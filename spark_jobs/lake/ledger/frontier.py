"""How far each log is published, and what may be published next.

The frontier of a log is the version of application ``records/<log>`` in the table ``records``: the next offset to
publish, recorded in the same commit as the rows before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from logcore.logs.model.offset_ledger import EVIDENCE_HIGH_WATERMARK, LedgerRange, OffsetState
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import TableVersions
from spark_jobs.lake.delta.table import Table
from spark_jobs.lake.delta.tables.snapshots import read_rows, table_of
from spark_jobs.lake.table_specs import OFFSET_LEDGER

STORED = [name for name in OFFSET_LEDGER.names if name != "gap_state"]
"""Columns that a row is read from; `gap_state` follows from two others."""
CHUNK_ROWS = 65_536
"""Rows of the ledger that are in memory twice while it is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow(LedgerRange):
    """A row of ``offset_ledger``: a range of a log, and whether the archive still has it."""

    log: str
    topic: str
    log_id: str
    partition: int
    archived: str = "held"
    """One of :class:`~spark_jobs.lake.segments.removals.Archived`."""
    withdrawn: bool = False
    """Whether its rows were deleted from ``records`` on purpose (``loglake withdraw``)."""

    @property
    def has_rows(self) -> bool:
        """Whether ``records`` must have the records of the range."""
        return self.published and self.shows

    @property
    def shows(self) -> bool:
        """Whether its records belong in ``records`` as soon as they are published."""
        return self.state is OffsetState.PRESENT and not self.withdrawn


def application_id(log: str) -> str:
    """Return the application id of a log in the table ``records``."""
    return f"records/{log}"


def read_frontiers(lake: str, logs: Sequence[str]) -> dict[str, int | None]:
    """Return the next offset to publish by log key; None: nothing was published."""
    return commits.versions_of_logs(lake, "records", logs)


def read_ledger(lake: str, logs: Sequence[str] | None = None) -> dict[str, list[LedgerRow]]:
    """Return ledger rows by log key, in offset order."""
    where = None if logs is None else [("log", "in", sorted(logs))]
    ledger: dict[str, list[LedgerRow]] = {}
    # A log may have one range per aborted transaction: keep repeated words in memory once, and only few rows at a time
    # twice.
    words: dict[object, object] = {state.value: state for state in OffsetState}
    for chunk in read_rows(lake, "offset_ledger", STORED, where).to_batches(CHUNK_ROWS):
        columns: list[list[Any]] = [
            [words.setdefault(value, value) for value in values] if pa.types.is_string(field.type) else values
            for field, values in zip(chunk.schema, (column.to_pylist() for column in chunk.columns), strict=True)
        ]
        for values in zip(*columns, strict=True):
            row = LedgerRow(**dict(zip(chunk.schema.names, values, strict=True)))
            ledger.setdefault(row.log, []).append(row)
    for rows in ledger.values():
        rows.sort(key=lambda row: row.start_offset)
    return ledger


def frontiers_of(lake: str, ledger: Mapping[str, Sequence[LedgerRow]]) -> dict[str, int | None]:
    """Return the next offset to publish by log key, as :func:`read_frontiers`. If another engine erased the frontier of
    a log, this is the end of its published ranges. Otherwise ``published`` would be reset although the rows exist.
    """
    found = read_frontiers(lake, list(ledger))
    return found | {log: published_end(ledger[log]) for log in erased(lake, ledger, found)}


def published_end(rows: Sequence[LedgerRow]) -> int:
    """Return the end of the ledger's published ranges."""
    return max((row.end_offset for row in rows if row.published), default=0)


def erased(
    lake: str, ledger: Mapping[str, Sequence[LedgerRow]], frontiers: Mapping[str, int | None]
) -> tuple[str, ...]:
    """Return logs without a frontier whose published rows are in ``records``."""
    suspects = [log for log, rows in ledger.items() if frontiers[log] is None and any(row.has_rows for row in rows)]
    return tuple(log for log in suspects if _has_rows(lake, ledger[log][0]))


def _has_rows(lake: str, log: LedgerRow) -> bool:
    condition = (
        (pc.field("topic") == log.topic) & (pc.field("partition") == log.partition) & (pc.field("log_id") == log.log_id)
    )
    return any(batch.num_rows for batch in Table(lake, "records").scan(["offset"], condition))


def commit_ledger(
    lake: str, rows: Sequence[LedgerRow], logs: Sequence[str], run_id: str, expected: TableVersions | None = None
) -> None:
    """Replace the ledger of these logs by ``rows``; without logs nothing is written.

    Raises:
        ConcurrentChange: The ledger is no longer at the version of ``expected``.
    """
    if not logs:
        return
    columns = table_of(rows, OFFSET_LEDGER)
    commits.replace(lake, "offset_ledger", ("log", logs), columns, run_id, expected=expected)


def missing_from(rows: Sequence[LedgerRow]) -> int | None:
    """Return the first missing offset that may still be filled; None: there is none."""
    return min((row.start_offset for row in rows if row.state is OffsetState.MISSING), default=None)


def ledger_high_watermark(rows: Sequence[LedgerRow]) -> int:
    """Return the high watermark that the ledger was computed with; its end if all offsets were below it."""
    for row in rows:
        if row.state is OffsetState.OPEN and row.evidence == EVIDENCE_HIGH_WATERMARK:
            return row.start_offset
    return rows[-1].end_offset if rows else 0
