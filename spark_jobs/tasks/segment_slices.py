"""Parts of archived segments as segments of their own, and swaps: what leaves `segments` and what takes its place.

An archived file is never changed: what stays of a segment that is cut back, or whose damage is replaced, is copied
into a file of its own. It keeps telling where its bytes came from, as its segment did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from logcore.logs.model.findings import Finding, found
from spark_jobs.lake.ledger.finding_rows import from_plain
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.tasks.segment_copy import CopyTask


@dataclass(frozen=True, slots=True)
class SliceCopy:
    """A copy to be made: of a part of an archived segment, or of a source's bytes."""

    task: CopyTask
    parent: Segment | None = None
    """The archived segment that it is a part of."""


@dataclass(frozen=True, slots=True)
class Swap:
    """Segments that leave, and what is to stand in their place: all of it, or nothing happens."""

    retired: tuple[Segment, ...]
    because: str
    parts: tuple[SliceCopy, ...]
    findings: tuple[Finding, ...]
    """What is said once it is done."""


def part_of(lake: str, parent: Segment, start: int, end: int, base_offset: int, next_offset: int) -> SliceCopy:
    """Bytes [start, end) of an archived segment, which hold its offsets [base_offset, next_offset)."""
    task = CopyTask(
        lake=lake,
        log=parent.log,
        topic=parent.topic,
        log_id=parent.log_id,
        partition=parent.partition,
        source=parent.local_path(lake),
        file_base_offset=parent.origin_base_offset,
        start=parent.start + start,
        first_offset=base_offset,
        sealed=True,
        next_base_offset=next_offset,
        modified_ms=parent.modified_ms,
        size=parent.size,
        in_place=parent.lies_at_source,
        end=parent.start + end,
    )
    return SliceCopy(task, parent)


def copied_parts(swap: Swap, results: Sequence[Mapping[str, Any]]) -> tuple[list[Segment], list[Finding]]:
    """The segments of a swap's parts; none, and why, if one of them could not be copied just as it was planned."""
    made: list[Segment] = []
    for part, result in zip(swap.parts, results, strict=True):
        task = part.task
        if result["failed"]:
            return [], [from_plain(value) for value in result["findings"]]
        segment = None if result["segment"] is None else Segment(**result["segment"])
        if segment is None or task.end is None or segment.size != task.end - task.start:
            message = f"{task.source} does not hold in bytes {task.start} to {task.end} what was seen there."
            return [], [found("source-changed", message, file=task.source, position=task.start)]
        made.append(segment if part.parent is None else _as_part(segment, part.parent))
    return made, []


def replaced_by(swap: Swap, made: Sequence[Segment]) -> dict[str, str]:
    """What stands in the place of each segment that leaves: the first part of it, or else of what fills it."""
    stands: dict[str, str] = {}
    for gone in swap.retired:
        inside = [s.segment_id for s in made if gone.base_offset <= s.base_offset < gone.next_offset]
        if inside:
            stands[gone.segment_id] = inside[0]
    return stands


def as_text(swap: Swap) -> dict[str, Any]:
    """The swap as plain values, for a plan that is printed."""
    return {
        "because": swap.because,
        "retires": [s.segment_id for s in swap.retired],
        "copies": [
            {k: v for k, v in asdict(part.task).items() if k in ("source", "start", "end", "first_offset")}
            for part in swap.parts
        ],
    }


def _as_part(segment: Segment, parent: Segment) -> Segment:
    """A part of an archived segment, as if it had been taken from the source like this."""
    moved = parent.origin_position - parent.start
    end = segment.last_batch_end
    return replace(
        segment,
        sealed=False,
        origin_file=parent.origin_file,
        origin_position=segment.origin_position + moved,
        last_batch_end=None if end is None else end + moved,
    )
