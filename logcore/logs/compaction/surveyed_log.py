"""The scan of a whole log before a round of cleaning: every batch verified, and the facts that the round needs.

    of each segment     damaged stretches, offsets, timestamps, its indexes and their sizes
    of the log          its end, the producers that a broker would know, aborted transactions, last stable offset

Index files are used if they exist and are valid. For a segment without an offset index all of them are built from its
batches, as a recovery would do. A transaction index is compared with the markers. An entry without its marker is
ignored, and an aborted transaction that it misses is added. So a wrong index neither drops committed data nor shows
aborted data.

A broker may end the log elsewhere: `broker_end_offset`. A start after a clean stop does not verify the checksums of a
segment with an offset index, so its log end may be after damage. A wrong length ends the log for a broker, where this
survey goes on with the next good batch. The high watermark depends on that end.

A transaction that is open where bytes are damaged may have ended there. Then the next marker of its producer may belong
to another transaction. If no transaction index has its outcome, it limits the last stable offset as if it were open.

Source: Kafka UnifiedLog.{firstUnstableOffset, collectAbortedTransactions}, ProducerStateManager,
LogSegment.readNextOffset.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from logcore.errors import CorruptIndexError, CorruptRecordError, UnsupportedFormatError
from logcore.logs.checks.validation import BatchVerdict, Reader, damage_found, read_plainly
from logcore.logs.compaction.cleaning_round import ActiveProducer
from logcore.logs.model import readable_end
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.partition_directory import PartitionDirectory, PartitionFile
from logcore.logs.model.producers.producer_state import Completed, ProducerReplay, without_expired
from logcore.logs.model.producers.producers_at import newest_snapshot
from logcore.records.control import ControlType
from logcore.records.varint import Buffer
from logcore.segments.filenames import (
    LOG_SUFFIX,
    MAX_OFFSET,
    OFFSET_INDEX_SUFFIX,
    PRODUCER_SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_base_offset,
)
from logcore.segments.scanning.file_batches import file_batches
from logcore.segments.scanning.scan import SegmentScan, Stretch
from logcore.segments.side_files import offset_index, time_index, transaction_index
from logcore.segments.side_files.offset_index import OffsetEntry
from logcore.segments.side_files.producer_state import ProducerEntry
from logcore.segments.side_files.time_index import NO_TIMESTAMP
from logcore.segments.side_files.transaction_index import AbortedTransaction
from logcore.segments.startup import StartFiles

_Entries = TypeVar("_Entries")


class SurveyedIndexes:
    """The index files of a segment: their sizes, and where its dirty part begins. It gets every batch of the segment.

    Valid files are used as they are. If one is invalid, or the offset index is missing, the result is that of a
    recovery. An entry is trusted only if a batch begins at its position and everything before it ends below the
    requested offset. Reading from a wrong entry would leave records out of the map. Then a tombstone among them would
    be removed before the value that it deletes. `sought` has the offsets that may become the round's first dirty one.

    Source: Kafka Cleaner.buildOffsetMapForSegment, LogSegment.recover.
    """

    def __init__(
        self,
        files: Mapping[str, PartitionFile],
        base_offset: int,
        interval_bytes: int,
        sought: Collection[int],
        findings: list[Finding],
    ) -> None:
        self._interval, self._sought = interval_bytes, sought
        self._last_at = self._entries = self._times = 0
        self._greatest = self._written = NO_TIMESTAMP
        self._reached = -1
        """Last offset of the batches until now."""
        self._rebuilt: dict[int, int] = {}
        self._believed: dict[int, int] = {}
        self._stated: dict[int, int] | None = None
        """Position in the index for each offset in `sought`."""
        self._stated_entries: int | None = None
        self._stated_times: int | None = None
        entries = _read(files.get(OFFSET_INDEX_SUFFIX), base_offset, offset_index.parse, findings)
        if entries is not None:
            self._stated_entries = len(entries)
            self._stated = {each: offset_index.lookup(entries, each, base_offset).position for each in sought}
        if OFFSET_INDEX_SUFFIX in files:  # without it a broker rebuilds both
            times = _read(files.get(TIME_INDEX_SUFFIX), base_offset, time_index.parse, findings)
            self._stated_times = None if times is None else len(times)

    def take(self, batch: BatchVerdict) -> None:
        """Add the next good batch."""
        self._greatest = max(self._greatest, batch.max_timestamp)
        if batch.position - self._last_at > self._interval:
            entry = OffsetEntry(batch.last_offset, batch.position)
            self._entries += 1
            self._consider()
            self._last_at = batch.position
            self._rebuilt |= {each: entry.position for each in self._sought if entry.offset <= each}
        if self._stated is not None:
            for each, position in self._stated.items():
                if position == batch.position and self._reached < each:
                    self._believed[each] = position
        self._reached = batch.last_offset

    def dirty_positions(self) -> dict[int, int]:
        """For each offset in `sought` a position from which reading finds it; 0 if it is missing."""
        return self._rebuilt if self._stated is None else self._believed

    def sizes(self) -> tuple[int, int]:
        """Bytes of the trimmed offset index and time index."""
        self._consider()
        entries = self._entries if self._stated_entries is None else self._stated_entries
        times = self._times if self._stated_times is None else self._stated_times
        return entries * offset_index.ENTRY_SIZE, times * time_index.ENTRY_SIZE

    def _consider(self) -> None:
        if self._greatest > self._written:
            self._written = self._greatest
            self._times += 1


def _read(
    file: PartitionFile | None, base_offset: int, parse: Callable[[bytes, int], _Entries], findings: list[Finding]
) -> _Entries | None:
    """The entries of an index; None if it is missing, or invalid, which is reported."""
    if file is None:
        return None
    try:
        return parse(bytes(file.content), base_offset)
    except CorruptIndexError as error:
        findings.append(index_ignored(file, error))
        return None


def index_ignored(file: PartitionFile, error: Exception) -> Finding:
    """The finding for an invalid index."""
    return found("corrupt-index", f"{file.name}: {error}; it is rebuilt from the batches", file=file.name)


class HiddenOutcomes:
    """Transactions whose outcome damage hides: open where bytes are damaged, so their marker may have been there.

    Then the next marker of the producer may belong to another transaction, so it decides nothing (as in
    `logcore.logs.model.transactions`). Two transaction indexes can decide: those of the damaged segment and of the
    segment with that marker. An abort that is not in them did not happen. It gets damage and markers, segment by
    segment. `first_offsets` are those of the undecidable transactions.
    """

    def __init__(self) -> None:
        self.first_offsets: list[int] = []
        self._across: dict[int, int] = {}
        """First offset by producer id: open at damage in an earlier segment, whose index does not end them."""
        self._hidden: dict[int, int] = {}
        """The same for damage in this segment."""
        self._ended: dict[int, int] = {}
        """Those with a later marker in this segment."""

    def damaged(self, open_from: Mapping[int, int]) -> None:
        """Bytes are damaged. `open_from` has the first offset of each transaction open there, by producer id."""
        self._hidden |= open_from

    def ended(self, done: Completed) -> None:
        """A marker was read."""
        first = self._across.pop(done.producer_id, None)
        if first is not None:
            self._ended[done.producer_id] = first

    def end_segment(self, *, is_stated: bool) -> Iterator[Finding]:
        """End the segment. `is_stated`: its transaction index shows which of its markers aborted what."""
        if not is_stated:
            for producer_id, first in {**self._hidden, **self._ended}.items():
                self.first_offsets.append(first)
                yield found(
                    "transaction-outcome-lost",
                    f"producer {producer_id} had a transaction open, begun at offset {first}, where bytes are damaged, "
                    "and no transaction index has its outcome: nothing from there on is cleaned",
                    start_offset=first,
                )
        else:
            self._across |= self._hidden
        self._hidden, self._ended = {}, {}


@dataclass(slots=True)
class SurveyedSegment:
    """The facts about one segment.

    Attributes:
        base_offset: Its base offset.
        next_base_offset: That of the next segment; None for the active one.
        log: Its log file.
        next_offset: The offset after its last batch.
        max_timestamp: The greatest of its batches.
        first_timestamp: The max timestamp of its first batch; -1 without one.
        damage: Damaged stretches. A torn tail of the active segment is none.
        untrusted_from: Position of its first damage or torn tail; None without one.
        trusted_end: The offset after the last batch before `untrusted_from`.
    """

    base_offset: int
    next_base_offset: int | None
    log: PartitionFile
    next_offset: int
    max_timestamp: int = NO_TIMESTAMP
    first_timestamp: int = NO_TIMESTAMP
    damage: list[Stretch] = field(default_factory=list)
    untrusted_from: int | None = None
    trusted_end: int = 0
    offset_index_size: int = 0
    time_index_size: int = 0
    dirty_positions: dict[int, int] = field(default_factory=dict)
    """Where reading begins for a first dirty offset; 0 if the offset is not in this segment."""
    aborted: tuple[AbortedTransaction, ...] = ()
    """The entries of its transaction index."""


@dataclass(slots=True)
class SurveyedLog:
    """The facts about a log.

    Attributes:
        segments: Oldest first.
        log_end_offset: The log end, after the last batch that can be trusted.
        broker_end_offset: The log end after a broker's start on this directory. It may be higher or lower.
        producers: Those that a broker would know after a start on this directory.
        decided: First data offset and marker offset of each transaction whose marker is at or above the stated high
            watermark. For the broker that wrote them they are unstable. A broker that started on a later producer
            snapshot has forgotten that. Data below the log start counts if a snapshot has it.
        doubtful: First offset of each transaction whose outcome damage hides.
        findings: The findings.
    """

    segments: list[SurveyedSegment]
    log_end_offset: int
    broker_end_offset: int
    producers: dict[int, ProducerEntry]
    decided: list[tuple[int, int]]
    doubtful: list[int]
    findings: list[Finding]
    with_aborted: list[int] = field(default_factory=list)
    """Numbers of the segments that have aborted transactions."""

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """The first offset of the first transaction that is open, undecided below the high watermark, or doubtful."""
        unstable = [
            each.current_txn_first_offset for each in self.producers.values() if each.open_transaction is not None
        ]
        unstable += [first for first, marker in self.decided if marker >= high_watermark]
        unstable += self.doubtful
        return min(unstable, default=None)

    def aborted_from(self, number: int, *, log_start_offset: int, upper: int) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions that a broker finds for the offsets from segment `number` on up to `upper`."""
        found_here: list[AbortedTransaction] = []
        for indexed in self.with_aborted[bisect_left(self.with_aborted, number) :]:
            aborted = self.segments[indexed].aborted
            entries, complete = transaction_index.collect(aborted, log_start_offset, upper)
            found_here += entries
            if complete:
                break
        return tuple(found_here)

    def active_producers(self) -> dict[int, ActiveProducer]:
        """The facts about producers that cleaning needs."""
        return {
            producer_id: ActiveProducer(each.producer_epoch, each.last_offset if each.last_offset >= 0 else None)
            for producer_id, each in self.producers.items()
        }


def survey(
    directory: PartitionDirectory,
    start: StartFiles,
    *,
    interval_bytes: int,
    as_of_ms: int,
    expiration_ms: int,
    log_start_offset: int = 0,
    read: Reader = read_plainly,
) -> SurveyedLog:
    """Scan every segment of a directory.

    Args:
        directory: The directory.
        start: The result of a broker's start for its names.
        interval_bytes: `index.interval.bytes`.
        as_of_ms: The clock.
        expiration_ms: `producer.id.expiration.ms`.
        log_start_offset: Batches below it are ignored for producers, because a broker's replay begins there.
        read: Scans and verifies a segment.
    """
    bases = sorted(base for name in start.kept if (base := segment_base_offset(name)) is not None)
    log = SurveyedLog([], 0, 0, {}, [], [], [])
    undecided = readable_end.high_watermark(directory.high_watermark, log_start_offset=log_start_offset)
    hidden = HiddenOutcomes()
    sought = {log_start_offset, *(() if directory.first_dirty_offset is None else (directory.first_dirty_offset,))}
    # Transactions: from the beginning. Producers: from the latest snapshot on, as a broker knows them.
    everything = ProducerReplay()
    snapshots = [directory.files[now] for name, now in start.kept.items() if name.endswith(PRODUCER_SNAPSHOT_SUFFIX)]
    # A start that recovers the active segment cuts off what cannot be trusted.
    is_recovered = not directory.is_clean or not bases or OFFSET_INDEX_SUFFIX not in start.beside(bases[-1])
    taken_at, known = _snapshot(snapshots, directory, start, bases, is_recovered=is_recovered)
    recent = ProducerReplay(without_expired(known, as_of_ms, expiration_ms).values())
    # Transactions that the high watermark leaves open: from the log start on, and earlier ones from the snapshot.
    in_log = ProducerReplay(each for each in known if 0 <= each.current_txn_first_offset < log_start_offset)
    for number, base in enumerate(bases):
        next_base = bases[number + 1] if number + 1 < len(bases) else None
        names = {LOG_SUFFIX: start.kept[f"{base:020d}{LOG_SUFFIX}"], **start.beside(base)}
        files = {suffix: directory.files[now] for suffix, now in names.items()}
        segment = SurveyedSegment(base, next_base, files[LOG_SUFFIX], base)
        indexes = SurveyedIndexes(files, base, interval_bytes, sought, log.findings)
        derived: list[AbortedTransaction] = []
        aborts: set[tuple[int, int]] = set()
        for step in read(segment.log.content, base, next_base, segment.log.fetched):
            if isinstance(step, Stretch) and step.spare:
                segment.log = segment.log.beginning(step.position, segment.log.modified_ms)
                continue
            if isinstance(step, Stretch):
                if segment.untrusted_from is None:
                    segment.untrusted_from, segment.trusted_end = step.position, segment.next_offset
                if not step.tail:
                    segment.damage.append(step)
                    hidden.damaged(everything.open_from)
                continue
            if segment.first_timestamp == NO_TIMESTAMP and segment.next_offset == base:
                segment.first_timestamp = step.max_timestamp
            segment.next_offset = step.last_offset + 1
            segment.max_timestamp = max(segment.max_timestamp, step.max_timestamp)
            indexes.take(step)
            if step.producer_id >= 0:
                done = everything.take(step)
                if done is not None:
                    hidden.ended(done)
                    if done.is_aborted:
                        derived.append(everything.aborted(done))
                if step.last_offset >= log_start_offset:
                    done = in_log.take(step)
                    # A broker's log may end at damage in the active segment, below the stated high watermark.
                    is_late = next_base is None and segment.untrusted_from is not None
                    if done is not None and (is_late or done.marker_offset >= undecided):
                        log.decided.append((done.first_offset, done.marker_offset))
                if step.is_control and step.control_type == ControlType.ABORT:
                    aborts.add((step.producer_id, step.last_offset))
                if step.base_offset >= taken_at and step.last_offset >= log_start_offset:
                    recent.take(step)
        segment.offset_index_size, segment.time_index_size = indexes.sizes()
        segment.dirty_positions = indexes.dirty_positions()
        segment.aborted, is_stated = _aborted(segment, files, derived, aborts, log.findings)
        log.findings += hidden.end_segment(is_stated=is_stated)
        if segment.aborted:
            log.with_aborted.append(number)
        log.segments.append(segment)
        log.findings += [damage_found(segment.log.name, each) for each in segment.damage]
    if log.segments:
        log.log_end_offset = log.segments[-1].next_offset
        last = log.segments[-1]
        log.broker_end_offset = last.next_offset
        if last.untrusted_from is not None:
            end = _broker_end(last.log.content, last.untrusted_from, last.trusted_end, is_recovered=is_recovered)
            log.broker_end_offset = last.next_offset if end is None else end
    log.doubtful = hidden.first_offsets
    log.producers = without_expired(recent.entries().values(), as_of_ms, expiration_ms)
    return log


def _broker_end(content: Buffer, untrusted_from: int, trusted_end: int, *, is_recovered: bool) -> int | None:
    """The log end after a broker's start with this active segment; None if the broker does not start.

    A recovery cuts the segment at its first damage. Without a recovery, a broker goes from batch to batch by their
    lengths alone, so it ends at a length that leads out of the file.
    """
    end = trusted_end
    if is_recovered:
        return end
    try:
        for _, header in file_batches(content, untrusted_from):
            end = header.next_offset
    except CorruptRecordError:
        return None
    return end if trusted_end < end <= MAX_OFFSET else trusted_end


def _snapshot(
    snapshots: Sequence[PartitionFile],
    directory: PartitionDirectory,
    start: StartFiles,
    bases: Sequence[int],
    *,
    is_recovered: bool,
) -> tuple[int, Sequence[ProducerEntry]]:
    """The latest snapshot within the log end of a broker's start, as far as that is known before the log is read."""
    if not bases:
        return 0, ()
    last = directory.files[start.kept[f"{bases[-1]:020d}{LOG_SUFFIX}"]]
    walk = SegmentScan(last.content, base_offset=bases[-1], sealed=False, decode=False, fetched=last.fetched)
    trusted_end, untrusted_from = bases[-1], None
    for step in walk:
        if isinstance(step, Stretch):
            untrusted_from = step.position
            break
        trusted_end = step.header.next_offset
    end: int | None = trusted_end
    if untrusted_from is not None:
        end = _broker_end(last.content, untrusted_from, trusted_end, is_recovered=is_recovered)
    return newest_snapshot(snapshots, trusted_end if end is None else end) or (0, ())


def _aborted(
    segment: SurveyedSegment,
    files: dict[str, PartitionFile],
    derived: list[AbortedTransaction],
    aborts: set[tuple[int, int]],
    findings: list[Finding],
) -> tuple[tuple[AbortedTransaction, ...], bool]:
    """The entries of the transaction index, without those that have no marker, with those that are missing.

    Returns:
        The entries, and whether there is such an index. It is empty or missing without aborted transactions.
    """
    file = files.get(TRANSACTION_INDEX_SUFFIX)
    if OFFSET_INDEX_SUFFIX not in files and file is None:
        return tuple(derived), False  # a broker would recover the segment
    try:
        stated = () if file is None else transaction_index.parse(bytes(file.content), segment.base_offset)
    except (CorruptIndexError, UnsupportedFormatError) as error:
        if file is not None:
            findings.append(index_ignored(file, error))
        return tuple(derived), False
    known = {(each.producer_id, each.last_offset) for each in stated}
    good = [each for each in stated if (each.producer_id, each.last_offset) in aborts or segment.damage]
    missing = [each for each in derived if (each.producer_id, each.last_offset) not in known]
    if len(good) != len(stated) or missing:
        name = f"{segment.base_offset:020d}{TRANSACTION_INDEX_SUFFIX}"
        findings.append(
            found(
                "transaction-index-differs",
                f"{name}: {len(stated) - len(good)} of its entries have no marker, {len(missing)} aborted transactions "
                "are not in it; the log's own markers are used",
                file=name,
            )
        )
    return tuple(sorted((*good, *missing), key=lambda each: each.last_offset)), not missing
