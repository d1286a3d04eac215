"""``recover``: what a broker's start would leave of archived logs, and log directories on which a fresh broker starts.

    plan      logs and their live segments                                       (driver, no JVM)
    recover   one task a log: how far it is valid, its side files, what is lost  (workers, or driver if small)
    apply     `<out>/<topic>-<partition>` of each log, whole or not at all       (workers)
    record    the root files of `<out>`, then `log_actions`                      (driver)

Without ``apply`` it reports what each log would lose and writes nothing. The archive is only read, and ``out`` must not
be in the lake. For a recreated topic the latest incarnation is used, unless logs are named. An existing directory stays
as it is. If it is identical to the result of an earlier run, it counts as done.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from logcore.errors import LogError
from logcore.logs.model.findings import found
from logcore.logs.model.partition_directory import RootLines
from logcore.segments.filenames import LOG_SUFFIX, TopicPartition
from logcore.storage.partition_output import write_root_files
from spark_jobs.contracts import JobReport, LogChange, RecoverConfig
from spark_jobs.errors import UsageError
from spark_jobs.lake.cluster.cluster_settings import lake_policies
from spark_jobs.lake.delta.commits import commit_guards, row_commits
from spark_jobs.lake.delta.tables.table_rows import read_rows
from spark_jobs.lake.ledger import finding_rows
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import LogRow, Segment
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_schemas import LOG_ACTIONS
from spark_jobs.outlines import RecoverOutline
from spark_jobs.placed_finding import PlacedFinding
from spark_jobs.policies.policies_file import Policies
from spark_jobs.policies.topic_policies import TopicPolicy
from spark_jobs.tasks.archived_recovery import RecoveredLog, RecoverTask, recover_log
from spark_jobs.tasks.executor import run_tasks

if TYPE_CHECKING:
    from spark_jobs.tasks.executor import Executor


RECOVERY = "recovery"


@dataclass(frozen=True, slots=True)
class RecoverLogPlan:
    """A log to recover."""

    row: LogRow
    segments: tuple[Segment, ...]
    first_dirty_offset: int | None


Done = tuple[RecoverLogPlan, RecoveredLog]
"""A log and its result."""


@dataclass(frozen=True, slots=True)
class RecoverPlan:
    """The logs to recover. The result is known only after their bytes are read."""

    logs: tuple[RecoverLogPlan, ...]
    policies: Policies

    @property
    def is_empty(self) -> bool:
        """Whether no log was selected."""
        return not self.logs

    @property
    def task_bytes(self) -> int | None:
        """Bytes that the tasks read; None: there are no tasks."""
        return sum(segment.size for log in self.logs for segment in log.segments) if self.logs else None

    @property
    def outline(self) -> RecoverOutline:
        """What a dry run says of it."""
        return RecoverOutline(
            tuple(
                {
                    "log": log.row.log,
                    "topic_partition": log.row.topic_partition,
                    "segments": len(log.segments),
                    "bytes": sum(s.size for s in log.segments),
                }
                for log in self.logs
            )
        )


def plan(config: RecoverConfig) -> RecoverPlan:
    """Find the selected logs.

    Raises:
        UsageError: The policies cannot be read; ``out`` is missing, remote or in the lake; or two logs of one topic
            partition are named.
    """
    _check_out(config)
    rows = archive.read_logs(config.lake, config.logs)
    chosen: dict[str, LogRow] = {}
    for row in sorted(rows.values(), key=lambda row: row.incarnation):
        if config.logs is not None and row.topic_partition in chosen:
            raise UsageError(f"recover: two logs are named {row.topic_partition}; only one directory can be.")
        chosen[row.topic_partition] = row
    logs = sorted(row.log for row in chosen.values())
    segments: dict[str, list[Segment]] = {}
    for segment in archive.read_segments(config.lake, logs):
        segments.setdefault(segment.log, []).append(segment)
    cleaned = commit_guards.versions(config.lake, "segments", [f"cleaned/{log}" for log in logs])
    plans = [RecoverLogPlan(rows[log], tuple(segments.get(log, ())), cleaned[f"cleaned/{log}"]) for log in logs]
    return RecoverPlan(tuple(plans), lake_policies(config.policies, config.lake, config.as_of_ms))


def apply(plan: RecoverPlan, config: RecoverConfig, executor: Executor | None = None) -> JobReport[RecoverOutline]:
    """Recover each log; write the directories only with ``config.apply``."""
    tasks = [_task(log, plan.policies, config) for log in plan.logs]
    sizes = [sum(s.size for s in task.segments) for task in tasks]
    done: list[Done] = list(zip(plan.logs, run_tasks(executor, recover_log, tasks, sizes), strict=True))
    placed = [_refused(log, result.error) for log, result in done if result.error is not None]
    if config.apply:
        placed += _write_root_files(config, done)
        _tell(config, done)
    return JobReport.of(
        config,
        RecoverOutline(
            tuple(
                {"log": log.row.log, "topic_partition": log.row.topic_partition, "error": result.error}
                | (result.plan or {})
                for log, result in done
            )
        ),
        changed=tuple(_changes(done)),
        findings=tuple(finding_rows.record(config.lake, placed, config.run_id, config.as_of_ms)),
        used_executor=executor is not None,
        metrics={
            "applied": config.apply,
            "logs": len(done),
            "written": sum(result.written for _, result in done),
            "refused": sum(result.error is not None for _, result in done),
            "bytes": sum(result.log_bytes for _, result in done),
        },
    )


def _check_out(config: RecoverConfig) -> None:
    if config.out is None:
        if config.apply:
            raise UsageError("recover: name the new log directory, `out`, or request only the plan.")
        return
    if storage.is_remote(config.out):
        raise UsageError(f"recover: a broker needs a local directory, and {config.out} is not local.")
    out = os.path.realpath(config.out)
    if not storage.is_remote(config.lake) and f"{out}/".startswith(f"{os.path.realpath(config.lake)}/"):
        raise UsageError(f"recover: {config.out} is inside the lake; name another directory.")


def _task(log: RecoverLogPlan, policies: Policies, config: RecoverConfig) -> RecoverTask:
    row = log.row
    policy = policies.for_log(row.topic, row.topic_id) or TopicPolicy("*", ())
    out = os.path.join(config.out, row.topic_partition) if config.apply and config.out is not None else None
    return RecoverTask(
        lake=config.lake,
        topic=row.topic,
        partition=row.partition,
        segments=log.segments,
        topic_id=row.topic_id,
        leader_epochs=row.leader_epochs,
        log_end_offset=row.next_offset,
        high_watermark=row.high_watermark,
        first_dirty_offset=log.first_dirty_offset,
        index_interval_bytes=policy.index_interval_bytes,
        as_of_ms=config.as_of_ms,
        salvage=config.salvage,
        out=out,
    )


def _write_root_files(config: RecoverConfig, done: Sequence[Done]) -> Iterator[PlacedFinding]:
    """Write the root files with a line for each written partition."""
    assert config.out is not None
    read = os.path.join(config.lake, "archive")
    for log, result in done:
        if result.plan is None or not result.written:
            continue
        named = TopicPartition(log.row.topic, log.row.partition)
        try:
            write_root_files(read, config.out, named, RootLines(**result.plan["root"]))
        except LogError as error:
            yield _refused(log, str(error))


def _refused(log: RecoverLogPlan, why: str) -> PlacedFinding:
    finding = found("recovery-refused", f"{log.row.topic_partition}: it is not recovered: {why}")
    return PlacedFinding(finding, log.row.log, log.row.topic, log.row.partition)


def _tell(config: RecoverConfig, done: Sequence[Done]) -> None:
    """Record in ``log_actions`` what was written and what was lost. What is recorded already is not repeated."""
    rows = [row for log, result in done if result.written for row in _actions(config, log, result)]
    where: list[tuple[str, str, object]] = [("action", "==", RECOVERY)]
    recorded = read_rows(
        config.lake, "log_actions", ["log", "segment_id", "rule", "reason", "as_of_ms"], where
    ).to_pylist()
    known = {tuple(row.values()) for row in recorded}
    new = [row for row in rows if tuple(row[name] for name in _TOLD_BY) not in known]
    row_commits.append(config.lake, "log_actions", pa.Table.from_pylist(new, schema=LOG_ACTIONS), config.run_id)


_TOLD_BY = ("log", "segment_id", "rule", "reason", "as_of_ms")


def _actions(config: RecoverConfig, log: RecoverLogPlan, result: RecoveredLog) -> Iterator[dict[str, object]]:
    row, plan = log.row, result.plan or {}
    of = {name: getattr(row, name) for name in ("log", "topic", "log_id", "partition")}
    of |= {"run_id": config.run_id, "action": RECOVERY, "as_of_ms": config.as_of_ms}
    before = sum(segment.size for segment in log.segments)
    end = plan["log_end_offset"]
    whole = f"offsets [{plan['log_start_offset']}, {end}) written as a log directory"
    yield of | {
        "segment_id": None,
        "rule": "salvage" if config.salvage else "start",
        "reason": whole,
        "bytes_before": before,
        "bytes_after": result.log_bytes,
    }
    by_name = {segment.base_offset: segment for segment in log.segments}
    for loss in plan["losses"]:
        name = str(loss["file"])
        segment = by_name.get(int(name[:20])) if name.endswith(LOG_SUFFIX) else None
        if segment is not None:
            yield of | {
                "segment_id": segment.segment_id,
                "rule": loss["kind"],
                "reason": loss["message"],
                "bytes_before": segment.size,
                "bytes_after": segment.size - (loss["nbytes"] or 0),
            }


def _changes(done: Sequence[Done]) -> Iterator[LogChange]:
    for log, result in done:
        if result.plan is not None and result.written:
            metrics = {
                "bytes": result.log_bytes,
                "log_end_offset": result.plan["log_end_offset"],
                "losses": len(result.plan["losses"]),
            }
            yield LogChange(log.row.log, log.row.topic, log.row.partition, metrics)
