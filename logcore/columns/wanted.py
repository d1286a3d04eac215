"""What is wanted of a segment: which columns, and which of its records. A plain value, the same for every engine."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from logcore.records.model import BatchHeader, Record

if TYPE_CHECKING:  # who only prints lines does not wait for it
    import pyarrow as pa

MAX_INT64 = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Place:
    """What a row says about where it is from, and its bytes do not."""

    topic: str
    partition: int
    log_id: str
    segment_id: str
    position_base: int = 0
    """Position in the segment of the buffer's first byte, for readers that hold a part of a segment."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """columns: names of RECORDS_SCHEMA, which are given in its order; None for all. visible: ascending half-open offset
    ranges, None for all offsets. since, until: record timestamps in ms, from `since` on and before `until`. key:
    exactly these bytes. control: also control records.

    A batch that cannot hold a wanted record is not looked into: only its header and checksum are judged.
    """

    columns: tuple[str, ...] | None = None
    visible: tuple[tuple[int, int], ...] | None = None
    since: int | None = None
    until: int | None = None
    key: bytes | None = None
    control: bool = False

    def __post_init__(self) -> None:
        flat = [bound for each in self.visible or () for bound in each]
        if any(later < earlier for earlier, later in pairwise(flat)):
            raise ValueError("the visible ranges do not ascend")

    @property
    def schema(self) -> pa.Schema:
        """The chosen columns, in the order of RECORDS_SCHEMA. ValueError if one is none of its."""
        import pyarrow as pa

        from logcore.columns.schema import RECORDS_SCHEMA

        if self.columns is None:
            return RECORDS_SCHEMA
        unknown = set(self.columns) - set(RECORDS_SCHEMA.names)
        if unknown:
            raise ValueError(f"records have no column {sorted(unknown)[0]!r}")
        return pa.schema([field for field in RECORDS_SCHEMA if field.name in self.columns])

    @property
    def is_filtered(self) -> bool:
        """Whether records of a batch may be wanted in part."""
        return not (self.visible is None and self.since is None and self.until is None and self.key is None)

    def may_hold(self, header: BatchHeader) -> bool:
        """Whether a batch may hold a wanted record, by its header."""
        if header.is_control and not self.control:
            return False
        return self.visible is None or any(
            start < header.next_offset and header.base_offset < end for start, end in self.visible
        )

    def holds(self, record: Record) -> bool:
        """Whether a record is wanted; control records are the caller's to leave out."""
        if self.visible is not None and not any(start <= record.offset < end for start, end in self.visible):
            return False
        if self.since is not None and record.timestamp < self.since:
            return False
        if self.until is not None and record.timestamp >= self.until:
            return False
        return self.key is None or record.key == self.key

    def chosen(self, columns: pa.RecordBatch) -> pa.RecordBatch:
        """The wanted columns of rows that have them all."""
        import pyarrow as pa

        schema = self.schema
        return pa.RecordBatch.from_arrays([columns.column(name) for name in schema.names], schema=schema)


EVERYTHING = Wanted()
