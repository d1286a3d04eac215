"""The columns and records that a caller wants of a segment. A plain value, the same for every engine."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from logcore.records.model import MAGIC_V2, BatchHeader, Record

if TYPE_CHECKING:  # commands that only print lines start without pyarrow
    import pyarrow as pa

MAX_INT64 = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Place:
    """The values of a row that are not in its bytes."""

    topic: str
    partition: int
    log_id: str
    segment_id: str
    position_base: int = 0
    """Position in the segment of the buffer's first byte, for readers of a part of a segment."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The wanted columns and records. A batch that cannot contain a wanted record gets only its checksum checked,
    unless only `control` excludes it.

    Attributes:
        columns: Names of RECORDS_SCHEMA, returned in its order; None for all.
        visible: Ascending half-open offset ranges; None for all offsets.
        since: Least record timestamp in ms.
        until: Exclusive greatest record timestamp in ms.
        key: Exactly these bytes.
        control: Also control records.
        producer_id: Only batches of this producer; -1 for batches of none.
        header: Only records with a record header of this name, and of this content if it is given.
        trusts_max_timestamp: Skip a v2 batch whose header gives a max timestamp before `since`, whatever its records
            contain (see the rule `max-timestamp-differs`).
        as_counted: Records have the offsets that the broker counted, and each offset at most one record. Else they have
            those that Kafka's readers give (see the rule `last-offset-delta-short`).
    """

    columns: tuple[str, ...] | None = None
    visible: tuple[tuple[int, int], ...] | None = None
    since: int | None = None
    until: int | None = None
    key: bytes | None = None
    control: bool = False
    producer_id: int | None = None
    header: tuple[bytes, bytes | None] | None = None
    trusts_max_timestamp: bool = False
    as_counted: bool = False

    def __post_init__(self) -> None:
        flat = [bound for each in self.visible or () for bound in each]
        if any(later < earlier for earlier, later in pairwise(flat)):
            raise ValueError("the visible ranges do not ascend")

    @property
    def schema(self) -> pa.Schema:
        """The chosen columns, in the order of RECORDS_SCHEMA. ValueError for an unknown column."""
        import pyarrow as pa

        from logcore.columns.records_columns import RECORDS_SCHEMA

        if self.columns is None:
            return RECORDS_SCHEMA
        unknown = set(self.columns) - set(RECORDS_SCHEMA.names)
        if unknown:
            raise ValueError(f"records have no column {sorted(unknown)[0]!r}")
        return pa.schema([field for field in RECORDS_SCHEMA if field.name in self.columns])

    @property
    def is_filtered(self) -> bool:
        """Whether only some records of a batch may be wanted."""
        bounds = (self.visible, self.since, self.until, self.key, self.header)
        return any(bound is not None for bound in bounds)

    @property
    def skips_before(self) -> int | None:
        """v2 batches with a max timestamp below this, by their header, are skipped; None: none is."""
        return self.since if self.trusts_max_timestamp else None

    def may_hold(self, header: BatchHeader) -> bool:
        """Whether a batch may contain a wanted record, by its header."""
        return (self.control or not header.is_control) and self.reads(header)

    def reads(self, header: BatchHeader) -> bool:
        """Whether a batch is read: it may contain a wanted record, or would if its control records were wanted."""
        if self.producer_id is not None and header.producer_id != self.producer_id:
            return False
        if self.header is not None and header.magic < MAGIC_V2:
            return False
        if self.skips_before is not None and header.magic >= MAGIC_V2 and header.max_timestamp < self.skips_before:
            return False
        return self.visible is None or any(
            start < header.next_offset and header.base_offset < end for start, end in self.visible
        )

    def holds(self, record: Record, reader_shift: int = 0) -> bool:
        """Whether a record is wanted. The caller removes control records. `reader_shift` is that of its batch."""
        offset = record.offset - reader_shift
        if self.visible is not None and not any(start <= offset < end for start, end in self.visible):
            return False
        if self.since is not None and record.timestamp < self.since:
            return False
        if self.until is not None and record.timestamp >= self.until:
            return False
        if self.key is not None and record.key != self.key:
            return False
        if self.header is None:
            return True
        name, content = self.header
        return any(name == each[0] and content in (None, each[1]) for each in record.headers)

    def chosen(self, columns: pa.RecordBatch) -> pa.RecordBatch:
        """Select the wanted columns of rows that have all columns."""
        import pyarrow as pa

        schema = self.schema
        return pa.RecordBatch.from_arrays([columns.column(name) for name in schema.names], schema=schema)


EVERYTHING = Wanted()
