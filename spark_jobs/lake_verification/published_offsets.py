"""Offsets of rows in ``records`` against the ledger of their log: a whole log at once, or ranges of it in tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from logcore.logs.model.offset_ledger import EVIDENCE_FILLED
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.segments.ledger_ranges import with_published
from spark_jobs.lake_verification.runs import HeldOffsets, joined

Spans = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class ExpectedOffsets:
    """Where a log has rows, as its ledger says.

    Attributes:
        due: Ranges whose records are all in the table.
        withdrawn: Offsets that were deleted on purpose.
        late: Offsets that were filled below the frontier: the table may have them.
        problem: Why the ledger says something else than the frontier; None: it does not.
    """

    due: Sequence[LedgerRow]
    withdrawn: Spans
    late: Spans
    problem: str | None = None

    @classmethod
    def of(cls, lake: str, ledger: Sequence[LedgerRow], frontier: int | None) -> ExpectedOffsets:
        """Derive them from a ledger. Without a recorded frontier only the ledger says what is published."""
        ranges, problem = list(ledger), None
        try:
            if frontier is not None:
                ranges = with_published(lake, ledger, frontier)
        except ValueError as error:
            problem = str(error)
        return cls(
            [row for row in ranges if row.has_rows],
            [(row.start_offset, row.end_offset) for row in ranges if row.withdrawn],
            [
                (row.start_offset, row.end_offset)
                for row in ranges
                if row.evidence == EVIDENCE_FILLED and not row.published and row.end_offset <= (frontier or 0)
            ],
            problem,
        )

    def within(self, start: int, end: int) -> ExpectedOffsets:
        """What concerns [start, end)."""
        return ExpectedOffsets(
            [row for row in self.due if row.start_offset < end and start < row.end_offset],
            [span for span in self.withdrawn if span[0] < end and start < span[1]],
            [span for span in self.late if span[0] < end and start < span[1]],
        )

    def compare(self, rows: HeldOffsets, start: int, end: int) -> ComparedOffsets:
        """Compare with the rows of [start, end)."""
        missing: list[tuple[int, int]] = []
        counts = {}
        for row in self.due:
            low, high = max(row.start_offset, start), min(row.end_offset, end)
            if row.gaps:
                counts[row.start_offset, row.end_offset] = rows.count(low, high)
            elif low < high:
                missing += rows.missing(low, high)
        again = joined(sorted(span for low, high in self.withdrawn for span in rows.within(low, high)))
        allowed = sorted([*((row.start_offset, row.end_offset) for row in self.due), *self.withdrawn, *self.late])
        return ComparedOffsets(rows.doubled, missing, again, rows.outside(joined(allowed)), counts)


@dataclass(frozen=True, slots=True)
class ComparedOffsets:
    """What a comparison found.

    Attributes:
        doubled: Offsets of several rows.
        missing: Offsets without a row, of ranges without gaps.
        withdrawn: Offsets that were withdrawn, with a row.
        outside: Offsets of rows that are not published.
        counts: Different offsets of rows, for each range with gaps.
    """

    doubled: Spans
    missing: Spans
    withdrawn: Spans
    outside: Spans
    counts: Mapping[tuple[int, int], int]

    @classmethod
    def joined(cls, parts: Iterable[ComparedOffsets]) -> ComparedOffsets:
        """The comparison of a log, from those of all its ranges."""
        found = list(parts)
        counts: Counter[tuple[int, int]] = Counter()
        for part in found:
            counts.update(part.counts)
        return cls(
            joined(sorted(span for part in found for span in part.doubled)),
            joined(sorted(span for part in found for span in part.missing)),
            joined(sorted(span for part in found for span in part.withdrawn)),
            joined(sorted(span for part in found for span in part.outside)),
            counts,
        )
