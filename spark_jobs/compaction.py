"""``compaction``: the archive cleaned by key as a broker of a stated line would clean it, as its topics' policies say.

    select   logs dirty beyond `min.cleanable.dirty.ratio`, and how far they may be cleaned     (driver, no JVM)
    clean    one task a log, or many for a large one: new files, read again and proven          (workers)
    swap     one commit: old rows retired, new ones in, and how far each log is clean now       (driver)
    tell     `log_actions` and the ledger's `archived`

Only offsets below the frontier are looked at, so nothing unpublished leaves; nor is anything looked at from where
offsets came late, below the frontier, and are not published yet, or are missing: while they may come yet, nothing above
them can be told to be garbage. A group of segments in which damage was
found stays as it is, with a finding that names the place; the others of its log go on, and the log counts as clean up
to the damage. Without ``apply`` only the plan is made.

How far a log is clean is the version of application ``cleaned/<log>`` in the table ``segments``: Kafka's cleaner
checkpoint, recorded in the same commit as the swap. A log that was touched since its plan is left out of the commit and
planned again; the others are not held up by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from logcore.logs.compaction.selection import (
    CleanableRange,
    RefusalReason,
    cleanable_range,
    is_overdue,
    why_not_now,
)
from logcore.logs.findings import found
from spark_jobs.contracts import CompactionConfig, JobReport
from spark_jobs.lake import archive, commits, finding_rows, log_directory, removals, run_folder
from spark_jobs.lake.archive import LogRow, Segment
from spark_jobs.lake.commits import Guard
from spark_jobs.lake.errors import ConcurrentChange
from spark_jobs.lake.finding_rows import PlacedFinding
from spark_jobs.lake.log_segments import GovernedLog, governed_logs
from spark_jobs.lake.policies import TopicPolicy, read_policies
from spark_jobs.lake.removals import Unfinished
from spark_jobs.lake.tables import VALIDATIONS, read_rows
from spark_jobs.segment_pass import RULES_VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SWAP_ATTEMPTS = 5
"""How often the swap is tried where others commit to `segments` meanwhile."""


@dataclass(frozen=True, slots=True)
class LogPlan:
    """A log to clean, with all its live segments; those below ``end_offset`` may be cleaned."""

    row: LogRow
    policy: TopicPolicy
    segments: tuple[Segment, ...]
    first_dirty: int
    end_offset: int
    dirty_ratio: float
    limit_offset: int
    version: int | None
    cleaned_version: int | None

    @property
    def cleaned_segments(self) -> tuple[Segment, ...]:
        """Those in the range."""
        return tuple(segment for segment in self.segments if segment.base_offset < self.end_offset)

    @property
    def bytes(self) -> int:
        """Of the range."""
        return sum(segment.size for segment in self.cleaned_segments)

    @property
    def is_spread(self) -> bool:
        """Whether many tasks clean it. Not where a map of a stated size ends the round: only one task can count."""
        stated = self.policy.log_cleaner_dedupe_buffer_size
        return stated is None and self.bytes > self.policy.compaction_spread_bytes


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
    unfinished: Unfinished
    has_leftovers: bool
    """A run that was killed left files that its steps had for one another."""
    is_dry_run: bool

    @property
    def is_empty(self) -> bool:
        """No log to clean, nothing left to tell or to take away."""
        return not self.logs and not self.unfinished and not self.has_leftovers

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
                    "compat": log.policy.compat,
                    "first_dirty": log.first_dirty,
                    "end_offset": log.end_offset,
                    "dirty_ratio": round(log.dirty_ratio, 3),
                    "segments": [segment.base_offset for segment in log.cleaned_segments],
                    "bytes": log.bytes,
                    "spread": log.is_spread,
                }
                for log in self.logs
            ],
            "passed": [asdict(passed) for passed in self.passed],
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
    cleaned = commits.versions(lake, "segments", [cleaned_id(log) for log in logs])
    said = _said_before(lake, logs)
    plans, passed = [], []
    for g in governed:
        log = g.row.log
        checkpoint = cleaned[cleaned_id(log)]
        limit = min(g.published_to, g.validated_to)
        held_back = g.missing_from is not None and g.missing_from < limit
        if held_back:
            limit = g.missing_from or 0
        chosen = _cleanable(g, checkpoint, limit, config.as_of_ms)
        not_now = why_not_now(chosen, min_cleanable_dirty_ratio=g.policy.min_cleanable_dirty_ratio)
        log_plan = _plan_log(g, chosen, checkpoint, limit)
        if not_now is not None and not (chosen.cleanable_bytes and _is_overdue(lake, g, chosen, config.as_of_ms)):
            more = f"; from offset {limit} on some are missing and may come yet" if held_back else ""
            passed.append(Passed(log, g.row.topic_partition, not_now.message + more))
        elif _is_known_to_stay(log_plan, said):
            passed.append(Passed(log, g.row.topic_partition, said[log, log_plan.end_offset][1]))
        else:
            plans.append(log_plan)
    return CompactionPlan(
        tuple(plans),
        tuple(passed),
        removals.unfinished(lake, config.logs),
        run_folder.has_leftovers(lake),
        is_dry_run=not config.apply,
    )


def apply(plan: CompactionPlan, config: CompactionConfig, spark: SparkSession | None) -> JobReport:
    """Clean, prove, swap in one commit, and tell of it; without ``config.apply`` only report the plan.

    Raises:
        ConcurrentChange: a log was touched since the plan; the others are cleaned.
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
    if plan.has_leftovers:
        run_folder.remove(config.lake)
    done = _clean(plan, config, spark)
    _commit_validations(config, done)
    overtaken = _swap(config, done)
    new = finding_rows.record(config.lake, _findings_of(done), config.run_id, config.as_of_ms)
    finished = removals.finish(config.lake, config.run_id, config.logs)
    if overtaken is not None:
        raise overtaken
    replaced = [each for log in done for each in log.replaced]
    cleaned = [removal for removal in finished if removal.replacement is not None]
    metrics = {
        "applied": True,
        "due_logs": len(plan.logs),
        "cleaned_logs": sum(log.moves for log in done),
        "spread_logs": sum(log.plan.is_spread for log in done),
        "replaced_segments": sum(len(each["sources"]) for each in replaced),
        "removed_records": sum(r.records_before - r.records_after for r in cleaned),
    }
    return replace(
        report,
        changed=removals.changes(finished),
        findings=tuple(new),
        used_spark=spark is not None,
        metrics=metrics,
    )


def _cleanable(g: GovernedLog, checkpoint: int | None, limit_offset: int, as_of_ms: int) -> CleanableRange:
    return cleanable_range(
        [segment.facts for segment in g.segments],
        first_dirty=checkpoint,
        limit_offset=limit_offset,
        log_start_offset=g.row.log_start_offset,
        log_end_offset=g.segments[-1].next_offset,
        as_of_ms=as_of_ms,
        min_compaction_lag_ms=g.policy.min_compaction_lag_ms,
    )


def _is_overdue(lake: str, g: GovernedLog, chosen: CleanableRange, as_of_ms: int) -> bool:
    """Whether `max.compaction.lag.ms` asks for it; unlimited, no segment is opened."""
    lag = g.policy.max_compaction_lag_ms
    if lag >= as_of_ms:
        return False
    dirty = [segment.slices[0] for segment in g.segments[:-1] if segment.next_offset > chosen.first_dirty]
    first = [log_directory.first_timestamp(lake, each) for each in dirty]
    return is_overdue(first, as_of_ms=as_of_ms, max_compaction_lag_ms=lag)


def _plan_log(g: GovernedLog, chosen: CleanableRange, checkpoint: int | None, limit_offset: int) -> LogPlan:
    return LogPlan(
        row=g.row,
        policy=g.policy,
        segments=tuple(s for each in g.segments for s in each.slices),
        first_dirty=chosen.first_dirty,
        end_offset=chosen.end_offset,
        dirty_ratio=chosen.dirty_ratio,
        limit_offset=limit_offset,
        version=g.version,
        cleaned_version=checkpoint,
    )


Said = Mapping[tuple[str, int], tuple[str | None, str]]
"""By log and end of the range: the segment that was in the way, if it was one, and what was said."""


def _said_before(lake: str, logs: Sequence[str]) -> Said:
    """What an earlier run could not clean, so that no worker has to find it again."""
    if not logs:
        return {}
    where: list[tuple[str, str, object]] = [("log", "in", sorted(logs)), ("rule", "==", "compaction-refused")]
    rows = read_rows(lake, "findings", ["log", "end_offset", "segment_id", "message"], where).to_pylist()
    return {(row["log"], row["end_offset"]): (row["segment_id"], row["message"]) for row in rows}


def _is_known_to_stay(log: LogPlan, said: Said) -> bool:
    """Whether the same was in the way of the same range; a damaged segment may have been filled since."""
    known = said.get((log.row.log, log.end_offset))
    return known is not None and (known[0] is None or known[0] in {s.segment_id for s in log.segments})


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What came of one log; ``replaced`` as `log_cleaning.clean_log` gives it."""

    plan: LogPlan
    replaced: tuple[Mapping[str, Any], ...] = ()
    first_dirty_offset: int | None = None
    """How far it is clean now; None: nothing was done."""
    findings: tuple[PlacedFinding, ...] = ()

    @property
    def moves(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self.replaced) or self.first_dirty_offset not in (None, self.plan.cleaned_version)

    @property
    def retired(self) -> list[Segment]:
        """The segments that others take the place of."""
        gone = {identity for each in self.replaced for identity in each["sources"]}
        return [segment for segment in self.plan.segments if segment.segment_id in gone]

    @property
    def guards(self) -> list[Guard]:
        """How far the log is clean: as it must be found, and as the swap leaves it."""
        assert self.first_dirty_offset is not None
        return [Guard(cleaned_id(self.plan.row.log), self.plan.cleaned_version, self.first_dirty_offset)]


def _clean(plan: CompactionPlan, config: CompactionConfig, spark: SparkSession | None) -> list[Cleaned]:
    if not plan.logs or spark is None:
        return []
    from spark_jobs.log_cleaning import clean_log, task_of
    from spark_jobs.spread import spread

    whole = [log for log in plan.logs if not log.is_spread]
    tasks = [asdict(task_of(config, log)) for log in whole]
    results = spread(spark, tasks, clean_log, [log.bytes for log in whole])
    done = [_cleaned(log, result) for log, result in zip(whole, results, strict=True)]
    for log in plan.logs:
        if log.is_spread:
            from spark_jobs.spread_cleaning import clean_spread

            done.append(_cleaned(log, clean_spread(spark, task_of(config, log))))
    return done


def _cleaned(log: LogPlan, result: Mapping[str, Any]) -> Cleaned:
    row = log.row
    findings = []
    if result["refusal"] is not None:
        reason, message = result["refusal"]
        if reason == str(RefusalReason.NOTHING_CLEANABLE):
            return Cleaned(log)
        findings.append(
            _finding("compaction-refused", log, f"{row.topic_partition} is not cleaned ({reason}): {message}.")
        )
    elif result["unproven"] is not None:
        message = f"{row.topic_partition} is not cleaned: {result['unproven']}."
        findings.append(_finding("compaction-unproven", log, message))
    for damage in result["damage"]:
        message = (
            f"{row.topic_partition}: the segment at base offset {damage['base_offset']} is not cleaned, because bytes "
            f"at position {damage['position']}, offset {damage['offset']}, cannot be trusted: {damage['message']}. "
            "No tombstone and no marker behind them leaves the log until they are repaired."
        )
        findings.append(_finding("compaction-refused", log, message, damage))
    if result["refusal"] is not None or result["unproven"] is not None:
        return Cleaned(log, findings=tuple(findings))
    return Cleaned(log, tuple(result["replaced"]), result["first_dirty_offset"], tuple(findings))


def _finding(rule: str, log: LogPlan, message: str, damage: Mapping[str, Any] | None = None) -> PlacedFinding:
    place = {} if damage is None else {"file": damage["file"], "position": damage["position"]}
    finding = found(rule, message, start_offset=log.first_dirty, end_offset=log.end_offset, **place)
    segment_id = None if damage is None else damage["segment_id"]
    return PlacedFinding(finding, log.row.log, log.row.topic, log.row.partition, segment_id)


def _findings_of(done: Sequence[Cleaned]) -> list[PlacedFinding]:
    return [placed for log in done for placed in log.findings]


def _commit_validations(config: CompactionConfig, done: Sequence[Cleaned]) -> None:
    """Before the swap: a live segment is a validated one. A run that died here left the same rows behind."""
    replaced = {each["segment"]["segment_id"]: each for log in done for each in log.replaced}
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


def _swap(config: CompactionConfig, done: Sequence[Cleaned]) -> ConcurrentChange | None:
    """One commit for all logs, also for those in which nothing was obsolete: they are clean up to here.

    Returns:
        Why some were left out, if they were: their guards moved since the plan, and they are to be planned again.
    """
    left = [log for log in done if log.moves]
    overtaken: ConcurrentChange | None = None
    for _ in range(SWAP_ATTEMPTS):
        if not left:
            return overtaken
        try:
            _commit_swap(config, left)
        except ConcurrentChange as error:
            overtaken = error
            left = _not_overtaken(config.lake, left)
        else:
            return overtaken if len(left) < sum(log.moves for log in done) else None
    return overtaken


def _commit_swap(config: CompactionConfig, logs: Sequence[Cleaned]) -> None:
    guards = [guard for log in logs for guard in log.guards]
    versions = {log.plan.row.log: log.plan.version for log in logs}
    retired = [segment for log in logs for segment in log.retired]
    touched = {segment.log for segment in retired}
    guards += [archive.guard_of(log, version) for log, version in versions.items() if log not in touched]
    if not retired:
        commits.add_files(config.lake, "segments", [], config.run_id, guards)
        return
    archive.swap_segments(
        config.lake,
        retired,
        [Segment(**each["segment"]) for log in logs for each in log.replaced],
        {log: versions[log] for log in touched},
        config.run_id,
        config.as_of_ms,
        archive.COMPACTION,
        {old: each["segment"]["segment_id"] for log in logs for each in log.replaced for old in each["sources"]},
        guards,
    )


def _not_overtaken(lake: str, logs: Sequence[Cleaned]) -> list[Cleaned]:
    """Those whose guards stand where they did."""
    names = [log.plan.row.log for log in logs]
    versions = archive.planned_versions(lake, names)
    cleaned = commits.versions(lake, "segments", [cleaned_id(log) for log in names])
    return [
        log
        for log in logs
        if versions[log.plan.row.log] == log.plan.version
        and cleaned[cleaned_id(log.plan.row.log)] == log.plan.cleaned_version
    ]
