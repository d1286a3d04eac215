"""Headers of batches in archived segments, wherever they lie: what a source is compared with."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace

from logcore.logs.model.sources import SegmentFile
from logcore.records.batch import BatchHeader
from logcore.storage.local import LocalReader, SourceChanged, file_digest
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.store import storage


class ArchiveReader:
    """Reads archived segments as the files that they are: local, on an object store, or registered at the source."""

    def __init__(self, lake: str, segments: Iterable[Segment]) -> None:
        self._lake = lake
        self._segments = {(s.local_path(lake), s.base_offset): s for s in segments}

    def file_of(self, segment: Segment) -> SegmentFile:
        """A segment as a file to be read; its bytes begin at ``segment.start``."""
        end = segment.start + segment.size
        return SegmentFile(segment.base_offset, segment.local_path(self._lake), end, segment.modified_ms, 0)

    def header_at(self, segment: SegmentFile, position: int) -> BatchHeader | None:
        """The header at a position. Raises like :meth:`headers`."""
        return next((header for at, header in self.headers(segment, position) if at == position), None)

    def headers(self, segment: SegmentFile, position: int = 0) -> Iterator[tuple[int, BatchHeader | None]]:
        """Positions and headers from a position on; of an object the bytes are fetched first.

        Raises:
            SourceUnreadable: it is not there, or can't be read.
            SourceChanged: it was registered at the source, and the source has changed it.
        """
        if storage.is_remote(segment.path):
            with tempfile.TemporaryDirectory(prefix="loglake-") as scratch:
                local = os.path.join(scratch, "segment")
                with storage.mapped(segment.path, position) as content, open(local, "xb") as file:
                    file.write(content)
                yield from LocalReader().headers(replace(segment, path=local), position)
            return
        ours = self._segments[segment.path, segment.base_offset]
        if ours.lies_at_source and file_digest(segment.path, ours.start, ours.start + ours.size) != ours.digest:
            raise SourceChanged("it was registered where it lies, and was changed there", file=segment.path)
        yield from LocalReader().headers(segment, position)
