"""Parts of archived segments as segments of their own, and swaps of rows in `segments`.

An archived file never changes. When a segment is cut back, or its damage is replaced, its remaining parts are copied
into files of their own. Each part keeps the source file and position of its bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from logcore.logs.model.findings import Finding, found
from spark_jobs.ingest.segment_copy import CopyResult, CopyTask
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.outlines import SliceOutline, SwapOutline


@dataclass(frozen=True, slots=True)
class SliceCopy:
    """A copy to make: a part of an archived segment, or bytes of a source."""

    task: CopyTask
    parent: Segment | None = None
    """The archived segment of which it is a part."""


@dataclass(frozen=True, slots=True)
class Swap:
    """Segments to retire, and their replacements. The swap is atomic."""

    retired: tuple[Segment, ...]
    because: str
    parts: tuple[SliceCopy, ...]
    findings: tuple[Finding, ...]
    """Findings to report after the swap."""

    @property
    def outline(self) -> SwapOutline:
        """What a report and a dry run say of it."""
        copies = [SliceOutline(t.source, t.start, t.first_offset, t.end) for t in (part.task for part in self.parts)]
        return SwapOutline(self.because, tuple(segment.segment_id for segment in self.retired), tuple(copies))


def part_of(lake: str, parent: Segment, start: int, end: int, base_offset: int, next_offset: int) -> SliceCopy:
    """Plan a copy of bytes [start, end) of an archived segment, which contain its offsets [base_offset,
    next_offset).
    """
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
        etag=parent.etag,
        chunk_map=parent.chunk_map,
    )
    return SliceCopy(task, parent)


def copied_parts(swap: Swap, results: Sequence[CopyResult]) -> tuple[list[Segment], list[Finding]]:
    """The segments of a swap's parts; empty, with findings, if one of them was not copied exactly as planned."""
    made: list[Segment] = []
    for part, result in zip(swap.parts, results, strict=True):
        task = part.task
        if result.failed:
            return [], list(result.findings)
        segment = result.segment
        if segment is None or task.end is None or segment.size != task.end - task.start:
            message = f"{task.source} has changed: bytes {task.start} to {task.end} are not those that were planned."
            return [], [found("source-changed", message, file=task.source, position=task.start)]
        made.append(segment if part.parent is None else _as_part(segment, part.parent))
    return made, []


def replaced_by(swap: Swap, made: Sequence[Segment]) -> dict[str, str]:
    """The replacement of each retired segment, by id: its first part, or else the segment that fills it."""
    stands: dict[str, str] = {}
    for gone in swap.retired:
        inside = [s.segment_id for s in made if gone.base_offset <= s.base_offset < gone.next_offset]
        if inside:
            stands[gone.segment_id] = inside[0]
    return stands


def _as_part(segment: Segment, parent: Segment) -> Segment:
    """Build the row of a part as if it had been ingested from the source directly."""
    moved = parent.origin_position - parent.start
    end = segment.last_batch_end
    return replace(
        segment,
        sealed=False,
        origin_file=parent.origin_file,
        origin_position=segment.origin_position + moved,
        last_batch_end=None if end is None else end + moved,
    )
