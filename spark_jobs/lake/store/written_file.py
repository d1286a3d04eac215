"""A data file that Loglake wrote: its name, and its writer's report to the driver, which commits it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_OWN_FILE = re.compile(r"(^|/)part-[0-9a-f]{32}\.parquet$")


def new_file_name() -> str:
    """Return a unique file name."""
    return f"part-{uuid.uuid4().hex}.parquet"


def is_own_file(path: str) -> bool:
    """Return whether a file has a name of `new_file_name`. In `records` it has one log in offset order, no views."""
    return _OWN_FILE.search(path) is not None


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A Parquet file of a table, closed and synced, below the table's directory."""

    path: str
    """Path, relative to the table."""
    size: int
    partition_values: Mapping[str, str]
    statistics: str
    """Delta's statistics JSON: numRecords, minValues, maxValues, nullCount."""
    modified_ms: int
    rows: int
    digest: str | None = None
    """Digest of its rows (``row_digest``), as in its footer; None for a file of another writer."""
    content: str | None = None
    """Digest of its bytes: ``row_digest.of_bytes``. A footer cannot have it."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The report of a task that writes files: the files, or why there are none."""

    files: tuple[WrittenFile, ...] = ()
    error: str | None = None
    lost: str | None = None
    """Path of the table's file that cannot be read, if that is the reason."""

    @classmethod
    def of(cls, file: WrittenFile | None) -> WriteResult:
        """Return the result for one file; None: there were no rows."""
        return cls(() if file is None else (file,))

    @property
    def rows(self) -> int:
        """Number of rows of all files."""
        return sum(file.rows for file in self.files)


def first_error(results: Iterable[WriteResult]) -> str | None:
    """Return the first reason why a task wrote nothing; None if all tasks wrote."""
    return next((result.error for result in results if result.error is not None), None)
