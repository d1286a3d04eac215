"""The check of one segment: every rule over every byte, and a row for every batch.

    rule                      finds
    corrupt-bytes             bytes that cannot be trusted (offsets, crc, counts, codec, records)
    zero-tail, zero-padding   zeros up to the end, in a sealed segment, or in one still being written
    torn-tail                 a partial batch at the end of a segment still being written
    tail-hides-batches        an end that is not a partial batch, or that contains whole batches
    segment-without-batch     only a tail: no batch can be read
    …                         in batches that can be trusted: `logcore.logs.checks.batch_rules`

`logcore.segments.scanning.scan` decides which batches can be trusted, and how the scan continues after one that cannot.
A gap between offsets gives no finding here: whether it is valid depends on the log
(`logcore.logs.model.offset_ledger`).

Only one batch is in memory at a time, so memory does not grow with the segment. Findings are limited for each rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from logcore.errors import CorruptionReason
from logcore.logs.checks.batch_rules import BatchRules, RecordSums
from logcore.logs.model.batch_facts import VERDICT_OK
from logcore.logs.model.findings import CappedFindings, Finding, found
from logcore.records.batch import BatchHeader
from logcore.records.packed_files import unpacking
from logcore.records.record import DEFAULT_LIMITS, Limits, Record
from logcore.records.varint import Buffer
from logcore.segments.scanning.fetched_bytes import FetchedBytes
from logcore.segments.scanning.scan import Accounting, End, ScannedBatch, SegmentScan, Stretch

SPLIT_BYTES = 64 * 1024 * 1024
"""The least distance between split points. The next batch starts one."""


@dataclass(frozen=True, slots=True)
class BatchVerdict:
    """A batch that can be trusted, as a row of the table `batches`.

    Offsets are inclusive, position and size are bytes of the segment, timestamps are milliseconds.
    """

    position: int
    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    codec: str
    timestamp_type: str
    base_timestamp: int
    max_timestamp: int
    delete_horizon_ms: int | None
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    is_transactional: bool
    is_control: bool
    control_type: str | None
    verdict: str = VERDICT_OK

    @classmethod
    def of(cls, batch: ScannedBatch) -> BatchVerdict:
        """The row of a batch that a scan found good."""
        header = batch.header
        columns = header.columns(batch.control_type)
        position, attributes = batch.position, header.attributes
        return cls(position=position, attributes=attributes, base_timestamp=header.base_timestamp, **columns)


@dataclass(slots=True)
class Counts:
    """Counts over the trusted batches. `records` excludes control records; `codecs` counts batches by codec name."""

    batches: int = 0
    records: int = 0
    control_records: int = 0
    codecs: dict[str, int] = field(default_factory=dict)


Reader = Callable[[Buffer, int, int | None, FetchedBytes | None], Iterable[BatchVerdict | Stretch]]
"""Scans a segment and verifies all of it. Arguments: bytes, base offset, that of the next segment or None, more facts
about the bytes. Reserved space in a sealed segment is a stretch too."""


def read_plainly(
    content: Buffer, base_offset: int, next_base_offset: int | None, fetched: FetchedBytes | None = None
) -> Iterator[BatchVerdict | Stretch]:
    """A `Reader`, record by record."""
    sealed = next_base_offset is not None
    walk = SegmentScan(
        content, base_offset=base_offset, sealed=sealed, next_base_offset=next_base_offset, fetched=fetched
    )
    for step in walk:
        yield step if isinstance(step, Stretch) else BatchVerdict.of(step)
    padding = walk.accounting.padding
    if sealed and padding:
        message = f"the last {padding} bytes are zeros, although a later segment follows"
        yield Stretch(len(content) - padding, padding, CorruptionReason.LENGTH, message, walk.next_offset)


def damage_found(file: str, damage: Stretch) -> Finding:
    """The finding about a stretch of damage that maintenance leaves in a file."""
    return found(
        "corrupt-bytes",
        f"{file}: {damage.size} bytes at position {damage.position}, offset {damage.offset}, cannot be trusted "
        f"({damage.reason}): {damage.message}",
        file=file,
        position=damage.position,
        nbytes=damage.size,
        start_offset=damage.offset,
    )


def stretch_rule(stretch: Stretch) -> str:
    """The rule that reports bytes that cannot be trusted. A batch whose end is proven hides nothing, and what is wrong
    with it is known.
    """
    if stretch.spare:
        return "bytes-after-segment"
    if stretch.tail:
        return "torn-tail"
    if stretch.unreadable:
        return "unreadable"
    if stretch.reason is CorruptionReason.PACKED:
        return "packed-segment"
    return "corrupt-bytes" if stretch.hides is None or stretch.is_repaired else "tail-hides-batches"


def spare_text(stretch: Stretch) -> str:
    """What the bytes after the last offset of a closed segment are."""
    return (
        f"{stretch.size} bytes follow the last batch of the segment, which ends where the next one begins, at offset "
        f"{stretch.offset}: {stretch.message}"
    )


class SegmentVerdict:
    """Collects the results of one segment's scan, in the order of positions."""

    def __init__(self, file: str, sealed: bool, base_offset: int, checks_sequences: bool = True) -> None:
        self._sealed, self._file = sealed, file
        self._findings = CappedFindings()
        self.rules = BatchRules(self._say, checks_sequences)
        self._accounting: Accounting | None = None
        self._valid = self._quarantined = self._unreadable = self._tail = 0
        self.next_offset = base_offset
        """Offset after the last good batch; before the first one the segment's base offset."""
        self.counts = Counts()
        self.split_points: list[tuple[int, int]] = []
        """(position, base offset) of the first batch, and of the first one at least 64 MiB after each of these."""
        self.min_timestamp: int | None = None
        """Least timestamp of a data record, without negative ones."""
        self.max_timestamp: int | None = None
        """Greatest max timestamp of a batch, markers included, as in Kafka's retention; None if all are -1."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """In the order of positions, for each rule at most `FINDINGS_PER_RULE` and one that counts the rest."""
        more = (
            found(rule, f"and {count} more of these in the same segment", file=self._file)
            for rule, count in self._findings.left_out().items()
        )
        return (*self._findings.kept, *more)

    @property
    def accounting(self) -> Accounting:
        """The bytes by kind.

        Raises:
            ValueError: The scan has not ended.
        """
        if self._accounting is None:
            raise ValueError("the check of the segment has not reached its end")
        return self._accounting

    @property
    def end(self) -> End:
        """How the segment ended.

        Raises:
            ValueError: The scan has not ended.
        """
        return self.accounting.end(self._sealed)

    def take(self, batch: ScannedBatch, sums: RecordSums) -> BatchVerdict:
        """Add the next batch, with sums over its records."""
        header = batch.header
        codec = header.codec.kafka_name
        data = 0 if header.is_control else header.record_count
        self.count(codec, 1, data, header.record_count - data, header.size)
        self.see_times(None if header.is_control else sums.least, header.max_timestamp)
        self.see_position(batch.position, header.base_offset)
        self.next_offset = header.next_offset
        self.rules.check(batch, sums)
        return BatchVerdict.of(batch)

    def count(self, codec: str, batches: int, records: int, control_records: int, nbytes: int) -> None:
        """Add good batches of one codec to the counts."""
        self.counts.batches += batches
        self.counts.codecs[codec] = self.counts.codecs.get(codec, 0) + batches
        self.counts.records += records
        self.counts.control_records += control_records
        self._valid += nbytes

    def see_times(self, least: int | None, greatest: int) -> None:
        """Add the least timestamp of data records, if they have any, and the greatest max timestamp of batches."""
        if greatest >= 0:
            self.max_timestamp = max(greatest, self.max_timestamp or 0)
        if least is not None and (self.min_timestamp is None or least < self.min_timestamp):
            self.min_timestamp = least

    def see_position(self, position: int, base_offset: int) -> None:
        """Add the position of a batch."""
        if not self.split_points or position - self.split_points[-1][0] >= SPLIT_BYTES:
            self.split_points.append((position, base_offset))

    def take_stretch(self, stretch: Stretch) -> None:
        """Add the next bytes that cannot be trusted."""
        if stretch.tail:
            self._tail += stretch.size
        else:
            self._quarantined += stretch.size - stretch.unreadable
            self._unreadable += stretch.unreadable
        hides = "" if stretch.hides is None else f". Not an ordinary tail: {stretch.hides}"
        message = f"{stretch.size} bytes cannot be trusted ({stretch.reason}): {stretch.message}"
        if stretch.spare:
            message = spare_text(stretch)
        if stretch.unreadable:
            hides = f". The disk failed to read {stretch.unreadable} of them"
        elif stretch.reason is CorruptionReason.PACKED:
            hides = f"; {unpacking(stretch.message, self._file)}"
        self._add(stretch_rule(stretch), f"{message}{hides}", stretch.position, stretch.size, stretch.offset)

    def finish(self, file_size: int, padding: int) -> None:
        """Add the segment's end."""
        self._accounting = Accounting(file_size, self._valid, self._quarantined, self._tail, padding, self._unreadable)
        if not self.counts.batches and self._tail:
            message = f"no batch can be read in all its {file_size} bytes"
            self._add("segment-without-batch", message, 0, file_size, self.next_offset)
        if not padding:
            return
        where = "although a later segment follows" if self._sealed else "after the last batch"
        rule, message = "zero-tail" if self._sealed else "zero-padding", f"the last {padding} bytes are zeros, {where}"
        self._add(rule, message, file_size - padding, padding, self.next_offset)

    def _add(
        self, rule: str, message: str, position: int, nbytes: int, start_offset: int, end_offset: int | None = None
    ) -> None:
        place = {"position": position, "nbytes": nbytes, "start_offset": start_offset, "end_offset": end_offset}
        self._findings.add(found(rule, message, file=self._file, **place))

    def _say(self, rule: str, message: str, batch: ScannedBatch) -> None:
        header = batch.header
        self._add(rule, message, batch.position, header.size, header.base_offset, header.next_offset)


class SegmentValidation(SegmentVerdict):
    """Iterates once over a segment, in the order of positions. The attributes are complete afterwards.

    Damage never raises. `fetched` may raise a LogError.
    """

    def __init__(
        self,
        buf: Buffer,
        *,
        base_offset: int,
        sealed: bool,
        file: str,
        limits: Limits = DEFAULT_LIMITS,
        next_base_offset: int | None = None,
        checks_sequences: bool = True,
        fetched: FetchedBytes | None = None,
    ) -> None:
        """Begin; the work happens while the caller iterates.

        Args:
            buf: The segment's bytes.
            base_offset: The offset in the file's name.
            sealed: Whether a later segment follows. Then nothing may be missing at the end.
            file: Its name in findings.
            limits: The most that is kept in memory.
            next_base_offset: Base of the segment that follows, if one does. Then batches that overlap it are refused.
            checks_sequences: False for topics that a coordinator writes.
            fetched: Loads the bytes of `buf` into memory; None if they are all there.
        """
        super().__init__(file, sealed, base_offset, checks_sequences)
        self._scan = SegmentScan(
            buf,
            base_offset=base_offset,
            sealed=sealed,
            limits=limits,
            next_base_offset=next_base_offset,
            inspect=self._look_at,
            fetched=fetched,
        )
        self._fetched = fetched
        self._sums = RecordSums()
        self._header: BatchHeader | None = None
        self._walk = self._steps()

    def __iter__(self) -> Iterator[BatchVerdict | Stretch]:
        return self._walk

    def _steps(self) -> Iterator[BatchVerdict | Stretch]:
        for item in self._scan:
            if self._fetched is not None:
                self._fetched.release(item.position)
            if isinstance(item, Stretch):
                self.take_stretch(item)
                yield item
            else:
                # The records of an empty batch were never read.
                sums = self._sums if item.header is self._header else RecordSums()
                sums.oddities = self._scan.oddities
                yield self.take(item, sums)
        accounting = self._scan.accounting
        self.finish(accounting.file_size, accounting.padding)

    def _look_at(self, header: BatchHeader, record: Record) -> None:
        if header is not self._header:
            self._header = header
            self._sums = RecordSums()
        self._sums.take(record)
