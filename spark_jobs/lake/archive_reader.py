"""Headers of batches in archived segments, wherever the lake lies: what a source is compared with."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace

from logcore.logs.sources import SegmentFile
from logcore.records.batch import BatchHeader
from logcore.storage.local import LocalReader
from spark_jobs.lake import storage
from spark_jobs.lake.archive import Segment


def segment_file(lake: str, segment: Segment) -> SegmentFile:
    """An archived segment as a file to be read; its bytes begin at ``segment.start``."""
    path = segment.local_path(lake)
    return SegmentFile(segment.base_offset, path, segment.start + segment.size, segment.modified_ms, 0)


class ArchiveReader(LocalReader):
    """Reads headers of a source's files, which are local, and of archived ones, which may lie on an object store."""

    def headers(self, segment: SegmentFile, position: int = 0) -> Iterator[tuple[int, BatchHeader | None]]:
        """Positions and headers from a position on; of an object the file is fetched first.

        Raises:
            SourceUnreadable: it is not there, or can't be read.
        """
        if not storage.is_remote(segment.path):
            yield from super().headers(segment, position)
            return
        with tempfile.TemporaryDirectory(prefix="loglake-") as scratch:
            local = os.path.join(scratch, "segment")
            with storage.mapped(segment.path, position) as content, open(local, "xb") as file:
                file.write(content)
            yield from super().headers(replace(segment, path=local), position)
