"""Every batch of a segment as a value, verified by the best engine: the compiled `Reader` of maintenance
(`logcore.logs.checks.validation`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from logcore.columns.checking.table_batches import each_batch
from logcore.columns.engines import check_segment
from logcore.errors import CorruptionReason
from logcore.logs.checks.validation import BatchVerdict
from logcore.records.varint import Buffer
from logcore.segments.scanning.fetched_bytes import FetchedBytes
from logcore.segments.scanning.scan import Stretch


def read_verified(
    content: Buffer, base_offset: int, next_base_offset: int | None, fetched: FetchedBytes | None = None
) -> Iterator[BatchVerdict | Stretch]:
    """As `validation.read_plainly`, but some batches have only the header fields that maintenance needs."""
    sealed = next_base_offset is not None
    validated = check_segment(
        content,
        base_offset=base_offset,
        sealed=sealed,
        file="",
        next_base_offset=next_base_offset,
        fetched=fetched,
    )
    for item in validated:
        if isinstance(item, Stretch | BatchVerdict):
            yield item
        else:
            yield from cast(Iterator[BatchVerdict], each_batch(item))
    padding = validated.accounting.padding
    if sealed and padding:
        message = f"the last {padding} bytes are zeros, although a later segment follows"
        yield Stretch(len(content) - padding, padding, CorruptionReason.LENGTH, message, validated.next_offset)
