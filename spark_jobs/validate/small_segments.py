"""Files of ``batches`` with the rows of many small segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

import pyarrow as pa

from spark_jobs.lake.delta.files.live_files import LiveFile, newest_files, open_parquet
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables.snapshots import read_rows, reading, table_uri
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.store import storage
from spark_jobs.lake.store.written_file import WrittenFile
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.tasks.batch_rows import SMALL_ROWS, BatchRows

FILE_ROWS = 8192
"""A file takes segments until it has so many rows. One log needs few of them later, and reads the whole file."""


def write_rows(lake: str, rows: Iterable[tuple[Segment, BatchRows]]) -> list[WrittenFile]:
    """Write the rows of small segments, which come in the order of the table, into few files."""
    files = []
    for chunks in _of_files(rows):
        joined = pa.Table.from_batches(chunks).combine_chunks().to_batches()
        file = write_file(table_uri(lake, "batches"), TABLES["batches"], joined, {})
        if file is not None:
            files.append(file)
    return files


def _of_files(rows: Iterable[tuple[Segment, BatchRows]]) -> Iterator[list[pa.RecordBatch]]:
    waiting: list[pa.RecordBatch] = []
    count = 0
    for segment, of_segment in rows:
        waiting.append(of_segment.table_rows(segment))
        count += waiting[-1].num_rows
        if count >= FILE_ROWS:
            yield waiting
            waiting, count = [], 0
    if waiting:
        yield waiting


def may_have_rows_of(lake: str, file: LiveFile, segments: frozenset[str]) -> bool:
    """Whether a file of ``batches`` may have rows of one of these segments."""
    of_one = file.only("segment_id")
    if of_one is not None:
        return of_one in segments
    if _is_small(file):
        return not segments.isdisjoint(_segments_of(lake, "batches", file.path))
    return True


def with_rows(lake: str, table: str, segments: frozenset[str]) -> set[str]:
    """Those of the segments that have rows in ``batches`` or ``quarantine``."""
    found: set[str] = set()
    for file in newest_files(lake, table) if segments else ():
        of_one = file.only("segment_id")
        if of_one is not None:
            found |= {of_one} & segments
        elif _is_small(file):
            found |= _segments_of(lake, table, file.path) & segments
        else:  # merged files: Arrow reads the row groups that may have such rows
            rows = read_rows(lake, table, ["segment_id"], [("segment_id", "in", sorted(segments))])
            return set(map(str, rows["segment_id"].to_pylist()))
    return found


def _is_small(file: LiveFile) -> bool:
    return 0 <= file.rows < FILE_ROWS + SMALL_ROWS


@lru_cache(maxsize=256)
def _segments_of(lake: str, table: str, file: str) -> frozenset[str]:
    """Ids of the segments in a file, which never changes. A process that stays asks for the same files each round."""
    with (
        reading(lake, table),
        open_parquet(storage.join(table_uri(lake, table), file), read_dictionary=["segment_id"]) as opened,
    ):
        ids = opened.read(["segment_id"], use_threads=False).column("segment_id").unique()
    return frozenset(map(str, ids.to_pylist()))
