"""The segments of logs, each byte validated, for the rules about whole logs.

With the kernels, threads check chunks of segments before the rules need them. Without kernels the slow validation reads
each segment. Both have the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from logcore.columns.kernels.families import Work
from logcore.columns.kernels.library import is_chosen
from logcore.errors import CorruptionReason, LogError
from logcore.logs.checks.index_check import WalkedSegment, check_indexes
from logcore.logs.checks.log_check import CheckedBatch
from logcore.logs.checks.validation import BatchVerdict, SegmentVerdict, validate_segment
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.reading.checked_segments import BulkCheck, ProgressDisplay
from logcore.reading.notes import Notes
from logcore.reading.segment_reading import cannot_read, segment_bytes, walked
from logcore.segments.filenames import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, is_coordinator_topic
from logcore.segments.scanning.scan import ScannedBatch, Stretch, scan
from logcore.storage.discovery import SourceChanged, SourceUnreadable
from logcore.storage.source_bytes import SourceBytes

if TYPE_CHECKING:
    from logcore.columns.checking.checked import CheckedSegment, Seen
    from logcore.columns.decoding.batch_table import Table

Items = Iterator[CheckedBatch | Stretch]
Read = Callable[[str], bytes]


class CheckedLogs:
    """Validates the segments of several logs, in order.

    Args:
        logs: The logs.
        notes: Gets the findings.
        read: Returns the bytes of a file beside a segment.
        done: Called with the verdict on each segment that was read to its end.
        progress: Shows the progress; None: nothing is shown.
    """

    def __init__(
        self,
        logs: tuple[SourceLog, ...],
        notes: Notes,
        read: Read,
        done: Callable[[SegmentVerdict], None],
        progress: ProgressDisplay | None = None,
    ) -> None:
        self._notes, self._read, self._done, self._progress = notes, read, done, progress
        segments = ((log, segment) for log in logs for segment in log.segments)
        self._bulk = BulkCheck(segments, progress) if is_chosen(Work.CHECK) else None

    def segments(self, log: SourceLog) -> Iterator[tuple[SegmentFile, Items]]:
        """Yield the segments of a log, each with its batches and stretches. Call it for the logs in their order.

        The findings about a segment are reported at its end.

        Args:
            log: The log.

        Yields:
            A segment and its items. Consume the items before you take the next segment.
        """
        for segment in log.segments:
            try:
                yield segment, self._slowly(log, segment) if self._bulk is None else self._quickly(log, segment)
            except LogError as error:
                cannot_read(segment, error, self._notes)

    def _quickly(self, log: SourceLog, segment: SegmentFile) -> Items:
        if self._bulk is None:
            return iter(())
        checked, source, results = self._bulk.of(segment)
        return self._consumed(log, segment, checked, source, results)

    def _consumed(
        self,
        log: SourceLog,
        segment: SegmentFile,
        checked: CheckedSegment,
        source: SourceBytes,
        results: Iterator[Seen],
    ) -> Items:
        from logcore.columns.checking import table_batches

        tables: list[Table] = []
        has_index = any(segment.side_file(suffix) for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX))
        valid_end = 0
        cuts = [entry.start_offset for entry in log.leader_epochs] + [offset for offset, _ in log.snapshots]
        failure: LogError | None = None
        for seen in results:
            if failure is not None:
                continue
            failure = seen.failure
            for item in checked.take_seen(seen):
                if isinstance(item, Stretch):
                    yield item
                elif isinstance(item, BatchVerdict):
                    valid_end = item.position + item.size
                    if has_index:
                        tables.append(table_batches.of_verdict(item))
                    yield item
                else:
                    valid_end = table_batches.end_of(item)
                    if has_index:
                        tables.append(table_batches.for_indexes(item))
                    yield from table_batches.batches_of(item, cuts)
        if failure is not None:
            yield self._given_up(segment, failure, checked, valid_end)
            return
        checked.end_segment()
        self._say(log, segment, checked, valid_end, lambda: table_batches.indexed(tables))
        self._refuse_change(segment, source)

    def _given_up(self, segment: SegmentFile, error: LogError, verdict: SegmentVerdict, at: int) -> Stretch:
        """Report why a segment is not validated to its end, and return the stretch for the rest of it."""
        for finding in verdict.findings:
            self._notes.say(finding)
        cannot_read(segment, error, self._notes)
        left = max(segment.log_bytes - at, 0)
        return Stretch(at, left, CorruptionReason.TRUNCATED, error.message, verdict.next_offset)

    def _refuse_change(self, segment: SegmentFile, source: SourceBytes) -> None:
        try:
            source.refuse_change()
        except LogError as error:
            cannot_read(segment, error, self._notes)

    def _slowly(self, log: SourceLog, segment: SegmentFile) -> Items:
        return self._validated(log, segment, segment_bytes(log, segment))

    def _validated(self, log: SourceLog, segment: SegmentFile, source: SourceBytes) -> Items:
        content = source.content
        base, following, sealed = segment.base_offset, log.next_base_offset(segment), log.is_sealed(segment)
        validation = validate_segment(
            content,
            base_offset=base,
            next_base_offset=following,
            sealed=sealed,
            file=segment.path,
            checks_sequences=not is_coordinator_topic(log.topic_partition.topic),
            fetched=source,
        )
        valid_end = 0
        try:
            for item in validation:
                if isinstance(item, BatchVerdict):
                    valid_end = item.position + item.size
                    if self._progress is not None:
                        self._progress.at(segment.path, valid_end, segment.log_bytes)
                yield item
        except LogError as error:
            yield self._given_up(segment, error, validation, valid_end)
            return

        def batches() -> Iterator[ScannedBatch]:
            walk = scan(content, base_offset=base, next_base_offset=following, sealed=sealed, fetched=source)
            return (item for item in walked(source, walk) if isinstance(item, ScannedBatch))

        try:
            self._say(log, segment, validation, valid_end, batches)
        except (SourceChanged, SourceUnreadable) as error:
            cannot_read(segment, error, self._notes)
            return
        self._refuse_change(segment, source)

    def _say(
        self,
        log: SourceLog,
        segment: SegmentFile,
        verdict: SegmentVerdict,
        valid_end: int,
        batches: Callable[[], Iterator[object]],
    ) -> None:
        for finding in verdict.findings:
            self._notes.say(finding)
        self._done(verdict)
        is_damaged = verdict.accounting.quarantined > 0
        facts = WalkedSegment(valid_end, is_damaged, log.is_sealed(segment), verdict.max_timestamp)
        for finding in check_indexes(segment, facts, batches, self._read):  # type: ignore[arg-type]
            self._notes.say(finding)
