"""The task of ``ingest`` for one source segment: copy it, validate it and write its rows, as far as all is ordinary.

    copied       the segment in the archive
    validated    what ``validate`` would do with it, without its digest again
    written      what ``publish`` would do with it: files of ``records``, which no commit names yet

Runs in a worker. Damage, control records (transactions) and errors end it early: the later jobs have these tasks then,
and report what they meet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from spark_jobs.archived_rows.archived_bytes import ArchivedBytes, has_own_files
from spark_jobs.archived_rows.records_file import WriteTask, write_records
from spark_jobs.archived_rows.segment_pass import ValidatedSegment, validate_copied
from spark_jobs.engine.executor import synced_late
from spark_jobs.ingest.segment_copy import CopyResult, CopyTask, copy_segment
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.store import local_copies, storage
from spark_jobs.lake.store.written_file import WriteResult
from spark_jobs.policies.compression import DEFAULT, Compression
from spark_jobs.reads import Reads


@dataclass(frozen=True, slots=True)
class ExpectedRows:
    """What ``publish`` is expected to write of a log."""

    start_offset: int
    end_offset: int
    """The high watermark, also where it lies after the segment."""
    published_ms: int
    compression: Compression = DEFAULT
    is_alone: bool = False
    """Whether no other segment has offsets to publish."""
    least_bytes: int = 0
    """A smaller segment waits for others."""


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """A copy, and what follows in the same task."""

    copy: CopyTask
    validates: bool = False
    rows: ExpectedRows | None = None
    """None: ``publish`` writes the rows."""
    writes_several: bool = True
    """Whether rows are written here that become several files. Otherwise several workers write them later."""

    @property
    def reads(self) -> Reads:
        """What the copy reads."""
        return self.copy.reads

    def second_try(self) -> SegmentTask:
        """Only the copy: if its worker dies of what follows, the job whose work that is says so."""
        return SegmentTask(self.copy)


@dataclass(frozen=True, slots=True)
class TakenSegment:
    """The result: the copy, and what was done besides."""

    copied: CopyResult
    validated: ValidatedSegment | None = None
    written: tuple[tuple[WriteTask, WriteResult], ...] = ()


@synced_late
def take_segment(task: SegmentTask) -> TakenSegment:
    """Copy one segment, and do what follows as far as it is ordinary."""
    lake = task.copy.lake
    if local_copies.keeps_registered() or not (task.copy.etag or storage.is_remote(lake)):
        return _taken(task)
    with local_copies.keeping(lake, is_alone=False):  # else each part of the task would download the segment
        return _taken(task)


def _taken(task: SegmentTask) -> TakenSegment:
    taken = TakenSegment(copy_segment(task.copy))
    segment = taken.copied.segment
    if not task.validates or segment is None or taken.copied.failed:
        return taken
    try:
        validated = validate_copied(task.copy.lake, segment)
        if isinstance(validated, ValidatedSegment):
            taken = replace(taken, validated=validated)
            taken = replace(taken, written=_written(task, segment, validated))
    except Exception:  # noqa: BLE001, S110 - the job whose work it is meets the error again, and reports it
        pass
    return taken


def _written(
    task: SegmentTask, segment: Segment, validated: ValidatedSegment
) -> tuple[tuple[WriteTask, WriteResult], ...]:
    counts, rows = validated.counts, task.rows
    if rows is None or segment.size < rows.least_bytes:
        return ()
    if counts.quarantined_bytes or counts.tail_bytes or counts.control_records:
        return ()
    held = ArchivedBytes(task.copy.lake, {segment.log: [segment]}, {segment.segment_id: counts.splits()}, {})
    wanted = [(rows.start_offset, rows.end_offset)]
    if not rows.is_alone and not has_own_files(held.pieces(segment.log, wanted)):
        return ()
    tasks = held.tasks(segment, wanted, rows.published_ms, rows.compression)
    if len(tasks) > 1 and not task.writes_several:
        return ()
    results = [(each, write_records(each)) for each in tasks]
    return tuple((each, result) for each, result in results if result.error is None)
