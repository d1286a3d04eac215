"""What a reader makes of one batch, in a form in which readers can be compared."""

from typing import NamedTuple

from logcore.errors import CorruptionReason
from logcore.texts import java_text
from tests.fuzz.injuries import Seen, see
from tests.kafka.java_reader import Reading, Refused, TooLarge


class PlainRow(NamedTuple):
    """A record without its place: header names as the text that a Java consumer is given."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Opinion(NamedTuple):
    """Either why the batch is refused, or what it holds."""

    refusal: str | None
    """Our reason, or the name of Java's exception."""
    detail: str = ""
    base_offset: int = -1
    last_offset: int = -1
    timestamp_type: int | None = None
    """None where there is no record to have one."""
    control: bool = False
    rows: tuple[PlainRow, ...] = ()


def ours(data: bytes, base_offset: int) -> Opinion:
    """The reference's opinion of a segment that is this batch and nothing else."""
    seen, stretches, accounting = see(data, base_offset)
    if len(seen) == 1 and not stretches:
        return _agreed(seen[0])
    if accounting.padding == len(data):
        return Opinion("PADDING")
    assert stretches, "bytes that are neither a batch nor refused"
    return Opinion(str(stretches[0].reason), stretches[0].message)


def _agreed(seen: Seen) -> Opinion:
    rows = tuple(
        PlainRow(
            row.offset,
            row.timestamp,
            row.key,
            row.value,
            tuple((java_text(name), value) for name, value in row.headers),
        )
        for row in seen.rows
    )
    kind = seen.rows[0].timestamp_type if seen.rows else None
    return Opinion(None, "", seen.base_offset, seen.last_offset, kind, seen.control, rows)


def javas(reading: Reading | Refused | TooLarge, size: int) -> Opinion:
    """Kafka's opinion, from what its classes gave for a blob of that size."""
    if isinstance(reading, Refused):
        return Opinion(reading.exception.rpartition(".")[2])
    assert not isinstance(reading, TooLarge), "a batch of a few hundred bytes with an answer of megabytes"
    if reading.size_read != size or len(reading.batches) != 1:
        return Opinion("ends without a word", f"{reading.size_read} of {size} bytes, {len(reading.batches)} batches")
    batch = reading.batches[0]
    rows = tuple(PlainRow(row.offset, row.timestamp, row.key, row.value, row.headers) for row in batch.records)
    kind = batch.timestamp_type if rows else None
    return Opinion(None, "", batch.base_offset, batch.last_offset, kind, batch.is_control, rows)


__all__ = ["CorruptionReason", "Opinion", "PlainRow", "javas", "ours"]
