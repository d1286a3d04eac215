"""What a broker's start would leave of one archived log, and the partition directory that it would leave.

Runs in a worker. It only reads the archive. The new directory appears whole, in one step, or not at all.
This module handles one log, from its segments to a directory. ``recover`` selects the logs and writes the root files.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from logcore.columns.checking.verified_batches import read_verified
from logcore.columns.engines import segment_recovery
from logcore.errors import LogError
from logcore.logs.model.partition_directory import Cut, Keep, PartitionDirectory, PartitionFile, Proposal, ProposedFile
from logcore.logs.model.topic_config import TopicConfig
from logcore.logs.recovery.plan import plan_recovery
from logcore.logs.recovery.segment_recovery import IndexRules, Recover
from logcore.records.varint import Buffer
from logcore.segments.filenames import (
    LEADER_EPOCH_FILE,
    OFFSET_INDEX_SUFFIX,
    PARTITION_METADATA_FILE,
    TIME_INDEX_SUFFIX,
    TopicPartition,
    segment_file_name,
)
from logcore.segments.side_files import checkpoints
from logcore.segments.side_files.leader_epochs import EpochEntry
from logcore.storage.partition_output import PartitionOutput
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.segments.segment_files import segment_files
from spark_jobs.reads import Reads

CHUNK_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class RecoverTask:
    """A log, and what its broker would know about it."""

    lake: str
    topic: str
    partition: int
    segments: tuple[Segment, ...]
    """Live segments in offset order; empty if retention removed the whole log."""
    topic_id: str | None
    leader_epochs: str
    """JSON [[epoch, start offset], …], as ``logs`` keeps them."""
    log_end_offset: int
    high_watermark: int | None
    first_dirty_offset: int | None
    index_interval_bytes: int
    as_of_ms: int
    salvage: bool
    out: str | None
    """The new partition directory; None: only the plan is made."""

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return Reads(f"{self.topic}-{self.partition}", None, None, self.log_end_offset)


@dataclass(frozen=True, slots=True)
class RecoveredLog:
    """The result for one log."""

    plan: dict[str, Any] | None = None
    """Plan as :meth:`RecoveryPlan.as_dict` returns it."""
    log_bytes: int = 0
    """Bytes of its `.log` files."""
    written: bool = False
    """Whether the directory exists now."""
    error: str | None = None
    """Why it is not recovered."""


def recover_log(task: RecoverTask) -> RecoveredLog:
    """Recover one log."""
    try:
        with segment_files(task.lake, task.segments, joined=True) as logs:
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
        return RecoveredLog(plan.as_dict(), error=plan.refusal)
    # Sync everything before the rename: a broker that starts on the directory has nothing to recover.
    plan = replace(plan, root=replace(plan.root, recovery_point=plan.log_end_offset))
    contents = {name: _content(directory, file) for name, file in plan.files.items()}
    if task.out is not None and not _is_there(task.out, contents):
        _write(task, directory, plan.files, contents)
    logs_bytes = sum(len(content) for name, content in contents.items() if name.endswith(".log"))
    contents.clear()  # these are views of files that are closed now
    return RecoveredLog(plan.as_dict(), logs_bytes, written=task.out is not None)


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
    files = dict(logs)
    begins_at = task.segments[0].base_offset if task.segments else task.log_end_offset
    if not files:
        name = segment_file_name(begins_at)
        files[name] = PartitionFile(name, b"", task.as_of_ms)
    epochs = tuple(EpochEntry(epoch, start) for epoch, start in json.loads(task.leader_epochs))
    if epochs:
        files[LEADER_EPOCH_FILE] = _file(task, LEADER_EPOCH_FILE, checkpoints.format_leader_epochs(epochs))
    if task.topic_id is not None:
        metadata = checkpoints.format_partition_metadata(task.topic_id)
        files[PARTITION_METADATA_FILE] = _file(task, PARTITION_METADATA_FILE, metadata)
    return PartitionDirectory(
        TopicPartition(task.topic, task.partition),
        files,
        recovery_point=0,
        log_start_offset=begins_at,
        high_watermark=task.high_watermark,
        first_dirty_offset=task.first_dirty_offset,
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
