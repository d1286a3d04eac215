"""Rules for a batch that can be trusted: for its header, and for sums over its records.

    rule                      finds
    unknown-attribute-bits    attribute bits without a meaning in the batch's format version
    control-batch-shape       a transaction marker that is not alone, or without its producer
    unknown-control-type      a control record of a later release; it decides nothing
    leader-epoch-regression   the crc does not cover the epoch, so only this rule can find a flipped bit
    max-timestamp-differs     the batch's greatest timestamp is not that of its records (CreateTime), or none
                              (LogAppendTime, where every record has it)
    negative-timestamp        below -1: brokers of 3.9.2 accept it in a batch without compression
    timestamp-out-of-range    outside the years 1 to 9999; -1 means none and is valid
    sequence-gap              a producer's batch does not follow its last one, although no offset is missing
    sequence-duplicate        between them: records were lost before the log, or written twice
    unusual-encoding          v2: numbers longer than needed, and nulls that are not -1
    header-name-not-utf8      v2: kept as bytes; readers that decode names see U+FFFD
    inner-crc-differs         v0, v1: a message inside a compressed one fails its own checksum
    inner-magic-differs       v0, v1: a message inside a compressed one is of the other version (KAFKA-4298)
    inner-bytes-left          v0, v1: the last message inside a compressed one is incomplete; it is dropped
    wrapper-offset-zero       v0, v1: a compressed message has offset 0, and those inside have higher ones
    messages-below-log-end    v0, v1: a compressed message begins below the end of the one before (KAFKA-3919)
    last-offset-delta-short   v2: an old client left the last offset delta 0
    ignored-bytes             bytes after the compressed stream, or v0, v1: after a value; Kafka ignores them

Rules about records use only sums over them, so a faster reader can supply the same sums. Batches come in the order of
their segment. Belongs here: findings for good batches. `segments.scan` decides what makes a batch bad.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from logcore.records.batch import TimestampType
from logcore.records.control import ControlType
from logcore.records.record import Oddities, Record
from logcore.segments.scanning.scan import ScannedBatch
from logcore.texts import utf8_text

MIN_TIMESTAMP_MS = -62_135_596_800_000
"""0001-01-01T00:00:00Z, the earliest in a Delta table."""
MAX_TIMESTAMP_MS = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z, the latest."""

PRODUCERS = 100_000
"""The most producers of a segment that are remembered, those that wrote last; each needs about 200 bytes."""

_NO_TIMESTAMP = -1
SEQUENCES = 1 << 31
"""After the greatest int32, sequence numbers start again at 0."""
_MARKERS = (ControlType.COMMIT, ControlType.ABORT)

Say = Callable[[str, str, ScannedBatch], None]
"""Takes a rule's id, a sentence and its batch."""


@dataclass(slots=True)
class RecordSums:
    """Sums over one batch's records. Timestamps are those that a reader gets: the batch's own with LogAppendTime."""

    least: int | None = None
    """Least timestamp, without negative ones."""
    greatest: int | None = None
    negative: int = 0
    """Records with a timestamp below -1."""
    out_of_range: int = 0
    """Records with a timestamp other than -1 that does not fit a table."""
    names_not_utf8: int = 0
    """Record headers whose name is not UTF-8."""
    oddities: Oddities = field(default_factory=Oddities)

    def take(self, record: Record) -> None:
        """Add a record."""
        timestamp = record.timestamp
        if self.greatest is None or timestamp > self.greatest:
            self.greatest = timestamp
        if timestamp >= 0 and (self.least is None or timestamp < self.least):
            self.least = timestamp
        if timestamp != _NO_TIMESTAMP:
            self.negative += timestamp < 0
            self.out_of_range += not MIN_TIMESTAMP_MS <= timestamp <= MAX_TIMESTAMP_MS
        for name, _ in record.headers:
            self.names_not_utf8 += utf8_text(name) is None


@dataclass(frozen=True, slots=True)
class LastBatch:
    """The last batch of a producer."""

    epoch: int
    next_sequence: int
    base_offset: int


class BatchRules:
    """The rules of one segment, batch after batch. It remembers what rules on neighbours need."""

    def __init__(self, say: Say, checks_sequences: bool = True) -> None:
        self._say = say
        self.checks_sequences = checks_sequences
        """Whether producers number their batches without gaps. The broker's coordinators do not."""
        self.epoch = -1
        """That of the last batch that has one."""
        self.producers: dict[int, LastBatch] = {}
        """Last batch of each producer; those that wrote last are at the end."""
        self.next_offset = -1
        self.whole_from = 0
        """From here to the last batch no offset is missing between batches."""

    def check(self, batch: ScannedBatch, sums: RecordSums) -> None:
        """Check the next batch."""
        self._check_header(batch)
        self._check_control(batch)
        self._check_sequence(batch)
        self._check_timestamps(batch, sums)
        self._check_content(batch, sums)

    def _check_header(self, batch: ScannedBatch) -> None:
        header = batch.header
        if header.unknown_attribute_bits:
            message = f"attributes 0x{header.attributes & 0xFFFF:04x} have unknown bits"
            self._say("unknown-attribute-bits", message, batch)
        epoch = header.partition_leader_epoch
        if 0 <= epoch < self.epoch:
            self._say("leader-epoch-regression", f"leader epoch {epoch} after a batch of epoch {self.epoch}", batch)
        # One flipped epoch gives one finding: a later batch is compared with the flipped one only if it is lower.
        self.epoch = epoch if epoch >= 0 else self.epoch

    def _check_control(self, batch: ScannedBatch) -> None:
        header, kind = batch.header, batch.control_type
        if not header.is_control or kind is None:
            return
        if kind is ControlType.UNKNOWN:
            self._say("unknown-control-type", "a control record of unknown type", batch)
        marker = kind in _MARKERS
        if marker and header.record_count != 1:
            self._say("control-batch-shape", f"a {kind} marker in a batch of {header.record_count} records", batch)
        if marker and (header.producer_id < 0 or not header.is_transactional):
            self._say("control-batch-shape", f"a {kind} marker without a transactional producer", batch)
        if not marker and header.is_transactional:
            self._say("control-batch-shape", f"a transactional control batch that is {kind} and no marker", batch)

    def remember(self, producer_id: int, last: LastBatch) -> None:
        """Store a producer's last batch. If there are too many, the producer that wrote longest ago is forgotten."""
        if self.producers.pop(producer_id, None) is None and len(self.producers) >= PRODUCERS:
            del self.producers[next(iter(self.producers))]
        self.producers[producer_id] = last

    def _check_sequence(self, batch: ScannedBatch) -> None:
        header = batch.header
        if header.base_offset != self.next_offset:
            # Compaction, damage or retention removed something here: no producer's last batch is known any more.
            self.whole_from = header.base_offset
        self.next_offset = header.next_offset
        is_numbered = header.producer_id >= 0 and header.base_sequence >= 0 and not header.is_control
        if not is_numbered or not self.checks_sequences:
            return
        last = self.producers.get(header.producer_id)
        if last is not None and last.epoch == header.producer_epoch and last.base_offset >= self.whole_from:
            ahead = (header.base_sequence - last.next_sequence) % SEQUENCES
            message = f"sequence {header.base_sequence}, expected {last.next_sequence} (producer {header.producer_id})"
            if ahead >= SEQUENCES // 2:
                self._say("sequence-duplicate", message, batch)
            elif ahead:
                self._say("sequence-gap", message, batch)
        following = (header.base_sequence + header.last_offset_delta + 1) % SEQUENCES
        self.remember(header.producer_id, LastBatch(header.producer_epoch, following, header.base_offset))

    def _check_timestamps(self, batch: ScannedBatch, sums: RecordSums) -> None:
        header, greatest = batch.header, sums.greatest
        stated = header.max_timestamp
        if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
            if stated < 0:
                self._say("max-timestamp-differs", f"LogAppendTime, but the append time is {stated}", batch)
        elif greatest is not None and greatest != stated:
            self._say("max-timestamp-differs", f"max timestamp {stated}, but its records reach {greatest}", batch)
        if sums.negative:
            self._say("negative-timestamp", f"{sums.negative} records with a timestamp below -1", batch)
        if sums.out_of_range:
            message = f"{sums.out_of_range} records with a timestamp outside of years 1 to 9999"
            self._say("timestamp-out-of-range", message, batch)

    def _check_content(self, batch: ScannedBatch, sums: RecordSums) -> None:
        odd = sums.oddities
        if odd.unusual_encoding:
            self._say("unusual-encoding", "its records contain numbers that Kafka would encode in another way", batch)
        if sums.names_not_utf8:
            message = f"{sums.names_not_utf8} names of record headers are not UTF-8"
            self._say("header-name-not-utf8", message, batch)
        if odd.inner_crcs_differ:
            message = f"{odd.inner_crcs_differ} messages inside fail their own checksum"
            self._say("inner-crc-differs", message, batch)
        if odd.inner_magics_differ:
            message = f"{odd.inner_magics_differ} messages inside are not of format v{batch.header.magic}"
            self._say("inner-magic-differs", message, batch)
        if odd.inner_bytes_left:
            message = f"{odd.inner_bytes_left} bytes of an incomplete last message inside"
            self._say("inner-bytes-left", message, batch)
        header = batch.header
        if header.skipped:
            message = (
                f"{header.skipped} messages inside lie below offset {header.base_offset}, where the batch before it "
                "ends (KAFKA-3919): a consumer skips them"
            )
            self._say("messages-below-log-end", message, batch)
        if header.reader_shift:
            shift = header.reader_shift
            read = f"[{header.base_offset + shift}, {header.next_offset + shift})"
            message = (
                f"its last offset delta is {header.last_offset_delta - shift}, but it has {header.record_count} "
                f"records, as an old client wrote it: the broker counted them as [{header.base_offset}, "
                f"{header.next_offset}), and Kafka's readers give them the offsets {read}"
            )
            self._say("last-offset-delta-short", message, batch)
        if odd.ignored_bytes:
            message = f"{odd.ignored_bytes} bytes after its compressed stream or after a value, which Kafka ignores"
            self._say("ignored-bytes", message, batch)
        if odd.is_wrapper_at_zero:
            message = (
                f"it has offset 0, and the last message inside has offset {batch.header.last_offset}: a broker skips "
                "it for a consumer that begins after 0"
            )
            self._say("wrapper-offset-zero", message, batch)
