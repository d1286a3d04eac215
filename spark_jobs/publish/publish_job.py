"""``publish``: decided offsets from the archive into the table ``records``, exactly once.

    plan    per log [frontier, first undecided or untrusted offset), from the ledger            (driver, no JVM)
    write   workers decode to Arrow, keep what is visible, write and sync Parquet files          (workers)
    commit  files and the logs' new frontiers in one Delta commit; then the ledger's `published`  (driver)
    tail    on request, undecided offsets are written to `records_uncommitted`              (``uncommitted_rows``)

By default a log is published up to its first damage. With the policy ``salvage: permissive``, offsets after it are
published too. A range [a, b) is committed only on a snapshot whose frontier is exactly a. A log is left out of the
commit if its frontier moved, or if its written rows differ from the ledger's count. The other logs are committed.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deltalake import DeltaTable

from logcore.logs.model.findings import found
from logcore.logs.model.log_selection import LogSelection
from logcore.logs.model.offset_ledger import OffsetState, first_hole, publish_end
from logcore.ranges import joined
from logcore.segments.filenames import METADATA_TOPIC, is_internal_topic
from spark_jobs.archived_rows import uncommitted_rows as uncommitted
from spark_jobs.archived_rows.archived_bytes import ArchivedBytes
from spark_jobs.archived_rows.records_file import WriteTask, write_records
from spark_jobs.archived_rows.uncommitted_rows import READ_UNCOMMITTED, UncommittedPlan
from spark_jobs.contracts import JobReport, LogChange, PublishConfig
from spark_jobs.engine.executor import Executor, run_tasks
from spark_jobs.errors import CommitUnanswered, ConcurrentChange
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.files.file_contents import FileUnreadable, read_contents
from spark_jobs.lake.delta.files.live_files import LiveFile, live_files, newest_files
from spark_jobs.lake.delta.tables.snapshots import latest_snapshot
from spark_jobs.lake.ledger import finding_rows, frontier
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.retries import retried
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.ledger_ranges import sync_published, with_published
from spark_jobs.lake.store.written_file import WrittenFile, first_error
from spark_jobs.outlines import PublishOutline, RangeToPublish
from spark_jobs.placed_finding import PlacedFinding
from spark_jobs.policies.compression import Compression
from spark_jobs.policies.policies_file import Policies
from spark_jobs.policies.topic_policies import TopicPolicy

SHOWN = frozenset({OffsetState.PRESENT, OffsetState.CONTROL, OffsetState.COMPACTED, OffsetState.EMPTY})
"""States that are equal for a worker: only ``present`` offsets have records. So what it reads is one range, and not one
for each aborted transaction, gap or control record."""


@dataclass(frozen=True, slots=True)
class PublishLogPlan(RangeToPublish):
    """The range [start_offset, end_offset) that one log publishes, with ``records`` visible records."""

    log_id: str
    frontier: int | None
    tasks: tuple[WriteTask, ...]

    @property
    def guard(self) -> Guard:
        """The frontier that the commit expects, and the one that it sets."""
        return Guard(frontier.application_id(self.log), self.frontier, self.end_offset)


@dataclass(frozen=True, slots=True)
class PublishPlan:
    """The work to do. The dry run prints it."""

    logs: tuple[PublishLogPlan, ...]
    waiting: tuple[str, ...]
    """Logs with decided offsets that wait for a later run: too few bytes, and not old enough."""
    stale_ledgers: tuple[str, ...]
    """Logs whose ledger does not yet record what is published: a run was killed after its commit."""
    refused: tuple[PlacedFinding, ...]
    uncommitted: UncommittedPlan

    @property
    def is_empty(self) -> bool:
        """Whether every offset that is due is published and the ledger is up to date."""
        return not self.logs and not self.stale_ledgers and not self.refused and self.uncommitted.is_empty

    @property
    def task_bytes(self) -> int | None:
        """Bytes that the tasks read; None: there are no tasks."""
        tasks = [task for log in self.logs for task in log.tasks]
        tasks += [task for log in self.uncommitted.logs for task in log.tasks]
        return sum(task.size for task in tasks) if tasks else None

    @property
    def outline(self) -> PublishOutline:
        """What a report and a dry run say of it."""
        logs = tuple(map(RangeToPublish.of, self.logs))
        return PublishOutline(logs, self.waiting, self.stale_ledgers, self.uncommitted.outline)


def plan(config: PublishConfig) -> PublishPlan:
    """Plan, per log, the decided offsets from its frontier on.

    A log is refused with a finding in two cases: it has rows at or above its frontier, or rows without a frontier; or
    its ledger does not cover each offset exactly once. The other logs continue.
    """
    policies = config.policies
    # Open the table before the frontiers are read: then a concurrent publisher's rows do not look like rows above a
    # frontier.
    table = latest_snapshot(config.lake, "records")
    rows = archive.read_logs(config.lake, config.logs)
    chosen = {log: row for log, row in rows.items() if _is_published(config, row.topic)}
    ledger = frontier.read_ledger(config.lake, list(chosen))
    not_whole = _with_holes(ledger)
    holed = {placed.log for placed in not_whole}
    ledger = {log: ranges for log, ranges in ledger.items() if log not in holed}
    frontiers = frontier.read_frontiers(config.lake, list(ledger))
    recorded = ledger
    # Split at the frontier: only the part of a range after it is still to be published.
    ledger = {log: with_published(config.lake, ranges, frontiers[log]) for log, ranges in recorded.items()}
    erased = frontier.erased(config.lake, recorded, frontiers)
    stale = [log for log in ledger if ledger[log] != recorded[log] and log not in erased]
    pending = {}
    for log, ranges in sorted(ledger.items()):
        start = frontiers[log] or 0
        end = publish_end(ranges, start, permissive=_policy(policies, ranges).passes_damage)
        if end > start:
            pending[log] = (start, end)
    kept = _kept_uncommitted(config, list(ledger))
    held = ArchivedBytes.of(config.lake, {*pending, *kept})
    # The bytes changed after the ledger was made, so the log waits for validation.
    pending = {log: (start, end) for log, (start, end) in pending.items() if held.is_validated(log, start, end)}
    waiting = [
        log
        for log, (start, end) in pending.items()
        if not config.at_once and _waits(_policy(policies, ledger[log]), held, log, start, end, config.as_of_ms)
    ]
    left = set(waiting)
    due = {log: span for log, span in pending.items() if log not in left}
    plans = [
        _plan_log(
            ledger[log],
            frontiers[log],
            start,
            end,
            held,
            config.as_of_ms,
            policies.compression_of(ledger[log][0].topic),
        )
        for log, (start, end) in due.items()
    ]
    refused = _mismatches(config.lake, table, plans)
    wrong = {placed.log for placed in refused}
    plans = [log for log in plans if log.log not in wrong]
    decided = {log: frontiers[log] or 0 for log in ledger if log not in wrong} | {p.log: p.end_offset for p in plans}
    tails = UncommittedPlan()
    if kept:
        passing = {log for log in kept if _policy(policies, ledger[log]).passes_damage}
        ends = {log: end for log, end in decided.items() if log in kept}
        tails = uncommitted.plan(config.lake, ledger, ends, passing, held, policies)
    unseen = finding_rows.unseen(config.lake, [*refused, *not_whole])
    return PublishPlan(tuple(plans), tuple(waiting), tuple(sorted(stale)), tuple(unseen), tails)


def apply(plan: PublishPlan, config: PublishConfig, executor: Executor | None) -> JobReport[PublishOutline]:
    """Write, commit once, and update the ledger; then, on request, write undecided offsets.

    Raises:
        ConcurrentChange: Other commits kept being made between read and commit.
    """
    tasks = [task for log in plan.logs for task in log.tasks]
    results = iter(run_tasks(executor, write_records, tasks, [task.size for task in tasks]))
    files: dict[str, list[WrittenFile]] = {}
    placed = list(plan.refused)
    for log in plan.logs:
        written = [next(results) for _ in log.tasks]
        rows = sum(result.rows for result in written)
        problem = first_error(written)
        if problem is None and rows != log.records:
            problem = f"{rows} records were decoded where the ledger counts {log.records}"
        if problem is None:
            files[log.log] = [file for result in written for file in result.files]
        else:
            placed.append(_mismatch(log, problem))
    committed, strange = _commit(config, [log for log in plan.logs if log.log in files], files)
    placed += strange
    touched = sorted({log.log for log in committed} | set(plan.stale_ledgers))
    if touched:
        sync_published(config.lake, config.run_id, touched)
    # A tail begins at the frontier that this run should have set.
    behind = {log.log for log in plan.logs} - {log.log for log in committed}
    tails = uncommitted.apply(plan.uncommitted.without(behind), config.lake, config.run_id, executor)
    placed += tails.refused
    new = finding_rows.record(config.lake, placed, config.run_id, config.as_of_ms)
    return JobReport.of(
        config,
        plan.outline,
        changed=tuple(_change(log, files[log.log]) for log in committed),
        findings=tuple(new),
        metrics={
            "records": sum(log.records for log in committed),
            "files": sum(len(files[log.log]) for log in committed),
            "bytes": sum(file.size for log in committed for file in files[log.log]),
            "waiting": len(plan.waiting),
            "uncommitted_records": tails.records,
        },
    )


def _kept_uncommitted(config: PublishConfig, logs: Sequence[str]) -> set[str]:
    """The logs whose rows of `records_uncommitted` are brought up to date."""
    if config.isolation_level == READ_UNCOMMITTED:
        return set(logs)
    return set() if config.isolation_level is not None else uncommitted.logs_of(config.lake, logs)


def _is_published(config: PublishConfig, topic: str) -> bool:
    if topic == METADATA_TOPIC:
        return topic in config.topics  # its records have secrets
    if is_internal_topic(topic):
        return config.include_internal or topic in config.topics
    return LogSelection(config.topics).matches_topic(topic)


def _with_holes(ledger: Mapping[str, Sequence[LedgerRow]]) -> list[PlacedFinding]:
    """Findings for logs whose ledger misses an offset or has one twice. Nothing of them may be published."""
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
    ranges: Sequence[LedgerRow],
    recorded: int | None,
    start: int,
    end: int,
    held: ArchivedBytes,
    as_of_ms: int,
    compression: Compression,
) -> PublishLogPlan:
    first = ranges[0]
    inside = [r for r in ranges if r.start_offset >= start and r.end_offset <= end]
    present = [r for r in inside if r.shows]
    shown = joined((r.start_offset, r.end_offset) for r in inside if r.state in SHOWN and not r.withdrawn)
    tasks = held.tasks(first, shown, as_of_ms, compression) if present else ()
    return PublishLogPlan(
        log=first.log,
        topic=first.topic,
        log_id=first.log_id,
        partition=first.partition,
        frontier=recorded,
        start_offset=start,
        end_offset=end,
        records=sum(r.records for r in present),
        files=len(tasks),
        tasks=tasks,
    )


def _policy(policies: Policies, ranges: Sequence[LedgerRow]) -> TopicPolicy:
    topic = ranges[0].topic
    return policies.for_topic(topic) or TopicPolicy(topic, ())


def _waits(policy: TopicPolicy, held: ArchivedBytes, log: str, start: int, end: int, as_of_ms: int) -> bool:
    """Whether a scheduled run leaves the offsets [start, end) of a log for a later run.

    The age counts from the clock of the run that validated the oldest of these segments. That run or the one before it
    ingested the segment. A segment's own times are the broker's, and do not show when it could have been published.
    """
    if held.bytes_within(log, start, end) >= policy.publish_min_bytes:
        return False
    since = held.validated_since(log, start, end)
    return since is not None and as_of_ms - since < policy.publish_max_delay_ms


def _commit(
    config: PublishConfig, logs: Sequence[PublishLogPlan], files: Mapping[str, Sequence[WrittenFile]]
) -> tuple[list[PublishLogPlan], list[PlacedFinding]]:
    """Commit all logs whose frontier has not moved since the plan, in one commit."""
    refused: list[PlacedFinding] = []
    unmoved: list[PublishLogPlan] = []

    def check(table: DeltaTable) -> None:
        placed = _mismatches(config.lake, table, unmoved)
        if placed:  # checked on the version that the commit is based on: the other logs are tried again
            refused.extend(placed)
            raise ConcurrentChange("Table records: rows at or above a frontier came since the plan.")

    def attempt() -> list[PublishLogPlan]:
        nonlocal unmoved
        if _are_live(config.lake, unmoved, files):
            return unmoved  # this commit succeeded: only its answer was lost
        now = frontier.read_frontiers(config.lake, [log.log for log in logs])
        wrong = {placed.log for placed in refused}
        unmoved = [log for log in logs if now[log.log] == log.frontier]
        unmoved = _still_fed(config.lake, [log for log in unmoved if log.log not in wrong])
        if not unmoved:
            return []
        added = [file for log in unmoved for file in files[log.log]]
        guards = [log.guard for log in unmoved]
        try:
            commits.add_files(config.lake, "records", added, config.run_id, guards, check=check)
        except CommitUnanswered:
            if not _are_live(config.lake, unmoved, files):
                raise
        return unmoved

    return retried(attempt), refused


def _still_fed(lake: str, logs: Sequence[PublishLogPlan]) -> list[PublishLogPlan]:
    """Logs whose planned segments still feed them. If the lease was lost, an `ingest` may have removed a tail since."""
    feeding = {segment.segment_id for segment in archive.ingested_segments(lake, [log.log for log in logs])}
    return [log for log in logs if all(p.segment_id in feeding for task in log.tasks for p in task.pieces)]


def _are_live(lake: str, logs: Sequence[PublishLogPlan], files: Mapping[str, Sequence[WrittenFile]]) -> bool:
    """Whether the logs' files, which have unique names, are in the table; False if there are none."""
    paths = {file.path for log in logs for file in files[log.log]}
    return bool(paths) and paths <= {file.path for file in newest_files(lake, "records")}


def _mismatches(lake: str, table: DeltaTable | None, logs: Sequence[PublishLogPlan]) -> list[PlacedFinding]:
    """Findings for logs that have rows at or above their frontier: table and frontiers disagree."""
    if table is None or not logs:
        return []
    highest = _highest_offsets(table)
    # The statistics exclude almost every log. Logs are read only if a file's statistics are missing or suspicious.
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
    """Greatest offset by topic, partition and log id, from the files' statistics; None where a file lacks them."""
    highest: dict[tuple[str, int | None, str | None], float] = {}
    for file in live_files(table):
        topic, end = file.partition_values["topic"], math.inf if file.max_offset is None else file.max_offset
        place = (topic, None, None) if file.partition is None else (topic, file.partition, file.log_id)
        highest[place] = max(end, highest.get(place, -1))
    return highest


def _strange_rows(lake: str, files: Sequence[LiveFile], log: PublishLogPlan) -> str | None:
    """The problem with a log's frontier; None where there is none.

    Either the table has rows at or above the frontier, or an unreadable file may have such rows.
    """
    for file in files:
        is_of_topic = file.partition_values["topic"] == log.topic
        if not (is_of_topic and file.may_have(log.log_id, log.partition, log.start_offset)):
            continue
        try:
            held = read_contents(lake, "records", file.path).logs.get((log.log_id, log.partition))
        except FileUnreadable as unreadable:
            return f"{unreadable}; a replacement of its offsets (`--replace ..`) writes what it held again"
        if held is not None and held.end > log.start_offset:
            return f"the table records already holds rows at or above offset {log.start_offset}{_way_out(lake, log)}"
    return None


def _way_out(lake: str, log: PublishLogPlan) -> str:
    """How to repair the log if its frontier is missing."""
    if log.frontier is not None:
        return ""
    return (
        " and no frontier of the log: another engine has erased it. See what loglake repair "
        f"{shlex.quote(lake)} --frontiers finds; with --apply it rebuilds the frontier from rows and ledger"
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
