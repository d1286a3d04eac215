"""``publish``: decided offsets from the archive into the table ``records``, exactly once.

    plan    per log [frontier, first undecided or untrusted offset), from the ledger            (driver, no JVM)
    write   workers decode to Arrow, keep what is visible, write and sync Parquet files          (workers)
    commit  files and the logs' new frontiers in one Delta commit; then the ledger's `published`  (driver)
    tail    on request, what is not decided yet goes into `records_uncommitted`                   (``uncommitted``)

By default a log is published up to its first damage; where its policy says ``salvage: permissive``, behind it too.
A range [a, b) is committed only on a snapshot whose frontier is exactly a. A log whose frontier moved meanwhile, or
whose written rows are not what the ledger counts, leaves the commit; the others go on.
"""

from __future__ import annotations

import fnmatch
import math
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from logcore.logs.model.findings import found
from logcore.logs.model.offset_ledger import OffsetState, first_hole, publish_end
from logcore.segments.filenames import is_internal_topic
from spark_jobs.contracts import JobReport, LogChange, PublishConfig
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard, WrittenFile
from spark_jobs.lake.delta.file_contents import FileUnreadable, read_contents
from spark_jobs.lake.delta.live_files import LiveFile, live_files
from spark_jobs.lake.delta.tables import open_table
from spark_jobs.lake.errors import CommitUnanswered, ConcurrentChange
from spark_jobs.lake.ledger import finding_rows, frontier
from spark_jobs.lake.ledger.finding_rows import PlacedFinding
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.ledger.offset_ranges import merged
from spark_jobs.lake.segments import archive
from spark_jobs.lake.setup.policies import Policies, TopicPolicy, read_policies
from spark_jobs.row_files import uncommitted
from spark_jobs.row_files.pieces import ArchivedBytes
from spark_jobs.row_files.records_file import WriteTask, write_records
from spark_jobs.row_files.uncommitted import READ_UNCOMMITTED, UncommittedPlan

if TYPE_CHECKING:
    from spark_jobs.tasks.executor import Executor

COMMIT_ATTEMPTS = 8

SHOWN = frozenset({OffsetState.PRESENT, OffsetState.CONTROL, OffsetState.COMPACTED, OffsetState.EMPTY})
"""States of offsets that a worker need not be told apart: what is not ``present`` of them has no record. A log of
committed transactions is one range then, not one a transaction."""


@dataclass(frozen=True, slots=True)
class PublishLogPlan:
    """What one log publishes: offsets [start_offset, end_offset), of which ``records`` are visible."""

    log: str
    topic: str
    log_id: str
    partition: int
    frontier: int | None
    start_offset: int
    end_offset: int
    records: int
    tasks: tuple[WriteTask, ...]

    @property
    def guard(self) -> Guard:
        """The frontier as it must be found, and as this commit leaves it."""
        return Guard(frontier.application_id(self.log), self.frontier, self.end_offset)


@dataclass(frozen=True, slots=True)
class PublishPlan:
    """What there is to do; printed, it is the dry run."""

    logs: tuple[PublishLogPlan, ...]
    waiting: tuple[str, ...]
    """Logs with something decided that is left for a later run: too little of it, and not old enough."""
    stale_ledgers: tuple[str, ...]
    """Logs whose ledger does not say yet what is published: a run died behind its commit."""
    refused: tuple[PlacedFinding, ...]
    uncommitted: UncommittedPlan

    @property
    def is_empty(self) -> bool:
        """Every offset that is due is published, and the ledger says so."""
        return not self.logs and not self.stale_ledgers and not self.refused and self.uncommitted.is_empty

    @property
    def needs_spark(self) -> bool:
        """Whether records have to be decoded."""
        return any(log.tasks for log in self.logs) or self.uncommitted.needs_spark

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain values."""
        keys = ("log", "topic", "partition", "start_offset", "end_offset", "records")
        return {
            "logs": [{key: getattr(log, key) for key in keys} | {"files": len(log.tasks)} for log in self.logs],
            "waiting": list(self.waiting),
            "stale_ledgers": list(self.stale_ledgers),
            "uncommitted": self.uncommitted.as_dict(),
        }


def plan(config: PublishConfig) -> PublishPlan:
    """Per log, the decided offsets behind its frontier.

    A log that holds rows without a frontier, or at or above it, is refused with a finding; so is one whose ledger does
    not cover each offset once. The others go on.
    """
    policies = read_policies(config.policies)
    # Opened before the frontiers are read: rows of a publisher that commits meanwhile are not taken for strange ones.
    table = open_table(config.lake, "records")
    rows = archive.read_logs(config.lake, config.logs)
    chosen = {log: row for log, row in rows.items() if _is_published(config, row.topic)}
    ledger = frontier.read_ledger(config.lake, list(chosen))
    not_whole = _with_holes(ledger)
    holed = {placed.log for placed in not_whole}
    ledger = {log: ranges for log, ranges in ledger.items() if log not in holed}
    frontiers = frontier.read_frontiers(config.lake, list(ledger))
    told = ledger
    # Cut at the frontier: of a range that goes through it, what lies behind is still to be published.
    ledger = {log: frontier.with_published(ranges, frontiers[log]) for log, ranges in told.items()}
    erased = frontier.erased(config.lake, told, frontiers)
    stale = [log for log in ledger if ledger[log] != told[log] and log not in erased]
    pending = {}
    for log, ranges in sorted(ledger.items()):
        start = frontiers[log] or 0
        end = publish_end(ranges, start, permissive=_policy(policies, ranges).passes_damage)
        if end > start:
            pending[log] = (start, end)
    held = ArchivedBytes.of(config.lake, ledger if config.isolation_level == READ_UNCOMMITTED else pending)
    # Other bytes stand there since the ledger was made: what it says is not of them, so the log waits for validation.
    pending = {log: (start, end) for log, (start, end) in pending.items() if held.is_judged(log, start, end)}
    waiting = [
        log
        for log, (start, end) in pending.items()
        if not config.at_once and _waits(_policy(policies, ledger[log]), held, log, start, end, config.as_of_ms)
    ]
    left = set(waiting)
    due = {log: span for log, span in pending.items() if log not in left}
    plans = [_plan_log(ledger[log], frontiers[log], start, end, held) for log, (start, end) in due.items()]
    refused = _mismatches(config.lake, table, plans)
    wrong = {placed.log for placed in refused}
    plans = [log for log in plans if log.log not in wrong]
    decided = {log: frontiers[log] or 0 for log in ledger if log not in wrong} | {p.log: p.end_offset for p in plans}
    tails = UncommittedPlan()
    if config.isolation_level == READ_UNCOMMITTED:
        passing = {log for log in decided if _policy(policies, ledger[log]).passes_damage}
        tails = uncommitted.plan(config.lake, ledger, decided, passing, held)
    unseen = finding_rows.unseen(config.lake, [*refused, *not_whole])
    return PublishPlan(tuple(plans), tuple(waiting), tuple(sorted(stale)), tuple(unseen), tails)


def apply(plan: PublishPlan, config: PublishConfig, executor: Executor | None) -> JobReport:
    """Write, commit once, bring the ledger up to date; then, if asked for, what is not decided yet.

    Raises:
        ConcurrentChange: other commits kept coming between look and commit.
    """
    results = iter(_write(config, [task for log in plan.logs for task in log.tasks], executor))
    files: dict[str, list[WrittenFile]] = {}
    placed = list(plan.refused)
    for log in plan.logs:
        written = [next(results) for _ in log.tasks]
        rows = sum(result["rows"] for result in written)
        problem = next((result["error"] for result in written if result["error"]), None)
        if problem is None and rows != log.records:
            problem = f"{rows} records were decoded where the ledger counts {log.records}"
        if problem is None:
            files[log.log] = [WrittenFile(**result["file"]) for result in written if result["file"]]
        else:
            placed.append(_mismatch(log, problem))
    committed, strange = _commit(config, [log for log in plan.logs if log.log in files], files)
    placed += strange
    touched = sorted({log.log for log in committed} | set(plan.stale_ledgers))
    if touched:
        frontier.sync_published(config.lake, config.run_id, touched)
    # A tail stands on the frontier that its log was to have by now.
    behind = {log.log for log in plan.logs} - {log.log for log in committed}
    tails = uncommitted.apply(plan.uncommitted.without(behind), config.lake, config.run_id, executor)
    placed += tails.refused
    new = finding_rows.record(config.lake, placed, config.run_id, config.as_of_ms)
    return JobReport(
        job=config.JOB,
        run_id=config.run_id,
        lake=config.lake,
        changed=tuple(_change(log, files[log.log]) for log in committed),
        findings=tuple(new),
        plan=plan.as_dict(),
        used_spark=executor is not None,
        metrics={
            "records": sum(log.records for log in committed),
            "files": sum(len(files[log.log]) for log in committed),
            "bytes": sum(file.size for log in committed for file in files[log.log]),
            "waiting": len(plan.waiting),
            "uncommitted_records": tails.records,
        },
    )


def _write(config: PublishConfig, tasks: Sequence[WriteTask], executor: Executor | None) -> list[dict[str, Any]]:
    if executor is None or not tasks:
        return []
    return executor.run([asdict(task) for task in tasks], write_records, [task.size for task in tasks])


def _is_published(config: PublishConfig, topic: str) -> bool:
    if is_internal_topic(topic):
        return config.include_internal or topic in config.topics
    return not config.topics or any(fnmatch.fnmatchcase(topic, glob) for glob in config.topics)


def _with_holes(ledger: Mapping[str, Sequence[LedgerRow]]) -> list[PlacedFinding]:
    """Logs whose ledger leaves out an offset, or has one twice: what of them may be published is not known."""
    placed = []
    for log, ranges in sorted(ledger.items()):
        hole = first_hole(ranges)
        if hole is not None:
            message = (
                f"{ranges[0].topic}-{ranges[0].partition}: {hole.what} in the offset ledger; nothing of this log is "
                "published until the ledger is whole again"
            )
            finding = found("ledger-has-a-hole", message, start_offset=hole.start_offset, end_offset=hole.end_offset)
            placed.append(PlacedFinding(finding, log, ranges[0].topic, ranges[0].partition))
    return placed


def _plan_log(
    ranges: Sequence[LedgerRow], recorded: int | None, start: int, end: int, held: ArchivedBytes
) -> PublishLogPlan:
    first = ranges[0]
    inside = [r for r in ranges if r.start_offset >= start and r.end_offset <= end]
    present = [r for r in inside if r.shows]
    shown = [r for r in inside if r.state in SHOWN and not r.withdrawn]
    return PublishLogPlan(
        log=first.log,
        topic=first.topic,
        log_id=first.log_id,
        partition=first.partition,
        frontier=recorded,
        start_offset=start,
        end_offset=end,
        records=sum(r.records for r in present),
        tasks=held.tasks(first, merged((r.start_offset, r.end_offset) for r in shown)) if present else (),
    )


def _policy(policies: Policies, ranges: Sequence[LedgerRow]) -> TopicPolicy:
    topic = ranges[0].topic
    return policies.for_topic(topic) or TopicPolicy(topic, ())


def _waits(policy: TopicPolicy, held: ArchivedBytes, log: str, start: int, end: int, as_of_ms: int) -> bool:
    """Whether a scheduled run leaves the offsets [start, end) of a log for a later one.

    Age counts from the clock of the run that validated the oldest segment in question, which is the run that took it
    or the one after: a segment's own times are its broker's, and say nothing of when we could have published it.
    """
    if held.bytes_within(log, start, end) >= policy.publish_min_bytes:
        return False
    since = held.validated_since(log, start, end)
    return since is not None and as_of_ms - since < policy.publish_max_delay_ms


class _StrangeRows(Exception):
    """Logs with rows that no frontier stands for, found on the version that a commit was to stand on."""

    def __init__(self, placed: Sequence[PlacedFinding]) -> None:
        super().__init__()
        self.placed = placed


def _commit(
    config: PublishConfig, logs: Sequence[PublishLogPlan], files: Mapping[str, Sequence[WrittenFile]]
) -> tuple[list[PublishLogPlan], list[PlacedFinding]]:
    """One commit for all logs whose frontier is still where the plan found it."""
    refused: list[PlacedFinding] = []
    standing: list[PublishLogPlan] = []

    def check(table: DeltaTable) -> None:
        placed = _mismatches(config.lake, table, standing)
        if placed:
            raise _StrangeRows(placed)

    unanswered: CommitUnanswered | None = None
    for attempt in range(COMMIT_ATTEMPTS):
        now = frontier.read_frontiers(config.lake, [log.log for log in logs])
        if attempt and _are_live(config.lake, [file.path for log in standing for file in files[log.log]]):
            return standing, refused  # this very commit is there: only the answer to it was lost
        if unanswered is not None:
            raise unanswered
        standing = [log for log in logs if now[log.log] == log.frontier]
        standing = _still_fed(config.lake, standing)
        if not standing:
            return [], refused
        chosen = [file for log in standing for file in files[log.log]]
        guards = [log.guard for log in standing]
        try:
            commits.add_files(config.lake, "records", chosen, config.run_id, guards, check=check)
        except _StrangeRows as strange:
            refused += strange.placed
            wrong = {placed.log for placed in strange.placed}
            logs = [log for log in logs if log.log not in wrong]
            standing = []
        except CommitUnanswered as error:
            unanswered = error
        except ConcurrentChange:
            time.sleep(0.05 * 2**attempt)
        else:
            return standing, refused
    raise ConcurrentChange(f"Table records: {COMMIT_ATTEMPTS} attempts were overtaken by other commits; run again.")


def _still_fed(lake: str, logs: Sequence[PublishLogPlan]) -> list[PublishLogPlan]:
    """Logs all of whose planned bytes are still theirs: ingest may have cut a tail back since, without the lease."""
    feeding = {segment.segment_id for segment in archive.ingested_segments(lake, [log.log for log in logs])}
    return [log for log in logs if all(p.segment_id in feeding for task in log.tasks for p in task.pieces)]


def _are_live(lake: str, paths: Sequence[str]) -> bool:
    """Whether files, whose names nobody else gives, are in the table."""
    table = open_table(lake, "records") if paths else None
    return table is not None and set(paths) <= {file.path for file in live_files(table)}


def _mismatches(lake: str, table: DeltaTable | None, logs: Sequence[PublishLogPlan]) -> list[PlacedFinding]:
    """Logs that hold rows at or above their frontier: the table is not what its frontiers say."""
    if table is None or not logs:
        return []
    highest = _highest_offsets(table)
    # The statistics clear almost every log; a file that does not tell whose rows it has makes them worth a look.
    suspects = [
        log
        for log in logs
        if any(
            highest.get((log.topic, *place), -1) >= log.start_offset
            for place in ((log.partition, log.log_id), (log.partition, None), (None, None))
        )
    ]
    files = live_files(table) if suspects else []
    problems = ((log, _strange_rows(lake, files, log)) for log in suspects)
    return [_mismatch(log, problem) for log, problem in problems if problem is not None]


def _highest_offsets(table: DeltaTable) -> dict[tuple[str, int | None, str | None], float]:
    """Greatest offset by topic, partition and log id, by the statistics of the files; None: some do not tell."""
    highest: dict[tuple[str, int | None, str | None], float] = {}
    for file in live_files(table):
        topic, end = file.partition_values["topic"], math.inf if file.max_offset is None else file.max_offset
        place = (topic, None, None) if file.partition is None else (topic, file.partition, file.log_id)
        highest[place] = max(end, highest.get(place, -1))
    return highest


def _strange_rows(lake: str, files: Sequence[LiveFile], log: PublishLogPlan) -> str | None:
    """What of the table does not fit the log's frontier: rows at or above it, or a file that may hold such rows and
    cannot be read; None where there is nothing."""
    for file in files:
        if file.partition_values["topic"] != log.topic or not file.may_reach("offset", log.start_offset):
            continue
        if not (file.may_hold("partition", log.partition) and file.may_hold("log_id", log.log_id)):
            continue
        try:
            held = read_contents(lake, "records", file.path).logs.get((log.log_id, log.partition))
        except FileUnreadable as unreadable:
            return f"{unreadable}; a replacement of its offsets (`--replace ..`) writes what it held again"
        if held is not None and held.end > log.start_offset:
            return f"the table records already holds rows at or above offset {log.start_offset}{_way_out(lake, log)}"
    return None


def _way_out(lake: str, log: PublishLogPlan) -> str:
    """What mends it, where the frontier is not there at all."""
    if log.frontier is not None:
        return ""
    return (
        " and no frontier of the log: another engine has erased it. See what loglake repair "
        f"{shlex.quote(lake)} --frontiers finds; with --apply it makes the frontier again from rows and ledger"
    )


def _mismatch(log: PublishLogPlan, problem: str) -> PlacedFinding:
    finding = found(
        "output-mismatch",
        f"{log.topic}-{log.partition}: offsets [{log.start_offset}, {log.end_offset}) are not published: {problem}.",
        start_offset=log.start_offset,
        end_offset=log.end_offset,
    )
    return PlacedFinding(finding, log.log, log.topic, log.partition)


def _change(log: PublishLogPlan, files: Sequence[WrittenFile]) -> LogChange:
    return LogChange(
        log.log,
        log.topic,
        log.partition,
        {
            "records": log.records,
            "start_offset": log.start_offset,
            "end_offset": log.end_offset,
            "files": len(files),
            "bytes": sum(file.size for file in files),
        },
    )
