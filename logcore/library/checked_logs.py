"""The segments of logs, each byte validated, for the rules about whole logs.

With the kernels, threads check chunks of segments before the rules need them. Without kernels the slow validation reads
each segment. Both have the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from logcore.columns.kernels.families import Work
from logcore.columns.kernels.library import is_chosen
from logcore.errors import CorruptionReason, LogError
from logcore.logs.checks.index_check import WalkedSegment, check_indexes
from logcore.logs.checks.log_check import CheckedBatch
from logcore.logs.checks.validation import BatchVerdict, SegmentVerdict, validate_segment
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.reading.notes import Notes
from logcore.reading.segment_reading import cannot_read, segment_bytes, walked
from logcore.segments.filenames import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, is_coordinator_topic
from logcore.segments.scanning.scan import ScannedBatch, Stretch, scan
from logcore.storage.discovery import SourceChanged, SourceUnreadable
from logcore.storage.machine import processors
from logcore.storage.source_bytes import SourceBytes

if TYPE_CHECKING:
    from logcore.columns.checking.checked import CheckedSegment, Seen
    from logcore.columns.checking.chunks import Job
    from logcore.columns.decoding.batch_table import Table

    _Owner = tuple[SegmentFile, CheckedSegment, SourceBytes]

Items = Iterator[CheckedBatch | Stretch]
Read = Callable[[str], bytes]
_T = TypeVar("_T")


class ProgressDisplay(Protocol):
    """Shows the progress of a validation."""

    def at(self, path: str, position: int, size: int) -> None:
        """Show the progress in a file.

        Args:
            path: The file.
            position: The bytes before this position are done.
            size: Of the file, in bytes.
        """


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
        self._bulk = _Bulk(logs, progress) if is_chosen(Work.CHECK) else None

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
            walk = scan(
                content, base_offset=base, next_base_offset=following, sealed=sealed, decode=False, fetched=source
            )
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


class _Bulk:
    """Results of threads that check all segments of all logs. Take them in the same order."""

    def __init__(self, logs: tuple[SourceLog, ...], progress: ProgressDisplay | None) -> None:
        from logcore.columns.checking.chunks import in_order

        self._failed: dict[str, LogError] = {}
        self._progress = progress
        self._results = _Peekable(in_order(chain.from_iterable(map(self._jobs, logs)), processors.available()))

    def _jobs(self, log: SourceLog) -> Iterator[Job[_Owner, Seen]]:
        from logcore.columns.checking.checked import CheckedSegment

        for segment in log.segments:
            try:
                source = segment_bytes(log, segment)
            except LogError as error:
                self._failed[segment.path] = error
                continue
            checked = CheckedSegment(
                source.content,
                base_offset=segment.base_offset,
                sealed=log.is_sealed(segment),
                file=segment.path,
                next_base_offset=log.next_base_offset(segment),
                checks_sequences=not is_coordinator_topic(log.topic_partition.topic),
                fetched=source,
            )
            yield from checked.jobs((segment, checked, source))

    def of(self, segment: SegmentFile) -> tuple[CheckedSegment, SourceBytes, Iterator[Seen]]:
        """Return a segment's verdict, its bytes, and the results to add to the verdict.

        Raises:
            LogError: The segment could not be opened.
        """
        head = self._results.head()
        if head is None or head[0].owner[0] is not segment:
            raise self._failed[segment.path]
        return head[0].owner[1], head[0].owner[2], self._of(segment)

    def _of(self, segment: SegmentFile) -> Iterator[Seen]:
        while (head := self._results.head()) is not None and head[0].owner[0] is segment:
            self._results.pop()
            if self._progress is not None:
                self._progress.at(segment.path, head[1].position, segment.log_bytes)
            yield head[1]


class _Peekable(Generic[_T]):
    """An iterator whose next value is available before it is taken."""

    def __init__(self, values: Iterator[_T]) -> None:
        self._values = values
        self._held: list[_T] = []

    def head(self) -> _T | None:
        """Return the next value; None at the end."""
        if not self._held:
            self._held.extend(value for value in [next(self._values, None)] if value is not None)
        return self._held[0] if self._held else None

    def pop(self) -> None:
        """Take the next value."""
        self._held.clear()
