"""A round of cleaning over a partition directory: first a plan, then carried out by any cleaner.

    bounds      log start, first dirty offset, high watermark, last stable offset: where the round begins and ends
    clocks      the round's own, and the one for tombstones of v0 and v1
    damage      every batch was verified. A group with a damaged segment stays as it is. Above the first damaged offset
                a record is removed only if a readable newer one replaces it. The checkpoint stays at or below the
                damaged segment's base, so that tombstones are in the map as long as the damage exists
    groups      which segments become one

A log that is not dirty enough by `min.cleanable.dirty.ratio` is planned too: the caller decides, and the plan has the
reason (`CompactionPlan.why_not`). If nothing can be cleaned there is a refusal.

One thing is unknown before the map is built: with `log.cleaner.dedupe.buffer.size` the round may end earlier, and then
the groups change.

Source: Kafka LogCleanerManager, Cleaner.doClean, LocalLog.replaceSegments. Belongs here: decisions and files.
`surveyed_log` reads the log, `cleaner` cleans it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from logcore.logs.checks.validation import Reader, read_plainly
from logcore.logs.compaction.cleaner import Cleaner
from logcore.logs.compaction.cleaning_round import CleanedSegment, CleaningRound, SourceSegment
from logcore.logs.compaction.planned_round import CompactionPlan as CompactionPlan
from logcore.logs.compaction.planned_round import PlannedGroup as PlannedGroup
from logcore.logs.compaction.selection import (
    CleanableRange,
    Refusal,
    RefusalReason,
    cleanable_range,
    is_overdue,
    why_not_now,
)
from logcore.logs.compaction.surveyed_log import SurveyedLog, SurveyedSegment, survey
from logcore.logs.model import readable_end
from logcore.logs.model.broker_line import BrokerLine
from logcore.logs.model.findings import Finding
from logcore.logs.model.partition_directory import (
    ByteSink,
    Keep,
    PartitionDirectory,
    Proposal,
    ProposedFile,
    RootLines,
    Write,
)
from logcore.logs.model.topic_config import TopicConfig
from logcore.logs.retention.retention import RetentionFacts
from logcore.logs.retention.retention_plan import refuse_start_above_end, start_of, started_files
from logcore.segments.filenames import (
    LOG_SUFFIX,
    MAX_OFFSET,
    OFFSET_INDEX_SUFFIX,
    PRODUCER_SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_base_offset,
    segment_file_name,
)
from logcore.segments.startup import StartFiles

_BYTES_A_KEY = 24
_LOAD_FACTOR = 0.9


@dataclass(frozen=True, slots=True)
class NothingToClean(Refusal):
    """Nothing is cleaned. It has what a start leaves of the directory: files, removed files with the reason, root
    lines; and the findings.
    """

    files: Proposal
    removed: dict[str, str]
    root: RootLines
    findings: tuple[Finding, ...]


def plan_compaction(
    directory: PartitionDirectory,
    config: TopicConfig,
    *,
    line: BrokerLine,
    as_of_ms: int,
    upper_bound: int | None = None,
    read: Reader = read_plainly,
) -> CompactionPlan | NothingToClean:
    """Plan a round of cleaning for a directory.

    Args:
        directory: The directory.
        config: The topic's configuration.
        line: The broker line.
        as_of_ms: The clock.
        upper_bound: Nothing at or above it is cleaned.
        read: Scans and verifies a segment.

    Returns:
        The plan, or why there is nothing to do.

    Raises:
        LogError: A broker would drop all segments, because the log start offset is after the log end. Or the output of
            an interrupted cleaning is damaged.
    """
    start = start_of(directory)
    first = min((base for name in start.kept if (base := segment_base_offset(name)) is not None), default=None)
    if first is None:
        return _nothing("there is no segment", directory, start, directory.first_dirty_offset)
    log_start = max(directory.log_start_offset or 0, first)
    start = start.without_old_snapshots(log_start)
    log = survey(
        directory,
        start,
        interval_bytes=config.index_interval_bytes,
        as_of_ms=as_of_ms,
        expiration_ms=config.producer_id_expiration_ms,
        log_start_offset=log_start,
        read=read,
    )
    log_end = log.log_end_offset
    refuse_start_above_end(directory, log_start, log_end)
    high_watermark = readable_end.high_watermark(
        directory.high_watermark, log_start_offset=log_start, log_end_offset=log.broker_end_offset
    )
    last_stable = readable_end.last_stable_offset(
        log.first_unstable_offset(high_watermark), high_watermark=high_watermark, log_start_offset=log_start
    )
    facts = [_facts(each) for each in log.segments]
    chosen = cleanable_range(
        facts,
        first_dirty=directory.first_dirty_offset,
        limit_offset=last_stable if upper_bound is None else min(last_stable, upper_bound),
        log_start_offset=log_start,
        log_end_offset=log_end,
        as_of_ms=as_of_ms,
        min_compaction_lag_ms=config.min_compaction_lag_ms,
    )
    if not chosen.cleanable_bytes:
        why = _why_nothing(chosen, log, last_stable, upper_bound, last_stable < high_watermark)
        first_dirty = None if directory.first_dirty_offset is None else chosen.first_dirty
        return _nothing(why, directory, start, first_dirty, log.findings)
    count = len(chosen.segments)
    damaged = [(each.base_offset, each.damage[0].offset) for each in log.segments[:count] if each.damage]
    return CompactionPlan(
        directory=directory,
        config=config,
        start=start,
        round=CleaningRound(
            log_start_offset=log_start,
            first_dirty_offset=chosen.first_dirty,
            upper_bound_offset=chosen.end_offset,
            high_watermark=high_watermark,
            as_of_ms=as_of_ms,
            delete_retention_ms=config.delete_retention_ms,
            legacy_horizon_ms=_legacy_horizon(facts, chosen.first_dirty, config.delete_retention_ms),
            line=line,
            producers=log.active_producers(),
            index_interval_bytes=config.index_interval_bytes,
            max_keys=_max_keys(config),
            segment_index_bytes=config.segment_index_bytes,
            frozen_from=min((offset for _, offset in damaged), default=None),
        ),
        segments=tuple(_source(log, number, log_start, chosen) for number in range(count)),
        damaged=tuple(base for base, _ in damaged),
        chosen=chosen,
        why_not=_why_not(log, chosen, config, as_of_ms),
        log_end_offset=log_end,
        last_stable_offset=last_stable,
        assumed_high_watermark=directory.high_watermark is None,
        findings=tuple(log.findings),
    )


def _nothing(
    why: str,
    directory: PartitionDirectory,
    start: StartFiles,
    first_dirty_offset: int | None,
    findings: Sequence[Finding] = (),
) -> NothingToClean:
    return NothingToClean(
        RefusalReason.NOTHING_CLEANABLE,
        why,
        files=started_files(directory, start),
        removed={name: str(reason) for name, reason in start.dropped.items()},
        root=replace(directory.root_lines, first_dirty_offset=first_dirty_offset),
        findings=tuple(findings),
    )


def _facts(segment: SurveyedSegment) -> RetentionFacts:
    return RetentionFacts(
        segment_id=str(segment.base_offset),
        base_offset=segment.base_offset,
        size=segment.log.size,
        max_timestamp=segment.max_timestamp,
        modified_ms=segment.log.modified_ms,
    )


def _source(log: SurveyedLog, number: int, log_start: int, chosen: CleanableRange) -> SourceSegment:
    segment = log.segments[number]
    following = segment.next_base_offset
    if following is None:  # the active segment is never cleaned
        following = chosen.end_offset
    unreadable = tuple((each.position, each.end) for each in segment.damage)
    return SourceSegment(
        base_offset=segment.base_offset,
        next_base_offset=following,
        held=segment.log.held,
        modified_ms=segment.log.modified_ms,
        offset_index_size=segment.offset_index_size,
        time_index_size=segment.time_index_size,
        aborted=log.aborted_from(number, log_start_offset=log_start, upper=following),
        dirty_position=segment.dirty_positions.get(chosen.first_dirty, 0),
        unreadable=unreadable,
    )


def _legacy_horizon(facts: Sequence[RetentionFacts], first_dirty: int, delete_retention_ms: int) -> int:
    """Tombstones of v0 and v1 are removed by the age of the last clean segment; without one none is."""
    clean = [each for each in facts if each.base_offset < first_dirty]
    return clean[-1].modified_ms - delete_retention_ms if clean else 0


def _max_keys(config: TopicConfig) -> int | None:
    size = config.log_cleaner_dedupe_buffer_size
    return None if size is None else int(size // _BYTES_A_KEY * _LOAD_FACTOR)


def _why_not(log: SurveyedLog, chosen: CleanableRange, config: TopicConfig, as_of_ms: int) -> Refusal | None:
    dirty = [
        each.first_timestamp for each in log.segments[:-1] if (each.next_base_offset or MAX_OFFSET) > chosen.first_dirty
    ]
    if is_overdue(dirty, as_of_ms=as_of_ms, max_compaction_lag_ms=config.max_compaction_lag_ms):
        return None
    return why_not_now(chosen, min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio)


def _why_nothing(
    chosen: CleanableRange, log: SurveyedLog, last_stable: int, upper_bound: int | None, is_open: bool
) -> str:
    active = log.segments[-1].base_offset
    bounds = [
        (active, f"the active segment begins at {active}"),
        (last_stable, f"the last stable offset is {last_stable}{', a transaction is open there' if is_open else ''}"),
    ]
    if upper_bound is not None:
        bounds.append((upper_bound, f"the requested bound is {upper_bound}"))
    lowest, why = min(bounds)
    ends = (each.next_base_offset for each in log.segments[:-1])
    if any(end is not None and chosen.first_dirty < end <= lowest for end in ends):
        why = "the dirty part is younger than min.compaction.lag.ms"
    return f"no whole segment can be cleaned at or above the first dirty offset {chosen.first_dirty}: {why}"


OpenStream = Callable[[str, int], AbstractContextManager[ByteSink]]
"""Opens a new large file, by its name and mtime."""


@dataclass(frozen=True, slots=True)
class CompactionOutcome:
    """The result of a round.

    Attributes:
        files: The files of the new directory, except the cleaned logs, which are written already.
        segments: The cleaned segments.
        replaced: For each of them the bases of those that it replaces.
        first_dirty_offset: The new line of the cleaner checkpoint.
        root: The new lines in the root files.
        removed: Files that are gone, and why.
    """

    files: Proposal
    segments: tuple[CleanedSegment, ...]
    replaced: tuple[tuple[int, ...], ...]
    first_dirty_offset: int
    root: RootLines
    removed: dict[str, str]


def run_compaction(plan: CompactionPlan, open_stream: OpenStream, cleaner: Cleaner) -> CompactionOutcome:
    """Carry a plan out.

    Raises:
        Uncleanable: As `Cleaner.clean`. Then the caller must discard what was written.
        CorruptRecordError: As `Cleaner.clean`.
    """
    end = cleaner.build_map(plan.dirty_segments, plan.round)
    files = started_files(plan.directory, plan.start)
    removed = {name: str(reason) for name, reason in plan.start.dropped.items()}
    cleaned: list[CleanedSegment] = []
    replaced: list[tuple[int, ...]] = []
    for group in plan.groups(end):
        if group.refusal is not None:
            continue
        base, modified_ms = group.segments[0].base_offset, group.segments[-1].modified_ms
        with open_stream(segment_file_name(base), modified_ms) as sink:
            segment = cleaner.clean(group.segments, sink)
        for each in group.segments:
            _drop(files, removed, each.base_offset, base)
        files |= _side_files(segment, plan.round.as_of_ms)
        cleaned.append(segment)
        replaced.append(tuple(each.base_offset for each in group.segments))
    first_dirty = plan.next_first_dirty(end)
    return CompactionOutcome(
        files=files,
        segments=tuple(cleaned),
        replaced=tuple(replaced),
        first_dirty_offset=first_dirty,
        root=replace(plan.directory.root_lines, first_dirty_offset=first_dirty),
        removed=removed,
    )


def _drop(files: dict[str, ProposedFile], removed: dict[str, str], base_offset: int, new_base_offset: int) -> None:
    """Remove a source segment's files. Its producer snapshot is kept if a segment still has this base."""
    suffixes = [LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX]
    if base_offset != new_base_offset:
        suffixes.append(PRODUCER_SNAPSHOT_SUFFIX)
    for suffix in suffixes:
        kept = files.pop(segment_file_name(base_offset, suffix), None)
        if isinstance(kept, Keep):
            removed[kept.source] = f"it was cleaned into segment {new_base_offset}"


def _side_files(segment: CleanedSegment, as_of_ms: int) -> dict[str, ProposedFile]:
    """The indexes. The first two have the mtime of the log, the third does not."""
    base = segment.base_offset
    files: dict[str, ProposedFile] = {
        segment_file_name(base, OFFSET_INDEX_SUFFIX): Write(segment.offset_index, segment.modified_ms),
        segment_file_name(base, TIME_INDEX_SUFFIX): Write(segment.time_index, segment.modified_ms),
    }
    if segment.transaction_index is not None:
        files[segment_file_name(base, TRANSACTION_INDEX_SUFFIX)] = Write(segment.transaction_index, as_of_ms)
    return files
