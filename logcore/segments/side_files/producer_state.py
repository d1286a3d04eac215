"""The producer snapshot: the state of every producer at an offset of the log, `<20 digits>.snapshot`.

    off len field
    0   2   version                        int16, 1
    2   4   crc                            uint32: CRC-32C of byte 6 to the end
    6   4   number of entries              int32
    10  46  each entry:
            0   8   producer id
            8   2   producer epoch         int16
            10  4   last sequence          int32, of its last batch; -1 = none
            14  8   last offset            int64: the last DATA offset it wrote (no marker); -1 = none
            14  8   last offset            int64: the last DATA offset that it wrote (no marker); -1 = none
            26  8   timestamp              int64 ms: the last batch's greatest, or its marker's
            34  4   coordinator epoch      int32, of its last marker; -1 = none
            38  8   open transaction       int64: where its open transaction begins; -1 = none is open

The number in the name is the exclusive end of the offsets that the state covers. A broker writes it when it rolls a
segment (then it is the new segment's base offset), at shutdown and at the end of a recovery. The entries are in the
order of a Java hash map (`java_order`), which has no meaning. `parse` keeps it, and `encode` writes the order that it
gets. Only the last batch of each producer is stored, although a broker remembers five.

A broker deletes a snapshot that it cannot read, uses the next older one and replays the log from there. So every
contradiction and every other version is a CorruptIndexError. Sources: Kafka ProducerStateManager,
ProducerSnapshot.json.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from logcore.errors import CorruptIndexError
from logcore.records.batch import castagnoli

VERSION = 1
NONE = -1

_HEAD = struct.Struct(">hIi")
_CRC_FROM = 6
_ENTRY = struct.Struct(">qhiqiqiq")
HEAD_SIZE = _HEAD.size
ENTRY_SIZE = _ENTRY.size


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    """The state of one producer, by Kafka's names. -1 means none, except in `timestamp` and `offset_delta`."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int

    @property
    def first_sequence(self) -> int:
        """First sequence number of the last batch; -1 if there is none. Sequence numbers wrap at 2^31-1."""
        if self.last_sequence < 0:
            return NONE
        first = self.last_sequence - self.offset_delta
        return first if first >= 0 else first + 2**31

    @property
    def open_transaction(self) -> int | None:
        """Where the open transaction begins; None if none is open."""
        return None if self.current_txn_first_offset == NONE else self.current_txn_first_offset


def parse(data: bytes) -> tuple[ProducerEntry, ...]:
    """Parse a snapshot; entries are in the order of the file.

    Raises:
        CorruptIndexError: It is incomplete or invalid.
    """
    if len(data) < HEAD_SIZE:
        raise CorruptIndexError(f"a producer snapshot of {len(data)} bytes is shorter than its head")
    version, stated, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise CorruptIndexError(f"the producer snapshot has version {version}, only {VERSION} is known", position=0)
    if castagnoli(data[_CRC_FROM:]) != stated:
        raise CorruptIndexError("the producer snapshot's crc does not match its bytes", position=2)
    if count < 0 or len(data) != HEAD_SIZE + count * ENTRY_SIZE:
        raise CorruptIndexError(f"the producer snapshot states {count} entries in {len(data)} bytes", position=6)
    entries = tuple(ProducerEntry(*fields) for fields in _ENTRY.iter_unpack(data[HEAD_SIZE:]))
    if len({entry.producer_id for entry in entries}) != count:
        raise CorruptIndexError("the producer snapshot names a producer twice", position=HEAD_SIZE)
    return entries


def encode(entries: Sequence[ProducerEntry]) -> bytes:
    """Build the bytes of a snapshot with these entries, in this order.

    Raises:
        ValueError: A field does not fit.
    """
    packed = bytearray(struct.pack(">i", len(entries)))
    for entry in entries:
        try:
            packed += _ENTRY.pack(
                entry.producer_id,
                entry.producer_epoch,
                entry.last_sequence,
                entry.last_offset,
                entry.offset_delta,
                entry.timestamp,
                entry.coordinator_epoch,
                entry.current_txn_first_offset,
            )
        except struct.error as error:
            raise ValueError(f"{entry} does not fit a producer snapshot") from error
    return struct.pack(">hI", VERSION, castagnoli(bytes(packed))) + bytes(packed)


def java_order(entries: Iterable[ProducerEntry]) -> tuple[ProducerEntry, ...]:
    """Sort entries, given in the order of insertion, as a Java hash map that was never larger returns them.

    A map that had more producers before has more buckets, and a crowded bucket is a tree. Then the order may differ.
    """
    given = list(entries)
    buckets = 16
    while len(given) > buckets * 3 // 4:
        buckets *= 2

    def bucket(entry: ProducerEntry) -> int:
        folded = (entry.producer_id ^ entry.producer_id >> 32) & 0xFFFFFFFF
        return (folded ^ folded >> 16) & (buckets - 1)

    return tuple(sorted(given, key=bucket))
