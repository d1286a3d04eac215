"""One log cleaned by key: new files beside the old ones, read again from disk and proven, nothing swapped yet.

Runs in a worker, one call a log, because what is obsolete in one segment is decided by all of them: the map of newest
offsets holds every key of the log in memory. A file that no swap names is an orphan, harmless and listed by
``maintain``; cleaning the same bytes again gives it the same name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from logcore.columns.engines import judge_segment
from logcore.errors import LogError
from logcore.logs.compaction.key_cleaning import (
    CleanedSegment,
    NewestOffsets,
    clean_segment,
    difference,
    newest_offset_by_key,
)
from logcore.logs.compaction.selection import Refusal
from logcore.segments.scan import End
from spark_jobs.lake import archive, storage
from spark_jobs.lake.archive import Segment


@dataclass(frozen=True, slots=True)
class CleaningTask:
    """The live segments of a log below ``end_offset``, in offset order."""

    lake: str
    segments: tuple[Segment, ...]
    end_offset: int


def clean_log(value: dict[str, Any]) -> dict[str, Any]:
    """Clean one log.

    Args:
        value: a :class:`CleaningTask` as plain values.

    Returns:
        ``refusal`` (reason and message, or None), ``unproven`` (why the result must not be used, or None) and
        ``replaced``: of each segment that lost records its ``segment_id``, the ``segment`` in its place (a row) and
        that one's ``validation`` (columns of ``validations``).
    """
    names = [field.name for field in fields(Segment)]
    segments = tuple(Segment(**{name: row[name] for name in names}) for row in value["segments"])
    task = CleaningTask(value["lake"], segments, value["end_offset"])
    try:
        return _clean(task)
    except (LogError, OSError) as error:
        return _result(unproven=f"reading or writing failed: {error}")


def _clean(task: CleaningTask) -> dict[str, Any]:
    with contextlib.ExitStack() as open_files:
        before = [open_files.enter_context(_bytes_of(task.lake, segment)) for segment in task.segments]
        bases = [segment.base_offset for segment in task.segments]
        newest = newest_offset_by_key(zip(before, bases, strict=True), end_offset=task.end_offset)
        if isinstance(newest, Refusal):
            return _result(refusal=newest)
        after: list[memoryview] = []
        replaced: list[dict[str, Any]] = []
        last = max((i for i, segment in enumerate(task.segments) if segment.size), default=-1)
        for i, segment in enumerate(task.segments):
            cleaned = clean_segment(before[i], newest, base_offset=bases[i], last_of_range=i == last)
            if isinstance(cleaned, Refusal):
                return _result(refusal=cleaned)
            if not cleaned.removed:
                after.append(before[i])
                continue
            successor = _written(task.lake, segment, cleaned)
            after.append(open_files.enter_context(_bytes_of(task.lake, successor)))
            replaced.append({"segment_id": segment.segment_id, "segment": asdict(successor)})
        wrong = _what_is_wrong(task, before, after, newest, replaced)
        return _result(unproven=wrong) if wrong is not None else _result(replaced=replaced)


def _what_is_wrong(
    task: CleaningTask,
    before: Sequence[memoryview],
    after: Sequence[memoryview],
    newest: NewestOffsets,
    replaced: Sequence[dict[str, Any]],
) -> str | None:
    """The proof: files as they lie on disk, decoded again; fills in what ``validations`` will say of them."""
    bases = [segment.base_offset for segment in task.segments]
    wrong = difference(zip(before, after, bases, strict=True), newest)
    if wrong is not None:
        return wrong
    positions = {segment.segment_id: i for i, segment in enumerate(task.segments)}
    for each in replaced:
        segment = task.segments[positions[each["segment_id"]]]
        content = after[positions[each["segment_id"]]]
        if hashlib.sha256(content).hexdigest() != each["segment"]["digest"]:
            return f"the file at base offset {segment.base_offset} does not hold what was written to it"
        each["validation"] = validation = _validation(segment, content)
        if validation["verdict"] != str(End.CLEAN):
            return f"the cleaned segment at base offset {segment.base_offset} is {validation['verdict']}"
    return None


def _validation(segment: Segment, content: memoryview) -> dict[str, Any]:
    judged = judge_segment(
        content,
        base_offset=segment.base_offset,
        sealed=True,
        file=segment.path,
        next_base_offset=segment.next_offset,
    )
    for _ in judged:
        pass
    return {
        "verdict": str(judged.end),
        "batches": judged.counts.batches,
        "records": judged.counts.records,
        "control_records": judged.counts.control_records,
        "valid_bytes": judged.accounting.valid,
        "quarantined_bytes": judged.accounting.quarantined,
        "tail_bytes": judged.accounting.tail,
        "padding_bytes": judged.accounting.padding,
        "findings": len(judged.findings),
        "split_points": json.dumps(judged.split_points),
    }


def _written(lake: str, segment: Segment, cleaned: CleanedSegment) -> Segment:
    """The cleaned bytes as a file of the archive, on disk when this returns."""
    digest = hashlib.sha256(cleaned.data).hexdigest()
    generation = segment.generation + 1
    identity = archive.segment_id(segment.log, segment.base_offset, digest, generation)
    successor = replace(
        segment,
        segment_id=identity,
        path=archive.segment_path(segment.log, identity, segment.base_offset),
        start=0,
        size=len(cleaned.data),
        digest=digest,
        max_timestamp=cleaned.max_timestamp,
        generation=generation,
    )
    # As Kafka's cleaner does: retention falls back on the time of change where no batch has a timestamp.
    storage.put(storage.join(lake, successor.path), cleaned.data, modified_ms=segment.modified_ms)
    return successor


@contextlib.contextmanager
def _bytes_of(lake: str, segment: Segment) -> Iterator[memoryview]:
    bounds = (segment.start, segment.start + segment.size)
    with storage.mapped(segment.local_path(lake), *bounds) as mapped, memoryview(mapped) as whole:
        content = whole[segment.start : segment.start + segment.size]
        try:
            yield content
        finally:
            content.release()


def _result(
    *,
    refusal: Refusal | None = None,
    unproven: str | None = None,
    replaced: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    return {
        "refusal": None if refusal is None else [str(refusal.reason), refusal.message],
        "unproven": unproven,
        "replaced": list(replaced),
    }
