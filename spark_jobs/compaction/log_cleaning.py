"""One log cleaned by one task: new files beside the old ones, read again from disk and proven, nothing swapped yet.

The task sees the log as its broker would (`log_directory`), plans the round as a broker of the stated line would, with
the end of what is published as its upper bound, and cleans group by group.

Memory: the map of newest offsets, 51 bytes for each distinct key of the dirty part, or as far as
`log.cleaner.dedupe.buffer.size` lets it grow; then the proof's (`cleaning_proof`). Files are mapped and written as they
come. A log for which that is too much is spread (`spread_cleaning`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from logcore.columns.checking.verified_batches import read_verified
from logcore.columns.engines import judge_segment, new_cleaner
from logcore.errors import LogError
from logcore.logs.compaction.cleaning_round import Uncleanable
from logcore.logs.compaction.plan import CompactionPlan, NothingToClean, PlannedGroup, plan_compaction
from logcore.logs.compaction.selection import Refusal, RefusalReason
from logcore.logs.compaction.surveyed_log import Reader
from logcore.logs.model.broker_line import BrokerLine
from logcore.logs.model.partition_directory import PartitionDirectory
from logcore.logs.model.topic_config import TopicConfig
from logcore.segments.filenames import is_coordinator_topic, segment_base_offset
from logcore.segments.scanning.scan import End
from spark_jobs.compaction.aborted_offsets import Aborted
from spark_jobs.compaction.cleaning_proof import not_a_part, not_newest, rows, tally
from spark_jobs.compaction.newest_by_key import NewestByKey, both_sides
from spark_jobs.lake.delta.tables import read_rows
from spark_jobs.lake.segments import cleaned_files
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.segments.log_directory import Opened, log_directory, segment_bytes, slice_bytes
from spark_jobs.lake.segments.log_segments import log_segments

if TYPE_CHECKING:
    from spark_jobs.compaction.plan import CompactionLogPlan
    from spark_jobs.contracts import CompactionConfig

NOT_COMMITTED = ("aborted", "unknown")
"""States of the ledger whose records no reader is to see, or may not be."""


@dataclass(frozen=True, slots=True)
class CleaningTask:
    """A log to clean: all its live segments, and what is decided about it."""

    lake: str
    segments: tuple[Segment, ...]
    config: TopicConfig
    line: BrokerLine
    as_of_ms: int
    limit_offset: int
    """Nothing at or above it is cleaned."""
    first_dirty_offset: int | None
    log_start_offset: int
    high_watermark: int

    @property
    def log(self) -> str:
        """Its key."""
        return self.segments[0].log

    @classmethod
    def from_plain(cls, value: Mapping[str, Any]) -> CleaningTask:
        """The reverse of ``dataclasses.asdict``, also through JSON."""
        names = [field.name for field in fields(Segment)]
        config = dict(value["config"]) | {"cleanup_policy": tuple(value["config"]["cleanup_policy"])}
        segments = tuple(Segment(**{name: row[name] for name in names}) for row in value["segments"])
        given = {"segments": segments, "config": TopicConfig(**config), "line": BrokerLine(value["line"])}
        return cls(**{field.name: value[field.name] for field in fields(cls)} | given)


def task_of(config: CompactionConfig, log: CompactionLogPlan) -> CleaningTask:
    """What a worker is told of a log."""
    return CleaningTask(
        lake=config.lake,
        segments=log.segments,
        config=log.policy.config,
        line=log.policy.line,
        as_of_ms=config.as_of_ms,
        limit_offset=log.limit_offset,
        first_dirty_offset=log.cleaned_version,
        log_start_offset=log.row.log_start_offset,
        high_watermark=log.row.publish_limit(),
    )


def clean_log(value: dict[str, Any]) -> dict[str, Any]:
    """Clean one log.

    Args:
        value: a :class:`CleaningTask` as plain values.

    Returns:
        See :func:`result`.
    """
    task = CleaningTask.from_plain(value)
    try:
        return _clean(task)
    except Uncleanable as error:
        return result(refusal=Refusal(RefusalReason.NOT_REBUILDABLE, str(error)))
    except (LogError, OSError) as error:
        return result(unproven=f"reading or writing failed: {error}")


def result(
    *,
    refusal: Refusal | None = None,
    unproven: str | None = None,
    damage: Sequence[Mapping[str, Any]] = (),
    replaced: Sequence[Mapping[str, Any]] = (),
    first_dirty_offset: int | None = None,
) -> dict[str, Any]:
    """What became of a log, as plain values.

    Args:
        refusal: why nothing was done.
        unproven: why what was made must not be used.
        damage: places that kept a group as it is: ``segment_id``, ``base_offset``, ``file``, ``position``, ``offset``
            and ``message``.
        replaced: of each new file its ``sources`` (segment ids), the ``segment`` (a row) and its ``validation``
            (columns of ``validations``).
        first_dirty_offset: how far the log is clean now.
    """
    return {
        "refusal": None if refusal is None else [str(refusal.reason), refusal.message],
        "unproven": unproven,
        "damage": list(damage),
        "replaced": list(replaced),
        "first_dirty_offset": first_dirty_offset,
    }


def planned(
    task: CleaningTask, directory: PartitionDirectory, read: Reader = read_verified
) -> CompactionPlan | NothingToClean:
    """The round over a log's directory."""
    return plan_compaction(
        directory,
        task.config,
        line=task.line,
        as_of_ms=task.as_of_ms,
        upper_bound=task.limit_offset,
        read=read,
    )


def directory_of(task: CleaningTask, opened: Opened = segment_bytes) -> AbstractContextManager[PartitionDirectory]:
    """The log as its broker would have it. opened: what gives the bytes of a segment."""
    return log_directory(
        task.lake,
        task.segments,
        log_start_offset=task.log_start_offset,
        high_watermark=task.high_watermark,
        first_dirty_offset=task.first_dirty_offset,
        opened=opened,
    )


def _clean(task: CleaningTask) -> dict[str, Any]:
    with directory_of(task) as directory:
        plan = planned(task, directory)
        if isinstance(plan, Refusal):
            return result(refusal=plan)
        cleaner = new_cleaner()
        end = cleaner.build_map(plan.dirty_segments, plan.round)
        sources = SourceFiles(task.segments)
        aborted = aborted_of(task)
        before, after = both_sides(end, aborted, plan.round.frozen_from)
        replaced: list[dict[str, Any]] = []
        for group in plan.groups(end):
            segment = None
            if group.refusal is None:
                with cleaned_files.log_file(task.lake, task.log) as file:
                    cleaned = cleaner.clean(group.segments, file)
                    segment = cleaned_files.place(task.lake, file, cleaned, sources.of(group))
            if segment is None:
                for batch in _rows_of(group):
                    before.add(batch)
                    after.add(batch, is_judged=group.refusal is None)
                continue
            wrong, validation = proven(task.lake, group, segment, before, after)
            if wrong is not None:
                return result(unproven=wrong)
            replaced.append(replacement(sources.of(group), segment, validation))
        wrong = not_newest(before, after)
        if wrong is not None:
            return result(unproven=wrong)
        return result(damage=damage_of(plan, sources), replaced=replaced, first_dirty_offset=plan.next_first_dirty(end))


class SourceFiles:
    """Which archived files a source segment of a plan is made of."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._by_base = {segment.base_offset: segment.slices for segment in log_segments(segments)}

    def of(self, group: PlannedGroup) -> tuple[Segment, ...]:
        """Of a group, in offset order."""
        return tuple(one for each in group.segments for one in self._by_base[each.base_offset])

    def at(self, base_offset: int, position: int) -> tuple[Segment, int]:
        """The file that holds a position of a source segment, and the position in it."""
        slices = self._by_base[base_offset]
        for segment in slices:
            if position < segment.size:
                return segment, segment.start + position
            position -= segment.size
        return slices[-1], slices[-1].start + slices[-1].size


def replacement(sources: Sequence[Segment], segment: Segment, validation: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of ``replaced``."""
    return {
        "sources": [source.segment_id for source in sources],
        "segment": asdict(segment),
        "validation": dict(validation),
    }


def damage_of(plan: CompactionPlan, sources: SourceFiles) -> list[dict[str, Any]]:
    """The first place of each damaged segment."""
    places: dict[int, dict[str, Any]] = {}
    for finding in plan.findings:
        base = segment_base_offset(finding.file or "")
        if finding.rule != "corrupt-bytes" or base not in plan.damaged or base in places:
            continue
        file, position = sources.at(base, finding.position or 0)
        places[base] = {
            "segment_id": file.segment_id,
            "base_offset": base,
            "file": file.path,
            "position": position,
            "offset": finding.start_offset,
            "message": finding.message,
        }
    return [place for _, place in sorted(places.items())]


def aborted_of(task: CleaningTask) -> Aborted:
    """What the ledger says that nobody is to see."""
    columns = ["start_offset", "end_offset", "state"]
    where: list[tuple[str, str, object]] = [("log", "==", task.log), ("state", "in", list(NOT_COMMITTED))]
    found = read_rows(task.lake, "offset_ledger", columns, where)
    return Aborted.of(zip(found["start_offset"].to_pylist(), found["end_offset"].to_pylist(), strict=True))


def proven(
    lake: str, group: PlannedGroup, segment: Segment, before: NewestByKey, after: NewestByKey
) -> tuple[str | None, dict[str, Any]]:
    """As :func:`proven_part`, with `before` and `after` told of the rows on both sides."""
    return proven_part(lake, group, segment, [before], [after])


def proven_part(
    lake: str,
    group: PlannedGroup,
    segment: Segment,
    before: Sequence[NewestByKey] = (),
    after: Sequence[NewestByKey] = (),
) -> tuple[str | None, dict[str, Any]]:
    """What is wrong with a cleaned file as it lies on disk, or None; and what ``validations`` is to say of it. Wrong is
    all but that something has to be there that is not."""
    with slice_bytes(lake, segment) as content:
        if hashlib.sha256(content).hexdigest() != segment.digest:
            return f"the file at base offset {segment.base_offset} does not hold what was written to it", {}
        validation = _validation(segment, content)
        if validation["verdict"] != str(End.CLEAN):
            return f"the cleaned segment at base offset {segment.base_offset} is {validation['verdict']}", {}
        old, new = tally(_rows_of(group), before), tally(rows(content, segment.base_offset), after)
        with closing(old), closing(new):
            return not_a_part(old, new), validation


def _rows_of(group: PlannedGroup) -> Iterator[pa.RecordBatch]:
    for segment in group.segments:
        yield from rows(segment.content, segment.base_offset)


def _validation(segment: Segment, content: memoryview) -> dict[str, Any]:
    judged = judge_segment(
        content,
        base_offset=segment.base_offset,
        sealed=True,
        file=segment.path,
        next_base_offset=segment.next_offset,
        checks_sequences=not is_coordinator_topic(segment.topic),
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
