"""``validate``: one pass over new segments, then over the logs they belong to.

    segment pass   one task a segment: every byte judged; files of `batches` and `quarantine`      (workers)
    log pass       one group a log: transactions and offset ledger, from its first open offset      (workers)
    commit         `batches`, `quarantine`, `findings`, `transactions`, `offset_ledger`, last `validations`

Only a segment's row in ``validations`` means validated. A run that died before it left rows of that segment in the
other tables: they are deleted and made again. The ledger is made again from its first ``open`` offset, where no
transaction is in progress, so what was decided before is not read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from logcore.logs.offset_ledger import OffsetState, restart_offset
from spark_jobs.contracts import JobReport, LogChange, ValidateConfig
from spark_jobs.lake import archive, commits, finding_rows, frontier
from spark_jobs.lake.archive import LogRow, Segment
from spark_jobs.lake.commits import WrittenFile
from spark_jobs.lake.finding_rows import PlacedFinding
from spark_jobs.lake.frontier import LedgerRow
from spark_jobs.lake.policies import read_policies
from spark_jobs.lake.tables import TRANSACTIONS, VALIDATIONS, read_rows, table_uri
from spark_jobs.segment_pass import RULES_VERSION, validate_one

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Judged = tuple[Segment, Mapping[str, Any]]
"""A segment and what its pass said of it."""


@dataclass(frozen=True, slots=True)
class LogPlan:
    """A log to look at: what of it is new, and where its ledger is made again from."""

    row: LogRow
    segments: tuple[Segment, ...]
    """Not validated yet."""
    resume_offset: int
    compacted_by_policy: bool


@dataclass(frozen=True, slots=True)
class ValidatePlan:
    """What there is to do; printed, it is the dry run."""

    logs: tuple[LogPlan, ...]
    unfinished: tuple[str, ...]
    """Segments that an earlier run began and did not finish."""

    @property
    def is_empty(self) -> bool:
        """No new segment, no high watermark that moved."""
        return not self.logs

    @property
    def needs_spark(self) -> bool:
        """Validation always reads bytes or batches."""
        return bool(self.logs)

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {
            "logs": [
                {
                    "log": plan.row.log,
                    "topic_partition": plan.row.topic_partition,
                    "segments": [s.segment_id for s in plan.segments],
                    "from_offset": plan.resume_offset,
                    "high_watermark": plan.row.high_watermark,
                }
                for plan in self.logs
            ],
            "unfinished_segments": list(self.unfinished),
        }


def plan(config: ValidateConfig) -> ValidatePlan:
    """Ingested segments without a row in ``validations``, and logs whose high watermark passed open offsets."""
    policies = read_policies(config.policies)
    rows = archive.read_logs(config.lake, config.logs)
    done = set(read_rows(config.lake, "validations", ["segment_id"])["segment_id"].to_pylist())
    waiting: dict[str, list[Segment]] = {}
    for segment in archive.ingested_segments(config.lake):
        if segment.log in rows:
            # A run that died between the two commits left a row that ends too early: the segments are right.
            end = max(rows[segment.log].next_offset, segment.next_offset)
            rows[segment.log] = replace(rows[segment.log], next_offset=end)
            if segment.segment_id not in done:
                waiting.setdefault(segment.log, []).append(segment)
    ledger = frontier.read_ledger(config.lake, config.logs)
    plans = []
    for log, row in sorted(rows.items()):
        ranges = ledger.get(log, [])
        moved = bool(ranges) and min(row.publish_limit(), row.next_offset) > frontier.ledger_high_watermark(ranges)
        trimmed_only = not ranges and row.next_offset > 0
        if log in waiting or moved or trimmed_only:
            policy = policies.for_topic(row.topic)
            plans.append(
                LogPlan(
                    row,
                    tuple(waiting.get(log, ())),
                    restart_offset(ranges) if ranges else 0,
                    policy is not None and policy.compacts,
                )
            )
    new = [s.segment_id for p in plans for s in p.segments]
    unfinished: set[str] = set()
    for table in ("batches", "quarantine"):
        where: list[tuple[str, str, object]] = [("segment_id", "in", new)]
        unfinished |= set(read_rows(config.lake, table, ["segment_id"], where)["segment_id"].to_pylist() if new else ())
    return ValidatePlan(tuple(plans), tuple(sorted(unfinished)))


def apply(plan: ValidatePlan, config: ValidateConfig, spark: SparkSession) -> JobReport:
    """Judge the new segments, then make transactions and ledger again from each log's first open offset."""
    from spark_jobs.spread import spread

    segments = [segment for log in plan.logs for segment in log.segments]
    if plan.unfinished:
        for table in ("batches", "quarantine"):
            commits.delete(config.lake, table, commits.equal_to_any("segment_id", plan.unfinished), config.run_id)
    tasks = [asdict(segment) | {"lake": config.lake} for segment in segments]
    results = spread(spark, tasks, validate_one, [segment.size for segment in segments])
    placed = [
        _of_segment(segment, result["failed"])
        for segment, result in zip(segments, results, strict=True)
        if result["failed"]
    ]
    unread = {finding.log for finding in placed}
    plan = replace(plan, logs=tuple(log for log in plan.logs if log.row.log not in unread))
    judged = [(s, result) for s, result in zip(segments, results, strict=True) if s.log not in unread]
    placed += [_of_segment(segment, value) for segment, result in judged for value in result["findings"]]
    for table in ("batches", "quarantine"):
        files = [WrittenFile(**file) for _, result in judged for file in result[table]]
        commits.add_files(config.lake, table, files, config.run_id)

    passes = _log_passes(plan, config, spark)
    refused = {log for log, result in passes.items() if result["failed"]}
    placed += [_of_log(log.row, passes[log.row.log]["failed"]) for log in plan.logs if log.row.log in refused]
    plan = replace(plan, logs=tuple(log for log in plan.logs if log.row.log not in refused))
    judged = [(segment, result) for segment, result in judged if segment.log not in refused]
    placed += [_of_log(log.row, value) for log in plan.logs for value in passes[log.row.log]["findings"]]
    new_findings = finding_rows.record(config.lake, placed, config.run_id, config.as_of_ms)
    _commit_transactions(plan, passes, config)
    ledger = _commit_ledger(plan, passes, config)
    _commit_validations(judged, config)
    return JobReport(
        job=config.JOB,
        run_id=config.run_id,
        lake=config.lake,
        changed=tuple(_change(log, judged, ledger[log.row.log]) for log in plan.logs),
        findings=tuple(new_findings),
        plan=plan.as_dict(),
        used_spark=True,
        metrics={
            "segments": len(judged),
            "batches": sum(result["batches_count"] for _, result in judged),
            "records": sum(result["records"] for _, result in judged),
            "quarantined_bytes": sum(result["quarantined_bytes"] for _, result in judged),
        },
    )


def _log_passes(plan: ValidatePlan, config: ValidateConfig, spark: SparkSession) -> dict[str, dict[str, Any]]:
    """Transactions and ledger of each log, made in workers from the log's batches behind its resume offset."""
    from pyspark.sql import functions as F

    from spark_jobs.log_pass import FACT_COLUMNS, LOG_PASS_RESULT, LogFacts, pass_over_log

    logs = [log.row.log for log in plan.logs]
    held = archive.read_segments(config.lake, logs, live=False)
    paths = {s.segment_id: (s.local_path(config.lake), s.start) for s in held}
    facts = {log.row.log: LogFacts.of(log.row, log.resume_offset, log.compacted_by_policy) for log in plan.logs}
    if not _has_batches(config.lake):
        empty = pa.table({"log": []})
        return {log: pass_over_log(facts[log], empty, paths) for log in facts}
    wanted = spark.createDataFrame(
        [(log, fact.resume_offset) for log, fact in facts.items()], "wanted_log string, resume_offset long"
    )
    batches = spark.read.format("delta").load(table_uri(config.lake, "batches"))
    behind = (F.col("last_offset") >= F.col("resume_offset")) | (
        F.col("last_offset").isNull() & (F.col("base_offset") >= F.col("resume_offset"))
    )
    # The literal list lets Delta skip files by their statistics; the join alone would not.
    chosen = (
        batches.where(F.col("log").isin(sorted(facts)))
        .join(F.broadcast(wanted), (F.col("log") == F.col("wanted_log")) & behind)
        .select("log", *FACT_COLUMNS)
    )

    def run(group: pa.Table) -> pa.Table:
        import json

        log = group.column("log")[0].as_py()
        result = json.dumps(pass_over_log(facts[log], group, paths))
        return pa.table({"log": [log], "result": [result]})

    import json

    rows = chosen.groupBy("log").applyInArrow(run, LOG_PASS_RESULT).collect()
    passes = {row["log"]: json.loads(row["result"]) for row in rows}
    for log in facts.keys() - passes.keys():  # only trimmed offsets, or nothing but the log's end moved
        passes[log] = pass_over_log(facts[log], pa.table({"log": []}), paths)
    return passes


def _has_batches(lake: str) -> bool:
    from spark_jobs.lake.tables import open_table

    return open_table(lake, "batches") is not None


def _commit_transactions(plan: ValidatePlan, passes: Mapping[str, Mapping[str, Any]], config: ValidateConfig) -> None:
    resume = {log.row.log: log.resume_offset for log in plan.logs}
    columns = ("log", "topic", "log_id", "partition")
    before = read_rows(config.lake, "transactions", where=[("log", "in", sorted(resume))]).to_pylist()
    kept = [row for row in before if row["first_offset"] < resume[row["log"]]]
    made = [
        {name: getattr(log.row, name) for name in columns} | transaction
        for log in plan.logs
        for transaction in passes[log.row.log]["transactions"]
    ]
    if sorted(map(repr, kept + made)) == sorted(map(repr, before)):
        return
    rows = pa.Table.from_pylist(kept + made, schema=TRANSACTIONS)
    commits.replace(config.lake, "transactions", commits.equal_to_any("log", list(resume)), rows, config.run_id)


def _commit_ledger(
    plan: ValidatePlan, passes: Mapping[str, Mapping[str, Any]], config: ValidateConfig
) -> dict[str, list[LedgerRow]]:
    """The ledger below each resume offset stays as it is, what follows is replaced."""
    logs = [log.row.log for log in plan.logs]
    before = frontier.sync_published(config.lake, config.run_id, logs)
    ledger: dict[str, list[LedgerRow]] = {}
    for log in plan.logs:
        row = log.row
        kept = [r for r in before.get(row.log, []) if r.end_offset <= log.resume_offset]
        made = [
            LedgerRow(
                log=row.log,
                topic=row.topic,
                log_id=row.log_id,
                partition=row.partition,
                **ranges | {"state": OffsetState(ranges["state"])},
            )
            for ranges in passes[row.log]["ledger"]
        ]
        ledger[row.log] = kept + made
    moved = [log for log in logs if ledger[log] != before.get(log, [])]
    frontier.commit_ledger(config.lake, [row for log in moved for row in ledger[log]], moved, config.run_id)
    return ledger


def _commit_validations(judged: Sequence[Judged], config: ValidateConfig) -> None:
    rows = [
        {
            "segment_id": segment.segment_id,
            "log": segment.log,
            "topic": segment.topic,
            "log_id": segment.log_id,
            "partition": segment.partition,
            "base_offset": segment.base_offset,
            "verdict": result["verdict"],
            "rules_version": RULES_VERSION,
            "batches": result["batches_count"],
            "records": result["records"],
            "control_records": result["control_records"],
            "file_bytes": segment.size,
            "valid_bytes": result["valid_bytes"],
            "quarantined_bytes": result["quarantined_bytes"],
            "tail_bytes": result["tail_bytes"],
            "padding_bytes": result["padding_bytes"],
            "findings": len(result["findings"]),
            "split_points": result["split_points"],
            "digest": segment.digest,
            "as_of_ms": config.as_of_ms,
        }
        for segment, result in judged
    ]
    commits.append(config.lake, "validations", pa.Table.from_pylist(rows, schema=VALIDATIONS), config.run_id)


def _change(log: LogPlan, judged: Sequence[Judged], ledger: Sequence[LedgerRow]) -> LogChange:
    mine = [result for segment, result in judged if segment.log == log.row.log]
    states: dict[str, int] = {}
    for row in ledger:
        states[row.state] = states.get(row.state, 0) + row.end_offset - row.start_offset
    return LogChange(
        log.row.log,
        log.row.topic,
        log.row.partition,
        {
            "segments": len(log.segments),
            "batches": sum(result["batches_count"] for result in mine),
            "records": sum(result["records"] for result in mine),
            "quarantined_bytes": sum(result["quarantined_bytes"] for result in mine),
            "log_end_offset": log.row.next_offset,
            **{f"offsets_{state}": count for state, count in sorted(states.items())},
        },
    )


def _of_segment(segment: Segment, value: Mapping[str, Any]) -> PlacedFinding:
    finding = finding_rows.from_plain(value)
    return PlacedFinding(finding, segment.log, segment.topic, segment.partition, segment.segment_id)


def _of_log(row: LogRow, value: Mapping[str, Any]) -> PlacedFinding:
    return PlacedFinding(finding_rows.from_plain(value), row.log, row.topic, row.partition)
