"""``compaction``: the archive cleaned by key, as its topics' policies say.

    select   logs dirty beyond `min.cleanable.dirty.ratio`, and how far they may be cleaned     (driver, no JVM)
    clean    one task a log: new files without obsolete records, read again and proven          (workers)
    swap     one commit: old rows retired, new ones in, and how far each log is clean now       (driver)
    tell     `log_actions` and the ledger's `archived`

A log that can't be cleaned yet is refused with a finding and stays as it is; the others go on. Only offsets below the
frontier are looked at, so nothing unpublished leaves. Without ``apply`` only the plan is made.

How far a log is clean is the version of application ``cleaned/<log>`` in the table ``segments``: Kafka's cleaner
checkpoint, recorded in the same commit as the swap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from logcore.logs.compaction.selection import (
    CleanableRange,
    RefusalReason,
    cleanable_range,
    why_not_now,
)
from logcore.logs.findings import found
from logcore.segments.scan import End
from spark_jobs.contracts import CompactionConfig, JobReport
from spark_jobs.lake import archive, commits, finding_rows, frontier, removals
from spark_jobs.lake.archive import LogRow, Segment
from spark_jobs.lake.commits import Guard
from spark_jobs.lake.finding_rows import PlacedFinding
from spark_jobs.lake.log_segments import GovernedLog, governed_logs
from spark_jobs.lake.policies import read_policies
from spark_jobs.lake.removals import Unfinished
from spark_jobs.lake.tables import VALIDATIONS, read_rows
from spark_jobs.segment_pass import RULES_VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class LogPlan:
    """A log to clean: its live segments below ``end_offset``."""

    row: LogRow
    segments: tuple[Segment, ...]
    first_dirty: int
    end_offset: int
    dirty_ratio: float
    version: int | None
    cleaned_version: int | None

    @property
    def cleaned(self) -> Guard:
        """How far the log is clean: as it must be found, and as the swap leaves it."""
        return Guard(cleaned_id(self.row.log), self.cleaned_version, self.end_offset)


@dataclass(frozen=True, slots=True)
class Passed:
    """A log with a policy that is left alone this time."""

    log: str
    topic_partition: str
    reason: str


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What there is to do; printed, it is the dry run."""

    logs: tuple[LogPlan, ...]
    passed: tuple[Passed, ...]
    refused: tuple[PlacedFinding, ...]
    """Not said before."""
    unfinished: Unfinished
    is_dry_run: bool

    @property
    def is_empty(self) -> bool:
        """No log to clean, nothing new to say."""
        return not self.logs and not self.refused and not self.unfinished

    @property
    def needs_spark(self) -> bool:
        """Cleaning is done by workers."""
        return bool(self.logs) and not self.is_dry_run

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {
            "logs": [
                {
                    "log": log.row.log,
                    "topic_partition": log.row.topic_partition,
                    "first_dirty": log.first_dirty,
                    "end_offset": log.end_offset,
                    "dirty_ratio": round(log.dirty_ratio, 3),
                    "segments": [segment.base_offset for segment in log.segments],
                    "bytes": sum(segment.size for segment in log.segments),
                }
                for log in self.logs
            ],
            "passed": [asdict(passed) for passed in self.passed],
            "refused": [{"log": placed.log, "message": placed.finding.message} for placed in self.refused],
            "unfinished": {
                "segments": [removal.segment.segment_id for removal in self.unfinished.actions],
                "ledgers": list(self.unfinished.ledgers),
            },
        }


def cleaned_id(log: str) -> str:
    """Application id whose version in ``segments`` says how far a log is clean."""
    return f"cleaned/{log}"


def plan(config: CompactionConfig) -> CompactionPlan:
    """Logs dirty enough to be cleaned, and what keeps others from it.

    Raises:
        UsageError: the policies can't be read.
    """
    lake = config.lake
    governed = [g for g in governed_logs(lake, read_policies(config.policies), config.logs) if g.policy.compacts]
    logs = [g.row.log for g in governed]
    frontiers = frontier.read_frontiers(lake, logs)
    cleaned = commits.versions(lake, "segments", [cleaned_id(log) for log in logs])
    obstacles = _Obstacles(lake, logs)
    plans, passed, refused = [], [], []
    for g in governed:
        log = g.row.log
        checkpoint = cleaned[cleaned_id(log)]
        chosen = _cleanable(g, checkpoint, frontiers[log] or 0, config.as_of_ms)
        not_now = why_not_now(chosen, min_cleanable_dirty_ratio=g.policy.min_cleanable_dirty_ratio)
        if not_now is not None:
            passed.append(Passed(log, g.row.topic_partition, not_now.message))
            continue
        log_plan = _plan_log(g, chosen, checkpoint)
        obstacle = obstacles.of(log_plan)
        if obstacle is None:
            plans.append(log_plan)
        else:
            refused.append(_refusal(log_plan, *obstacle))
    return CompactionPlan(
        tuple(plans),
        tuple(passed),
        tuple(finding_rows.unseen(lake, refused)),
        removals.unfinished(lake, config.logs),
        not config.apply,
    )


def apply(plan: CompactionPlan, config: CompactionConfig, spark: SparkSession | None) -> JobReport:
    """Clean, prove, swap in one commit, and tell of it; without ``config.apply`` only report the plan.

    Raises:
        ConcurrentChange: a log was touched since the plan.
    """
    report = JobReport(
        job=config.JOB,
        run_id=config.run_id,
        lake=config.lake,
        plan=plan.as_dict(),
        metrics={"applied": config.apply, "due_logs": len(plan.logs)},
    )
    if not config.apply:
        return report
    done, placed = _clean(plan, config, spark)
    _commit_validations(config, done)
    _swap(config, done)
    finished = removals.finish(config.lake, config.run_id, config.logs)
    new = finding_rows.record(config.lake, [*plan.refused, *placed], config.run_id, config.as_of_ms)
    metrics = {
        "applied": True,
        "due_logs": len(plan.logs),
        "cleaned_logs": len(done),
        "replaced_segments": sum(len(replaced) for _, replaced in done),
        "removed_records": sum(r.records_before - r.records_after for r in finished if r.replacement is not None),
    }
    return replace(
        report,
        changed=removals.changes(finished),
        findings=tuple(new),
        used_spark=spark is not None,
        metrics=metrics,
    )


def _cleanable(g: GovernedLog, checkpoint: int | None, published_to: int, as_of_ms: int) -> CleanableRange:
    return cleanable_range(
        [segment.facts for segment in g.segments],
        first_dirty=checkpoint,
        limit_offset=min(published_to, g.validated_to),
        log_start_offset=g.row.log_start_offset,
        log_end_offset=g.segments[-1].next_offset,
        as_of_ms=as_of_ms,
        min_compaction_lag_ms=g.policy.min_compaction_lag_ms,
    )


def _plan_log(g: GovernedLog, chosen: CleanableRange, checkpoint: int | None) -> LogPlan:
    return LogPlan(
        row=g.row,
        segments=tuple(s for each in g.segments if each.base_offset < chosen.end_offset for s in each.slices),
        first_dirty=chosen.first_dirty,
        end_offset=chosen.end_offset,
        dirty_ratio=chosen.dirty_ratio,
        version=g.version,
        cleaned_version=checkpoint,
    )


class _Obstacles:
    """What tables already know to be in the way of cleaning, so that no worker has to find it again.

    Of a worker's own refusal nothing is known but its finding, which names the offsets: it holds for them.
    """

    def __init__(self, lake: str, logs: Sequence[str]) -> None:
        where: list[tuple[str, str, object]] = [("log", "in", sorted(logs))]
        columns = ["segment_id", "verdict", "control_records"]
        validations = read_rows(lake, "validations", columns, where) if logs else None
        self._validations = {row["segment_id"]: row for row in validations.to_pylist()} if validations else {}
        self._transactional: dict[str, int] = {}
        for row in read_rows(lake, "transactions", ["log", "first_offset"], where).to_pylist() if logs else ():
            first = self._transactional.setdefault(row["log"], row["first_offset"])
            self._transactional[row["log"]] = min(first, row["first_offset"])
        said = [*where, ("rule", "==", "compaction-refused")]
        refusals = read_rows(lake, "findings", ["log", "end_offset", "message"], said).to_pylist() if logs else []
        self._said = {(row["log"], row["end_offset"]): row["message"] for row in refusals}

    def of(self, log: LogPlan) -> tuple[str, str] | None:
        """Reason and message of a refusal, or None."""
        said = self._said.get((log.row.log, log.end_offset))
        if said is not None:
            return "", said
        first = self._transactional.get(log.row.log)
        if first is not None and first < log.end_offset:
            return str(RefusalReason.TRANSACTIONAL), f"it holds a transaction, at offset {first}"
        for segment in log.segments:
            judged = self._validations[segment.segment_id]
            if judged["verdict"] != str(End.CLEAN):
                return str(RefusalReason.CORRUPT), f"the segment at base offset {segment.base_offset} is damaged"
            if judged["control_records"]:
                at = f"the segment at base offset {segment.base_offset} holds control batches"
                return str(RefusalReason.CONTROL), at
        return None


def _refusal(log: LogPlan, reason: str, message: str) -> PlacedFinding:
    row = log.row
    text = message if not reason else f"{row.topic_partition} is not cleaned ({reason}): {message}."
    finding = found("compaction-refused", text, start_offset=log.first_dirty, end_offset=log.end_offset)
    return PlacedFinding(finding, row.log, row.topic, row.partition)


Done = list[tuple[LogPlan, list[Mapping[str, Any]]]]
"""Cleaned logs, with what replaces what (see ``segment_cleaning.clean_log``); may be nothing."""


def _clean(
    plan: CompactionPlan, config: CompactionConfig, spark: SparkSession | None
) -> tuple[Done, list[PlacedFinding]]:
    if not plan.logs or spark is None:
        return [], []
    from spark_jobs.segment_cleaning import CleaningTask, clean_log
    from spark_jobs.spread import spread

    tasks = [asdict(CleaningTask(config.lake, log.segments, log.end_offset)) for log in plan.logs]
    done: Done = []
    placed = []
    for log, result in zip(plan.logs, spread(spark, tasks, clean_log), strict=True):
        if result["refusal"] is not None:
            placed.append(_refusal(log, *result["refusal"]))
        elif result["unproven"] is not None:
            message = f"{log.row.topic_partition} is not cleaned: {result['unproven']}."
            finding = found("compaction-unproven", message, start_offset=log.first_dirty, end_offset=log.end_offset)
            placed.append(PlacedFinding(finding, log.row.log, log.row.topic, log.row.partition))
        else:
            done.append((log, result["replaced"]))
    return done, placed


def _commit_validations(config: CompactionConfig, done: Done) -> None:
    """Before the swap: a live segment is a validated one. A run that died here left the same rows behind."""
    replaced = {each["segment"]["segment_id"]: each for _, found in done for each in found}
    if not replaced:
        return
    where: list[tuple[str, str, object]] = [("segment_id", "in", sorted(replaced))]
    there = set(read_rows(config.lake, "validations", ["segment_id"], where)["segment_id"].to_pylist())
    rows = [
        {name: each["segment"][name] for name in ("segment_id", "log", "topic", "log_id", "partition", "base_offset")}
        | each["validation"]
        | {"rules_version": RULES_VERSION, "file_bytes": each["segment"]["size"], "digest": each["segment"]["digest"]}
        | {"as_of_ms": config.as_of_ms}
        for identity, each in sorted(replaced.items())
        if identity not in there
    ]
    commits.append(config.lake, "validations", pa.Table.from_pylist(rows, schema=VALIDATIONS), config.run_id)


def _swap(config: CompactionConfig, done: Done) -> None:
    """One commit for all logs, also for those in which nothing was obsolete: they are clean up to here."""
    if not done:
        return
    replaced = {each["segment_id"]: Segment(**each["segment"]) for _, found in done for each in found}
    retired = [segment for log, _ in done for segment in log.segments if segment.segment_id in replaced]
    guards = [log.cleaned for log, _ in done]
    if not retired:
        commits.add_files(config.lake, "segments", [], config.run_id, [*guards, *_unmoved(done)])
        return
    archive.swap_segments(
        config.lake,
        retired,
        list(replaced.values()),
        {log.row.log: log.version for log, _ in done},
        config.run_id,
        config.as_of_ms,
        archive.COMPACTION,
        {old: new.segment_id for old, new in replaced.items()},
        guards,
    )


def _unmoved(done: Done) -> Iterable[Guard]:
    return [archive.guard_of(log.row.log, log.version) for log, _ in done]
