"""The row of ``validations`` of a segment. Validation writes it, and compaction for segments that it wrote."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from logcore.logs.checks.validation import SegmentVerdict
from spark_jobs.lake.segments.archive import Segment

RULES_VERSION = 1
"""Increased when a rule finds something else, so that segments can be validated again."""


@dataclass(frozen=True, slots=True)
class ValidationCounts:
    """Counts of one pass over a segment's bytes, with the names of the columns."""

    verdict: str
    batches: int
    records: int
    control_records: int
    valid_bytes: int
    quarantined_bytes: int
    tail_bytes: int
    padding_bytes: int
    findings: int
    split_points: str
    """JSON ``[[position, base_offset], ...]``."""

    @classmethod
    def of(cls, validated: SegmentVerdict, findings: int) -> ValidationCounts:
        """Return the counts of a segment that was read to its end, with its number of findings."""
        counts, accounting = validated.counts, validated.accounting
        return cls(
            verdict=str(validated.end),
            batches=counts.batches,
            records=counts.records,
            control_records=counts.control_records,
            valid_bytes=accounting.valid,
            quarantined_bytes=accounting.quarantined,
            tail_bytes=accounting.tail,
            padding_bytes=accounting.padding,
            findings=findings,
            split_points=json.dumps(validated.split_points),
        )

    def splits(self) -> tuple[tuple[int, int], ...]:
        """Position and base offset of the split points."""
        return tuple((position, offset) for position, offset in json.loads(self.split_points))

    def row(self, segment: Segment, as_of_ms: int) -> dict[str, object]:
        """Return the row of a segment that was validated at this time."""
        named = ("segment_id", "log", "topic", "log_id", "partition", "base_offset", "digest")
        return {
            **{name: getattr(segment, name) for name in named},
            **asdict(self),
            "rules_version": RULES_VERSION,
            "file_bytes": segment.size,
            "as_of_ms": as_of_ms,
        }
