"""The batches of logs that can be trusted, and the bytes that cannot: what `loglake verify` finds, for every reader.

With the kernels, threads check chunks of segments before they are needed. Without them, and for small logs, the scan
reads each batch. Both have the same results: every record was decoded.

Belongs here: reading segments whole. `logcore.reading.segment_reading` opens one segment, also at an offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Protocol, TypeAlias

from logcore.errors import LogError
from logcore.logs.model.findings import Finding
from logcore.logs.model.gaps import GapRules
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.reading.read_options import Notes
from logcore.reading.segment_reading import (
    SegmentFindings,
    cannot_read,
    is_read_in_bulk,
    open_segment,
    segment_bytes,
    segment_end,
    steps,
)
from logcore.segments.filenames import MAX_OFFSET, is_coordinator_topic
from logcore.segments.scanning.scan import ScannedBatch, Stretch
from logcore.storage.discovery import SourceChanged, SourceUnreadable
from logcore.storage.machine import processors
from logcore.storage.source_bytes import SourceBytes

if TYPE_CHECKING:  # commands that read no log in bulk start without NumPy
    from logcore.columns.checking.checked import CheckedSegment, Seen
    from logcore.columns.checking.chunks import Job
    from logcore.columns.decoding.batch_table import Table

    _Owner: TypeAlias = tuple[SegmentFile, CheckedSegment, SourceBytes]


class ProgressDisplay(Protocol):
    """Shows the progress of a validation."""

    def at(self, path: str, position: int, size: int) -> None:
        """Show the progress in a file.

        Args:
            path: The file.
            position: The bytes before this position are done.
            size: Of the file, in bytes.
        """


def checked_items(
    log: SourceLog, segments: Iterable[SegmentFile], notes: Notes, rules: GapRules | None = None
) -> Iterator[tuple[SegmentFile, Table | ScannedBatch | Stretch]]:
    """Yield what some segments of a log contain, in order: tables of good batches, single ones, stretches of damage.

    Damage is reported, and so is a segment that cannot be read to its end.

    Args:
        log: The log.
        segments: The segments to read, in their order.
        notes: Gets the findings.
        rules: As for `SegmentFindings`.
    """
    segments = tuple(segments)
    bulk = BulkCheck([(log, segment) for segment in segments]) if is_read_in_bulk(log, decodes=False) else None
    for segment in segments:
        items: Iterator[Table | ScannedBatch | Stretch]
        try:
            if bulk is None:
                items = steps(log, segment, *open_segment(log, segment), notes, rules)
            else:
                _, source, results = bulk.of(segment)
                items = _items_of(log, segment, source, results, notes, rules)
        except LogError as error:
            cannot_read(segment, error, notes)
            continue
        for item in items:
            yield segment, item


def checked_batches(
    log: SourceLog, segments: Iterable[SegmentFile], notes: Notes
) -> Iterator[tuple[SegmentFile, ScannedBatch | Stretch]]:
    """Yield the same as `checked_items`, each batch separately."""
    for segment, item in checked_items(log, segments, notes):
        if isinstance(item, ScannedBatch | Stretch):
            yield segment, item
            continue
        from logcore.columns.checking.bulk_rules import batch_of

        for row in item.tolist():
            yield segment, batch_of(row)[0]


def _items_of(
    log: SourceLog,
    segment: SegmentFile,
    source: SourceBytes,
    results: Iterator[Seen],
    notes: Notes,
    rules: GapRules | None,
) -> Iterator[Table | ScannedBatch | Stretch]:
    from logcore.columns.decoding.batch_table import gaps_in
    from logcore.columns.kernels import batch_row

    padding, next_offset, wrong = 0, segment.base_offset, SegmentFindings(log, segment, notes, rules=rules)
    failure: LogError | None = None
    for seen in results:
        if failure is not None:
            continue
        failure, padding = seen.failure, padding + seen.padding
        for item in seen.items:
            if isinstance(item, Stretch):
                wrong.take_stretch(item)
            elif isinstance(item, tuple):
                header = item[0].header
                if header.base_offset > next_offset:
                    wrong.take_gaps([(next_offset, header.base_offset, item[0].position)])
                next_offset = header.next_offset
            else:
                wrong.take_gaps(gaps_in(item, next_offset))
                next_offset = int(item[-1, batch_row.LAST_OFFSET]) + 1
            yield item[0] if isinstance(item, tuple) else item
    try:
        source.refuse_change()
    except (SourceUnreadable, SourceChanged) as error:
        failure = failure or error
    if failure is not None:
        cannot_read(segment, failure, notes)
    else:
        wrong.say_end(len(source.content), padding, next_offset)


OF_LOST_OFFSETS = frozenset({"missing-offsets", "high-watermark-beyond-log-end"})
"""Rules about offsets that should be in a log and are not."""


def lost_offsets(log: SourceLog, *, is_compacted: bool | None = None, reads_all: bool = True) -> Iterator[Finding]:
    """Yield the findings about offsets that should be in a log and are not, as `verify` finds them.

    Args:
        log: The log.
        is_compacted: As in `ReadOptions`.
        reads_all: Read every batch; else only the end of each segment, and gaps inside of a segment are not found.
    """
    notes = Notes()
    if is_compacted:
        log = replace(log, cleaner_checkpoint=MAX_OFFSET)
    for segment in log.segments:
        end = None if reads_all else segment_end(log, segment)
        if end is not None:
            SegmentFindings(log, segment, notes).say_end(0, 0, end)
            continue
        for _ in checked_items(log, (segment,), notes):
            pass
    yield from (each for each in notes.findings if each.rule in OF_LOST_OFFSETS)


class BulkCheck:
    """Results of threads that check segments of logs. Take them in the same order.

    Args:
        segments: Each with its log.
        progress: Shows the progress; None: nothing is shown.
    """

    def __init__(
        self, segments: Iterable[tuple[SourceLog, SegmentFile]], progress: ProgressDisplay | None = None
    ) -> None:
        from logcore.columns.checking.chunks import in_order

        self._failed: dict[str, LogError] = {}
        self._progress = progress
        results = in_order(self._jobs(segments), processors.available())
        self._by_segment = groupby(results, key=lambda each: each[0].owner)
        self._next: tuple[_Owner, Iterator[tuple[Job[_Owner, Seen], Seen]]] | None = None

    def _jobs(self, segments: Iterable[tuple[SourceLog, SegmentFile]]) -> Iterator[Job[_Owner, Seen]]:
        from logcore.columns.checking.checked import CheckedSegment

        for log, segment in segments:
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
        if self._next is None:
            self._next = next(self._by_segment, None)
        if self._next is None or self._next[0][0] is not segment:
            raise self._failed[segment.path]
        (_, checked, source), results = self._next
        self._next = None
        return checked, source, self._of(segment, results)

    def _of(self, segment: SegmentFile, results: Iterator[tuple[Job[_Owner, Seen], Seen]]) -> Iterator[Seen]:
        for _, seen in results:
            if self._progress is not None:
                self._progress.at(segment.path, seen.position, segment.log_bytes)
            yield seen
