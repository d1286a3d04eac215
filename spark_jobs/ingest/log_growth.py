"""The ingest plan of one log: what to archive from its source, and its new row in ``logs``.

This module turns a decision of `logcore.logs.growth.growth` into copy tasks and a row. ``source_changes`` handles a
source that changed its history. ``late_segments`` handles offsets found later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from logcore.logs.checks.beyond_log_end import StatedEnd, cut_ends, stated_ends
from logcore.logs.growth.growth import Growth, LogTail, Take
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.storage.objects.remembered_reads import RememberedReads
from spark_jobs.contracts import IngestConfig
from spark_jobs.ingest.late_segments import Range, without_held
from spark_jobs.ingest.remote_ranges import RemotePart, with_start_lowered
from spark_jobs.ingest.segment_copy import CopyTask, begins_with_a_batch, nothing_readable
from spark_jobs.ingest.segment_slices import Swap
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import GIVEN_UP, LogRow, Segment
from spark_jobs.outlines import GrownLog, TakenBytes
from spark_jobs.placed_finding import PlacedFinding
from spark_jobs.policies.topic_policies import TopicPolicy


@dataclass(frozen=True, slots=True)
class IngestLogPlan:
    """What to archive of one log, and its new row in ``logs``."""

    observed: LogRow
    tasks: tuple[CopyTask, ...]
    known: LogRow | None
    """Its current row in the table."""
    version: int | None = None
    """Version of the log in ``segments`` on which this plan is based."""
    cut: Swap | None = None
    """Our tail after the fork, which is retired in the same commit."""
    fill: Swap | None = None
    """Offsets found later."""
    remote: tuple[CopyTask, ...] = ()
    """Copies of remote segments for offsets that were left in the remote tier. Each can fail alone."""
    needs_bytes: bool = False
    """Whether this is a new incarnation at a fork without archived bytes: until its first batch there is nothing to
    report."""
    earlier: LogRow | None = None
    """New row of the previous incarnation."""
    said: tuple[Finding, ...] = ()
    """Findings to report once a part of this plan is committed."""
    given_up_to: int | None = None
    """The highest high watermark that was stated, if `log-end` takes its place: what is lost below it is given up."""
    stated_ends: tuple[StatedEnd, ...] = ()
    """What the files beside the source say of its end."""
    waits: bool = False
    """Whether something at the end waits for a later run, or for a later round of this one."""

    @property
    def copies(self) -> tuple[CopyTask, ...]:
        """All copies to make: of the cut, then of fills, then of offsets left in the remote tier, then of growth."""
        return (*(part.task for swap in self.swaps for part in swap.parts), *self.remote, *self.tasks)

    @property
    def swaps(self) -> tuple[Swap, ...]:
        """The cut, then the fill, where there are any."""
        return tuple(swap for swap in (self.cut, self.fill) if swap is not None)

    @property
    def moves_segments(self) -> bool:
        """Whether the plan commits to ``segments``."""
        return bool(self.tasks or self.remote) or self.cut is not None or self.fill is not None

    def is_news(self, row: LogRow) -> bool:
        """Whether a row differs from the one in the table, apart from its time."""
        return self.known is None or replace(row, as_of_ms=self.known.as_of_ms) != self.known

    @property
    def is_changed(self) -> bool:
        """Whether there is something to record even if nothing is copied."""
        return self.earlier is not None or self.is_news(self.observed)

    @property
    def outline(self) -> GrownLog:
        """What a report and a dry run say of it."""
        return GrownLog(
            self.observed.log,
            self.observed.topic_partition,
            self.observed.stopped,
            tuple(TakenBytes(task.source, task.start, task.sealed) for task in (*self.remote, *self.tasks)),
            tuple(swap.outline for swap in self.swaps),
        )


@dataclass(frozen=True, slots=True)
class LakeSnapshot:
    """What an ingest run is to do, and the state of the lake at its start."""

    config: IngestConfig
    cluster: str | None
    rows: Mapping[str, LogRow]
    segments: Mapping[str, Sequence[Segment]]
    """All segments of each log, including retired ones, by offset."""
    tails: Mapping[str, LogTail]
    holes: Mapping[str, Sequence[Range]]
    """Ranges of the ledger that are missing or corrupt."""
    damaged: Mapping[str, Sequence[str]]
    """Ids of segments with bytes that cannot be trusted, including retired ones."""
    remembered: RememberedReads | None = None
    """Small reads of objects by earlier runs; None if no source is on an object store."""

    def feeding(self, log: str) -> list[Segment]:
        """The segments that feed a log, by offset."""
        return [s for s in self.segments.get(log, ()) if s.feeds]

    def whole(self, log: str) -> list[Segment]:
        """Those without damage and lost offsets: what their objects have now can make nothing better."""
        damaged, holes = set(self.damaged.get(log, ())), self.holes.get(log, ())
        return [
            s
            for s in self.feeding(log)
            if s.segment_id not in damaged
            and not any(start < s.next_offset and s.base_offset < end for start, end, _ in holes)
        ]

    def cleaned(self, log: str) -> list[Segment]:
        """The live segments of a log that compaction wrote."""
        of_log = self.segments.get(log, ())
        return [s for s in of_log if s.retired_ms is None and s.generation != archive.GENERATION_INGESTED]

    def begins_at(self, log: str) -> int | None:
        """The first archived offset of a log."""
        return min((s.base_offset for s in self.feeding(log)), default=None)


def plan_growth(
    source: SourceLog,
    observed: LogRow,
    growth: Growth,
    known: LogRow | None,
    held: LakeSnapshot,
    policy: TopicPolicy | None = None,
    *,
    is_first: bool = False,
) -> tuple[IngestLogPlan, list[PlacedFinding]]:
    """Plan the copies for a growth.

    Args:
        policy: Says which growth waits; None: none does.
        is_first: Nothing of the log is archived yet.
    """
    config = held.config
    placed = [of_log(observed, finding) for finding in growth.findings]
    tasks: list[CopyTask] = []
    for take in growth.takes:
        task = _task(config, source, observed, take)
        stopped = None if known is None or task.sealed else (known.stopped, known.stopped_file)
        is_same = stopped == ("tail-hides-batches", task.seen) and (task.etag or not begins_with_a_batch(task))
        if known is not None and is_same:
            # The same bytes would stop it again. Once their segment is closed they are archived as damage. A file on a
            # disk may have other bytes with the same size and time.
            stop = known.stopped_because
            observed = replace(observed, stopped=known.stopped, stopped_because=stop, stopped_file=task.seen)
            continue
        idle = nothing_readable(task, held.remembered)
        if idle is None:
            tasks.append(task)
        else:
            placed += [of_log(observed, finding) for finding in idle]
    kept = tasks if known is None or is_first else [task for task in tasks if not _waits(config, task, known, policy)]
    if kept != tasks and not kept and known is not None and growth.stop is None:
        # The row keeps the time of the last growth, because the delay counts from it.
        later = set(growth.gaps) - set(known.gap_evidence)
        gaps = json.dumps([gap for gap in observed.gap_evidence if gap not in later])
        row = replace(known, log_start_offset=observed.log_start_offset, gaps=gaps)
        return IngestLogPlan(row, (), known, waits=True), []
    given_up_to = None
    if config.high_watermark == "log-end":
        given_up_to = max(source.high_watermark or 0, (known and known.high_watermark) or 0)
    # Segments without a batch yet may follow the last one that is archived.
    begun = max((file.base_offset for file in source.segments), default=0)
    ends = tuple(each for each in stated_ends(source) if each.offset > begun) if given_up_to is None else ()
    if not kept and not is_first and observed.stopped is None:
        placed += [of_log(observed, finding) for finding in lost_at_end(observed, given_up_to, ends)]
    waits = kept != tasks
    return IngestLogPlan(observed, tuple(kept), known, given_up_to=given_up_to, stated_ends=ends, waits=waits), placed


def _waits(config: IngestConfig, task: CopyTask, known: LogRow, policy: TopicPolicy | None) -> bool:
    """Whether a growth is too small to be archived yet."""
    if config.at_once or policy is None or task.sealed:
        return False
    is_small = task.size - task.start < policy.active_min_growth
    return is_small and config.as_of_ms - known.as_of_ms < policy.publish_max_delay_ms


def observe(
    source: SourceLog,
    known: LogRow | None,
    growth: Growth,
    log_id: str,
    held: LakeSnapshot,
    tail: LogTail | None,
    *,
    incarnation: int = 0,
    begins_at: int | None = None,
) -> LogRow:
    """Build the log's row from the current state of the source. A stopped log keeps what was seen before it stopped.

    Args:
        tail: The archived tail, or the tail that a cut would leave.
        begins_at: The fork at which a new incarnation begins.
    """
    config = held.config
    topic, partition = source.topic_partition.topic, source.topic_partition.partition
    log = archive.log_key(log_id, partition)
    if known is not None:
        # An earlier run was killed after it archived remote segments and before it wrote this row.
        known = with_start_lowered(known, held.feeding(log))
    if growth.stop is not None and not growth.takes and known is not None:
        return replace(
            known,
            next_offset=tail.next_offset if tail else known.next_offset,
            as_of_ms=config.as_of_ms,
            stopped=growth.stop.rule,
            stopped_because=growth.stop.message,
            stopped_file=None,
        )
    gaps = list(known.gap_evidence) if known else []
    if tail is None and begins_at is None:
        gaps += [gap for gap in source.below_start if gap not in gaps]
    gaps += [gap for gap in growth.gaps if gap not in gaps]
    # Before the first copy the log begins at its first segment, even if that segment is not readable yet.
    first = min([*(file.base_offset for file in source.segments), *source.unreadable], default=source.log_start_offset)
    # Offsets that are missing below the first segment may be filled later, so they are not below the log start.
    log_start_offset = source.log_start_offset if source.removed is None else source.removed[0]
    log_start_offset = log_start_offset if begins_at is None else begins_at
    held_from = held.begins_at(log)
    if known is not None:
        log_start_offset = known.log_start_offset
    elif held_from is not None:
        # An earlier run was killed before it wrote this row. A segment may begin below the start of its log.
        log_start_offset = min(log_start_offset, max(held_from, source.whole_log_start_offset))
    start = source.whole_log_start_offset
    if known is not None and any(finding.rule == "log-start-fell" for finding in growth.findings):
        start = max(start, known.source_log_start_offset)
    row = LogRow(
        log=log,
        topic=topic,
        log_id=log_id,
        partition=partition,
        incarnation=known.incarnation if known else incarnation,
        topic_id=source.topic_id or (known.topic_id if known else None),
        cluster=held.cluster,
        source=source.directory,
        next_offset=tail.next_offset if tail else first,
        log_start_offset=log_start_offset,
        source_log_start_offset=start,
        high_watermark=_high_watermark(config, source, known),
        leader_epochs=json.dumps([[entry.epoch, entry.start_offset] for entry in source.leader_epochs]),
        cleaner_checkpoint=source.cleaner_checkpoint,
        gaps=json.dumps(without_held(gaps, held.feeding(log)) if gaps else []),
        as_of_ms=config.as_of_ms,
        stopped=growth.stop.rule if growth.stop else None,
        stopped_because=growth.stop.message if growth.stop else None,
        stopped_file=None,
    )
    return row if growth.takes else row.without_given_up()


def _high_watermark(config: IngestConfig, source: SourceLog, known: LogRow | None) -> int | None:
    """The new high watermark: it never moves back."""
    seen = source.high_watermark
    if config.high_watermark == "log-end":
        seen = None
    elif config.high_watermark != "checkpoint":
        seen = int(config.high_watermark)
    before = known.high_watermark if known else None
    high_watermark = before if seen is None and config.high_watermark != "log-end" else seen
    if high_watermark is not None and before is not None:
        high_watermark = max(before, high_watermark)
    return high_watermark


def _task(config: IngestConfig, source: SourceLog, observed: LogRow, take: Take) -> CopyTask:
    file = next(file for file in source.segments if file.base_offset == take.segment_base)
    is_remote = source.local_start_offset is not None and file.base_offset < source.local_start_offset
    return replace(
        _copy_of(config, observed, file),
        start=take.start_position,
        first_offset=take.first_offset_expected,
        sealed=take.sealed,
        next_base_offset=source.next_base_offset(file) if take.sealed else None,
        end=file.log_bytes if is_remote else None,
        is_remote=is_remote,
    )


def remote_task(config: IngestConfig, observed: LogRow, part: RemotePart) -> CopyTask:
    """The copy of a part of a remote segment, for offsets that were left in the remote tier."""
    return replace(
        _copy_of(config, observed, part.file),
        start=part.start,
        first_offset=part.base_offset,
        sealed=True,
        next_base_offset=part.next_offset,
        end=part.end,
        is_remote=True,
    )


def _copy_of(config: IngestConfig, observed: LogRow, file: SegmentFile) -> CopyTask:
    return CopyTask.of(config.lake, observed, file, in_place=config.mode == "reference")


def epochs_of(known: LogRow | None) -> tuple[tuple[int, int], ...]:
    """The leader epochs of a log as last seen: (epoch, start offset)."""
    return tuple((entry.epoch, entry.start_offset) for entry in known.epochs) if known else ()


def lost_at_end(row: LogRow, given_up_to: int | None, ends: Sequence[StatedEnd]) -> list[Finding]:
    """Say which committed offsets are missing after the readable log end, or are given up with it.

    Args:
        row: The log.
        given_up_to: See :class:`IngestLogPlan`.
        ends: What the files beside the log say of its end.
    """
    if row.high_watermark is None and given_up_to is not None and given_up_to > row.next_offset:
        lost = f"[{row.next_offset}, {given_up_to})"
        message = (
            f"{row.topic_partition}: the committed offsets {lost} are lost and given up: the log end "
            f"{row.next_offset} takes the place of the high watermark {given_up_to} (--high-watermark log-end)."
        )
        return [found("offsets-given-up", message, start_offset=row.next_offset, end_offset=given_up_to)]
    row = row.without_given_up()
    given_up = [end for start, end, why in row.gap_evidence if why == GIVEN_UP and start <= row.next_offset]
    accepted = max(given_up, default=row.next_offset)
    cut = list(cut_ends([end for end in ends if end.offset > accepted], row.next_offset, row.topic_partition))
    if row.high_watermark is None or row.high_watermark <= row.source_end_offset:
        return cut
    return [_beyond_log_end(row), *cut]


def _beyond_log_end(row: LogRow) -> Finding:
    """Finding for a high watermark above the readable log end."""
    start = row.source_log_start_offset
    above = f", below its start at {start}" if start > row.next_offset else ""
    return found(
        "high-watermark-beyond-log-end",
        f"{row.topic_partition}: the high watermark is {row.high_watermark}, but the log can be read only up to "
        f"offset {row.next_offset}{above}: committed records are missing at its end.",
        start_offset=row.source_end_offset,
        end_offset=row.high_watermark,
    )


def of_log(row: LogRow, finding: Finding) -> PlacedFinding:
    """A finding about a log."""
    return PlacedFinding(finding, row.log, row.topic, row.partition)
