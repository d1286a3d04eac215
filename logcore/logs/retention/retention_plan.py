"""A plan for one round of retention over a partition directory: what is deleted by which rule, what stays and why.

    deleteRecords     first moves the log start offset, if it is requested
    log start, size, time         see `retention`
    a new segment     if every segment is deleted, an empty one at the log end is created first
    files             the indexes and the producer snapshot of a deleted segment are deleted too
    leader epochs     the history is cut at the new log start offset, if that moved
    root files        a line in log-start-offset-checkpoint only while the log start is above the first segment's base
    tiered storage    a segment that remote storage has goes, and the log start stays; with a line for it in any case

The files that a broker's start removes first (`*.deleted`, unfinished cleanings, stray snapshots) are left out too.
Nothing else is changed: what stays is kept as it is, with its mtime.

The new segment gets an empty log, an empty offset index and an empty time index, and a snapshot of the producers at the
log end. A 4.3 broker without readers may have left out the two indexes. It would recover the segment at its next start
because of that, so they are written for every line.

Source: Kafka UnifiedLog.deleteOldSegments, deleteSegments, maybeIncrementLogStartOffset,
maybeIncrementLocalLogStartOffset, updateLogStartOffset, isRemoteLogEnabled; LogLoader.load;
LogManager.checkpointLogStartOffsetsInDir; Partition.deleteRecordsOnLeader.

A partition directory with the file names that a broker's start leaves. Retention and cleaning begin with it.

Files of an interrupted cleaning decide which segments are the log (`logcore.segments.startup`). If its output replaces
other segments, the new directory does not have those. So the output must be sound. A start does not check this: it
removes good segments and keeps a damaged one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from logcore.errors import CorruptIndexError, LogError
from logcore.logs.checks.validation import Reader, damage_found, read_plainly
from logcore.logs.model import readable_end
from logcore.logs.model.broker_line import BrokerLine
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.partition_directory import Keep, PartitionDirectory, Proposal, ProposedFile, RootLines, Write
from logcore.logs.model.producers.producers_at import newest_snapshot, producers_at
from logcore.logs.model.topic_config import TopicConfig
from logcore.logs.retention.retained_segments import (
    DirectorySegment,
    ReadSegment,
    TimestampSource,
    directory_segments,
    read_segment,
)
from logcore.logs.retention.retention import CLEANUP_DELETE, Decision, decide
from logcore.segments.filenames import (
    LEADER_EPOCH_FILE,
    LOG_SUFFIX,
    MAX_OFFSET,
    OFFSET_INDEX_SUFFIX,
    PRODUCER_SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    can_be_tiered,
    segment_file_name,
)
from logcore.segments.scanning.scan import SegmentScan, Stretch
from logcore.segments.side_files import checkpoints, leader_epochs, producer_state
from logcore.segments.side_files.leader_epochs import Epochs
from logcore.segments.startup import StartFiles, is_plain_name, kept_at_start, misnamed
from logcore.texts import milliseconds


def refuse_start_above_end(directory: PartitionDirectory, log_start: int, log_end: int) -> None:
    """Raise LogError for a log of which a broker would drop all segments, because it starts above its end."""
    if log_start > log_end:
        raise LogError(
            f"its log start offset {log_start} lies after its log end {log_end}: a broker's start would drop every "
            "segment and begin with an empty log",
            topic_partition=str(directory.topic_partition),
            advice="Try `loglake recover`.",
        )


def start_of(directory: PartitionDirectory) -> StartFiles:
    """Find what a start would do with a directory's names.

    Raises:
        LogError: The output of an interrupted cleaning is in force and damaged, or its name is not an offset.
    """
    for name in misnamed(directory.files):
        raise LogError(
            "it has the name of an interrupted cleaning's output, but without an offset of 20 digits",
            file=name,
            topic_partition=str(directory.topic_partition),
            advice="Move it away: no broker wrote it.",
        )

    def next_offset(name: str) -> int:
        file = directory.files[name]
        walk = SegmentScan(file.content, base_offset=int(name[:20]), sealed=True, fetched=file.fetched)
        damage = next((item for item in walk if isinstance(item, Stretch)), None)
        if damage is None and walk.accounting.padding == 0:
            return walk.next_offset
        raise LogError(
            "an interrupted cleaning wrote it to replace other segments, and it is damaged",
            file=name,
            position=walk.accounting.valid if damage is None else damage.position,
            topic_partition=str(directory.topic_partition),
            advice="Restore the replaced segments without it, or try `loglake recover --salvage`.",
        )

    return kept_at_start(directory.files, next_offset)


def started_files(directory: PartitionDirectory, start: StartFiles) -> dict[str, ProposedFile]:
    """Every file that a start keeps, unchanged, under its new name."""
    files: dict[str, ProposedFile] = {name: Keep(now) for name, now in start.kept.items()}
    named = set(start.kept.values())
    for name in directory.files:
        if name not in start.dropped and not is_plain_name(name) and name not in named:
            files[name] = Keep(name)
    return files


def segment_findings(
    directory: PartitionDirectory,
    decision: Decision[DirectorySegment],
    config: TopicConfig,
    as_of_ms: int,
    read: Reader,
) -> list[Finding]:
    """Return the findings about the segments.

    Args:
        directory: The directory.
        decision: The decision about them.
        config: The configuration of the topic.
        as_of_ms: The clock.
        read: Reads what a decision does not look at.
    """
    findings: list[Finding] = []
    for segment in [each.segment for each in decision.deletions] + [each.segment for each in decision.stays]:
        log = segment.log
        steps = read(log.content, segment.base_offset, segment.next_base_offset, log.fetched)
        findings += [damage_found(log.name, step) for step in steps if isinstance(step, Stretch) and not step.tail]
        if segment.timestamp_source is not None and not _is_recovered(directory, segment):
            findings.extend(_index_finding(segment, config, as_of_ms))
    return findings


def _is_recovered(directory: PartitionDirectory, segment: DirectorySegment) -> bool:
    """Whether a broker's start rebuilds the segment's indexes."""
    end = segment.next_base_offset
    return not directory.is_clean and (end is None or end > (directory.recovery_point or 0))


def _index_finding(segment: DirectorySegment, config: TopicConfig, as_of_ms: int) -> Iterator[Finding]:
    """What a broker would do with a time index that differs from the batches."""
    if segment.timestamp_source is TimestampSource.TIME_INDEX and not segment.reading.is_damaged:
        yield found(
            "time-index-differs",
            f"{segment.log.name}: its time index ends later than any of its batches, so the segment may have been cut; "
            "the later time counts, as for a broker",
            file=segment_file_name(segment.base_offset, TIME_INDEX_SUFFIX),
        )
    seen = segment.seen_by_broker()
    if seen is None:
        return
    timestamp, state = seen
    age = as_of_ms - timestamp
    name = "local.retention.ms" if config.copies_to_remote else "retention.ms"
    verdict = "delete" if age > config.local_limit_ms else "keep"
    yield found(
        "time-index-differs",
        f"{segment.log.name}: {state}; for a broker that starts on these files its latest record is "
        f"{milliseconds(age)} old, and would {verdict} it by {name} of {milliseconds(config.local_limit_ms)} alone",
        file=segment_file_name(segment.base_offset, TIME_INDEX_SUFFIX),
    )


OffsetSpan = tuple[int, int]
"""Start and end (exclusive)."""

HIGH_WATERMARK = -1
"""As the offset before which records are deleted: everything committed."""


class DeleteRecordsRefused(ValueError):
    """A broker answers this deleteRecords request with an error."""


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """The result of one round for a directory.

    Attributes:
        directory: The directory.
        line: The broker line.
        as_of_ms: The clock.
        decision: What is deleted and what stays.
        files: The new directory.
        root: Its lines in the root files.
        log_start_offset: Before the round.
        new_log_start_offset: After the round.
        log_end_offset: Before the round; None if damage at the end hides it.
        high_watermark: The one that was used.
        assumed_high_watermark: No file has a high watermark, so the log end is used.
        new_segment: Base offset of the new, empty segment; None without one.
        dropped: Files that a broker's start would have removed, and why.
        leader_epochs: After the round; None if there is no readable history.
        findings: The findings.
    """

    directory: PartitionDirectory
    line: BrokerLine
    as_of_ms: int
    decision: Decision[DirectorySegment]
    files: Proposal
    root: RootLines
    log_start_offset: int
    new_log_start_offset: int
    log_end_offset: int | None
    high_watermark: int
    assumed_high_watermark: bool
    new_segment: int | None
    dropped: dict[str, str]
    leader_epochs: Epochs | None
    findings: tuple[Finding, ...]

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain values, for `--plan`."""
        return {
            "high_watermark": self.high_watermark,
            "high_watermark_is_assumed": self.assumed_high_watermark,
            "log_end_offset": self.log_end_offset,
            "log_start_offset": {"before": self.log_start_offset, "after": self.new_log_start_offset},
            "segments": [
                *(
                    _described(each.segment) | {"action": "delete", "rule": str(each.rule), "why": [each.why]}
                    for each in self.decision.deletions
                ),
                *(
                    _described(each.segment) | {"action": "keep", "rule": None, "why": list(each.why)}
                    for each in self.decision.stays
                ),
            ],
            "deleted_bytes": sum(each.segment.log.size for each in self.decision.deletions),
            "new_segment": self.new_segment,
            "leader_epochs": None
            if self.leader_epochs is None
            else [[entry.epoch, entry.start_offset] for entry in self.leader_epochs],
            "files": {name: _file_action(name, file) for name, file in sorted(self.files.items())},
            "removed": dict(sorted(self.removed().items())),
            "checkpoints": {
                "recovery-point-offset-checkpoint": self.root.recovery_point,
                "log-start-offset-checkpoint": self.root.log_start_offset,
                "replication-offset-checkpoint": self.root.high_watermark,
                "cleaner-offset-checkpoint": self.root.first_dirty_offset,
            },
            "findings": [
                {"rule": finding.rule, "severity": str(finding.severity), "message": finding.message}
                for finding in self.findings
            ],
        }

    def removed(self) -> dict[str, str]:
        """Every file of the directory that is not in the new one, and why."""
        kept = {file.source for file in self.files.values() if isinstance(file, Keep)} | set(self.files)
        rules = {each.segment.base_offset: each.rule for each in self.decision.deletions}
        return {
            name: self.dropped[name] if name in self.dropped else f"its segment is deleted by {rules[int(name[:20])]}"
            for name in self.directory.files
            if name not in kept
        }


def plan_retention(
    directory: PartitionDirectory,
    config: TopicConfig,
    *,
    line: BrokerLine,
    as_of_ms: int,
    delete_records_before: int | None = None,
    copied: Sequence[OffsetSpan] = (),
    read: ReadSegment = read_segment,
    read_whole: Reader = read_plainly,
) -> RetentionPlan:
    """Plan one round of retention for a directory.

    Args:
        directory: The directory.
        config: The topic's configuration.
        line: The broker line.
        as_of_ms: The clock.
        delete_records_before: First do what deleteRecords up to this offset does; -1 means the high watermark.
        copied: Offsets of the log that remote storage has, ascending; they may overlap. Only for tiered storage.
        read: Scans a segment for the decision.
        read_whole: Reads what the decision does not look at.

    Raises:
        DeleteRecordsRefused: A broker refuses deleteRecords: an offset above the high watermark, or a topic that is
            compacted without delete.
        LogError: A broker would drop all segments, because the log start offset is after the log end. Or the output of
            an interrupted cleaning is damaged.
    """
    if not can_be_tiered(directory.topic_partition.topic):
        config = replace(config, remote_storage_enable=False)
    start = start_of(directory)
    segments = directory_segments(directory, start, read)
    findings: list[Finding] = []
    log_end = _log_end(directory, segments)
    log_start, first_local = directory.log_start_offset or 0, segments[0].base_offset if segments else 0
    if not config.is_tiered:
        log_start = max(log_start, first_local)
    high_watermark = _high_watermark(directory, segments, log_start, log_end)
    start = start.without_old_snapshots(log_start)
    if log_end is not None and segments:
        refuse_start_above_end(directory, log_start, log_end)
    new_start = _records_deleted_to(delete_records_before, config, log_start, high_watermark)
    policy = config.cleanup_policy
    if not policy and config.copies_to_remote and line.retains_without_policy:
        policy = (CLEANUP_DELETE,)
    decision = decide(
        segments,
        retention_ms=config.local_limit_ms,
        retention_bytes=config.local_limit_bytes,
        as_of_ms=as_of_ms,
        high_watermark=high_watermark,
        log_start_offset=new_start,
        log_end_offset=log_end,
        cleanup_policy=policy,
        copied_to=_copied_to(copied, max(new_start, first_local)) if config.copies_to_remote else None,
    )
    new_segment = log_end if decision.rolls or (decision.deletions and not decision.stays) else None
    first_base = decision.stays[0].segment.base_offset if decision.stays else new_segment
    if decision.deletions and first_base is not None and not config.copies_to_remote:
        new_start = max(new_start, first_base)
    files = _kept_files(directory, start, {each.segment.base_offset for each in decision.deletions})
    if new_segment is not None:
        files |= _new_segment(directory, start, segments, new_segment, config, as_of_ms)
    epochs = _leader_epochs(directory, findings)
    if epochs is not None and new_start > log_start:
        cut = leader_epochs.truncate_from_start(epochs, new_start)
        if cut != epochs:
            files[LEADER_EPOCH_FILE] = Write(checkpoints.format_leader_epochs(cut), as_of_ms)
        epochs = cut
    findings += segment_findings(directory, decision, config, as_of_ms, read_whole)
    return RetentionPlan(
        directory=directory,
        line=line,
        as_of_ms=as_of_ms,
        decision=decision,
        files=files,
        root=_root_lines(directory, config, first_base, new_segment, log_start, new_start),
        log_start_offset=log_start,
        new_log_start_offset=new_start,
        log_end_offset=log_end,
        high_watermark=high_watermark,
        assumed_high_watermark=directory.high_watermark is None,
        new_segment=new_segment,
        dropped={name: str(reason) for name, reason in start.dropped.items()},
        leader_epochs=epochs,
        findings=tuple(findings),
    )


def _log_end(directory: PartitionDirectory, segments: Sequence[DirectorySegment]) -> int | None:
    """The offset after the last batch; None if damage may hide more batches."""
    if not segments:
        return directory.log_start_offset or 0
    reading = segments[-1].reading
    # A broker that stopped cleanly leaves no torn tail, and never committed what it does not have.
    lost = segments[-1].log.size > reading.valid if directory.is_clean else False
    lost = lost or (directory.high_watermark or 0) > reading.next_offset
    return None if reading.is_damaged or lost else reading.next_offset


def _high_watermark(
    directory: PartitionDirectory, segments: Sequence[DirectorySegment], log_start: int, log_end: int | None
) -> int:
    """The one that counts. Where damage hides the log end, a stated one may lie beyond what can be read."""
    end = log_end
    if end is None:
        end = segments[-1].reading.next_offset if directory.high_watermark is None else MAX_OFFSET
    return readable_end.high_watermark(directory.high_watermark, log_start_offset=log_start, log_end_offset=end)


def _copied_to(copied: Sequence[OffsetSpan], first: int) -> int:
    """The offset up to which remote storage has everything from an offset on."""
    end = first
    for start, after in copied:
        if start > end:
            break
        end = max(end, after)
    return end


def _records_deleted_to(before: int | None, config: TopicConfig, log_start: int, high_watermark: int) -> int:
    """The log start offset after deleteRecords."""
    if before is None:
        return log_start
    if config.compacts and not config.deletes:
        raise DeleteRecordsRefused(
            "deleteRecords is refused where cleanup.policy is compact without delete (PolicyViolation)"
        )
    target = high_watermark if before == HIGH_WATERMARK else before
    if not 0 <= target <= high_watermark:
        raise DeleteRecordsRefused(
            f"records before offset {target} cannot be deleted: the high watermark is {high_watermark} "
            "(OffsetOutOfRange)"
        )
    return max(log_start, target)


def _kept_files(directory: PartitionDirectory, start: StartFiles, gone: set[int]) -> dict[str, ProposedFile]:
    files = started_files(directory, start)
    for name in start.kept:
        if _base_offset(name) in gone:
            del files[name]
    return files


def _base_offset(name: str) -> int:
    return int(name[:20])


def _new_segment(
    directory: PartitionDirectory,
    start: StartFiles,
    segments: Sequence[DirectorySegment],
    base_offset: int,
    config: TopicConfig,
    as_of_ms: int,
) -> dict[str, ProposedFile]:
    """The files of an empty segment at the log end, with the snapshot that a roll writes."""
    files: dict[str, ProposedFile] = {
        segment_file_name(base_offset, suffix): Write(b"", as_of_ms)
        for suffix in (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)
    }
    snapshots = {name: directory.files[now] for name, now in start.kept.items() if name.endswith(".snapshot")}
    name = segment_file_name(base_offset, PRODUCER_SNAPSHOT_SUFFIX)
    known = newest_snapshot(snapshots.values(), base_offset)
    if known is None or known[0] != base_offset:
        contents = (each.log.content for each in segments)
        entries = producers_at(known, contents, as_of_ms, config.producer_id_expiration_ms)
        files[name] = Write(producer_state.encode(entries), as_of_ms)
    return files


def _leader_epochs(directory: PartitionDirectory, findings: list[Finding]) -> Epochs | None:
    file = directory.files.get(LEADER_EPOCH_FILE)
    if file is None:
        return None
    try:
        return checkpoints.parse_leader_epochs(bytes(file.content))
    except CorruptIndexError as error:
        findings.append(found("broken-partition-file", f"{error}; it is kept as it is", file=LEADER_EPOCH_FILE))
        return None


def _root_lines(
    directory: PartitionDirectory,
    config: TopicConfig,
    first_base: int | None,
    new_segment: int | None,
    log_start: int,
    new_start: int,
) -> RootLines:
    recovery_point, high_watermark = directory.recovery_point, directory.high_watermark
    if new_start > log_start:  # neither may be below the log start offset
        recovery_point = None if recovery_point is None else max(recovery_point, new_start)
        high_watermark = None if high_watermark is None else max(high_watermark, new_start)
    if new_segment is not None:
        recovery_point = new_segment  # a roll flushes
    has_line = config.is_tiered or (first_base is not None and new_start > first_base)
    return RootLines(
        recovery_point=recovery_point,
        log_start_offset=new_start if has_line else None,
        high_watermark=high_watermark,
        first_dirty_offset=directory.first_dirty_offset,
    )


def _described(segment: DirectorySegment) -> dict[str, Any]:
    source = segment.timestamp_source
    return {
        "base_offset": segment.base_offset,
        "next_base_offset": segment.next_base_offset,
        "bytes": segment.log.size,
        "modified_ms": segment.log.modified_ms,
        "largest_timestamp": None if source is None else segment.largest_timestamp,
        "largest_timestamp_from": None if source is None else str(source),
    }


def _file_action(name: str, file: ProposedFile) -> str:
    match file:
        case Keep(source):
            return "keep" if source == name else f"keep, under its name without {source[len(name) :]}"
        case Write(content, _):
            return f"write {len(content)} bytes"
        case _:
            raise ValueError(f"retention cannot cut a file: {name}")
