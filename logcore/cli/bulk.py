"""Records in bulk, straight from the engines: lines of JSON by several threads, or Arrow columns.

The quick way of `dump`, for what needs no look at single records. It shows the same as the slow way, which stays for
everything else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from logcore.cli.looking import Notes, padding_finding, stretch_finding
from logcore.cli.record_lines import json_line, record_fields
from logcore.columns.wanted import Place, Wanted
from logcore.logs.sources import SegmentFile, SourceLog
from logcore.records.model import DEFAULT_LIMITS, BatchHeader, Record
from logcore.records.varint import Buffer
from logcore.segments.scan import Stretch
from logcore.storage.local import shown

if TYPE_CHECKING:
    import pyarrow as pa

    from logcore.columns.chunks import Chunk

Lines = list[memoryview]


@dataclass(slots=True)
class _Written:
    """What one chunk gave, and where it ended."""

    position: int
    next_offset: int
    items: list[Lines | Stretch] = field(default_factory=list)
    padding: int = 0


def can_write_lines() -> bool:
    """Whether the kernels that write lines work here and are not put aside by LOGLAKE_ENGINE."""
    from logcore.columns.kernels.library import is_chosen

    return is_chosen()


def place_of(log: SourceLog, segment: SegmentFile) -> Place:
    """What rows of a segment say of where they are from."""
    topic, partition = log.topic_partition.topic, log.topic_partition.partition
    log_id = f"{topic}@{log.cluster_id or 'unknown'}.0" if log.topic_id is None else f"{log.topic_id}.0"
    return Place(topic, partition, log_id, f"{segment.base_offset:020d}")


def write_lines(
    log: SourceLog,
    segment: SegmentFile,
    content: Buffer,
    wanted: Wanted,
    notes: Notes,
    write: Callable[[memoryview], object],
) -> None:
    """Write the wanted records of a segment as lines of JSON, in order; what is wrong with it is said."""
    from logcore.columns.chunks import in_order, plan_chunks, processors

    work = _LineWork(log, segment, content, wanted)
    progress = _Progress(shown(segment.path), len(content))
    for result in in_order(plan_chunks(content, segment.base_offset), work, processors()):
        for item in result.items:
            if isinstance(item, Stretch):
                notes.say(stretch_finding(item, shown(segment.path)))
            else:
                for text in item:
                    write(text)
        if result.padding:
            notes.say(padding_finding(log, segment, len(content), result.padding))
        progress.at(result.position)
    progress.close()


class _LineWork:
    """The lines of one chunk; called in several threads."""

    def __init__(self, log: SourceLog, segment: SegmentFile, content: Buffer, wanted: Wanted) -> None:
        self._log, self._segment, self._content, self._wanted = log, segment, content, wanted

    def __call__(self, chunk: Chunk) -> _Written:
        from logcore.columns.compiled import CompiledLane
        from logcore.columns.lanes import CarefulLane, SegmentRows
        from logcore.columns.line_buffers import LineBuffers

        log, segment = self._log, self._segment
        careful = CarefulLane(
            self._content,
            segment.base_offset,
            log.is_sealed(segment),
            log.next_base_offset(segment),
            self._wanted,
            DEFAULT_LIMITS,
        )
        output = LineBuffers(place_of(log, segment))
        lane: CompiledLane[Lines] = CompiledLane(
            self._content, careful.ceiling, self._wanted, DEFAULT_LIMITS, 0, output
        )
        walk = SegmentRows(lane, careful, self._lines, chunk.start, chunk.next_offset, chunk.stop)
        items = list(walk)
        return _Written(walk.position, walk.next_offset, items, walk.padding)

    def _lines(self, header: BatchHeader, _: int, records: list[Record]) -> Lines:
        name, epoch = self._log.topic_partition, header.partition_leader_epoch
        text = "".join(json_line(record_fields(name, record, epoch, None, False)) for record in records)
        return [memoryview(text.encode("utf-8", "backslashreplace"))]


def columns_of(
    log: SourceLog, segment: SegmentFile, content: Buffer, wanted: Wanted, notes: Notes
) -> Iterator[pa.RecordBatch]:
    """The wanted records of a segment as Arrow columns, in order; what is wrong with it is said."""
    from logcore.columns.engines import decode_segment

    rows = decode_segment(
        content,
        place=place_of(log, segment),
        base_offset=segment.base_offset,
        sealed=log.is_sealed(segment),
        next_base_offset=log.next_base_offset(segment),
        wanted=wanted,
    )
    for item in rows:
        if isinstance(item, Stretch):
            notes.say(stretch_finding(item, shown(segment.path)))
        else:
            yield item
    if rows.padding:
        notes.say(padding_finding(log, segment, len(content), rows.padding))


class _Progress:
    """How far a file has come, on a terminal only."""

    def __init__(self, name: str, size: int) -> None:
        self._name, self._size = name, size
        self._is_shown = sys.stderr.isatty() and not sys.stdout.isatty()

    def at(self, position: int) -> None:
        if self._is_shown and self._size:
            sys.stderr.write(f"\r{self._name} {100 * position // self._size} %")
            sys.stderr.flush()

    def close(self) -> None:
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
