"""Whether ``records`` has the rows that the offset ledger counts: a comparison by statistics, file by file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from logcore.logs.model.findings import found
from spark_jobs.lake.ledger.finding_rows import record
from spark_jobs.lake.published.completeness import Difference, differences
from spark_jobs.placed_finding import PlacedFinding


@dataclass(frozen=True, slots=True)
class LedgerComparison:
    """A comparison of the table ``records`` with the ledger."""

    lake: str
    differences: tuple[Difference, ...]
    """Differences by log and offset; empty: every published record is there once."""

    def record(self, run_id: str, as_of_ms: int) -> None:
        """Append the differences of known logs to the table ``findings``, each once.

        Raises:
            ConcurrentChange: Other runs kept recording findings meanwhile.
        """
        placed = []
        for each in self.differences:
            if each.log:
                finding = found(
                    "rows-differ-from-ledger",
                    each.message,
                    start_offset=each.start_offset,
                    end_offset=each.end_offset,
                )
                placed.append(PlacedFinding(finding, each.log, each.topic, each.partition))
        record(self.lake, placed, run_id, as_of_ms)


def compare_with_ledger(lake: str, logs: Sequence[str] | None = None) -> LedgerComparison:
    """Compare table and ledger.

    Args:
        logs: Log keys to check; None: all, with rows of logs that have no ledger.

    Raises:
        TableUnreadable: A table cannot be read.
    """
    return LedgerComparison(lake, differences(lake, logs))
