"""Adjacent slices of one source segment, joined and validated as one archived segment.

Runs in a worker. Each slice is checked against its digest. The joined file is read back and validated like any new
segment: a live segment is always validated, so its rows of ``batches`` exist before it does. No reader sees the segment
until the driver commits.

This module joins slices into a file and makes its row. ``tidy_archive`` selects the slices and swaps the segments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from logcore.errors import LogError
from logcore.logs.model.findings import Finding
from logcore.segments.scanning.scan import End
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.store import mapped_file, storage
from spark_jobs.reads import Reads
from spark_jobs.tasks.segment_pass import ValidatedSegment, validate_into_files

if TYPE_CHECKING:
    from hashlib import _Hash

CHUNK_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class SegmentMergeTask:
    """Slices to join, in offset order, and their totals from validation."""

    lake: str
    slices: tuple[Segment, ...]
    batches: int
    records: int
    control_records: int
    validated: tuple[str, ...] = ()
    """Ids that are validated and that no row of ``segments`` has: an earlier run may have stopped there."""

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return archive.reads_of(self.slices)


def fit_together(before: Segment, after: Segment) -> bool:
    """Whether the second begins, in source position and in offset, where the first ends."""
    return (
        (before.log, before.origin_file, before.origin_base_offset)
        == (after.log, after.origin_file, after.origin_base_offset)
        and before.next_offset == after.base_offset
        and before.origin_position + before.size == after.origin_position
    )


@dataclass(frozen=True, slots=True)
class MergedSlices:
    """The segment that replaces the slices."""

    segment: Segment
    validated: ValidatedSegment | None
    """None if an earlier run validated it."""


@dataclass(frozen=True, slots=True)
class NotMerged:
    """Why the slices were not merged."""

    reason: str


def merge_slices(task: SegmentMergeTask) -> MergedSlices | NotMerged:
    """Join slices into one segment, and validate it."""
    try:
        merged = _joined(task)
        if merged.segment_id in task.validated:
            _read_back(task.lake, merged)
            return MergedSlices(merged, None)
        validated = validate_into_files(task.lake, merged)
    except LogError as error:
        return NotMerged(str(error))
    except OSError as error:
        return NotMerged(error.strerror or str(error))  # without the file name: it differs on each run
    if isinstance(validated, Finding):
        return NotMerged(validated.message)
    wrong = _difference(task, merged, validated)
    return NotMerged(wrong) if wrong else MergedSlices(merged, validated)


def _joined(task: SegmentMergeTask) -> Segment:
    log = task.slices[0].log
    with storage.staged(storage.join(task.lake, archive.log_folder(log))) as copy:
        whole = hashlib.sha256()
        with open(copy.path, "xb") as file:
            for each in task.slices:
                _append(task.lake, each, file, whole)
        merged = _row(task.slices, whole.hexdigest())
        copy.place(storage.join(task.lake, merged.path), modified_ms=merged.modified_ms)
    return merged


def _append(lake: str, segment: Segment, file: BinaryIO, whole: _Hash) -> None:
    path = segment.local_path(lake)
    digest = hashlib.sha256()
    with mapped_file.mapped(path) as mapped, memoryview(mapped) as content:
        if len(content) != segment.size:
            raise LogError(f"it has {len(content)} bytes where {segment.size} were archived", file=path)
        for start in range(0, segment.size, CHUNK_BYTES):
            chunk = content[start : start + CHUNK_BYTES]
            for each in (digest, whole):
                each.update(chunk)
            file.write(chunk)
    if digest.hexdigest() != segment.digest:
        raise LogError("its bytes are not those that were archived", file=path)


def _row(slices: Sequence[Segment], digest: str) -> Segment:
    last = slices[-1]
    return archive.in_place_of(
        slices,
        digest,
        sum(s.size for s in slices),
        generation=archive.GENERATION_INGESTED,
        sealed=last.sealed,
        modified_ms=last.modified_ms,
        max_timestamp=_greatest(s.max_timestamp for s in slices),
        ending=next((s for s in reversed(slices) if s.last_batch_end is not None), last),
    )


def _greatest(timestamps: Iterable[int | None]) -> int | None:
    return max((timestamp for timestamp in timestamps if timestamp is not None), default=None)


def _read_back(lake: str, merged: Segment) -> None:
    path = merged.local_path(lake)
    digest = hashlib.sha256()
    with mapped_file.mapped(path) as mapped, memoryview(mapped) as content:
        for start in range(0, len(content), CHUNK_BYTES):
            digest.update(content[start : start + CHUNK_BYTES])
    if digest.hexdigest() != merged.digest:
        raise LogError("what was written cannot be read back as it was", file=path)


def _difference(task: SegmentMergeTask, merged: Segment, validated: ValidatedSegment) -> str | None:
    """Which counts differ from those of the slices; None if all are equal."""
    changed = [finding.message for finding in validated.findings if finding.rule == "archive-changed"]
    if changed:
        return changed[0]
    counts = validated.counts
    found = {
        "verdict": counts.verdict,
        "bytes": counts.valid_bytes,
        "batches": counts.batches,
        "records": counts.records,
        "control records": counts.control_records,
    }
    expected = {
        "verdict": str(End.CLEAN),
        "bytes": merged.size,
        "batches": task.batches,
        "records": task.records,
        "control records": task.control_records,
    }
    wrong = [f"{name} {found[name]}, not {expected[name]}" for name in found if found[name] != expected[name]]
    return f"the joined segment was validated with other results than its slices: {', '.join(wrong)}" if wrong else None
