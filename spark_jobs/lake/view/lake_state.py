"""The content of a lake, log by log, read from its tables once: a value for pages and commands.

Nothing here decides what runs. Everything is read from the present tables, so that a repeated run that finds nothing
new shows the same.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from logcore.exit_codes import ExitCode
from logcore.logs.model.findings import Finding, Severity, exit_code, found
from spark_jobs.groups import by_key
from spark_jobs.lake.delta.state.tables_file import STATE_FILE
from spark_jobs.lake.delta.tables.delta_log import newest_commit_name, newest_version
from spark_jobs.lake.ledger.finding_rows import record
from spark_jobs.lake.ledger.frontier import LedgerRow, read_ledger
from spark_jobs.lake.segments.archive import Segment, read_logs, read_segments, read_validations
from spark_jobs.lake.segments.ledger_ranges import unarchived
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.lake.view.expectation_results import results_file
from spark_jobs.lake.view.ledger_states import is_alarming
from spark_jobs.lake.view.log_state import ACCEPTED, LogState, natural_order
from spark_jobs.lake.view.open_findings import read_open_findings
from spark_jobs.lake.view.open_transactions import read_open_transactions
from spark_jobs.lake.view.registered_lakes import lake_name
from spark_jobs.placed_finding import PlacedFinding


@dataclass(frozen=True, slots=True)
class LakeState:
    """All logs of a lake, by topic and partition; the latest incarnation of a name is last."""

    lake: str
    logs: tuple[LogState, ...]
    strays: tuple[LedgerRow, ...] = ()
    """Damaged ranges in ledgers of logs that the table ``logs`` does not have."""

    @property
    def name(self) -> str:
        """The name of the lake for users."""
        return lake_name(self.lake)

    @property
    def topics(self) -> set[str]:
        """The topics of the logs."""
        return {log.row.topic for log in self.logs}

    @property
    def open_findings(self) -> Mapping[Severity, int]:
        """Number of open findings of all logs; a severity without any is left out."""
        return sum((Counter(log.findings_by_severity) for log in self.logs), Counter())

    @property
    def came_late(self) -> bool:
        """Whether a log has decided records below its frontier that are not published: they were filled late."""
        return any(log.came_late for log in self.logs)

    def exit_code(self, now: Sequence[Finding], as_of_ms: int) -> ExitCode:
        """Return the exit code of a command on these logs.

        Args:
            now: Present findings about the source paths; older ones about paths are history.
            as_of_ms: Clock for the age of open transactions, epoch milliseconds.
        """
        code = exit_code([*now, *(placed.finding for log in self.logs for placed in log.findings)])
        if any(log.is_damaged for log in self.logs):
            code = max(code, ExitCode.DAMAGE)
        if any("remote" in log.offsets_by_state for log in self.logs):
            code = max(code, ExitCode.WARNING)
        if any(log.hanging(as_of_ms) is not None for log in self.logs):
            code = max(code, ExitCode.WARNING)
        stopped = [found(log.row.stopped, "") for log in self.logs if log.row.stopped]
        return max(code, exit_code(stopped))


def read_state(lake: str) -> LakeState:
    """Read the lake from its present tables.

    Steps call it before and after each job: the result is cached until a table has another version.

    Raises:
        TableUnreadable: A table cannot be read.
        StorageError: The object store did not answer.
    """
    return _read_state(lake) if storage.is_remote(lake) else _kept_state(lake, _versions(lake))


def _versions(lake: str) -> tuple[str, ...]:
    """Return the latest commit file of each table of a local lake, and the times of the files that runs record."""
    # The row of a run in the table runs changes nothing that is shown here.
    newest = [newest_commit_name(lake, name) for name in TABLES if name != "runs"]
    for memory in (os.path.join(lake, STATE_FILE), results_file(lake)):
        try:
            newest.append(str(os.stat(memory).st_mtime_ns))
        except OSError:
            newest.append("")
    return tuple(newest)


@lru_cache(maxsize=4)
def _kept_state(lake: str, versions: tuple[str, ...]) -> LakeState:
    """Read the state and cache it. ``versions`` are read first, so that the cached state is not older."""
    return _read_state(lake)


def _read_state(lake: str) -> LakeState:
    rows = read_logs(lake)
    archived = read_segments(lake, live=False, joined=False)
    has_segments = newest_version(lake, "segments") is not None  # else the lost table is the damage
    segments = {log: list[Segment]() for log in rows} | by_key(archived, lambda segment: segment.log)
    validations = read_validations(lake, (segment.segment_id for segment in archived))
    ledger = read_ledger(lake)
    findings = read_open_findings(lake, rows, archived, ledger)
    undecided = read_open_transactions(lake)
    states = []
    for log, row in rows.items():
        live = [s for s in segments[log] if s.retired_ms is None]
        ingested = [s for s in segments[log] if s.feeds]
        validated = [v for s in ingested if (v := validations.get(s.segment_id)) is not None]
        states.append(
            LogState(
                lake=lake,
                row=row,
                segments=len(live),
                archive_bytes=sum(s.size for s in live),
                ingested=len(ingested),
                validated=len(validated),
                batches=sum(v.batches for v in validated),
                records=sum(v.records for v in validated),
                quarantined_bytes=sum(v.quarantined_bytes for v in validated),
                findings=findings.get(log, ()),
                open_transactions=tuple(undecided.get(log, ())),
                ledger=tuple(ledger.get(log, ())),
                segment_offsets=tuple(sorted(s.base_offset for s in live)),
                unarchived=tuple(unarchived(sorted(ingested, key=lambda s: s.base_offset), ledger.get(log, ())))
                if has_segments
                else (),
            )
        )
    states.sort(key=lambda s: (*natural_order(s.topic_partition), s.row.incarnation, s.log))
    strays = (row for log in ledger.keys() - rows.keys() for row in ledger[log] if is_alarming(row))
    return LakeState(lake, tuple(states), tuple(sorted(strays, key=lambda row: (row.log, row.start_offset))))


def accept_hanging(state: LakeState, run_id: str, as_of_ms: int) -> None:
    """Record that a user accepted the transactions that hang now: their warnings end.

    Raises:
        ConcurrentChange: Other runs kept recording findings meanwhile.
    """
    accepted = []
    for log in state.logs:
        if (oldest := log.hanging(as_of_ms)) is not None:
            first = oldest.first_offset
            said = f"{log.topic_partition}: the transaction of {oldest.producer} from offset {first} on hangs"
            finding = found(ACCEPTED, said, start_offset=first, end_offset=first + 1)
            accepted.append(PlacedFinding(finding, log.log, log.row.topic, log.row.partition))
    record(state.lake, accepted, run_id, as_of_ms)


def has_uncommitted(lake: str) -> bool:
    """Return whether a run has made the table `records_uncommitted`."""
    return newest_version(lake, "records_uncommitted") is not None
