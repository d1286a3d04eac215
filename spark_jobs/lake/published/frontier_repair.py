"""Restore frontiers that another engine erased, from rows and ledger after both were compared.

At the next checkpoint, Delta forgets application ids that are older than the table property
``delta.setTransactionRetentionDuration``, and with them how far each log is published. Ids and effects of their loss:

    records/<log>              the frontier. Publishing refuses the log until it is restored here
    records_uncommitted/<log>  the end of the decided part. Restored here; if its rows differ from the ledger,
                               publishing writes all rows of the log again from the archive
    …/<log>/tail               the input of the tail: the tail is rewritten at the next run
    segments/<log>             counts commits, so that of two plans one is refused: it begins at 1 again
    expectations/<log>         how far rows were checked: all rows of the log are checked once more
    replace/<digest>           that a request was done: it is compared again, and nothing differs

The frontier of a log is the end of the published ranges of its ledger, or after its last row if that is further (a run
died before it updated the ledger). It is only restored if rows and ledger agree in every offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from logcore.logs.model.offset_ledger import OffsetState
from spark_jobs.errors import ConcurrentChange
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard, TableVersions
from spark_jobs.lake.delta.tables.snapshots import open_table
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.published.held_offsets import HeldOffsets
from spark_jobs.lake.published.present_offsets import present_offsets
from spark_jobs.lake.segments import archive, ledger_ranges
from spark_jobs.lake.segments.archive import LogRow

RETENTION = "delta.setTransactionRetentionDuration"
FOR_EVER = "interval 36500 days"
"""deltalake can set a property, but not remove it: a hundred years keep every id."""

UNCOMMITTED = "records_uncommitted"
_IN_UNCOMMITTED = frozenset({OffsetState.PRESENT, OffsetState.ABORTED, OffsetState.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Offsets [start_offset, end_offset) of a log in which rows and ledger differ."""

    start_offset: int
    end_offset: int
    what: str


@dataclass(frozen=True, slots=True)
class LostFrontier:
    """A log whose frontier is gone although its rows exist."""

    table: str
    row: LogRow
    frontier: int
    """The frontier to record."""
    disagreements: tuple[Disagreement, ...]
    """Where rows and ledger differ; then the log is not changed."""

    @property
    def application_id(self) -> str:
        """The application id to record again."""
        return f"{self.table}/{self.row.log}"


@dataclass(frozen=True, slots=True)
class FrontierPlan:
    """Lost frontiers in the tables of records."""

    versions: dict[str, int]
    """Versions of the existing tables, as they were read."""
    forgetting: dict[str, str]
    """The retention of application ids by table, if one is set."""
    logs: tuple[LostFrontier, ...]

    @property
    def repairable(self) -> tuple[LostFrontier, ...]:
        """Logs whose frontier can be restored."""
        return tuple(log for log in self.logs if not log.disagreements)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is gone, and nothing will be forgotten."""
        return not self.logs and not self.forgetting


def plan(lake: str) -> FrontierPlan:
    """Find logs that have rows but no frontier, and what is known about each.

    Raises:
        JobError: The rows cannot be read.
    """
    versions: dict[str, int] = {}
    forgetting: dict[str, str] = {}
    logs: list[LostFrontier] = []
    rows = archive.read_logs(lake)
    ledger = frontier.read_ledger(lake)
    known = [row for log, row in rows.items() if log in ledger]
    ends = dict(frontier.read_frontiers(lake, list(ledger)))
    for name in ("records", UNCOMMITTED):
        table = open_table(lake, name)
        if table is None:
            continue
        versions[name] = table.version()
        kept_for = (table.metadata().configuration or {}).get(RETENTION)
        if kept_for not in (None, FOR_EVER):
            forgetting[name] = str(kept_for)
        found = commits.versions_of_logs(lake, name, [row.log for row in known])
        lost = [row for row in known if found[row.log] is None]
        for row, offsets in present_offsets(table, lost):
            if not offsets.rows:
                continue  # it has no rows to lose: the next run publishes its records
            made = _of_records(lake, row, ledger[row.log], offsets) if name == "records" else None
            if made is not None:
                ends[row.log] = None if made.disagreements else made.frontier
            elif ends.get(row.log):  # without the frontier of records it is unknown which of them are decided
                made = _of_uncommitted(lake, row, ledger[row.log], offsets, ends[row.log] or 0)
            if made is not None:
                logs.append(made)
    return FrontierPlan(versions, forgetting, tuple(sorted(logs, key=lambda each: (each.table, each.row.log))))


def apply(lake: str, made: FrontierPlan, run_id: str) -> None:
    """Set Delta to keep application ids for good, and record the frontiers of the logs that agree.

    Raises:
        ConcurrentChange: A table was changed since the plan.
    """
    for name, version in made.versions.items():
        expected = TableVersions({name: version})
        table = open_table(lake, name)
        if table is None or table.version() != version:
            raise ConcurrentChange(f"Table {name}: it was changed since it was read; run again.")
        if name in made.forgetting:
            with commits.answered(lake, name):
                table.alter.set_table_properties({RETENTION: FOR_EVER}, raise_if_not_exists=False)
            expected.moved(name)
        guards = [Guard(log.application_id, None, log.frontier) for log in made.repairable if log.table == name]
        commits.add_files(lake, name, [], run_id, guards, expected=expected)
    ledger_ranges.sync_published(lake, run_id, [log.row.log for log in made.repairable if log.table == "records"])


def _of_records(lake: str, row: LogRow, ledger: Sequence[LedgerRow], offsets: HeldOffsets) -> LostFrontier:
    end = _border(ledger, max(frontier.published_end(ledger), offsets.end))
    known = ledger[-1].end_offset
    published = ledger_ranges.with_published(lake, ledger, min(end, known))
    problems = [*_differences(published, offsets, lambda each: each.has_rows)]
    if offsets.count(known, offsets.end):
        problems.append(Disagreement(known, offsets.end, "there are rows after the end of the ledger"))
    return LostFrontier("records", row, min(end, known), tuple(problems))


def _of_uncommitted(
    lake: str, row: LogRow, ledger: Sequence[LedgerRow], offsets: HeldOffsets, end: int
) -> LostFrontier | None:
    """Compare rows below the frontier of ``records``; None if they differ: then publishing rewrites the rows."""
    decided = [each for each in ledger_ranges.with_published(lake, ledger, end) if each.end_offset <= end]
    differ = [*_differences(decided, offsets, lambda each: each.state in _IN_UNCOMMITTED and not each.withdrawn)]
    return None if differ else LostFrontier(UNCOMMITTED, row, end, ())


def _border(ledger: Sequence[LedgerRow], end: int) -> int:
    """Return the first offset from ``end`` on where a ledger can be cut: not inside a range that counts gaps."""
    return next((r.end_offset for r in ledger if r.gaps and r.start_offset < end < r.end_offset), end)


def _differences(
    ledger: Sequence[LedgerRow], offsets: HeldOffsets, has_rows: Callable[[LedgerRow], bool]
) -> Iterator[Disagreement]:
    for each in ledger:
        start, end = each.start_offset, each.end_offset
        there = offsets.count(start, end)
        due = each.records if has_rows(each) else 0
        if there == due:
            continue
        if not due:
            yield Disagreement(start, end, f"{there} rows, where the ledger has none to publish")
        elif each.gaps:
            yield Disagreement(start, end, f"{there} rows, where the ledger counts {due}")
        else:
            yield from (Disagreement(low, high, "the rows are gone") for low, high in offsets.without(start, end))
    doubled = offsets.rows - offsets.count(0, offsets.end)
    if doubled:
        yield Disagreement(0, offsets.end, f"{doubled} rows have an offset that another row has too")
