"""Records in bulk, straight from the engines: lines of JSON by several threads, or Arrow columns.

The quick way of `dump`, for what needs no look at single records. It shows the same as the slow way, which stays for
everything else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from logcore.cli.output.record_lines import json_line, record_fields
from logcore.cli.reading.looking import Notes, cannot_read, padding_finding, stretch_finding
from logcore.columns.wanted import Place, Wanted
from logcore.errors import LogError
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.records.model import DEFAULT_LIMITS, BatchHeader, Record
from logcore.records.varint import Buffer
from logcore.segments.scanning.scan import Stretch
from logcore.storage.local import SourceChanged, SourceUnreadable, shown
from logcore.storage.source_bytes import SourceBytes

if TYPE_CHECKING:
    import pyarrow as pa

    from logcore.columns.checking.chunks import Chunk, Job
    from logcore.columns.decoding.line_buffers import TextPool
    from logcore.columns.decoding.turns import Turn, Waiting

Lines = list[memoryview]

TEXT_BYTES = 32 << 20
"""Of lines that one chunk gives at once; a compressed one may hold very many."""


@dataclass(slots=True)
class _Written:
    """What one chunk gave, and where it ended."""

    position: int
    next_offset: int
    turn: Turn
    items: list[Lines | Stretch] = field(default_factory=list)
    padding: int = 0
    failure: LogError | None = None
    """Why the bytes behind the items could not be fetched."""


def can_write_lines() -> bool:
    """Whether the kernels that write lines work here and are not put aside by LOGLAKE_ENGINE."""
    from logcore.columns.kernels.library import is_chosen

    return is_chosen()


def place_of(log: SourceLog, segment: SegmentFile) -> Place:
    """What rows of a segment say of where they are from."""
    topic, partition = log.topic_partition.topic, log.topic_partition.partition
    log_id = f"{topic}@{log.cluster_id or 'unknown'}.0" if log.topic_id is None else f"{log.topic_id}.0"
    return Place(topic, partition, log_id, f"{segment.base_offset:020d}")


def write_lines(segments: Iterable[ShownSegment], notes: Notes, write: Callable[[memoryview], object]) -> None:
    """Write the wanted records of segments as lines of JSON, in order; what is wrong with them is said."""
    from logcore.columns.checking.chunks import in_order, processors
    from logcore.columns.decoding.line_buffers import TextPool
    from logcore.columns.decoding.turns import Waiting

    pool, waiting = TextPool(), Waiting()
    failed: ShownSegment | None = None

    def write_items(shows: ShownSegment, items: list[Lines | Stretch]) -> None:
        """In the thread whose turn it is."""
        for item in items if shows is not failed else ():
            if isinstance(item, Stretch):
                notes.say(stretch_finding(item, shown(shows.segment.path)))
            else:
                for text in item:
                    write(text)
                    pool.give(text)
        items.clear()

    works = (_LineWork(each, pool, waiting, write_items) for each in segments)
    progress = Progress()
    for job, result in in_order(chain.from_iterable(work.jobs() for work in works), processors()):
        shows = job.owner
        write_items(shows, result.items)
        result.turn.taken()
        if shows is failed:
            continue
        if result.padding:
            notes.say(padding_finding(shows.log, shows.segment, len(shows.content), result.padding))
        try:
            if result.failure is not None:
                raise result.failure
            if result.position >= len(shows.content):
                shows.source.refuse_change()
        except LogError as error:
            failed = shows
            cannot_read(shows.segment, error, notes)
        progress.at(shows.segment.path, result.position, len(shows.content))
    progress.close()


@dataclass(frozen=True, slots=True)
class ShownSegment:
    """A segment, its bytes, and what is wanted of it."""

    log: SourceLog
    segment: SegmentFile
    source: SourceBytes
    wanted: Wanted

    @property
    def content(self) -> Buffer:
        """The segment's bytes, of which only those that were fetched are there."""
        return self.source.content


class _LineWork:
    """The lines of one chunk; called in several threads."""

    def __init__(
        self,
        shows: ShownSegment,
        pool: TextPool,
        waiting: Waiting,
        write: Callable[[ShownSegment, list[Lines | Stretch]], None],
    ) -> None:
        self._shows, self._pool, self._waiting, self._write_items = shows, pool, waiting, write

    def jobs(self) -> Iterator[Job[ShownSegment, _Written]]:
        """The lines to be made."""
        from logcore.columns.checking.chunks import jobs

        shows = self._shows
        for job in jobs(shows, shows.content, shows.segment.base_offset, self._unplaced, shows.source):
            turn = self._waiting.turn()
            yield replace(job, work=partial(self, turn), turn=turn)

    def _unplaced(self, chunk: Chunk) -> _Written:
        return self(self._waiting.turn(), chunk)

    def __call__(self, turn: Turn, chunk: Chunk) -> _Written:
        written = _Written(chunk.start, chunk.next_offset, turn)
        turn.hold(0)
        if turn.is_dropped:
            return written
        try:
            self._write(written, chunk)
        except LogError as error:
            written.failure, written.position = error, chunk.stop
        return written

    def _write(self, written: _Written, chunk: Chunk) -> None:
        from logcore.columns.checking.chunks import part_of
        from logcore.columns.decoding.compiled import CompiledLane
        from logcore.columns.decoding.lanes import CarefulLane, SegmentRows
        from logcore.columns.decoding.line_buffers import LineBuffers

        log, segment, content = self._shows.log, self._shows.segment, self._shows.content
        careful = CarefulLane(
            content,
            segment.base_offset,
            log.is_sealed(segment),
            log.next_base_offset(segment),
            self._shows.wanted,
            DEFAULT_LIMITS,
            self._shows.source,
        )
        part = part_of(content, chunk, self._shows.source)
        output = LineBuffers(place_of(log, segment), self._pool)
        lane: CompiledLane[Lines] = CompiledLane(
            part.content, careful.ceiling, self._shows.wanted, DEFAULT_LIMITS, 0, output, part.goes_on
        )
        nbytes = 0

        def enough() -> bool:
            return nbytes >= TEXT_BYTES

        lane.enough = enough
        walk = SegmentRows(lane, careful, self._lines, chunk.start, chunk.next_offset, part.stop, enough)
        for item in walk:
            written.items.append(item)
            held = 0 if isinstance(item, Stretch) else sum(map(len, item))
            nbytes += held
            if written.turn.hold(held):
                self._write_items(self._shows, written.items)
                written.turn.taken()
            if written.turn.is_dropped:
                return
        written.position, written.next_offset = walk.position, walk.next_offset
        if walk.padding:
            written.padding, written.position = chunk.stop - (walk.position - walk.padding), chunk.stop

    def _lines(self, header: BatchHeader, _: int, records: list[Record]) -> Lines:
        name, epoch = self._shows.log.topic_partition, header.partition_leader_epoch
        text = "".join(json_line(record_fields(name, record, epoch, None, False)) for record in records)
        return [memoryview(text.encode("utf-8", "backslashreplace"))]


def columns_of(shows: ShownSegment, notes: Notes) -> Iterator[pa.RecordBatch]:
    """The wanted records of a segment as Arrow columns, in order; what is wrong with it is said."""
    from logcore.columns.engines import decode_segment

    log, segment, content = shows.log, shows.segment, shows.content
    position, next_offset = 0, segment.base_offset
    try:
        while position < len(content):
            rows = decode_segment(
                content,
                place=place_of(log, segment),
                base_offset=segment.base_offset,
                sealed=log.is_sealed(segment),
                next_base_offset=log.next_base_offset(segment),
                wanted=shows.wanted,
                start=position,
                next_offset=next_offset,
                fetched=shows.source,
            )
            for item in rows:
                if isinstance(item, Stretch):
                    notes.say(stretch_finding(item, shown(segment.path)))
                else:
                    yield item
            position, next_offset = rows.position, rows.next_offset
            if rows.padding:
                notes.say(padding_finding(log, segment, len(content), len(content) - (position - rows.padding)))
                break
            shows.source.release(position)
        shows.source.refuse_change()
    except (SourceChanged, SourceUnreadable) as error:
        cannot_read(segment, error, notes)


class Progress:
    """How far a file has come: on stderr, if that is a terminal and the output is not."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty() and not sys.stdout.isatty()

    def at(self, path: str, position: int, size: int) -> None:
        """So many bytes of a file are done."""
        if self._is_shown and size:
            sys.stderr.write(f"\r\x1b[K{shown(path)} {100 * position // size} %")
            sys.stderr.flush()

    def close(self) -> None:
        """Take the line away again."""
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
