"""Batch headers of archived segments, which a source is compared with."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace

from logcore.logs.model.sources import SegmentFile
from logcore.records.batch import BatchHeader
from logcore.storage.discovery import HeaderReader, SourceChanged, file_digest
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.store import mapped_file, storage


class ArchiveReader:
    """Reads archived segments from local files, from an object store, or in place at the source."""

    def __init__(self, lake: str, segments: Iterable[Segment]) -> None:
        self._lake = lake
        self._segments = {(s.local_path(lake), s.base_offset): s for s in segments}

    def file_of(self, segment: Segment) -> SegmentFile:
        """Return a segment as a file to read; its bytes begin at ``segment.start``."""
        end = segment.start + segment.size
        return SegmentFile(segment.base_offset, segment.local_path(self._lake), end, segment.modified_ms, 0)

    def header_at(self, segment: SegmentFile, position: int) -> BatchHeader | None:
        """Return the header at a position. Raises like :meth:`headers`."""
        return next((header for at, header in self.headers(segment, position) if at == position), None)

    def headers(self, segment: SegmentFile, position: int = 0) -> Iterator[tuple[int, BatchHeader | None]]:
        """Yield positions and headers from a position on; the bytes of an object are fetched first.

        Raises:
            SourceUnreadable: The file is missing, or can't be read.
            SourceChanged: The segment was registered at the source, and the source has changed it.
        """
        ours = self._segments[segment.path, segment.base_offset]
        if storage.is_remote(segment.path):
            end = ours.start + ours.size if ours.lies_at_source else None
            at_source = ours.lies_at_source
            with tempfile.TemporaryDirectory(prefix="loglake-") as scratch:
                local = os.path.join(scratch, "segment")
                with (
                    mapped_file.mapped(
                        segment.path, position, end, at_source=at_source, registered=ours.registered
                    ) as content,
                    open(local, "xb") as file,
                ):
                    file.write(content)
                yield from HeaderReader().headers(replace(segment, path=local), position)
            return
        there = replace(segment, etag=ours.etag, chunk_map=ours.chunk_map if ours.etag else None)
        if ours.lies_at_source and file_digest(segment.path, ours.start, ours.start + ours.size, there) != ours.digest:
            raise SourceChanged("it was registered in place, and was changed at the source", file=segment.path)
        yield from HeaderReader().headers(there, position)
