"""Cleans one log in one task: writes new files beside the old ones, reads them again from disk and proves them. No
swap.

The task sees the log as its broker would (`log_directory`). It plans the round as a broker of the given version would,
with the end of what is published as its upper bound, and cleans group by group.

Memory: the map of newest offsets, 51 bytes for each distinct key of the dirty part, limited by
`log.cleaner.dedupe.buffer.size`; then the proof's (`cleaning_proof`). Files are memory-mapped and written as a stream.
A larger log is cleaned by many tasks (`spread_cleaning`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass

import pyarrow as pa

from logcore.columns.engines import check_segment, new_cleaner
from logcore.columns.verified_batches import read_verified
from logcore.errors import LogError
from logcore.logs.checks.validation import Reader
from logcore.logs.compaction.cleaning_round import SourceSegment, Uncleanable
from logcore.logs.compaction.compaction_plan import CompactionPlan, NothingToClean, PlannedGroup, plan_compaction
from logcore.logs.compaction.selection import Refusal, RefusalReason
from logcore.logs.model.broker_line import BrokerLine
from logcore.logs.model.partition_directory import PartitionDirectory
from logcore.logs.model.topic_config import TopicConfig
from logcore.segments.filenames import is_coordinator_topic, segment_base_offset
from logcore.segments.scanning.scan import End
from spark_jobs.compaction.cleaning_proof import not_a_part, not_newest, rows, tally
from spark_jobs.compaction.newest_by_key import Aborted, NewestByKey, both_sides
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.segments import archive, cleaned_files
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.segments.log_directory import Opened, log_directory, segment_bytes, slice_bytes
from spark_jobs.lake.segments.log_segments import log_segments
from spark_jobs.lake.segments.validations import ValidationCounts
from spark_jobs.reads import Reads

NOT_COMMITTED = ("aborted", "unknown")
"""States of the ledger whose records no reader may see, or whose visibility is unknown."""


@dataclass(frozen=True, slots=True)
class CleaningTask:
    """A log to clean: all its live segments, and the plan for it."""

    lake: str
    segments: tuple[Segment, ...]
    config: TopicConfig
    line: BrokerLine
    as_of_ms: int
    limit_offset: int
    """Offsets at or above it are not cleaned."""
    first_dirty_offset: int | None
    log_start_offset: int
    high_watermark: int

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return archive.reads_of(self.segments)

    @property
    def log(self) -> str:
        """Its key."""
        return self.segments[0].log


@dataclass(frozen=True, slots=True)
class DamagedPlace:
    """The first damaged place of a segment. Its group was not cleaned."""

    segment_id: str
    base_offset: int
    file: str
    position: int
    offset: int | None
    message: str


@dataclass(frozen=True, slots=True)
class Replacement:
    """A proven new segment, and the ids of the segments that it replaces."""

    sources: tuple[str, ...]
    segment: Segment
    counts: ValidationCounts


@dataclass(frozen=True, slots=True)
class CleaningResult:
    """The result of cleaning a log."""

    refusal: Refusal | None = None
    """Why nothing was done."""
    unproven: str | None = None
    """Why the new files must not be used."""
    damage: tuple[DamagedPlace, ...] = ()
    replaced: tuple[Replacement, ...] = ()
    first_dirty_offset: int | None = None
    """How far the log is clean now."""
    map_was_full: bool = False
    """Whether a map of a given size ended the round before its upper bound: the rest needs another round."""


class Unproven(Exception):
    """The new files must not be used; the text says why."""


def clean_log(task: CleaningTask) -> CleaningResult:
    """Clean one log."""
    try:
        return _clean(task)
    except (Uncleanable, Unproven, LogError, OSError) as error:
        return failure(error)


def failure(error: Exception) -> CleaningResult:
    """The result of a cleaning that failed with an error."""
    if isinstance(error, Uncleanable):
        return CleaningResult(refusal=Refusal(RefusalReason.NOT_REBUILDABLE, str(error)))
    if isinstance(error, Unproven):
        return CleaningResult(unproven=str(error))
    return CleaningResult(unproven=f"reading or writing failed: {error}")


def planned(
    task: CleaningTask, directory: PartitionDirectory, read: Reader = read_verified
) -> CompactionPlan | NothingToClean:
    """Plan the round over a log's directory."""
    return plan_compaction(
        directory,
        task.config,
        line=task.line,
        as_of_ms=task.as_of_ms,
        upper_bound=task.limit_offset,
        read=read,
    )


def directory_of(task: CleaningTask, opened: Opened = segment_bytes) -> AbstractContextManager[PartitionDirectory]:
    """The log directory as its broker would have it.

    Args:
        opened: Provides the bytes of a segment.
    """
    return log_directory(
        task.lake,
        task.segments,
        log_start_offset=task.log_start_offset,
        high_watermark=task.high_watermark,
        first_dirty_offset=task.first_dirty_offset,
        opened=opened,
    )


def _clean(task: CleaningTask) -> CleaningResult:
    with directory_of(task) as directory:
        plan = planned(task, directory)
        if isinstance(plan, Refusal):
            return CleaningResult(refusal=plan)
        cleaner = new_cleaner()
        end = cleaner.build_map(plan.dirty_segments, plan.round)
        sources = SourceFiles(task.segments)
        aborted = aborted_of(task.lake, task.log)
        before, after = both_sides(end, aborted, plan.round.frozen_from)
        replaced: list[Replacement] = []
        for group in plan.groups(end):
            segment = None
            if group.refusal is None:
                with cleaned_files.log_file(task.lake, task.log) as file:
                    cleaned = cleaner.clean(group.segments, file)
                    segment = cleaned_files.place(task.lake, file, cleaned, sources.of(group))
            if segment is None:
                for batch in rows_of(group.segments):
                    before.add(batch)
                    after.add(batch, refuses_aborted=group.refusal is None)
                continue
            counts = proven_part(task.lake, group, segment, [before], [after])
            replaced.append(replacement(sources.of(group), segment, counts))
        wrong = not_newest(before, after)
        if wrong is not None:
            raise Unproven(wrong)
        return CleaningResult(
            damage=damage_of(plan, sources),
            replaced=tuple(replaced),
            first_dirty_offset=plan.next_first_dirty(end),
            map_was_full=end < plan.round.upper_bound_offset,
        )


class SourceFiles:
    """The archived files of which a source segment of a plan consists."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._by_base = {segment.base_offset: segment.slices for segment in log_segments(segments)}

    def of(self, group: PlannedGroup) -> tuple[Segment, ...]:
        """Files of a group, in offset order."""
        return tuple(one for each in group.segments for one in self._by_base[each.base_offset])

    def at(self, base_offset: int, position: int) -> tuple[Segment, int]:
        """The file with a position of a source segment, and the position in it."""
        slices = self._by_base[base_offset]
        for segment in slices:
            if position < segment.size:
                return segment, segment.start + position
            position -= segment.size
        return slices[-1], slices[-1].start + slices[-1].size


def replacement(sources: Sequence[Segment], segment: Segment, counts: ValidationCounts) -> Replacement:
    """Build the replacement of these segments."""
    return Replacement(tuple(source.segment_id for source in sources), segment, counts)


def damage_of(plan: CompactionPlan, sources: SourceFiles) -> tuple[DamagedPlace, ...]:
    """The first damaged place of each damaged segment."""
    places: dict[int, DamagedPlace] = {}
    for finding in plan.findings:
        base = segment_base_offset(finding.file or "")
        if finding.rule != "corrupt-bytes" or base not in plan.damaged or base in places:
            continue
        file, position = sources.at(base, finding.position or 0)
        places[base] = DamagedPlace(
            segment_id=file.segment_id,
            base_offset=base,
            file=file.path,
            position=position,
            offset=finding.start_offset,
            message=finding.message,
        )
    return tuple(place for _, place in sorted(places.items()))


def aborted_of(lake: str, log: str) -> Aborted:
    """Offsets of a log whose records no reader may see, from its ledger."""
    columns = ["start_offset", "end_offset", "state"]
    where: list[tuple[str, str, object]] = [("log", "==", log), ("state", "in", list(NOT_COMMITTED))]
    found = read_rows(lake, "offset_ledger", columns, where)
    return Aborted.of(zip(found["start_offset"].to_pylist(), found["end_offset"].to_pylist(), strict=True))  # type: ignore[arg-type]


def proven_part(
    lake: str,
    group: PlannedGroup,
    segment: Segment,
    before: Sequence[NewestByKey] = (),
    after: Sequence[NewestByKey] = (),
) -> ValidationCounts:
    """Read a cleaned file from disk, and prove everything except that no record is missing.

    Args:
        before: Get the rows before cleaning.
        after: Get the rows after cleaning.

    Returns:
        The counts for the file's row in ``validations``.

    Raises:
        Unproven: The file must not be used.
    """
    with slice_bytes(lake, segment) as content:
        counts = sound_counts(segment, content)
        old, new = tally(rows_of(group.segments), before), tally(rows(content, segment.base_offset), after)
        with closing(old), closing(new):
            wrong = not_a_part(old, new)
        if wrong is not None:
            raise Unproven(wrong)
        return counts


def sound_counts(segment: Segment, content: memoryview) -> ValidationCounts:
    """The counts of a cleaned file for its row in ``validations``.

    Raises:
        Unproven: The file is not what was written, or it is damaged.
    """
    if hashlib.sha256(content).hexdigest() != segment.digest:
        raise Unproven(f"the file at base offset {segment.base_offset} does not contain what was written to it")
    counts = _counts(segment, content)
    if counts.verdict != str(End.CLEAN):
        raise Unproven(f"the cleaned segment at base offset {segment.base_offset} is {counts.verdict}")
    return counts


def rows_of(segments: Sequence[SourceSegment]) -> Iterator[pa.RecordBatch]:
    """Rows of segments, as the proof compares them."""
    for segment in segments:
        yield from rows(segment.content, segment.base_offset)


def _counts(segment: Segment, content: memoryview) -> ValidationCounts:
    validated = check_segment(
        content,
        base_offset=segment.base_offset,
        sealed=True,
        file=segment.path,
        next_base_offset=segment.next_offset,
        checks_sequences=not is_coordinator_topic(segment.topic),
    )
    for _ in validated:
        pass
    return ValidationCounts.of(validated, len(validated.findings))
