"""A round of cleaning over segments that a test packs by hand."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any

from logcore.logs.compaction.cleaner import PlainCleaner
from logcore.logs.compaction.cleaning_round import CleanedSegment, CleaningRound, SourceSegment
from logcore.logs.model.broker_line import BrokerLine
from logcore.segments.side_files.transaction_index import AbortedTransaction

NOW = 1_000_000
RETENTION = 500
HORIZON = NOW + RETENTION


def segment(base: int, *batches: bytes, next_base: int, modified_ms: int = 7, **fields: Any) -> SourceSegment:
    return SourceSegment(base, next_base, b"".join(batches), modified_ms, 0, 0, **fields)


def a_round(end: int, *, line: BrokerLine = BrokerLine.V4_4, **fields: Any) -> CleaningRound:
    """Over all offsets below `end`; the high watermark is far above, unless a test says otherwise."""
    stated: dict[str, Any] = {
        "log_start_offset": 0,
        "first_dirty_offset": 0,
        "upper_bound_offset": end,
        "high_watermark": end + 1000,
        "as_of_ms": NOW,
        "delete_retention_ms": RETENTION,
        "legacy_horizon_ms": 0,
        "line": line,
    }
    return CleaningRound(**(stated | fields))


def cleaned(
    segments: Sequence[SourceSegment], round: CleaningRound, groups: Sequence[Sequence[int]] | None = None
) -> list[tuple[bytes, CleanedSegment]]:
    """Each group's log and what goes beside it; groups: numbers of segments, by default all of them in one."""
    cleaner = PlainCleaner()
    cleaner.build_map([each for each in segments if each.next_base_offset > round.first_dirty_offset], round)
    out = []
    for group in groups or [range(len(segments))]:
        sink = BytesIO()
        result = cleaner.clean([segments[number] for number in group], sink)
        out.append((sink.getvalue(), result))
    return out


def cleaned_log(batches: Sequence[bytes], end: int, *, fields: dict[str, Any] | None = None, **round: Any) -> bytes:
    """The log of a single segment that ends at `end`, cleaned."""
    only = segment(0, *batches, next_base=end, **(fields or {}))
    return cleaned([only], a_round(end, **round))[0][0]


def aborted(producer_id: int, first: int, marker: int) -> AbortedTransaction:
    return AbortedTransaction(producer_id, first, marker, marker + 1)
