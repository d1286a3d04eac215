"""What stays of one batch, and its new bytes.

    batch                                                         retention when no record stays
    the last one of a producer that a broker still knows          RETAIN_EMPTY: keeps the producer's sequence
    the last one below the high watermark (4.4)                   RETAIN_EMPTY: keeps the next offset
    the last one of the cleaned range (3.9, 4.0)
    aborted data; a marker without data whose horizon passed      DELETE: its records are not read
    any other                                                     DELETE_EMPTY

    record, first that applies                                    stays
    in a batch to discard                                         no
    control record                                                yes
    above the map                                                 yes
    without a key                                                 no
    older than the latest of its key                              no
    with a value                                                  yes
    tombstone, v2                                                 while the batch has no horizon, or a later one
    tombstone, v0 and v1                                          while the file is younger than the legacy horizon

    batch with…                                  becomes
    all records, and it needs no horizon         its old bytes (from 4.0 on only v2)
    some records                                 rebuilt, in its codec at the default level
    no record, RETAIN_EMPTY                      the 61 bytes of an empty batch
    no record otherwise                          nothing

A batch gets its delete horizon (clock + delete.retention.ms) in the first round that keeps a tombstone in it, or that
finds its marker without data. So a deleted record disappears two rounds after it was written at the earliest. The
horizon stays in the batch when its tombstones are gone.

At and above the first offset after damage (`CleaningRound.frozen_from`) this differs from a broker's result: nothing is
discarded, and of the records only values that a readable newer one replaces are removed.

Source: Kafka Cleaner.{cleanInto, shouldRetainRecord}, MemoryRecords.{filterTo, buildRetainedRecordsInto}.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from logcore.logs.compaction.cleaned_transactions import CleanedTransactions
from logcore.logs.compaction.cleaning_round import CleaningRound, SourceSegment, Uncleanable
from logcore.logs.compaction.newest_offsets import NewestOffsets
from logcore.records.batch import MAGIC_V2, BatchHeader, TimestampType
from logcore.records.builder import build_batch, build_message_set
from logcore.records.control import ControlType
from logcore.records.record import Record
from logcore.segments.side_files.transaction_index import AbortedTransaction
from logcore.texts import java_text


class BatchRetention(Enum):
    """What happens to a batch without a remaining record."""

    DELETE = auto()
    DELETE_EMPTY = auto()
    RETAIN_EMPTY = auto()


@dataclass(frozen=True, slots=True)
class RetentionVerdict:
    """`discards`: no record stays. `is_marker_without_data`: nothing is left of the marker's transaction."""

    retention: BatchRetention
    discards: bool
    is_marker_without_data: bool


def retention_verdict(
    header: BatchHeader, kind: ControlType | None, transactions: CleanedTransactions, round: CleaningRound
) -> tuple[RetentionVerdict, AbortedTransaction | None]:
    """Decide on a batch. The tracker gets the batch here, so batches must come in order, each once.

    Args:
        header: The batch's header.
        kind: The type of its control record.
        transactions: The tracker.
        round: The round.

    Returns:
        The verdict, and for an ABORT marker the entry for the cleaned segment's transaction index.
    """
    frozen = round.frozen_from is not None and header.base_offset >= round.frozen_from
    aborted: AbortedTransaction | None = None
    if header.is_control:
        discardable, ended = transactions.control(header.last_offset, header.producer_id, kind)
        if frozen:
            discardable = False  # data of its transaction may be in the unreadable part
        if not discardable:
            aborted = ended
        horizon = header.delete_horizon_ms
        discards = discardable and horizon is not None and horizon <= round.as_of_ms
    else:
        discardable = transactions.data(
            header.last_offset, header.producer_id, is_transactional=header.is_transactional
        )
        discards = discardable and not frozen
    if _is_last_of_producer(header, round) or header.next_offset == _kept_end(round):
        retention = BatchRetention.RETAIN_EMPTY
    elif discards:
        retention = BatchRetention.DELETE
    else:
        retention = BatchRetention.DELETE_EMPTY
    return RetentionVerdict(retention, discards, discardable and header.is_control), aborted


def _kept_end(round: CleaningRound) -> int:
    """The end of a batch that stays, so that the next offset can still be found."""
    return round.high_watermark if round.line.keeps_batch_at_high_watermark else round.upper_bound_offset


def _is_last_of_producer(header: BatchHeader, round: CleaningRound) -> bool:
    """Whether this batch shows a producer's sequence: its last data, or, without any, a marker of its epoch."""
    producer = round.producers.get(header.producer_id) if header.producer_id >= 0 else None
    if producer is None:
        return False
    if producer.last_data_offset is not None:
        return header.last_offset == producer.last_data_offset
    return header.is_control and header.producer_epoch == producer.epoch


@dataclass(frozen=True, slots=True)
class RetainedBatch:
    """`content` is empty if nothing stays; `records` counts those in it; `is_rebuilt`: the bytes changed."""

    content: bytes
    records: int
    is_rebuilt: bool


NOTHING = RetainedBatch(b"", 0, True)


def retained(
    segment: SourceSegment,
    position: int,
    header: BatchHeader,
    records: Sequence[Record],
    verdict: RetentionVerdict,
    newest: NewestOffsets,
    round: CleaningRound,
) -> RetainedBatch:
    """Build what stays of the batch at `position` with these records.

    Raises:
        Uncleanable: A broker would fail too.
    """
    stay = [record for record in records if _stays(record, header, segment, verdict, newest, round)]
    if not stay:
        if verdict.retention is not BatchRetention.RETAIN_EMPTY:
            return NOTHING
        if header.magic < MAGIC_V2:
            raise Uncleanable(
                f"nothing stays of the v{header.magic} message that ends at offset {header.last_offset} and ends the "
                "range to clean, and that format has no empty batches; a broker fails at this too",
                position=position,
                offset=header.base_offset,
                advice="Clean again after more was written after it.",
            )
        return RetainedBatch(_rebuilt(header, (), None, round), 0, True)
    horizon = header.delete_horizon_ms
    stamped = False
    if (
        horizon is None
        and (header.magic >= MAGIC_V2 or round.line.converts_old_formats)
        and (verdict.is_marker_without_data or any(record.value is None for record in stay))
    ):
        horizon, stamped = round.as_of_ms + round.delete_retention_ms, True
    converts = header.magic < MAGIC_V2 and round.line.converts_old_formats
    if len(stay) == len(records) and not stamped and not converts:
        return RetainedBatch(bytes(segment.content[position : position + header.size]), len(stay), False)
    try:
        content = _rebuilt(header, stay, horizon, round)
    except ValueError as error:
        raise Uncleanable(
            f"the batch at offset {header.base_offset} cannot be rebuilt: {error}",
            position=position,
            offset=header.base_offset,
        ) from error
    return RetainedBatch(content, len(stay), True)


def _stays(
    record: Record,
    header: BatchHeader,
    segment: SourceSegment,
    verdict: RetentionVerdict,
    newest: NewestOffsets,
    round: CleaningRound,
) -> bool:
    if verdict.discards:
        return False
    if header.is_control or record.offset > newest.latest:
        return True
    if round.frozen_from is not None and record.offset >= round.frozen_from:
        return record.key is None or record.value is None or not newest.is_replaced(record.key, record.offset)
    if record.key is None or newest.is_replaced(record.key, record.offset):
        return False
    if record.value is not None:
        return True
    if header.magic < MAGIC_V2:
        return segment.modified_ms > round.legacy_horizon_ms
    return header.delete_horizon_ms is None or round.as_of_ms < header.delete_horizon_ms


def _rebuilt(header: BatchHeader, stay: Sequence[Record], horizon: int | None, round: CleaningRound) -> bytes:
    """The batch with these records. A v2 batch keeps its offsets, v0 and v1 end with the last record.

    Raises:
        ValueError: The format cannot express it.
    """
    appended = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    if header.magic < MAGIC_V2:
        kind = TimestampType.LOG_APPEND_TIME if appended else TimestampType.CREATE_TIME
        append_time = header.max_timestamp if appended else None
        if round.line.converts_old_formats:
            return build_batch(
                stay, codec=header.codec, timestamp_type=kind, delete_horizon_ms=horizon, max_timestamp=append_time
            )
        return build_message_set(
            stay, magic=header.magic, codec=header.codec, timestamp_type=kind, append_time=append_time
        )
    return build_batch(
        [replace(record, headers=rewritten(record.headers)) if record.headers else record for record in stay],
        base_offset=header.base_offset,
        codec=header.codec,
        timestamp_type=header.timestamp_type,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        leader_epoch=header.partition_leader_epoch,
        delete_horizon_ms=horizon,
        last_offset_delta=header.last_offset_delta,
        max_timestamp=header.max_timestamp if appended or not stay else None,
    )


Headers = tuple[tuple[bytes, bytes | None], ...]


def rewritten(headers: Headers) -> Headers:
    """The headers of a record after its batch is rewritten."""
    return tuple((rewritten_name(name), value) for name, value in headers)


def rewritten_name(name: bytes) -> bytes:
    """A header's name after Java has read and written it: bytes that are not UTF-8 are replaced.

    Source: java.lang.String (decodeUTF8_UTF16, JDK 17), Kafka DefaultRecord.writeTo.
    """
    return java_text(name).encode()
