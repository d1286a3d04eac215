"""Injuries that disks and copies inflict on one batch between two sound neighbours, and what a reader made of each."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from logcore.records.batch import BatchHeader
from logcore.records.record import Limits, Record
from logcore.segments.scanning.scan import Accounting, ScannedBatch, SegmentScan, Stretch
from tests import handmade
from tests.fuzz.canonical import Canonical, Row, message

SMALL = Limits(decoded_batch_bytes=1 << 16, headers_per_record=100)
"""Far above what the canonical batches need, far below what would hurt."""

OFFSET_BITS = range(64)
"""The base offset (v0, v1: the offset), in no format under the checksum: the broker sets it after the producer."""
LEADER_EPOCH_BITS = range(96, 128)
"""v2 only, likewise."""


class Injury(NamedTuple):
    """What was done, and what is left of the batch. `at` is a bit for flips, else a byte."""

    kind: str
    at: int
    data: bytes


def injuries(data: bytes) -> Iterator[Injury]:
    """Every bit flipped; every length; every byte missing; every place with a byte too many (zero, ones, twice)."""
    for at in range(len(data) * 8):
        # Bits are numbered as they are written down: bit 0 is the highest of the first byte.
        yield Injury("flip", at, handmade.flip(data, at // 8, 7 - at % 8))
    for at in range(len(data)):
        yield Injury("cut", at, data[:at])
        yield Injury("delete", at, data[:at] + data[at + 1 :])
    for at in range(len(data) + 1):
        for name, byte in (("zero", b"\0"), ("ones", b"\xff"), ("twice", data[at : at + 1] or data[-1:])):
            yield Injury(f"insert {name}", at, data[:at] + byte + data[at:])


@dataclass(frozen=True, slots=True)
class Scene:
    """The place of the injured batch: between sound ones of its own format, with free offsets on both sides."""

    batch: Canonical
    gap: int
    before: bytes
    after: bytes

    @property
    def base_offset(self) -> int:
        """What the segment's file is called."""
        return max(self.batch.base_offset - self.gap - 1, 0)

    @property
    def successor(self) -> int:
        """Base offset of the next batch."""
        return self.batch.last_offset + self.gap + 1

    def segment(self, injured: bytes) -> bytes:
        """The whole file."""
        return self.before + injured + self.after


def scene(batch: Canonical, gap: int) -> Scene:
    """The batch with its neighbours; none before it where offset 0 leaves no room."""
    first = batch.base_offset - gap - 1
    before = _neighbour(batch.magic, first) if first >= 0 else b""
    return Scene(batch, gap, before, _neighbour(batch.magic, batch.last_offset + gap + 1))


def _neighbour(magic: int, offset: int) -> bytes:
    if magic < 2:
        return message(magic, offset, b"n", b"neighbour", 1_500_000_000_000)
    records = [handmade.record(0, b"n", b"neighbour")]
    return handmade.batch(records, base_offset=offset, leader_epoch=3, base_timestamp=1_600_000_000_000)


class Seen(NamedTuple):
    """One batch as the scan gave it out."""

    rows: tuple[Row, ...]
    base_offset: int
    last_offset: int
    leader_epoch: int
    control: bool

    def moved(self, by: int) -> "Seen":
        """The same, every offset so much higher."""
        rows = tuple(row._replace(offset=row.offset + by) for row in self.rows)
        return self._replace(rows=rows, base_offset=self.base_offset + by, last_offset=self.last_offset + by)


def original(batch: Canonical) -> Seen:
    """What must be seen of the uninjured batch: from its statement, not from a decoder."""
    return Seen(batch.rows, batch.base_offset, batch.last_offset, batch.leader_epoch, batch.control)


def see(data: bytes, base_offset: int, *, sealed: bool = True) -> tuple[list[Seen], list[Stretch], Accounting]:
    """Walk with the reference, records and all."""
    records: list[Record] = []
    seen: list[Seen] = []
    stretches: list[Stretch] = []

    def inspect(_: BatchHeader, record: Record) -> None:
        records.append(record)

    walk = SegmentScan(data, base_offset=base_offset, sealed=sealed, limits=SMALL, inspect=inspect)
    for item in walk:
        if isinstance(item, ScannedBatch):
            header = item.header
            rows = tuple(
                Row(row.offset, row.timestamp, int(row.timestamp_type), row.key, row.value, row.headers)
                for row in records
            )
            seen.append(
                Seen(rows, header.base_offset, header.last_offset, header.partition_leader_epoch, header.is_control)
            )
        else:
            stretches.append(item)
        records.clear()
    return seen, stretches, walk.accounting
