"""``publish``: decided offsets from the archive into the table ``records``, exactly once.

    plan    per log [frontier, first undecided or untrusted offset), from the ledger            (driver, no JVM)
    write   workers decode to Arrow, keep what is visible, write and sync Parquet files          (workers)
    commit  files and the logs' new frontiers in one Delta commit; then the ledger's `published`  (driver)

A range [a, b) is committed only on a snapshot whose frontier is exactly a. A log whose frontier moved meanwhile, or
whose written rows are not what the ledger counts, leaves the commit; the others go on.
"""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from logcore.logs.findings import found
from logcore.logs.offset_ledger import OffsetState, publish_end
from logcore.segments.filenames import is_internal_topic
from spark_jobs.contracts import JobReport, LogChange, PublishConfig
from spark_jobs.lake import archive, commits, finding_rows, frontier
from spark_jobs.lake.commits import Guard, WrittenFile, live_files
from spark_jobs.lake.errors import ConcurrentChange, OutputMismatch
from spark_jobs.lake.finding_rows import PlacedFinding
from spark_jobs.lake.frontier import LedgerRow
from spark_jobs.lake.tables import open_table, read_rows
from spark_jobs.pieces import Held, merged
from spark_jobs.records_file import WriteTask, write_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMIT_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class LogPlan:
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

    logs: tuple[LogPlan, ...]
    stale_ledgers: tuple[str, ...]
    """Logs whose ledger does not say yet what is published: a run died behind its commit."""
    refused: tuple[PlacedFinding, ...]

    @property
    def is_empty(self) -> bool:
        """Every decided offset is published, and the ledger says so."""
        return not self.logs and not self.stale_ledgers and not self.refused

    @property
    def needs_spark(self) -> bool:
        """Whether records have to be decoded."""
        return any(log.tasks for log in self.logs)

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain values."""
        keys = ("log", "topic", "partition", "start_offset", "end_offset", "records")
        return {
            "logs": [{key: getattr(log, key) for key in keys} | {"files": len(log.tasks)} for log in self.logs],
            "stale_ledgers": list(self.stale_ledgers),
        }


def plan(config: PublishConfig) -> PublishPlan:
    """Per log, the decided offsets behind its frontier.

    A log that holds rows without a frontier, or at or above it, is refused with a finding.
    """
    rows = archive.read_logs(config.lake, config.logs)
    chosen = {log: row for log, row in rows.items() if _is_published(config, row.topic)}
    ledger = frontier.read_ledger(config.lake, list(chosen))
    frontiers = frontier.read_frontiers(config.lake, list(ledger))
    due = {}
    for log, ranges in sorted(ledger.items()):
        start = frontiers[log] or 0
        end = publish_end(ranges, start)
        if end > start:
            due[log] = (start, end)
    held = Held.of(config.lake, due)
    plans = [_plan_log(ledger[log], frontiers[log], start, end, held) for log, (start, end) in due.items()]
    refused = _mismatches(config.lake, plans)
    plans = [log for log in plans if log.log not in {placed.log for placed in refused}]
    stale = [log for log, ranges in ledger.items() if frontier.with_published(ranges, frontiers[log]) != ranges]
    return PublishPlan(tuple(plans), tuple(sorted(stale)), tuple(finding_rows.unseen(config.lake, refused)))


def apply(plan: PublishPlan, config: PublishConfig, spark: SparkSession | None) -> JobReport:
    """Write, commit once, bring the ledger up to date.

    Raises:
        ConcurrentChange: other commits kept coming between look and commit.
    """
    from spark_jobs.spread import spread

    tasks = [task for log in plan.logs for task in log.tasks]
    results = iter(spread(spark, [asdict(task) for task in tasks], write_records) if spark is not None else ())
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
            placed.append(_mismatch(log.log, log.topic, log.partition, log.start_offset, log.end_offset, problem))
    committed = _commit(config, [log for log in plan.logs if log.log in files], files)
    touched = sorted({log.log for log in committed} | set(plan.stale_ledgers))
    if touched:
        frontier.sync_published(config.lake, config.run_id, touched)
    new = finding_rows.record(config.lake, placed, config.run_id, config.as_of_ms)
    return JobReport(
        job=config.JOB,
        run_id=config.run_id,
        lake=config.lake,
        changed=tuple(_change(log, files[log.log]) for log in committed),
        findings=tuple(new),
        plan=plan.as_dict(),
        used_spark=spark is not None,
        metrics={
            "records": sum(log.records for log in committed),
            "files": sum(len(files[log.log]) for log in committed),
            "bytes": sum(file.size for log in committed for file in files[log.log]),
        },
    )


def _is_published(config: PublishConfig, topic: str) -> bool:
    if is_internal_topic(topic):
        return config.include_internal or topic in config.topics
    return not config.topics or any(fnmatch.fnmatchcase(topic, glob) for glob in config.topics)


def _plan_log(ranges: Sequence[LedgerRow], recorded: int | None, start: int, end: int, held: Held) -> LogPlan:
    first = ranges[0]
    present = [r for r in ranges if r.state is OffsetState.PRESENT and r.start_offset >= start and r.end_offset <= end]
    visible = merged((r.start_offset, r.end_offset) for r in present)
    return LogPlan(
        log=first.log,
        topic=first.topic,
        log_id=first.log_id,
        partition=first.partition,
        frontier=recorded,
        start_offset=start,
        end_offset=end,
        records=sum(r.records for r in present),
        tasks=held.tasks(first, visible),
    )


def _commit(
    config: PublishConfig, logs: Sequence[LogPlan], files: Mapping[str, Sequence[WrittenFile]]
) -> list[LogPlan]:
    """One commit for all logs whose frontier is still where the plan found it."""
    for attempt in range(COMMIT_ATTEMPTS):
        now = frontier.read_frontiers(config.lake, [log.log for log in logs])
        standing = [log for log in logs if now[log.log] == log.frontier]
        taken = {placed.log for placed in _mismatches(config.lake, standing)}
        if taken:
            raise OutputMismatch(f"Rows appeared behind the frontier of {', '.join(sorted(map(str, taken)))}.")
        if not standing:
            return []
        chosen = [file for log in standing for file in files[log.log]]
        try:
            commits.add_files(config.lake, "records", chosen, config.run_id, [log.guard for log in standing])
        except ConcurrentChange:
            time.sleep(0.05 * 2**attempt)
            continue
        return standing
    raise ConcurrentChange(f"Table records: {COMMIT_ATTEMPTS} attempts were overtaken by other commits; run again.")


def _mismatches(lake: str, logs: Sequence[LogPlan]) -> list[PlacedFinding]:
    """Logs that hold rows at or above their frontier: the table is not what its frontiers say."""
    if not logs:
        return []
    highest = _highest_offsets(lake)
    refused = []
    for log in logs:
        # The statistics clear almost every log; another incarnation of it, or an odd file, makes rows worth a look.
        if highest.get((log.topic, log.partition), -1) >= log.start_offset or (log.topic, None) in highest:
            if not _has_rows(lake, log):
                continue
            problem = f"the table records already holds rows at or above offset {log.start_offset}"
            refused.append(_mismatch(log.log, log.topic, log.partition, log.start_offset, log.end_offset, problem))
    return refused


def _highest_offsets(lake: str) -> dict[tuple[str, int | None], int]:
    """Greatest offset by topic and partition, by the statistics of the files; partition None: some do not tell."""
    table = open_table(lake, "records")
    if table is None:
        return {}
    highest: dict[tuple[str, int | None], int] = {}
    for file in live_files(table):
        topic = file.partition_values["topic"]
        if file.max_offset is None or file.partition is None:
            highest[topic, None] = 0
        else:
            highest[topic, file.partition] = max(file.max_offset, highest.get((topic, file.partition), -1))
    return highest


def _has_rows(lake: str, log: LogPlan) -> bool:
    where: list[tuple[str, str, object]] = [
        ("topic", "==", log.topic),
        ("partition", "==", log.partition),
        ("offset", ">=", log.start_offset),
        ("log_id", "==", log.log_id),
    ]
    return read_rows(lake, "records", ["offset"], where).num_rows > 0


def _mismatch(log: str, topic: str, partition: int, start: int, end: int, problem: str) -> PlacedFinding:
    finding = found(
        "output-mismatch",
        f"{topic}-{partition}: offsets [{start}, {end}) are not published: {problem}.",
        start_offset=start,
        end_offset=end,
    )
    return PlacedFinding(finding, log, topic, partition)


def _change(log: LogPlan, files: Sequence[WrittenFile]) -> LogChange:
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
