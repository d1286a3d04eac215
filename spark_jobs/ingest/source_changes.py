"""A source that changed its history: our tail is cut back, a new incarnation begins, or the log stops.

    the source differs from us                                        then
    wholly at or above everything published                           our tail is cut back and grows on from there
    below that, policy ``on_truncate: follow``                        incarnation n + 1 begins at the fork
    it is another topic of the same name, ``on_recreate: append``     incarnation n + 1 begins, with its own topic id
    otherwise                                                         the log stops (`logcore.logs.growth.growth`)

A new incarnation is a log of its own, with its own row in ``logs``, frontier and archive. At a fork it begins at the
fork offset. Offsets below belong to the previous incarnation, which keeps its rows; in the new one's ledger they are
``trimmed``.

Batch headers of archived segments, which a source is compared with.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from logcore.errors import LogError
from logcore.logs.growth.divergence import (
    Fork,
    HeldSegment,
    epochs_part_at,
    find_fork,
    is_same_batch,
    only_ends_earlier,
    our_epochs,
)
from logcore.logs.growth.growth import Growth, LogTail, Stop, decide_growth
from logcore.logs.model.findings import Severity, found
from logcore.logs.model.sources import SegmentFile
from logcore.reading.internal_topics.log_ends import header_reaching, whole_log_end
from logcore.records.batch import BatchHeader
from logcore.remote.stored_part import file_version
from logcore.segments.filenames import MAX_OFFSET
from logcore.storage.discovery import HeaderReader, SourceChanged, SourceLog, file_digest
from logcore.storage.objects.remembered_reads import RememberedReads
from logcore.texts import shell_word
from spark_jobs.ingest.log_growth import IngestLogPlan, LakeSnapshot, epochs_of, observe, of_log, plan_growth
from spark_jobs.ingest.segment_slices import Swap, part_of
from spark_jobs.lake.delta import commits
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import LogRow, Segment
from spark_jobs.lake.store import mapped_file, storage
from spark_jobs.lake.store.referenced_bytes import gone_files
from spark_jobs.placed_finding import PlacedFinding
from spark_jobs.policies.topic_policies import TopicPolicy


class ArchiveReader:
    """Reads archived segments from local files, from an object store, or in place at the source."""

    def __init__(self, lake: str, segments: Iterable[Segment]) -> None:
        self._lake = lake
        self._segments = {(s.local_path(lake), s.base_offset): s for s in segments}

    def file_of(self, segment: Segment) -> SegmentFile:
        """Return a segment as a file to read; its bytes begin at ``segment.start``."""
        end = segment.start + segment.size
        return SegmentFile(segment.base_offset, segment.local_path(self._lake), end, segment.modified_ms, 0)

    def header_at(self, segment: SegmentFile, position: int) -> BatchHeader | None:
        """Return the header at a position. Raises like :meth:`headers`."""
        return next((header for at, header in self.headers(segment, position) if at == position), None)

    def headers(self, segment: SegmentFile, position: int = 0) -> Iterator[tuple[int, BatchHeader | None]]:
        """Yield positions and headers from a position on; the bytes of an object are fetched first.

        Raises:
            SourceUnreadable: The file is missing, or can't be read.
            SourceChanged: The segment was registered at the source, and the source has changed it.
        """
        ours = self._segments[segment.path, segment.base_offset]
        if storage.is_remote(segment.path):
            end = ours.start + ours.size if ours.lies_at_source else None
            at_source = ours.lies_at_source
            with tempfile.TemporaryDirectory(prefix="loglake-") as scratch:
                local = os.path.join(scratch, "segment")
                with (
                    mapped_file.mapped(
                        segment.path, position, end, at_source=at_source, registered=ours.registered
                    ) as content,
                    open(local, "xb") as file,
                ):
                    file.write(content)
                yield from HeaderReader().headers(replace(segment, path=local), position)
            return
        there = replace(segment, etag=ours.etag, chunk_map=ours.chunk_map if ours.etag else None)
        if ours.lies_at_source and file_digest(segment.path, ours.start, ours.start + ours.size, there) != ours.digest:
            raise SourceChanged("it was registered in place, and was changed at the source", file=segment.path)
        yield from HeaderReader().headers(there, position)


DIVERGED = ("source-diverged", "source-behind")
"""Stops that may be caused by a fork."""


def published_to(lake: str, logs: Sequence[str]) -> dict[str, int]:
    """The end of what was published of each log, at any isolation level."""
    ledger = frontier.read_ledger(lake, logs)
    frontiers = frontier.frontiers_of(lake, {log: ledger.get(log, ()) for log in logs})
    decided = commits.versions_of_logs(lake, "records_uncommitted", logs)
    return {log: max(frontiers[log] or 0, decided[log] or 0) for log in logs}


def plan_change(
    source: SourceLog, known: LogRow, growth: Growth, held: LakeSnapshot, policy: TopicPolicy | None
) -> tuple[IngestLogPlan, list[PlacedFinding]] | None:
    """Plan the reaction to a stop; None: the log stays stopped."""
    if growth.stop is None or growth.takes:
        return None
    if growth.stop.rule == "topic-recreated":
        return _recreated(source, known, held, policy)
    if growth.stop.rule not in DIVERGED or known.log not in held.tails:
        return None
    end = held.tails[known.log].next_offset
    if growth.stop.rule == "source-behind" and only_ends_earlier(epochs_of(known), source, end):
        return None
    published = published_to(held.config.lake, [known.log])[known.log]
    live = [s for s in held.feeding(known.log) if s.retired_ms is None]
    if end > published:
        is_whole = live == held.feeding(known.log)  # no other job, such as retention, removed any of it
        fork = _fork(source, known, live, held, not_below=published, is_whole=is_whole)
        cleaned = [s for s in held.segments[known.log] if s.retired_ms is None and not s.feeds]
        if fork is not None and not any(s.next_offset > fork.offset for s in cleaned):
            return _cut_back(source, known, held, live, fork)
    if policy is not None and policy.on_truncate == "follow":
        fork = _fork(source, known, [*_earlier(known, held), *live], held, not_below=None)
        if fork is not None:
            return _followed(source, known, held, policy, fork)
    return _parted(source, known, growth, held) if growth.stop.rule == "source-behind" else None


def _earlier(known: LogRow, held: LakeSnapshot) -> list[Segment]:
    """Archived segments of earlier incarnations, oldest first.

    A source may diverge before the beginning of this incarnation. It is then followed from where it still agrees with
    an earlier one.
    """
    rows = (row for row in held.rows.values() if row.topic_partition == known.topic_partition)
    before = [row for row in rows if row.topic_id == known.topic_id and row.incarnation < known.incarnation]
    before.sort(key=lambda row: row.incarnation)
    return [s for row in before for s in held.feeding(row.log) if s.retired_ms is None]


def _parted(
    source: SourceLog, known: LogRow, growth: Growth, held: LakeSnapshot
) -> tuple[IngestLogPlan, list[PlacedFinding]] | None:
    """A source that ends before us and has other leader epochs has diverged, which is worse than being late."""
    end = held.tails[known.log].next_offset
    bound = epochs_part_at(our_epochs(epochs_of(known), end), source.leader_epochs, end)
    if growth.stop is None or bound is None or bound >= end:
        return None
    message = f"its leader epochs say that it parted from the archive at offset {bound}, and {growth.stop.message}"
    stop = Stop("source-diverged", message)
    finding = found(stop.rule, f"{known.topic_partition} stops: {message}", file=source.directory)
    growth = replace(growth, findings=(*growth.findings[:-1], finding), stop=stop)
    observed = observe(source, known, growth, known.log_id, held, held.tails[known.log])
    return plan_growth(source, observed, growth, known, held)


def _fork(
    source: SourceLog,
    known: LogRow,
    live: Sequence[Segment],
    held: LakeSnapshot,
    *,
    not_below: int | None,
    is_whole: bool = False,
) -> Fork | None:
    ours = ArchiveReader(held.config.lake, live)
    parts = [HeldSegment(s.base_offset, s.next_offset, ours.file_of(s), s.start, s.start + s.size) for s in live]
    epochs = epochs_of(known)
    return find_fork(parts, source, HeaderReader(), ours, known_epochs=epochs, not_below=not_below, is_whole=is_whole)


def _cut_back(
    source: SourceLog, known: LogRow, held: LakeSnapshot, live: Sequence[Segment], fork: Fork
) -> tuple[IngestLogPlan, list[PlacedFinding]] | None:
    growth = _decide(fork.tail, source, known, held.remembered)
    if growth.stop is not None and not growth.takes:
        return None
    retired, parts = list(live), []
    if fork.held is not None and fork.position is not None:
        agreeing = live[fork.held]
        retired = list(live[fork.held + 1 :])
        keep = fork.position - agreeing.start
        if keep < agreeing.size:
            retired.insert(0, agreeing)
            parts.append(part_of(held.config.lake, agreeing, 0, keep, agreeing.base_offset, fork.offset))
    if not retired:
        return None
    end = held.tails[known.log].next_offset
    message = (
        f"{known.topic_partition}: the source went back to offset {fork.offset} and on from there with other batches. "
        f"The archived offsets [{fork.offset}, {end}) were not published, and are cut back."
    )
    finding = found("tail-cut-back", message, file=source.directory, start_offset=fork.offset, end_offset=end)
    observed = observe(source, known, growth, known.log_id, held, fork.tail)
    observed = replace(observed, gaps=_gaps_below(observed, fork.offset))
    plan, placed = plan_growth(source, observed, growth, known, held)
    return replace(plan, cut=Swap(tuple(retired), archive.CUT_BACK, tuple(parts), (finding,))), placed


def _followed(
    source: SourceLog, known: LogRow, held: LakeSnapshot, policy: TopicPolicy | None, fork: Fork
) -> tuple[IngestLogPlan, list[PlacedFinding]] | None:
    message = (
        f"{known.topic_partition}: the source parted from what is published at offset {fork.offset} and is followed "
        "from there as a new incarnation of the log, because its policy is on_truncate: follow. Rows published "
        "before stay, with the log_id of the earlier incarnation."
    )
    finding = found(
        "incarnation-opened",
        message,
        file=source.directory,
        start_offset=fork.offset,
        end_offset=held.tails[known.log].next_offset,
    )
    log_id = archive.new_log_id(known.topic, known.topic_id, known.cluster, known.incarnation + 1)
    begins_at = None if fork.tail is None else fork.offset
    opened = _open(source, known, held, policy, log_id, fork.tail, begins_at)
    if opened is None:
        return None
    plan, placed = opened
    if not plan.tasks and plan.observed.log not in held.tails:
        return None  # nothing after the fork can be read yet
    return replace(plan, needs_bytes=plan.observed.log not in held.tails, said=(finding,)), placed


def _recreated(
    source: SourceLog, known: LogRow, held: LakeSnapshot, policy: TopicPolicy | None
) -> tuple[IngestLogPlan, list[PlacedFinding]] | None:
    if policy is None or policy.on_recreate != "append" or source.topic_id is None:
        return None
    earlier = [row for row in held.rows.values() if row.topic_partition == known.topic_partition]
    if any(row.topic_id == source.topic_id for row in earlier):
        return None  # an old directory reappeared: its log was already replaced
    message = (
        f"{known.topic_partition}: the topic was recreated, with the topic id {source.topic_id}; before it was "
        f"{known.topic_id}. It becomes a new incarnation of the log, because its policy is on_recreate: append."
    )
    finding = found("incarnation-opened", message, file=source.directory, start_offset=source.log_start_offset)
    finding = replace(finding, severity=Severity.INFO)  # the policy accepts it: nothing that was published is in doubt
    log_id = archive.new_log_id(known.topic, source.topic_id, known.cluster, known.incarnation + 1)
    opened = _open(source, known, held, policy, log_id)
    return None if opened is None else (replace(opened[0], said=(finding,)), opened[1])


def _open(
    source: SourceLog,
    known: LogRow,
    held: LakeSnapshot,
    policy: TopicPolicy | None,
    log_id: str,
    tail: LogTail | None = None,
    begins_at: int | None = None,
) -> tuple[IngestLogPlan, list[PlacedFinding]] | None:
    """Plan a new incarnation, from the tail at its fork, or from the source's first segment."""
    log = archive.log_key(log_id, known.partition)
    taken = held.tails.get(log)  # a run that was killed before it wrote the row has archived some of it
    tail, number = taken or tail, known.incarnation + 1
    growth = _decide(tail, source, None, held.remembered)
    if growth.stop is not None and not growth.takes:
        return None
    observed = observe(source, None, growth, log_id, held, tail, incarnation=number, begins_at=begins_at)
    plan, placed = plan_growth(source, observed, growth, None, held, policy, is_first=taken is None)
    return replace(plan, earlier=replace(known, stopped=None, stopped_because=None, stopped_file=None)), placed


def _decide(
    tail: LogTail | None, source: SourceLog, known: LogRow | None, remembered: RememberedReads | None
) -> Growth:
    return decide_growth(
        tail,
        source,
        HeaderReader(remembered),
        known_topic_id=known.topic_id if known else None,
        known_high_watermark=known.high_watermark if known else None,
        known_log_start_offset=known.source_log_start_offset if known else None,
        known_leader_epochs=epochs_of(known),
    )


def plan_log(source: SourceLog, known: LogRow | None, held: LakeSnapshot) -> tuple[IngestLogPlan, list[PlacedFinding]]:
    """Plan what to archive of one log, whatever happened to its source."""
    topic, partition = source.topic_partition.topic, source.topic_partition.partition
    log_id = known.log_id if known else archive.new_log_id(topic, source.topic_id, held.cluster)
    log = archive.log_key(log_id, partition)
    tail = held.tails.get(log)
    policy = held.config.policies.for_topic(topic)
    at_source = source if held.config.high_watermark == "checkpoint" else replace(source, high_watermark=None)
    growth = _refuse_replaced(_decide(tail, at_source, known, held.remembered), source, held.whole(log))
    if known is not None:
        changed = plan_change(source, known, growth, held, policy)
        if changed is not None:
            return changed
    observed = observe(source, known, growth, log_id, held, tail)
    return plan_growth(source, observed, growth, known, held, policy, is_first=tail is None)


def _refuse_replaced(growth: Growth, source: SourceLog, segments: Sequence[Segment]) -> Growth:
    """Stop where another object has the name of one that was registered at its source: its bytes cannot be read."""
    registered = {segment.path: segment.etag for segment in segments if segment.etag and segment.retired_ms is None}
    seen = [file for file in source.segments if file.path in registered]
    replaced = [file.path for file in seen if registered[file.path] != (file.etag or _version_on_disk(file.path))]
    if not replaced or (growth.stop is not None and growth.stop.rule == "topic-recreated"):
        return growth
    message = f"{replaced[0]} was registered at its source, and another object has taken its name"
    finding = found("source-changed", f"{source.topic_partition} stops: {message}", file=replaced[0])
    return Growth((), (finding,), Stop("source-changed", message))


def _version_on_disk(path: str) -> str | None:
    """The version of a file in a directory of remote storage; None if it is gone, which the reader of it reports."""
    try:
        now = storage.stat(path)
    except FileNotFoundError:
        return None
    return file_version(now.size, now.modified_ms)


def plan_move(source: SourceLog, known: LogRow, held: LakeSnapshot) -> tuple[IngestLogPlan | None, list[PlacedFinding]]:
    """Plan to read a log from another directory from now on; no plan, but findings, if that directory disagrees."""
    tail = held.tails.get(known.log)
    growth = _refuse_replaced(_decide(tail, source, known, held.remembered), source, held.feeding(known.log))
    if growth.stop is not None:
        return None, [of_log(known, finding) for finding in growth.findings]
    registered = [
        s.path for s in held.segments.get(known.log, ()) if s.retired_ms is None and storage.is_absolute(s.path)
    ]
    if gone := gone_files(registered):
        way_back = _way_back(gone[0], known.source, source.directory)
        message = (
            f"the lake has segments by reference, and {gone[0]} is gone. Put all of them back where they were "
            f"registered, {way_back}, and run again from there. Or take the log into a new lake"
        )
        finding = found("source-gone", f"{known.topic_partition} stops: {message}", file=source.directory)
        return None, [of_log(known, finding)]
    observed = observe(source, known, growth, known.log_id, held, tail)
    plan, placed = plan_growth(source, observed, growth, known, held, is_first=tail is None)
    message = (
        f"{known.topic_partition} is taken from {source.directory} from now on, and no longer from "
        f"{known.source}: that directory contains the archived bytes too."
    )
    finding = found("source-moved", message, file=known.source, start_offset=observed.next_offset)
    return replace(plan, said=(finding,)), placed


def is_archived(source: SourceLog, known: LogRow, held: LakeSnapshot) -> bool:
    """Whether a source ends with a batch of the archive, so that the lake has all of it. False also if not known."""
    live = [each for each in held.feeding(known.log) if each.retired_ms is None]
    ours = ArchiveReader(held.config.lake, live)
    if not source.segments:
        return whole_log_end(source) is not None
    with suppress(LogError):
        last = header_reaching(source.segments[-1], MAX_OFFSET)
        if last is None or whole_log_end(source) != last.next_offset:
            return False
        for part in live:
            if part.base_offset <= last.base_offset < part.next_offset:
                headers = ours.headers(ours.file_of(part), part.start)
                return any(each is not None and is_same_batch(each, last) for _, each in headers)
    return False


def _way_back(gone: str, old: str, new: str) -> str:
    """How a registered file comes back, as a part of a sentence: by `mv` only if that gives it its name again."""
    directory = storage.directory_of(gone)
    if directory == old and not (storage.is_remote(old) or storage.is_remote(new)):
        for target, moved in ((os.path.dirname(old), os.path.dirname(new)), (old, new)):
            if not os.path.lexists(target) and os.path.isdir(os.path.dirname(target)):
                return f"by a mount or by `mv {shell_word(moved)} {shell_word(target)}`"
    return f"in {directory}"


def _gaps_below(row: LogRow, offset: int) -> str:
    gaps = [[start, min(end, offset), why] for start, end, why in row.gap_evidence if start < offset]
    return json.dumps(gaps)
