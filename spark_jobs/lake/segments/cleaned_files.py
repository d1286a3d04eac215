"""Write the result of cleaning a group of segments to the archive: a `.log` and its indexes, named by their content.

A file that no swap names is an orphan: harmless, and listed by ``tidy_archive``. Cleaning the same bytes again, in
another attempt or another run, writes the same files under the same names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from logcore.logs.compaction.cleaning_round import CleanedSegment
from logcore.records.varint import Buffer
from logcore.segments.filenames import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.segments.log_directory import side_file
from spark_jobs.lake.store import storage
from spark_jobs.lake.store.storage import Staged

_BUFFER_BYTES = 1 << 20


class LogFile:
    """A `.log` that is being written under a temporary name. A `ByteSink`."""

    def __init__(self, staged: Staged) -> None:
        self.staged = staged
        self._file = open(staged.path, "xb", buffering=_BUFFER_BYTES)  # noqa: SIM115 - closed by `written`
        self._digest = hashlib.sha256()
        self.size = 0

    def write(self, data: Buffer, /) -> None:
        """Write the next bytes."""
        self._file.write(data)
        self._digest.update(data)
        self.size += len(data)

    def written(self) -> str:
        """Finish the file; return the digest of its bytes."""
        self._file.close()
        return self._digest.hexdigest()


@contextmanager
def log_file(lake: str, log: str) -> Iterator[LogFile]:
    """Yield a file to write, beside those of its log; it is deleted at the end if it was not placed.

    Raises:
        OSError: The file cannot be created.
    """
    with storage.staged(storage.join(lake, archive.log_folder(log))) as staged:
        file = LogFile(staged)
        try:
            yield file
        finally:
            file.written()


def place(lake: str, file: LogFile, cleaned: CleanedSegment, sources: Sequence[Segment]) -> Segment | None:
    """Put a cleaned segment in its place, on disk with its indexes.

    Args:
        sources: The archived segments that were cleaned into it, in offset order.

    Returns:
        Its row; None if it equals its only source byte by byte. Then only the indexes are written.

    Raises:
        OSError: Disk or store fail to write.
    """
    digest = file.written()
    first = sources[0]
    if len(sources) == 1 and digest == first.digest and _has_entries_of(lake, first, cleaned):
        if not first.lies_at_source:
            _place_indexes(lake, first.path, cleaned)
        return None
    placed = archive.in_place_of(
        sources,
        digest,
        file.size,
        generation=max(source.generation for source in sources) + 1,
        sealed=True,
        # As Kafka's cleaner does: retention uses the modification time if no batch has a timestamp.
        modified_ms=cleaned.modified_ms,
        max_timestamp=cleaned.max_timestamp,
        ending=sources[-1],
    )
    _place_indexes(lake, placed.path, cleaned)
    file.staged.place(storage.join(lake, placed.path), modified_ms=cleaned.modified_ms)
    return placed


def _has_entries_of(lake: str, segment: Segment, cleaned: CleanedSegment) -> bool:
    """Return whether the transaction index loses no entry; it may change although the log does not."""
    if segment.generation == archive.GENERATION_INGESTED:
        return True
    try:
        there = storage.read(storage.join(lake, side_file(segment.path, TRANSACTION_INDEX_SUFFIX)))
    except FileNotFoundError:
        return True
    return there == cleaned.transaction_index


def _place_indexes(lake: str, path: str, cleaned: CleanedSegment) -> None:
    """Written before the `.log`: if that exists, no index is missing."""
    contents = {
        OFFSET_INDEX_SUFFIX: (cleaned.offset_index, cleaned.modified_ms),
        TIME_INDEX_SUFFIX: (cleaned.time_index, cleaned.modified_ms),
        # Kafka sets no time on this file.
        TRANSACTION_INDEX_SUFFIX: (cleaned.transaction_index, None),
    }
    for suffix, (content, modified_ms) in contents.items():
        if content is not None:
            storage.put_if_new(storage.join(lake, side_file(path, suffix)), content, modified_ms=modified_ms)
