"""The table ``runs``: one row for each run of intake or maintenance that did work, or failed.

A row is one blind append. So a run that is killed before it leaves no row, and a killed append leaves the table as it
was. A lake without the table has no runs yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import pyarrow as pa

from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.files.live_files import LiveFile, live_files
from spark_jobs.lake.delta.tables.snapshots import latest_snapshot, read_rows, reading
from spark_jobs.lake.setup.identity import read_identity
from spark_jobs.lake.table_specs import PHASES, RUNS

TABLE = "runs"
JOBS = ("intake", "maintenance")
"""Jobs whose runs have rows."""
SUCCEEDED, FAILED = "succeeded", "failed"


class LogOffsets(NamedTuple):
    """How far a log was after a run; docs/tables.md has the meanings."""

    log: str
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int | None
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class RunRow:
    """A row of ``runs``; docs/tables.md has the meaning of each column."""

    run_id: str
    job: str
    started_by: str
    as_of_ms: int
    outcome: str
    failed_step: str | None
    error: str | None
    engine: str | None
    changed_logs: int
    segments: int
    bytes: int
    records: int
    deleted_bytes: int
    failed_checks: int
    findings_error: int | None
    findings_warning: int | None
    findings_info: int | None
    lag_offsets: int | None
    open_transactions: int | None
    oldest_open_transaction_age_ms: int | None
    started_ms: int
    ended_ms: int
    phases: Mapping[str, int]
    """Milliseconds of each job that had work, by its name, in the order of the run."""
    logs: Sequence[LogOffsets] | None = None
    """Each log that the run changed. Rows that are read leave it out: there may be very many logs."""

    @property
    def duration_ms(self) -> int:
        """Time from the beginning of the run to its row."""
        return self.ended_ms - self.started_ms

    @property
    def columns(self) -> dict[str, Any]:
        """The row by column, in the order of the table, without ``logs``."""
        plain = {name: getattr(self, name) for name in _plain_fields()}
        return plain | {f"{phase}_ms": self.phases.get(phase) for phase in PHASES}

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> RunRow:
        """Build from a row of the table."""
        phases = {phase: row[f"{phase}_ms"] for phase in PHASES if row[f"{phase}_ms"] is not None}
        return cls(**{name: row[name] for name in _plain_fields()}, phases=phases)


def _plain_fields() -> list[str]:
    return [field.name for field in fields(RunRow) if field.name not in ("phases", "logs")]


def append_run(lake: str, row: RunRow) -> None:
    """Append a row in one commit. A directory that is no lake yet stays as it is: its first run failed.

    Raises:
        JobError: The table, or its store, cannot be written.
    """
    if read_identity(lake) is not None:
        logs = None if row.logs is None else [each._asdict() for each in row.logs]
        rows = pa.Table.from_pylist([row.columns | {"logs": logs}], schema=RUNS)
        commits.append(lake, TABLE, rows, row.run_id)


def has_row(lake: str, row: RunRow) -> bool:
    """Return whether the table has a row of this run.

    Raises:
        JobError: The table, or its store, cannot be read.
    """
    where: list[tuple[str, str, object]] = [("started_ms", "==", row.started_ms), ("run_id", "==", row.run_id)]
    return read_rows(lake, TABLE, ["run_id"], where).num_rows > 0


def newest_runs(
    lake: str,
    most: int | None = None,
    since_ms: int | None = None,
    is_wanted: Callable[[RunRow], bool] = lambda _: True,
) -> list[RunRow]:
    """Return the newest runs, the newest first.

    Args:
        lake: The lake.
        most: Number of runs; None: all.
        since_ms: Only runs that began at this time or later, epoch milliseconds; None: all.
        is_wanted: Whether a run is returned.

    Raises:
        TableUnreadable: The table is damaged.
        StorageError: The object store failed.
    """
    found: list[RunRow] = []
    for rows in _newest_files_first(lake):
        found += (row for row in rows if (since_ms is None or row.started_ms >= since_ms) and is_wanted(row))
        is_past = since_ms is not None and any(row.started_ms < since_ms for row in rows)
        if is_past or (most is not None and len(found) >= most):
            break
    return found[:most]


def newest_run_of_each_job(lake: str, jobs: Sequence[str]) -> dict[str, RunRow]:
    """Return the newest run of each job that has one.

    Raises:
        TableUnreadable: The table is damaged.
        StorageError: The object store failed.
    """
    found: dict[str, RunRow] = {}
    for rows in _newest_files_first(lake):
        for row in rows:
            found.setdefault(row.job, row)
        if found.keys() >= set(jobs):
            break
    return {job: found[job] for job in jobs if job in found}


def _newest_files_first(lake: str) -> Iterator[list[RunRow]]:
    """Yield all rows, the newest first. Files whose times overlap are read together, the others only when needed."""
    table = latest_snapshot(lake, TABLE)
    if table is None:
        return
    with reading(lake, TABLE):
        files = sorted(live_files(table), key=_last_ms, reverse=True)
    while files:
        group = [files.pop(0)]
        least = _first_ms(group[0])
        while files and _last_ms(files[0]) >= least:
            group.append(files.pop(0))
            least = min(least, _first_ms(group[-1]))
        where: list[tuple[str, str, object]] = [("started_ms", ">=", least)]
        if _last_ms(group[0]) < _NEVER_MS:
            where.append(("started_ms", "<", _last_ms(group[0]) + 1))
        rows = read_rows(lake, TABLE, [name for name in RUNS.names if name != "logs"], where).to_pylist()
        rows.sort(key=lambda row: (row["started_ms"], row["ended_ms"], row["run_id"]), reverse=True)
        yield [RunRow.of(row) for row in rows]


_NEVER_MS = 1 << 62
"""Later than any time: of a file without statistics nothing is known."""


def _first_ms(file: LiveFile) -> int:
    first: int = file.least.get("started_ms", -_NEVER_MS)
    return first


def _last_ms(file: LiveFile) -> int:
    last: int = file.greatest.get("started_ms", _NEVER_MS)
    return last
