"""The same operations by the code under test, on the same input with the same parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO

from logcore.errors import LogError
from logcore.logs.compaction.cleaner import Cleaner, PlainCleaner
from logcore.logs.compaction.compaction_plan import plan_compaction, run_compaction
from logcore.logs.compaction.selection import Refusal
from logcore.logs.model.partition_directory import PartitionFile
from logcore.logs.recovery.recovery_plan import plan_recovery
from logcore.logs.retention.retention_plan import plan_retention
from logcore.logs.writer.writer import LogWriter
from logcore.records.snappy_encoder import use_library
from logcore.segments.filenames import TopicPartition
from spark_jobs.engine.snappy_library import load_snappy_java
from tests.differential import directories
from tests.differential.trials import Left, Trial


def by_ours(trial: Trial, new_cleaner: Callable[[], Cleaner] = PlainCleaner) -> Left:
    """What ours makes of it."""
    use_library(load_snappy_java)
    try:
        if trial.operation == "recover":
            return _recovered(trial)
        if trial.operation == "write":
            return _written(trial)
        return _retained(trial) if trial.operation in ("retain", "tier") else _cleaned(trial, new_cleaner())
    except (LogError, ValueError) as refused:
        return Left(trial.files, refusal=f"{type(refused).__name__}: {refused}")


def _cleaned(trial: Trial, cleaner: Cleaner) -> Left:
    plan = plan_compaction(trial.directory(), trial.topic_config, line=trial.line, as_of_ms=trial.as_of_ms)
    if isinstance(plan, Refusal):
        return Left(trial.files, refusal=f"{plan.reason}: {plan.message}", is_nothing_cleanable=True)
    streamed: dict[str, PartitionFile] = {}

    @contextmanager
    def open_stream(name: str, modified_ms: int) -> Iterator[BytesIO]:
        sink = BytesIO()
        yield sink
        streamed[name] = PartitionFile(name, sink.getvalue(), modified_ms)

    outcome = run_compaction(plan, open_stream, cleaner)
    files = directories.proposed(trial.files, outcome.files) | streamed
    return Left(
        files, plan.round.log_start_offset, plan.log_end_offset, outcome.first_dirty_offset, damaged=plan.damaged
    )


def _recovered(trial: Trial) -> Left:
    plan = plan_recovery(
        trial.directory(), trial.topic_config, line=trial.line, as_of_ms=trial.as_of_ms, heeds_clean_mark=True
    )
    if plan.refusal is not None:
        return Left(trial.files, refusal=str(plan.refusal))
    return Left(directories.proposed(trial.files, plan.files), plan.log_start_offset, plan.log_end_offset)


def _written(trial: Trial) -> Left:
    writer = LogWriter(
        TopicPartition("t", 0),
        trial.topic_config,
        trial.line,
        as_of_ms=trial.as_of_ms,
        start_offset=trial.log_start_offset,
    )
    clock = trial.as_of_ms
    for append in trial.files.values():
        clock = append.modified_ms
        writer.append(bytes(append.content), clock)
    return Left(dict(writer.close(clock).files))


def _retained(trial: Trial) -> Left:
    copied = () if trial.highest_remote_offset is None else ((0, trial.highest_remote_offset + 1),)
    plan = plan_retention(
        trial.directory(),
        trial.topic_config,
        line=trial.line,
        as_of_ms=trial.as_of_ms,
        delete_records_before=trial.delete_records_before,
        copied=copied,
    )
    files = directories.proposed(trial.files, plan.files)
    return Left(files, plan.new_log_start_offset, plan.log_end_offset)
