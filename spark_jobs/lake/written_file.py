"""What the writer of a data file reports, and a commit needs to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A Parquet file of a table, closed and synced, below the table's directory."""

    path: str
    """Relative to the table."""
    size: int
    partition_values: Mapping[str, str]
    statistics: str
    """Delta's statistics JSON: numRecords, minValues, maxValues, nullCount."""
    modified_ms: int
    rows: int
    digest: str | None = None
    """Of its rows (``row_digest``), as its footer has it; None for a file of another writer."""
    content: str | None = None
    """Of its bytes: ``row_digest.of_bytes``. A footer cannot hold it."""
