"""``recover``: what a broker's start would leave of archived logs, and log directories on which a fresh broker starts.

    plan      logs and their live segments                                       (driver, no JVM)
    recover   one task a log: how far it is valid, its side files, what is lost  (workers, or driver if small)
    apply     `<out>/<topic>-<partition>` of each log, whole or not at all       (workers)
    record    the root files of `<out>`, then `log_actions`                      (driver)

Without ``apply`` it reports what each log would lose and writes nothing. The archive is only read, and ``out`` must not
be in the lake. For a recreated topic the latest incarnation is used, unless logs are named. An existing directory stays
as it is. If it is identical to the result of an earlier run, it counts as done.

A worker handles one log, from its segments to a directory, and only reads the archive.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from logcore.columns.engines import segment_recovery
from logcore.columns.verified_batches import read_verified
from logcore.errors import LogError
from logcore.exit_codes import ExitCode
from logcore.logs.model.findings import found
from logcore.logs.model.partition_directory import (
    Cut,
    Keep,
    PartitionDirectory,
    PartitionFile,
    Proposal,
    ProposedFile,
)
from logcore.logs.model.topic_config import TopicConfig
from logcore.logs.recovery.proposal import RecoveryPlan
from logcore.logs.recovery.recovery_plan import plan_recovery
from logcore.logs.recovery.segment_recovery import IndexRules, Recover
from logcore.records.varint import Buffer
from logcore.segments.filenames import (
    LEADER_EPOCH_FILE,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    PARTITION_METADATA_FILE,
    TIME_INDEX_SUFFIX,
    TopicPartition,
    segment_file_name,
)
from logcore.segments.side_files import checkpoints
from logcore.storage.partition_output import PartitionOutput, write_root_files
from spark_jobs.contracts import JobReport, LogChange, RecoverConfig
from spark_jobs.engine.executor import Executor, run_tasks
from spark_jobs.errors import UsageError
from spark_jobs.groups import by_key
from spark_jobs.lake.cluster.cluster_settings import lake_policies
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.ledger import finding_rows
from spark_jobs.lake.segments import archive, log_actions
from spark_jobs.lake.segments.archive import LogRow, Segment
from spark_jobs.lake.segments.log_directory import segment_files
from spark_jobs.lake.store import storage
from spark_jobs.outlines import RecoverOutline
from spark_jobs.placed_finding import PlacedFinding
from spark_jobs.policies.policies_file import Policies
from spark_jobs.policies.topic_policies import TopicPolicy
from spark_jobs.reads import Reads

RECOVERY = "recovery"


@dataclass(frozen=True, slots=True)
class RecoverLogPlan:
    """A log to recover."""

    row: LogRow
    segments: tuple[Segment, ...]
    """Live segments in offset order; empty if retention removed the whole log."""
    first_dirty_offset: int | None

    @property
    def bytes(self) -> int:
        """Bytes of its segments."""
        return sum(segment.size for segment in self.segments)


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
        return sum(log.bytes for log in self.logs) if self.logs else None

    @property
    def outline(self) -> RecoverOutline:
        """What a dry run says of it."""
        return RecoverOutline(
            tuple(
                {
                    "log": log.row.log,
                    "topic_partition": log.row.topic_partition,
                    "segments": len(log.segments),
                    "bytes": log.bytes,
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
    segments = by_key(archive.read_segments(config.lake, logs), lambda segment: segment.log)
    cleaned = commits.versions(config.lake, "segments", [f"cleaned/{log}" for log in logs])
    plans = [RecoverLogPlan(rows[log], tuple(segments.get(log, ())), cleaned[f"cleaned/{log}"]) for log in logs]
    return RecoverPlan(tuple(plans), lake_policies(config.policies, config.lake, config.as_of_ms))


def apply(plan: RecoverPlan, config: RecoverConfig, executor: Executor | None = None) -> JobReport[RecoverOutline]:
    """Recover each log; write the directories only with ``config.apply``."""
    tasks = [_task(log, plan.policies, config) for log in plan.logs]
    sizes = [log.bytes for log in plan.logs]
    done: list[Done] = list(zip(plan.logs, run_tasks(executor, recover_log, tasks, sizes), strict=True))
    placed = [_refused(log, result.error) for log, result in done if result.error is not None]
    if config.apply:
        placed += _write_root_files(config, done)
        _tell(config, done)
    return JobReport.of(
        config,
        RecoverOutline(
            tuple(
                {
                    "log": log.row.log,
                    "topic_partition": log.row.topic_partition,
                    "error": result.error,
                    **result.shown,
                }
                for log, result in done
            ),
            max((result.exit_code for _, result in done), default=ExitCode.CLEAN),
        ),
        changed=tuple(_changes(done)),
        findings=tuple(finding_rows.record(config.lake, placed, config.run_id, config.as_of_ms)),
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
    return RecoverTask(config.lake, log, policy.index_interval_bytes, config.as_of_ms, config.salvage, out)


def _write_root_files(config: RecoverConfig, done: Sequence[Done]) -> Iterator[PlacedFinding]:
    """Write the root files with a line for each written partition."""
    assert config.out is not None
    read = os.path.join(config.lake, "archive")
    for log, result in done:
        if result.plan is None or not result.written:
            continue
        named = TopicPartition(log.row.topic, log.row.partition)
        try:
            write_root_files(read, config.out, named, result.plan.root)
        except LogError as error:
            yield _refused(log, str(error))


def _refused(log: RecoverLogPlan, why: str) -> PlacedFinding:
    finding = found("recovery-refused", f"{log.row.topic_partition}: it is not recovered: {why}")
    return PlacedFinding(finding, log.row.log, log.row.topic, log.row.partition)


def _tell(config: RecoverConfig, done: Sequence[Done]) -> None:
    """Record in ``log_actions`` what was written and what was lost. What is recorded already is not repeated."""
    rows = [row for log, result in done if result.written for row in _actions(config, log, result)]
    named = ["log", "segment_id", "rule", "reason", "as_of_ms"]
    recorded = read_rows(config.lake, "log_actions", named, [("action", "==", RECOVERY)]).to_pylist()
    known = {tuple(row.values()) for row in recorded}
    new = [row for row in rows if tuple(row[name] for name in named) not in known]
    log_actions.record(config.lake, config.run_id, new)


def _actions(config: RecoverConfig, log: RecoverLogPlan, result: RecoveredLog) -> Iterator[dict[str, object]]:
    row, plan = log.row, result.plan
    assert plan is not None
    of = {name: getattr(row, name) for name in ("log", "topic", "log_id", "partition")}
    of |= {"action": RECOVERY, "as_of_ms": config.as_of_ms}
    whole = f"offsets [{plan.log_start_offset}, {plan.log_end_offset}) written as a log directory"
    yield of | {
        "segment_id": None,
        "rule": "salvage" if config.salvage else "start",
        "reason": whole,
        "bytes_before": log.bytes,
        "bytes_after": result.log_bytes,
    }
    by_name = {segment.base_offset: segment for segment in log.segments}
    for loss in plan.losses:
        segment = by_name.get(int(loss.file[:20])) if loss.file.endswith(LOG_SUFFIX) else None
        if segment is not None:
            yield of | {
                "segment_id": segment.segment_id,
                "rule": loss.kind,
                "reason": loss.message,
                "bytes_before": segment.size,
                "bytes_after": segment.size - (loss.nbytes or 0),
            }


def _changes(done: Sequence[Done]) -> Iterator[LogChange]:
    for log, result in done:
        if result.plan is not None and result.written:
            metrics = {
                "bytes": result.log_bytes,
                "log_end_offset": result.plan.log_end_offset,
                "losses": len(result.plan.losses),
            }
            yield LogChange(log.row.log, log.row.topic, log.row.partition, metrics)


CHUNK_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class RecoverTask:
    """A log to recover, and how."""

    lake: str
    log: RecoverLogPlan
    index_interval_bytes: int
    as_of_ms: int
    salvage: bool
    out: str | None
    """The new partition directory; None: only the plan is made."""

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return Reads(self.log.row.topic_partition, None, None, self.log.row.next_offset)


@dataclass(frozen=True, slots=True)
class RecoveredLog:
    """The result for one log."""

    plan: RecoveryPlan | None = None
    """Its plan, without the files."""
    shown: Mapping[str, Any] = field(default_factory=dict)
    """What :meth:`RecoveryPlan.as_dict` returns of the whole plan."""
    log_bytes: int = 0
    """Bytes of its `.log` files."""
    written: bool = False
    """Whether the directory exists now."""
    error: str | None = None
    """Why it is not recovered."""

    @classmethod
    def of(cls, plan: RecoveryPlan, log_bytes: int = 0, *, written: bool = False) -> RecoveredLog:
        """Return the result of a plan."""
        return cls(replace(plan, files={}), plan.as_dict(), log_bytes, written, plan.refusal)

    @property
    def exit_code(self) -> ExitCode:
        """As of `loglake recover`."""
        return ExitCode.NOT_CHECKED if self.plan is None else self.plan.exit_code


Done = tuple[RecoverLogPlan, RecoveredLog]
"""A log and its result."""


def recover_log(task: RecoverTask) -> RecoveredLog:
    """Recover one log."""
    try:
        with segment_files(task.lake, task.log.segments, joined=True) as logs:
            return _recover(task, logs)
    except LogError as error:
        return RecoveredLog(error=str(error))
    except OSError as error:
        return RecoveredLog(error=f"{error.filename or task.out}: {error.strerror or error}")


def _recover(task: RecoverTask, logs: dict[str, PartitionFile]) -> RecoveredLog:
    recover = segment_recovery()
    config = TopicConfig(index_interval_bytes=task.index_interval_bytes)
    directory = _directory(task, logs | _indexes(task, logs, config, recover))
    plan = plan_recovery(
        directory, config, as_of_ms=task.as_of_ms, salvage=task.salvage, recover=recover, read=read_verified
    )
    if plan.refusal is not None:
        return RecoveredLog.of(plan)
    # Sync everything before the rename: a broker that starts on the directory has nothing to recover.
    plan = replace(plan, root=replace(plan.root, recovery_point=plan.log_end_offset))
    contents = {name: _content(directory, file) for name, file in plan.files.items()}
    if task.out is not None and not _is_there(task.out, contents):
        _write(task, directory, plan.files, contents)
    logs_bytes = sum(len(content) for name, content in contents.items() if name.endswith(".log"))
    contents.clear()  # these are views of files that are closed now
    return RecoveredLog.of(plan, logs_bytes, written=task.out is not None)


def _indexes(
    task: RecoverTask, logs: dict[str, PartitionFile], config: TopicConfig, recover: Recover
) -> dict[str, PartitionFile]:
    """The indexes that a broker has beside its segments.

    Without them a start recovers each segment alone, and leaves gaps where it would otherwise end the log.
    """
    rules = IndexRules(config.index_interval_bytes, config.segment_index_bytes)
    found = {}
    for name, file in logs.items():
        with suppress(LogError):  # there is no index then, and the plan reports the consequence
            made = recover(file.content, int(name[:20]), rules)
            for suffix, content in ((OFFSET_INDEX_SUFFIX, made.offset_index), (TIME_INDEX_SUFFIX, made.time_index)):
                found[name[:20] + suffix] = PartitionFile(name[:20] + suffix, content, file.modified_ms)
    return found


def _directory(task: RecoverTask, logs: dict[str, PartitionFile]) -> PartitionDirectory:
    files, log, row = dict(logs), task.log, task.log.row
    begins_at = log.segments[0].base_offset if log.segments else row.next_offset
    if not files:
        name = segment_file_name(begins_at)
        files[name] = PartitionFile(name, b"", task.as_of_ms)
    if row.epochs:
        files[LEADER_EPOCH_FILE] = _file(task, LEADER_EPOCH_FILE, checkpoints.format_leader_epochs(row.epochs))
    if row.topic_id is not None:
        metadata = checkpoints.format_partition_metadata(row.topic_id)
        files[PARTITION_METADATA_FILE] = _file(task, PARTITION_METADATA_FILE, metadata)
    return PartitionDirectory(
        TopicPartition(row.topic, row.partition),
        files,
        recovery_point=0,
        log_start_offset=begins_at,
        high_watermark=row.high_watermark,
        first_dirty_offset=log.first_dirty_offset,
    )


def _file(task: RecoverTask, name: str, content: bytes) -> PartitionFile:
    return PartitionFile(name, content, task.as_of_ms)


def _content(directory: PartitionDirectory, file: ProposedFile) -> Buffer:
    if isinstance(file, Keep):
        return directory.files[file.source].content
    if isinstance(file, Cut):
        return memoryview(directory.files[file.source].content)[: file.size]
    return file.content


def _write(task: RecoverTask, directory: PartitionDirectory, files: Proposal, contents: dict[str, Buffer]) -> None:
    """Write the directory.

    Raises:
        LogError: The path exists with other contents.
        OSError: A file cannot be written.
    """
    assert task.out is not None
    with PartitionOutput(os.path.join(task.lake, "archive"), task.out) as output:
        for name, file in files.items():
            modified_ms = directory.files[file.source].modified_ms if isinstance(file, Keep) else file.modified_ms
            with output.stream(name, modified_ms) as stream:
                content = memoryview(contents[name])
                for start in range(0, len(content), CHUNK_BYTES):
                    stream.write(content[start : start + CHUNK_BYTES])


def _is_there(out: str, contents: dict[str, Buffer]) -> bool:
    """Whether this exact directory already exists: an earlier run wrote it and was killed later."""
    if not os.path.isdir(out) or set(os.listdir(out)) != contents.keys():
        return False
    return all(_holds(os.path.join(out, name), content) for name, content in contents.items())


def _holds(path: str, content: Buffer) -> bool:
    if os.path.getsize(path) != len(content):
        return False
    with open(path, "rb") as file, memoryview(content) as expected:
        for start in range(0, len(expected), CHUNK_BYTES):
            if file.read(CHUNK_BYTES) != expected[start : start + CHUNK_BYTES]:
                return False
    return True
