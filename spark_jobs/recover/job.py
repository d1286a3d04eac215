"""``recover``: what a broker's start would leave of archived logs, and log directories that a fresh broker starts on.

    plan      logs and their live segments                                       (driver, no JVM)
    recover   one task a log: how far it is valid, its side files, what is lost  (workers, or driver if small)
    apply     `<out>/<topic>-<partition>` of each log, whole or not at all       (workers)
    tell      the root files of `<out>`, then `log_actions`                      (driver)

Without ``apply`` what each log would lose is said and nothing is written. The archive is read and never changed, and
``out`` may not lie in the lake. Of a topic partition that was made again the newest incarnation is meant, unless logs
are named. A directory that is there already stays as it is; one that an earlier run wrote just so is taken for done.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from logcore.errors import LogError
from logcore.logs.model.findings import found
from logcore.logs.model.partition_directory import RootLines
from logcore.segments.filenames import LOG_SUFFIX, TopicPartition
from logcore.storage.partition_output import write_root_files
from spark_jobs.contracts import JobReport, LogChange, RecoverConfig
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.tables import LOG_ACTIONS, read_rows
from spark_jobs.lake.errors import UsageError
from spark_jobs.lake.ledger import finding_rows
from spark_jobs.lake.ledger.finding_rows import PlacedFinding
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import LogRow, Segment
from spark_jobs.lake.setup.policies import Policies, TopicPolicy, read_policies
from spark_jobs.lake.store import storage
from spark_jobs.tasks.archived_recovery import RecoverTask, recover_log

if TYPE_CHECKING:
    from spark_jobs.tasks.executor import Executor

IN_PROCESS_BYTES = 64 << 20
"""Less than this is read by the driver itself, before a JVM would be up."""

RECOVERY = "recovery"


@dataclass(frozen=True, slots=True)
class RecoverLogPlan:
    """A log to look at."""

    row: LogRow
    segments: tuple[Segment, ...]
    first_dirty_offset: int | None


@dataclass(frozen=True, slots=True)
class RecoverPlan:
    """What there is to look at; what comes of it, only its bytes tell."""

    logs: tuple[RecoverLogPlan, ...]
    policies: Policies

    @property
    def is_empty(self) -> bool:
        """No log was chosen."""
        return not self.logs

    @property
    def needs_spark(self) -> bool:
        """Whether more is to be read than the driver does itself."""
        return sum(s.size for log in self.logs for s in log.segments) > IN_PROCESS_BYTES

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {
            "logs": [
                {
                    "log": log.row.log,
                    "topic_partition": log.row.topic_partition,
                    "segments": len(log.segments),
                    "bytes": sum(s.size for s in log.segments),
                }
                for log in self.logs
            ]
        }


def plan(config: RecoverConfig) -> RecoverPlan:
    """The logs that were chosen.

    Raises:
        UsageError: the policies can't be read, ``out`` is missing, remote or in the lake, or two logs of one topic
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
    cleaned = commits.versions(config.lake, "segments", [f"cleaned/{log}" for log in logs])
    plans = [RecoverLogPlan(rows[log], tuple(segments.get(log, ())), cleaned[f"cleaned/{log}"]) for log in logs]
    return RecoverPlan(tuple(plans), read_policies(config.policies))


def apply(plan: RecoverPlan, config: RecoverConfig, executor: Executor | None = None) -> JobReport:
    """Recover each log; write the directories only with ``config.apply``."""
    tasks = [_task(log, plan.policies, config) for log in plan.logs]
    values = [asdict(task) for task in tasks]
    if executor is None:
        results = [recover_log(value) for value in values]
    else:
        results = executor.run(values, recover_log, [sum(s.size for s in task.segments) for task in tasks])
    done = list(zip(plan.logs, results, strict=True))
    placed = [_refused(log, result["error"]) for log, result in done if result["error"] is not None]
    if config.apply:
        placed += _write_root_files(config, done)
        _tell(config, done)
    return JobReport(
        job=config.JOB,
        run_id=config.run_id,
        lake=config.lake,
        changed=tuple(_changes(done)),
        findings=tuple(finding_rows.record(config.lake, placed, config.run_id, config.as_of_ms)),
        plan={
            "logs": [
                {"log": log.row.log, "topic_partition": log.row.topic_partition, "error": result["error"]}
                | (result["plan"] or {})
                for log, result in done
            ]
        },
        used_spark=executor is not None,
        metrics={
            "applied": config.apply,
            "logs": len(done),
            "written": sum(result["written"] for _, result in done),
            "refused": sum(result["error"] is not None for _, result in done),
            "bytes": sum(result["bytes"] for _, result in done),
        },
    )


def _check_out(config: RecoverConfig) -> None:
    if config.out is None:
        if config.apply:
            raise UsageError("recover: name the new log directory, `out`, or ask for the plan alone.")
        return
    if storage.is_remote(config.out):
        raise UsageError(f"recover: a broker starts on a local directory; {config.out} is none.")
    out = os.path.realpath(config.out)
    if not storage.is_remote(config.lake) and f"{out}/".startswith(f"{os.path.realpath(config.lake)}/"):
        raise UsageError(f"recover: {config.out} lies in the lake, where nothing else belongs; name another directory.")


def _task(log: RecoverLogPlan, policies: Policies, config: RecoverConfig) -> RecoverTask:
    row = log.row
    policy = policies.for_topic(row.topic) or TopicPolicy("*", ())
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


def _write_root_files(
    config: RecoverConfig, done: Sequence[tuple[RecoverLogPlan, Mapping[str, Any]]]
) -> Iterator[PlacedFinding]:
    """The lines of every partition that was written."""
    assert config.out is not None
    read = os.path.join(config.lake, "archive")
    for log, result in done:
        if not result["written"]:
            continue
        named = TopicPartition(log.row.topic, log.row.partition)
        try:
            write_root_files(read, config.out, named, RootLines(**result["plan"]["root"]))
        except LogError as error:
            yield _refused(log, str(error))


def _refused(log: RecoverLogPlan, why: str) -> PlacedFinding:
    finding = found("recovery-refused", f"{log.row.topic_partition}: it is not recovered: {why}")
    return PlacedFinding(finding, log.row.log, log.row.topic, log.row.partition)


def _tell(config: RecoverConfig, done: Sequence[tuple[RecoverLogPlan, Mapping[str, Any]]]) -> None:
    """What was written and what was lost by it, in ``log_actions``; what was told before is not told again."""
    rows = [row for log, result in done if result["written"] for row in _actions(config, log, result)]
    where: list[tuple[str, str, object]] = [("action", "==", RECOVERY)]
    told = read_rows(config.lake, "log_actions", ["log", "segment_id", "rule", "reason", "as_of_ms"], where).to_pylist()
    known = {tuple(row.values()) for row in told}
    new = [row for row in rows if tuple(row[name] for name in _TOLD_BY) not in known]
    commits.append(config.lake, "log_actions", pa.Table.from_pylist(new, schema=LOG_ACTIONS), config.run_id)


_TOLD_BY = ("log", "segment_id", "rule", "reason", "as_of_ms")


def _actions(config: RecoverConfig, log: RecoverLogPlan, result: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    row, plan = log.row, result["plan"]
    of = {name: getattr(row, name) for name in ("log", "topic", "log_id", "partition")}
    of |= {"run_id": config.run_id, "action": RECOVERY, "as_of_ms": config.as_of_ms}
    before = sum(segment.size for segment in log.segments)
    end = plan["log_end_offset"]
    whole = f"offsets {plan['log_start_offset']} to {end} written as a log directory"
    yield of | {
        "segment_id": None,
        "rule": "salvage" if config.salvage else "start",
        "reason": whole,
        "bytes_before": before,
        "bytes_after": result["bytes"],
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


def _changes(done: Sequence[tuple[RecoverLogPlan, Mapping[str, Any]]]) -> Iterator[LogChange]:
    for log, result in done:
        if result["written"]:
            metrics = {
                "bytes": result["bytes"],
                "log_end_offset": result["plan"]["log_end_offset"],
                "losses": len(result["plan"]["losses"]),
            }
            yield LogChange(log.row.log, log.row.topic, log.row.partition, metrics)
