"""How far each log is published, and what may be published next.

The frontier of a log is the version of application ``records/<log>`` in the table ``records``: the next offset to
publish, recorded in the same commit as the rows before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import pyarrow as pa

from logcore.logs.offset_ledger import OffsetState
from spark_jobs.lake import commits
from spark_jobs.lake.tables import OFFSET_LEDGER, read_rows

BLOCKING = frozenset({OffsetState.OPEN, OffsetState.MISSING, OffsetState.CORRUPT, OffsetState.UNKNOWN})
"""States that the frontier does not pass."""


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A row of ``offset_ledger``."""

    log: str
    topic: str
    log_id: str
    partition: int
    start_offset: int
    end_offset: int
    state: str
    records: int
    gaps: int
    gap_state: str | None
    evidence: str | None
    published: bool
    archived: str


def application_id(log: str) -> str:
    """Application id of a log in the table ``records``."""
    return f"records/{log}"


def read_frontiers(lake: str, logs: Sequence[str]) -> dict[str, int | None]:
    """Next offset to publish by log key; None: nothing was published."""
    ids = {application_id(log): log for log in logs}
    return {ids[app]: version for app, version in commits.versions(lake, "records", list(ids)).items()}


def read_ledger(lake: str, logs: Sequence[str] | None = None) -> dict[str, list[LedgerRow]]:
    """Ledger rows by log key, in offset order."""
    where = None if logs is None else [("log", "in", sorted(logs))]
    ledger: dict[str, list[LedgerRow]] = {}
    for row in read_rows(lake, "offset_ledger", where=where).to_pylist():
        ledger.setdefault(row["log"], []).append(LedgerRow(**row))
    for rows in ledger.values():
        rows.sort(key=lambda row: row.start_offset)
    return ledger


def decided_end(rows: Sequence[LedgerRow], start: int) -> int:
    """First offset at or above ``start`` that is not decided or can't be trusted; the log end if there is none."""
    for row in rows:
        if row.end_offset > start and row.state in BLOCKING:
            return max(start, row.start_offset)
    return max(start, rows[-1].end_offset) if rows else start


def resume_offset(rows: Sequence[LedgerRow]) -> int:
    """Where the ledger has to be made again: its first ``open`` offset, or its end.

    That is min(last stable offset, high watermark), where no transaction is in progress.
    """
    for row in rows:
        if row.state == OffsetState.OPEN:
            return row.start_offset
    return rows[-1].end_offset if rows else 0


def ledger_high_watermark(rows: Sequence[LedgerRow]) -> int:
    """The high watermark that the ledger was made with; its end where all offsets were below it."""
    for row in rows:
        if row.state == OffsetState.OPEN and row.evidence == "high-watermark":
            return row.start_offset
    return rows[-1].end_offset if rows else 0


def mark_published(rows: Sequence[LedgerRow], frontier: int | None) -> list[LedgerRow]:
    """The same rows with ``published`` as the frontier says.

    The frontier always lies on a border of ranges: it is set from one.
    """
    return [replace(row, published=frontier is not None and row.end_offset <= frontier) for row in rows]


def commit_ledger(lake: str, rows: Sequence[LedgerRow], logs: Sequence[str], run_id: str) -> None:
    """Replace the ledger of these logs by ``rows``; no logs write nothing."""
    if not logs:
        return
    columns = pa.Table.from_pylist([asdict(row) for row in rows], schema=OFFSET_LEDGER)
    commits.replace(lake, "offset_ledger", commits.equal_to_any("log", list(logs)), columns, run_id)


def sync_published(lake: str, run_id: str, logs: Sequence[str] | None = None) -> dict[str, list[LedgerRow]]:
    """Bring ``published`` up to the frontier and return the ledger as it is then.

    Every job that changes the ledger calls this first: a run can die between the publish commit and the ledger's.
    """
    ledger = read_ledger(lake, logs)
    frontiers = read_frontiers(lake, list(ledger))
    synced = {log: mark_published(rows, frontiers[log]) for log, rows in ledger.items()}
    moved = [log for log in synced if synced[log] != ledger[log]]
    commit_ledger(lake, [row for log in moved for row in synced[log]], moved, run_id)
    return synced

