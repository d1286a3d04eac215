"""The copies of one log, read whole: each batch's header and checksum, and records only where headers do not decide.

`logcore.logs.growth.histories` and `contents` compare, `copies` decides which copy has the history.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import combinations
from operator import itemgetter
from typing import TYPE_CHECKING

from logcore.errors import CorruptRecordError, LogError
from logcore.logs.growth.contents import RecordContent, compare_contents
from logcore.logs.growth.copies import CopyComparison, LogCopy
from logcore.logs.growth.histories import (
    CopyHistory,
    CopyVerdict,
    HeldBatches,
    PairDifference,
    cleaned_away,
    compare_histories,
    held_batches,
    without_moved,
)
from logcore.logs.model.findings import Finding, Severity, found
from logcore.logs.model.gaps import NO_EXPLANATION
from logcore.logs.model.remote_tier import below_start_finding
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.ranges import Range, joined
from logcore.reading.compared_copies import ComparedCopies, holes_of
from logcore.reading.consumer_log import ConsumerLog
from logcore.reading.read_options import Notes, OffsetRange, ReadRules
from logcore.reading.segment_reading import (
    cannot_read,
    is_read_in_bulk,
    open_segment,
    rules_of_gaps,
    segment_bytes,
    stretch_finding,
    walked,
)
from logcore.records.batch import HEADER_SIZE, BatchHeader, read_header
from logcore.records.model import MAGIC_V2, Record
from logcore.segments.scanning.scan import ScannedBatch, SegmentScan, Stretch
from logcore.storage.discovery import read_range, shown
from logcore.storage.source_bytes import SourceBytes

if TYPE_CHECKING:  # small logs are read without NumPy
    from logcore.columns.decoding.batch_table import Table

_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """Two copies, by their numbers, and how they differ."""

    left: int
    right: int
    difference: PairDifference
    verdict: CopyVerdict


@dataclass(frozen=True, slots=True)
class LogCopies:
    """The copies of one log.

    Attributes:
        logs: The copies, in the order of the paths.
        histories: What each holds.
        pairs: Each two of them.
        batches: Batches that are damaged in a copy: base offset, and the numbers of the copies that hold it.
        decision: Which copy has the history.
    """

    logs: tuple[SourceLog, ...]
    histories: tuple[CopyHistory, ...]
    pairs: tuple[ComparedPair, ...]
    batches: tuple[tuple[int, tuple[int, ...]], ...]
    decision: CopyComparison

    @property
    def kept(self) -> SourceLog | None:
        """The copy to keep; None if the evidence does not decide."""
        return None if self.decision.undecided is not None else self.decision.best.log


def compare_log(logs: Sequence[SourceLog], copies: ComparedCopies, notes: Notes) -> LogCopies:
    """Read the copies of one log, and compare each two.

    Args:
        logs: The copies, at least one.
        copies: Knows the cluster metadata at the paths.
        notes: Gets the findings about their bytes.
    """
    histories = without_moved([_history(log, logs, notes, is_compacted=copies.is_compacted(log)) for log in logs])
    differences = {
        (left, right): _decided(logs, histories, left, right) for left, right in combinations(range(len(logs)), 2)
    }
    forks = {
        frozenset((logs[left].directory, logs[right].directory)): each.parts_at
        for (left, right), each in differences.items()
    }
    lacks: list[list[Range]] = [[] for _ in logs]
    for (left, right), each in differences.items():
        for lacking, ranges in ((left, each.only_right), (right, each.only_left)) if each.parts_at is None else ():
            start, end = histories[lacking].log_start_offset, histories[lacking].log_end_offset
            lacks[lacking] += [(max(first, start), min(last, end)) for first, last in ranges if last > start]
    holes = [joined(ranges) for ranges in lacks]
    known = [
        LogCopy(log, history.log_end_offset, (len(history.damaged),), lost, (*history.batches.epochs[-1:], -1)[0], less)
        for log, history, lost, less in zip(logs, histories, holes, cleaned_away(histories), strict=True)
    ]
    decision = copies.compare(known, forks)
    start = decision.best.log.log_start_offset
    pairs = tuple(ComparedPair(*sides, each, each.verdict(start)) for sides, each in differences.items())
    return LogCopies(tuple(logs), tuple(histories), pairs, tuple(held_batches(histories)), decision)


def lost_by_all(compared: LogCopies, copies: ComparedCopies, notes: Notes) -> Iterator[Finding]:
    """Yield what is missing between two segments of the copy to keep and in every other copy, and at their start.

    Args:
        compared: The copies.
        copies: Knows the cluster metadata at the paths.
        notes: Remembers what headers say of cleaning.
    """
    for log in compared.logs:
        if log.removed is not None:
            finding = below_start_finding(log.topic_partition, log.removed)
            yield replace(finding, file=shown(log.directory), severity=Severity.WARNING)
    log = compared.decision.best.log
    held = next(each.batches for each, one in zip(compared.histories, compared.logs, strict=True) if one is log)
    for segment in log.segments:
        following = log.next_base_offset(segment)
        before = 0 if following is None else held.first_from(following)
        start = max(segment.base_offset, log.log_start_offset, held.lasts[before - 1] + 1 if before else 0)
        if (
            following is None
            or start >= following
            or any(_has_some(each, start, following) for each in compared.histories)
        ):
            continue
        if rules_of_gaps(log, notes, copies.is_compacted(log)).loss(start, following) == NO_EXPLANATION:
            where = "each copy" if len(compared.logs) > 1 else shown(log.directory)
            message = f"{log.topic_partition}: offsets [{start}, {following}) are missing in {where}."
            finding = found("missing-offsets", message, start_offset=start, end_offset=following)
            yield replace(finding, severity=Severity.WARNING)


def _has_some(history: CopyHistory, start: int, end: int) -> bool:
    """Whether a copy has a batch of some offsets, or damage."""
    held, number = history.batches, history.batches.first_from(start)
    return (number < len(held) and held.bases[number] < end) or any(
        first < end and start < last for first, last in history.damaged
    )


def with_headers(copies: Sequence[LogCopy]) -> tuple[list[LogCopy], dict[frozenset[str], int | None]]:
    """Return copies of one log with what their headers say beside, and where two part, by their directories."""
    if len(copies) < 2:
        return list(copies), {}
    logs = [copy.log for copy in copies]
    read = [_history(log, logs, Notes()) for log in logs]
    histories, forks, known = without_moved(read), dict[frozenset[str], int | None](), list[LogCopy]()
    is_moved = [one is not other for one, other in zip(read, histories, strict=True)]
    for left, right in combinations(range(len(histories)), 2):
        fork = compare_histories(histories[left], histories[right]).parts_at
        if fork is not None or histories[left].damaged or histories[right].damaged:
            forks[frozenset((logs[left].directory, logs[right].directory))] = fork
    for copy, history, less, is_less in zip(copies, histories, cleaned_away(histories), is_moved, strict=True):
        if is_less:
            copy = replace(copy, end=history.log_end_offset, last_epoch=(*history.batches.epochs[-1:], -1)[0])
        known.append(replace(copy, cleaned=less))
    return known, forks


def _decided(logs: Sequence[SourceLog], histories: Sequence[CopyHistory], left: int, right: int) -> PairDifference:
    """How two copies differ; by their records where headers do not decide."""
    difference = compare_histories(histories[left], histories[right])
    if not difference.is_open:
        return difference
    sides = [(logs[side], histories[side]) for side in (left, right)]
    windows = [ConsumerLog(log, ReadRules("read_committed", "log-end")).window for log, _ in sides]
    low = max(history.log_start_offset for _, history in sides)
    ends = [min(window.end, history.log_end_offset) for window, (_, history) in zip(windows, sides, strict=True)]
    shared = OffsetRange(low, max(low, min(ends)))
    damaged = [span for _, history in sides for span in history.damaged]
    records = [_contents(log, window.ranges(shared), damaged) for window, (log, _) in zip(windows, sides, strict=True)]
    found = compare_contents(*records, cleaned=(histories[left].is_cleaned, histories[right].is_cleaned))
    return difference.decided(found.parts_at, found.only_left, found.only_right)


def _contents(log: SourceLog, visible: Sequence[Range], damaged: Iterable[Range]) -> Iterator[RecordContent]:
    """The visible records of a copy, without those of offsets that are damaged in one of the copies."""
    left_out = joined(damaged)
    for segment in log.segments if visible else ():
        following = log.next_base_offset(segment)
        if (following is not None and following <= visible[0][0]) or segment.base_offset >= visible[-1][1]:
            continue
        records: list[Record] = []
        for item in walked(*open_segment(log, segment, records)):
            if isinstance(item, ScannedBatch) and not item.header.is_control:
                for record in records:
                    if _is_in(record.offset, visible) and not _is_in(record.offset, left_out):
                        yield _content(record)
            records.clear()


def _is_in(offset: int, ranges: Sequence[Range]) -> bool:
    """Whether an offset lies in one of some ascending ranges."""
    at = bisect_right(ranges, offset, key=itemgetter(0)) - 1
    return at >= 0 and offset < ranges[at][1]


def _content(record: Record) -> RecordContent:
    whole = repr((record.timestamp, record.key, record.value, record.headers)).encode()
    key = None if record.key is None else blake2b(record.key, digest_size=_DIGEST_BYTES).digest()
    return RecordContent(
        record.offset, key, blake2b(whole, digest_size=_DIGEST_BYTES).digest(), is_tombstone=record.value is None
    )


def _history(log: SourceLog, logs: Sequence[SourceLog], notes: Notes, *, is_compacted: bool = False) -> CopyHistory:
    """Read every header of a copy, and check every checksum. Damage is reported."""
    reader = _HistoryReader(log, notes)
    for segment in log.segments:
        reader.read(segment)
    start, end = log.log_start_offset, reader.end()
    is_cleaned = reader.is_cleaned or bool(log.cleaner_checkpoint) or is_compacted
    return CopyHistory(
        log_start_offset=start,
        log_end_offset=max(end, start) if log.named_files else end,
        high_watermark=log.high_watermark,
        stated_epochs=log.leader_epochs,
        batches=reader.held,
        damaged=joined(reader.damaged),
        lost=() if is_cleaned else tuple(holes_of(log, logs)),
        is_cleaned=is_cleaned,
    )


class _HistoryReader:
    """Reads the segments of a copy, in their order."""

    def __init__(self, log: SourceLog, notes: Notes) -> None:
        self._log, self._notes = log, notes
        self.held = HeldBatches()
        self.damaged: list[Range] = []
        self.is_cleaned = False
        self._begun: int | None = None
        """Where damage begins whose end only the next good batch shows."""
        self._next = log.log_start_offset

    def end(self) -> int:
        """Return the log end offset, after all segments."""
        if self._begun is not None:
            self.damaged.append((self._begun, self._begun + 1))
            self._begun = None
        return self._next

    def read(self, segment: SegmentFile) -> None:
        """Read a segment. What cannot be read is reported, and counts as damaged."""
        self._next = max(self._next, segment.base_offset)
        try:
            source = segment_bytes(self._log, segment)
            for item in self._items(segment, source):
                if isinstance(item, ScannedBatch):
                    header = item.header
                    count = header.record_count if header.magic >= MAGIC_V2 else -1
                    self._begin_good(header.base_offset)
                    self.held.add(
                        header.base_offset, header.last_offset, header.partition_leader_epoch, header.crc, count
                    )
                    self._next = header.next_offset
                    self.is_cleaned |= 0 <= count <= header.last_offset_delta
                elif not isinstance(item, Stretch):
                    self._take_table(item)
                elif not item.spare:
                    self._notes.say(stretch_finding(item, shown(segment.path)))
                    self._take_damage(segment, item)
            source.refuse_change()
        except LogError as error:
            cannot_read(segment, error, self._notes)
            self._begun = self._next if self._begun is None else self._begun

    def _items(self, segment: SegmentFile, source: SourceBytes) -> Iterator[Table | ScannedBatch | Stretch]:
        log, following = self._log, self._log.next_base_offset(segment)
        if is_read_in_bulk(log, decodes=False):
            from logcore.columns.checking.checked import checked_headers

            return checked_headers(
                source.content,
                base_offset=segment.base_offset,
                sealed=log.is_sealed(segment),
                next_base_offset=following,
                fetched=source,
            )
        walk = SegmentScan(
            source.content,
            base_offset=segment.base_offset,
            sealed=log.is_sealed(segment),
            decode=False,
            next_base_offset=following,
            fetched=source,
        )
        return walked(source, walk)

    def _take_table(self, table: Table) -> None:
        import numpy as np

        from logcore.columns.kernels import batch_row

        bases, lasts = table[:, batch_row.BASE_OFFSET], table[:, batch_row.LAST_OFFSET]
        counts = np.where(table[:, batch_row.MAGIC] >= MAGIC_V2, table[:, batch_row.RECORD_COUNT], -1)
        epochs, crcs = table[:, batch_row.LEADER_EPOCH], table[:, batch_row.CRC]
        self._begin_good(int(bases[0]))
        for column, numbers in zip(self.held.columns, (bases, lasts, epochs, crcs, counts), strict=True):
            column.frombytes(np.ascontiguousarray(numbers, np.int64).tobytes())
        self.is_cleaned |= bool(((counts >= 0) & (counts <= lasts - bases)).any())
        self._next = int(lasts[-1]) + 1

    def _begin_good(self, base: int) -> None:
        if self._begun is not None and self._begun < base:
            self.damaged.append((self._begun, base))
        self._begun = None

    def _take_damage(self, segment: SegmentFile, item: Stretch) -> None:
        """Find the offsets of damage: those of its header, if that is one of the whole stretch.

        Of a tail only a whole batch counts: its checksum is wrong. Anything else is a write in progress.
        """
        header = self._header(segment, item)
        following = self._log.next_base_offset(segment)
        if (
            header is not None
            and header.size == item.size
            and self._next <= header.base_offset <= header.last_offset
            and (following is None or header.last_offset < following)
        ):
            if self._begun is not None:
                self._begin_good(header.base_offset)
            self.damaged.append((header.base_offset, header.next_offset))
            self._next = header.next_offset
        elif not item.tail and self._begun is None:
            self._begun = self._next

    def _header(self, segment: SegmentFile, item: Stretch) -> BatchHeader | None:
        try:
            end = min(item.position + HEADER_SIZE, segment.log_bytes)
            return read_header(read_range(segment.path, item.position, end, segment), whole=False)
        except (CorruptRecordError, LogError):
            return None


def copies_of_one_topic(logs: Sequence[SourceLog]) -> list[tuple[SourceLog, ...]]:
    """Return the copies of one partition, in groups of one topic id. A copy without an id belongs to an only id."""
    ids = list(dict.fromkeys(log.topic_id for log in logs if log.topic_id is not None))
    if len(ids) < 2:
        return [tuple(logs)]
    return [tuple(log for log in logs if log.topic_id == each) for each in dict.fromkeys(log.topic_id for log in logs)]
