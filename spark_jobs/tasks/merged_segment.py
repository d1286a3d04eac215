"""Neighbouring slices of one source segment as one archived segment: their bytes joined, judged, in their place.

Runs in a worker. Every slice is read against its digest, and what was written is read back and judged like any new
segment: a live segment is a validated one, so its rows of ``batches`` are there before it is. Nothing can be seen of it
until the driver commits.

Belongs here: from slices to a file, and its row. Does not: which slices (``maintain``), the swap.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, BinaryIO

from logcore.errors import LogError
from logcore.segments.scanning.scan import End
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.store import storage
from spark_jobs.tasks.segment_pass import validate_one

CHUNK_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class SegmentMergeTask:
    """Slices to be joined, in offset order, and what validation counted in them together."""

    lake: str
    slices: tuple[Segment, ...]
    batches: int
    records: int
    control_records: int
    validated: tuple[str, ...] = ()
    """Ids that are validated and in no row of ``segments``: an earlier run may have got so far."""


def fit_together(before: Segment, after: Segment) -> bool:
    """Whether the second goes on in the file of the source, and in offsets, where the first ends."""
    return (
        (before.log, before.origin_file, before.origin_base_offset)
        == (after.log, after.origin_file, after.origin_base_offset)
        and before.next_offset == after.base_offset
        and before.origin_position + before.size == after.origin_position
    )


def merge_slices(value: dict[str, Any]) -> dict[str, Any]:
    """Join the slices of a :class:`SegmentMergeTask` given as plain values.

    Returns:
        ``segment`` (a row of ``segments``) and ``judged`` (as :func:`segment_pass.validate_one` has it; None where that
        was done by an earlier run), or ``error`` (why there is nothing to swap) and then nothing else.
    """
    task = SegmentMergeTask(**value | {"slices": tuple(Segment(**each) for each in value["slices"])})
    try:
        merged = _joined(task)
        if merged.segment_id in task.validated:
            _read_back(task.lake, merged)
            return {"segment": asdict(merged), "judged": None, "error": None}
        judged = validate_one(asdict(merged) | {"lake": task.lake})
    except LogError as error:
        return {"error": str(error)}
    except OSError as error:
        return {"error": error.strerror or str(error)}  # not its file: that has another name each time
    wrong = _difference(task, merged, judged)
    return {"error": wrong} if wrong else {"segment": asdict(merged), "judged": judged, "error": None}


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


def _append(lake: str, segment: Segment, file: BinaryIO, whole: Any) -> None:
    path = segment.local_path(lake)
    digest = hashlib.sha256()
    with storage.mapped(path) as mapped, memoryview(mapped) as content:
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
    first, last = slices[0], slices[-1]
    ending = next((s for s in reversed(slices) if s.last_batch_end is not None), last)
    identity = archive.segment_id(first.log, first.base_offset, digest)
    return replace(
        first,
        segment_id=identity,
        next_offset=last.next_offset,
        path=archive.segment_path(first.log, identity, first.base_offset),
        size=sum(s.size for s in slices),
        sealed=last.sealed,
        digest=digest,
        modified_ms=last.modified_ms,
        max_timestamp=_greatest(s.max_timestamp for s in slices),
        last_batch_base_offset=ending.last_batch_base_offset,
        last_batch_epoch=ending.last_batch_epoch,
        last_batch_crc=ending.last_batch_crc,
        last_batch_size=ending.last_batch_size,
        last_batch_end=ending.last_batch_end,
    )


def _greatest(timestamps: Iterable[int | None]) -> int | None:
    return max((timestamp for timestamp in timestamps if timestamp is not None), default=None)


def _read_back(lake: str, merged: Segment) -> None:
    path = merged.local_path(lake)
    digest = hashlib.sha256()
    with storage.mapped(path) as mapped, memoryview(mapped) as content:
        for start in range(0, len(content), CHUNK_BYTES):
            digest.update(content[start : start + CHUNK_BYTES])
    if digest.hexdigest() != merged.digest:
        raise LogError("what was written cannot be read back as it was", file=path)


def _difference(task: SegmentMergeTask, merged: Segment, judged: dict[str, Any]) -> str | None:
    """What is not as it was in the slices; None where all is."""
    if judged["failed"]:
        return str(judged["failed"]["message"])
    changed = [f["message"] for f in judged["findings"] if f["rule"] == "archive-changed"]
    if changed:
        return str(changed[0])
    found = {
        "verdict": judged["verdict"],
        "bytes": judged["valid_bytes"],
        "batches": judged["batches_count"],
        "records": judged["records"],
        "control records": judged["control_records"],
    }
    expected = {
        "verdict": str(End.CLEAN),
        "bytes": merged.size,
        "batches": task.batches,
        "records": task.records,
        "control records": task.control_records,
    }
    wrong = [f"{name} {found[name]}, not {expected[name]}" for name in found if found[name] != expected[name]]
    return f"joined, they were judged otherwise than one by one: {', '.join(wrong)}" if wrong else None
