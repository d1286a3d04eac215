"""A data file that Loglake wrote: how it is named, and what its writer reports to the commit."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

_OWN_FILE = re.compile(r"(^|/)part-[0-9a-f]{32}\.parquet$")


def new_file_name() -> str:
    """A name that no other file has."""
    return f"part-{uuid.uuid4().hex}.parquet"


def is_own_file(path: str) -> bool:
    """Whether a file has a name of `new_file_name`: of `records` it holds one log, in offset order; it has no views."""
    return _OWN_FILE.search(path) is not None


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
