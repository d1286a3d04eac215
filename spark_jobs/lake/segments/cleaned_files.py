"""What cleaning makes of a group of segments, as files of the archive: a `.log` and its indexes, named by their bytes.

A file that no swap names is an orphan, harmless and listed by ``maintain``; cleaning the same bytes again, in another
attempt or another run, puts the same files under the same names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

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
    """A `.log` that is being written, not yet in its place. A `ByteSink`."""

    def __init__(self, staged: Staged) -> None:
        self.staged = staged
        self._file = open(staged.path, "xb", buffering=_BUFFER_BYTES)  # noqa: SIM115 - closed by `written`
        self._digest = hashlib.sha256()
        self.size = 0

    def write(self, data: Buffer, /) -> None:
        """The next bytes."""
        self._file.write(data)
        self._digest.update(data)
        self.size += len(data)

    def written(self) -> str:
        """No more comes; the digest of all."""
        self._file.close()
        return self._digest.hexdigest()


@contextmanager
def log_file(lake: str, log: str) -> Iterator[LogFile]:
    """A file to write, beside those of its log; gone at the end if it was not placed. Raises OSError."""
    with storage.staged(storage.join(lake, archive.log_folder(log))) as staged:
        file = LogFile(staged)
        try:
            yield file
        finally:
            file.written()


def place(lake: str, file: LogFile, cleaned: CleanedSegment, sources: Sequence[Segment]) -> Segment | None:
    """Put a cleaned segment in its place, on disk with its indexes.

    Args:
        sources: the archived segments that it was made of, in offset order.

    Returns:
        Its row; None where it would be the one file that it was made of, byte by byte. That only gets its indexes.

    Raises:
        OSError: disk or store do not take it.
    """
    digest = file.written()
    first, last = sources[0], sources[-1]
    if len(sources) == 1 and digest == first.digest and _has_entries_of(lake, first, cleaned):
        if not first.lies_at_source:
            _place_indexes(lake, first.path, cleaned)
        return None
    generation = max(source.generation for source in sources) + 1
    identity = archive.segment_id(first.log, first.base_offset, digest, generation)
    path = archive.segment_path(first.log, identity, first.base_offset)
    _place_indexes(lake, path, cleaned)
    file.staged.place(storage.join(lake, path), modified_ms=cleaned.modified_ms)
    return replace(
        first,
        segment_id=identity,
        next_offset=last.next_offset,
        path=path,
        start=0,
        size=file.size,
        sealed=True,
        digest=digest,
        # As Kafka's cleaner does: retention falls back on the time of change where no batch has a timestamp.
        modified_ms=cleaned.modified_ms,
        max_timestamp=cleaned.max_timestamp,
        generation=generation,
        last_batch_base_offset=last.last_batch_base_offset,
        last_batch_epoch=last.last_batch_epoch,
        last_batch_crc=last.last_batch_crc,
        last_batch_size=last.last_batch_size,
        last_batch_end=last.last_batch_end,
    )


def _has_entries_of(lake: str, segment: Segment, cleaned: CleanedSegment) -> bool:
    """Whether nothing has to go from a transaction index, which may change where the log does not."""
    if segment.generation == archive.GENERATION_INGESTED:
        return True
    try:
        there = storage.read(storage.join(lake, side_file(segment.path, TRANSACTION_INDEX_SUFFIX)))
    except FileNotFoundError:
        return True
    return there == cleaned.transaction_index


def _place_indexes(lake: str, path: str, cleaned: CleanedSegment) -> None:
    """In front of the `.log`: where that is, nothing is missing."""
    contents = {
        OFFSET_INDEX_SUFFIX: (cleaned.offset_index, cleaned.modified_ms),
        TIME_INDEX_SUFFIX: (cleaned.time_index, cleaned.modified_ms),
        # Kafka gives this one no time of its own.
        TRANSACTION_INDEX_SUFFIX: (cleaned.transaction_index, None),
    }
    for suffix, (content, modified_ms) in contents.items():
        if content is None:
            continue
        full = storage.join(lake, side_file(path, suffix))
        with suppress(FileNotFoundError):
            if storage.read(full) == content:
                continue
        storage.put(full, content, modified_ms=modified_ms)
