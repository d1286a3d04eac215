"""Rows of ``records`` compared with the archive, offset by offset and column by column.

The rows of a file come in chunks, in any order and of any logs. For each log, the archive is decoded in parallel as one
stream that continues after the previous chunk. Rows out of order only make it begin again. So memory is limited to some
chunks, however large the file is.

A row that was read from a slice of the archive keeps that slice's id when slices are merged into a larger file. Such a
row is equal if both name the same bytes of the source. Columns that users added are not compared.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from logcore.errors import LogError
from logcore.ranges import joined
from spark_jobs.archived_rows.archived_bytes import ArchivedBytes
from spark_jobs.archived_rows.records_file import Piece, WriteTask, decoded
from spark_jobs.errors import StorageError
from spark_jobs.groups import by_key
from spark_jobs.lake.delta.files import file_contents
from spark_jobs.lake.published.held_offsets import HeldOffsets, OffsetRuns
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.segments.log_directory import slice_bytes
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import TABLES

SCHEMA = TABLES["records"].content_schema
"""Compared columns: those that come from the archive. Others come from the ledger or from the run."""

PROVENANCE = ("segment_id", "position")
CONTENT = tuple(name for name in SCHEMA.names if name not in PROVENANCE)
MAX_INT64 = (1 << 63) - 1

Offsets = npt.NDArray[np.int64]


class Range(NamedTuple):
    """Offsets [start, end) of a log, and what differs in them."""

    log: str
    start: int
    end: int
    what: str


@dataclass(slots=True)
class Comparison:
    """The result of comparing rows."""

    equal: int = 0
    """Number of rows that are equal to the archive."""
    unproved: int = 0
    """Number of rows that could not be compared."""
    differences: list[Range] = field(default_factory=list)
    not_provable: list[Range] = field(default_factory=list)

    def differ(self, log: str, offsets: Offsets, what: str) -> None:
        """Note rows that differ from the archive."""
        _note(self.differences, log, offsets, what)

    def doubt(self, log: str, offsets: Offsets, why: str) -> None:
        """Note rows that cannot be compared, and why."""
        self.unproved += len(offsets)
        _note(self.not_provable, log, offsets, why)

    def ranges(self) -> list[Range]:
        """Return the differences; those that touch or overlap are joined."""
        return _joined(self.differences)

    def doubts(self) -> list[Range]:
        """Return the ranges that cannot be verified, joined in the same way."""
        return _joined(self.not_provable)


class Archive:
    """The archive that rows are compared with."""

    def __init__(self, lake: str, held: ArchivedBytes, segments: Sequence[Segment]) -> None:
        self.lake, self.held = lake, held
        self._segments = {segment.segment_id: segment for segment in segments}
        self._intact: dict[str, bool] = {}
        self._spans: dict[str, tuple[list[Segment], Offsets, Offsets]] = {}
        """By log: its segments by first offset, their first offsets, and the end of all segments up to each."""

    def part(self, logs: Sequence[str], start: int, end: int) -> Archive:
        """The archive of the offsets [start, end) of some logs."""
        segments = [segment for log in logs for segment in self._within(log, start, end)]
        feeding: dict[str, list[Segment]] = {log: [] for log in logs if log in self.held.segments}
        for segment in segments:
            if segment.feeds:
                feeding[segment.log].append(segment)
        splits = {s.segment_id: self.held.splits[s.segment_id] for s in segments if s.segment_id in self.held.splits}
        return Archive(self.lake, ArchivedBytes(self.lake, feeding, splits, {}), segments)

    def _within(self, log: str, start: int, end: int) -> list[Segment]:
        if not self._spans:
            by_log = by_key(self._segments.values(), lambda segment: segment.log)
            for name, some in by_log.items():
                some.sort(key=lambda segment: segment.base_offset)
                firsts = np.array([segment.base_offset for segment in some], dtype=np.int64)
                ends = np.array([segment.next_offset for segment in some], dtype=np.int64)
                self._spans[name] = some, firsts, np.maximum.accumulate(ends)
        if log not in self._spans:
            return []
        some, firsts, reached = self._spans[log]
        low, high = np.searchsorted(reached, start, side="right"), np.searchsorted(firsts, end)
        return [segment for segment in some[int(low) : int(high)] if segment.next_offset > start]

    @classmethod
    def of(cls, lake: str, logs: Sequence[str]) -> Archive:
        """Open the archive of some logs.

        Raises:
            OSError: A table cannot be read.
            LogError: A table is damaged.
        """
        return cls(lake, ArchivedBytes.of(lake, logs), archive.read_segments(lake, logs, live=False))

    def segment(self, identity: str | None) -> Segment | None:
        """A segment by its id, live or not."""
        return None if identity is None else self._segments.get(identity)

    def is_intact(self, identity: str) -> bool:
        """Return whether the segment's bytes still match its digest; computed once."""
        known = self._intact.get(identity)
        if known is None:
            known = self._intact[identity] = _has_its_digest(self.lake, self._segments[identity])
        return known

    def why_gone(self, piece: Piece) -> str | None:
        """Return why a piece cannot be read; None: its file exists."""
        segment = self._segments[piece.segment_id]
        try:
            if storage.exists(piece.path):
                return None
        except StorageError as error:
            if not segment.lies_at_source:
                raise
            return f"the archive refers to the source, which cannot be read now ({error})"
        if segment.lies_at_source:
            return "the archive refers to the source, where the file is gone"
        return {
            archive.RETENTION: "retention removed these offsets from the archive",
            archive.COMPACTION: "compaction removed records of these offsets from the archive",
        }.get(segment.retired_because or "", "the archived file is gone")


def _has_its_digest(lake: str, segment: Segment) -> bool:
    try:
        with slice_bytes(lake, segment) as content:
            return hashlib.sha256(content).hexdigest() == segment.digest
    except (LogError, OSError):
        return False


class RowComparison:
    """Compares the rows of one file, chunk by chunk."""

    def __init__(self, archived: Archive, topic: str) -> None:
        self.result = Comparison()
        self._archive, self._topic = archived, topic
        self._streams: dict[str, _Stream] = {}
        self._runs: dict[str, OffsetRuns] = {}

    def take(self, chunk: pa.RecordBatch) -> None:
        """Compare the next rows, which have at least the columns of ``SCHEMA``."""
        if chunk.column("offset").null_count:
            self.result.differences.append(Range("", 0, 0, "rows have no offset"))
            chunk = chunk.filter(pc.is_valid(chunk.column("offset")))
        for log, rows in by_log(chunk):
            offsets = _offsets(rows)
            self._runs.setdefault(log, OffsetRuns()).add(offsets)
            if (np.diff(offsets) < 0).any():
                rows = rows.take(pc.sort_indices(rows.column("offset")))
                offsets = _offsets(rows)
            first = np.ones(len(offsets), dtype=bool)
            first[1:] = offsets[1:] != offsets[:-1]
            if first.all():
                self._compare(log, rows, offsets)
                continue
            self._compare(log, rows.filter(pa.array(first)), offsets[first])
            # Compare every one of several rows of an offset: they may differ.
            for at in np.flatnonzero(~first):
                self._compare(log, rows.slice(int(at), 1), offsets[at : at + 1])

    def finish(self) -> Comparison:
        """Return the result after the last row of the file."""
        for log, runs in self._runs.items():
            for start, end in HeldOffsets.of([runs]).doubled:
                self.result.differences.append(Range(log, start, end, "the offset occurs more than once"))
        return self.result

    def _compare(self, log: str, rows: pa.RecordBatch, offsets: Offsets) -> None:
        if log not in self._archive.held.segments:
            self.result.differ(log, offsets, "the archive has no such log")
            return
        stream = self._streams.get(log)
        if stream is None or stream.position > offsets[0]:
            log_id, _, partition = log.rpartition("/")
            stream = self._streams[log] = _Stream(
                self._archive, log, self._topic, log_id, int(partition), int(offsets[0])
            )
        archived = stream.at(offsets)
        for start, end, why in stream.gaps(int(offsets[0]), int(offsets[-1]) + 1):
            inside = (offsets >= start) & (offsets < end)
            if inside.any():
                self.result.doubt(log, offsets[inside], why)
                rows, offsets = rows.filter(pa.array(~inside)), offsets[~inside]
        found = np.isin(offsets, _offsets(archived), assume_unique=True)
        if not found.all():
            self._explain(log, offsets[~found], "the archive has no record there")
            rows, offsets = rows.filter(pa.array(found)), offsets[found]
        archived = archived.filter(pa.array(np.isin(_offsets(archived), offsets, assume_unique=True)))
        differing = self._differing(log, rows, archived)
        if not differing:
            self.result.equal += len(offsets)
            return
        # One message names all neighbouring rows that differ in the same columns.
        names = list(differing)
        codes = np.zeros(len(offsets), dtype=np.int64)
        for at, name in enumerate(names):
            codes |= differing[name].astype(np.int64) << at
        for code in np.unique(codes):
            if code:
                columns = ", ".join(name for at, name in enumerate(names) if code >> at & 1)
                self._explain(log, offsets[codes == code], f"another {columns}")
        self.result.equal += int((codes == 0).sum())

    def _differing(self, log: str, rows: pa.RecordBatch, archived: pa.RecordBatch) -> dict[str, npt.NDArray[np.bool_]]:
        """Return which rows differ, by column."""
        differing: dict[str, npt.NDArray[np.bool_]] = {}
        for name in CONTENT:
            ours, theirs = rows.column(name), archived.column(name)
            if not ours.equals(theirs):
                differing[name] = _unequal(ours, theirs)
        if not all(rows.column(name).equals(archived.column(name)) for name in PROVENANCE):
            places = self._elsewhere(log, rows, archived)
            if places.any():
                differing["segment_id or position"] = places
        return differing

    def _elsewhere(self, log: str, rows: pa.RecordBatch, archived: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Return which rows name neither the present nor an earlier place of the bytes that they were decoded from."""
        wrong = np.zeros(rows.num_rows, dtype=bool)
        columns = [column.to_pylist() for batch in (rows, archived) for column in batch.select(PROVENANCE).columns]
        for at, (ours, position, theirs, there) in enumerate(zip(*columns, strict=True)):
            if (ours, position) == (theirs, there):
                continue
            before, now = self._archive.segment(ours), self._archive.segment(theirs)
            wrong[at] = (
                before is None
                or now is None
                or before.log != log
                or position is None
                or (
                    before.origin_file == now.origin_file
                    and before.origin_position + position != now.origin_position + there
                )
            )
        return wrong

    def _explain(self, log: str, offsets: Offsets, what: str) -> None:
        """Note differences, or doubts if the archived bytes themselves have changed."""
        for segment in self._archive.held.segments[log]:
            inside = (offsets >= segment.base_offset) & (offsets < segment.next_offset)
            if inside.any() and not self._archive.is_intact(segment.segment_id):
                self.result.doubt(log, offsets[inside], "the archived bytes are damaged")
                offsets = offsets[~inside]
        if len(offsets):
            self.result.differ(log, offsets, what)


class _Stream:
    """Rows of one log in the archive, from an offset on."""

    def __init__(self, archived: Archive, log: str, topic: str, log_id: str, partition: int, start: int) -> None:
        self._archive = archived
        self.position = start
        """Rows below were returned or skipped."""
        self._gaps: list[tuple[int, int, str]] = []
        visible = ((start, MAX_INT64),)
        self._pieces = iter(archived.held.pieces(log, visible))
        self._task = WriteTask(archived.lake, topic, log_id, partition, (), visible)
        self._reached = start
        """Offsets below were decoded or lie in a gap."""
        self._chunks: Iterator[pa.RecordBatch] = iter(())
        self._rest: list[pa.RecordBatch] = []

    def at(self, offsets: Offsets) -> pa.RecordBatch:
        """Return the rows of these offsets, as far as they exist; offsets ascend and begin at or after ``position``."""
        end = int(offsets[-1]) + 1
        taken: list[pa.RecordBatch] = []
        waiting, self._rest = self._rest, []
        for chunk in self._up_to(waiting, end):
            there = _offsets(chunk)
            cut = int(np.searchsorted(there, end))
            if cut < len(there):
                self._rest.append(chunk.slice(cut))
            wanted = chunk.slice(0, cut).filter(pa.array(np.isin(there[:cut], offsets)))
            if wanted.num_rows:
                taken.append(wanted)
        self.position = end
        if not taken:
            return pa.RecordBatch.from_pylist([], schema=SCHEMA)
        return pa.concat_batches(taken) if len(taken) > 1 else taken[0]  # type: ignore[attr-defined]

    def gaps(self, start: int, end: int) -> list[tuple[int, int, str]]:
        """Return offsets of [start, end) that the archive cannot give, and why."""
        return [(max(s, start), min(e, end), why) for s, e, why in self._gaps if s < end and e > start]

    def _up_to(self, waiting: list[pa.RecordBatch], end: int) -> Iterator[pa.RecordBatch]:
        for chunk in waiting:
            yield chunk
            self._reached = max(self._reached, int(_offsets(chunk)[-1]) + 1)
        while self._reached < end:
            chunk = next(self._chunks, None)  # type: ignore[assignment]
            if chunk is None:
                piece = next(self._pieces, None)
                if piece is None:
                    self._reached = MAX_INT64
                    return
                self._chunks = self._decoded(piece)
                continue
            self._reached = max(self._reached, int(_offsets(chunk)[-1]) + 1)
            yield chunk

    def _decoded(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        why = self._archive.why_gone(piece)
        if why is None:
            try:
                for chunk in decoded(replace(self._task, pieces=(piece,))):
                    yield chunk.select(SCHEMA.names).cast(SCHEMA)
                return
            except (LogError, OSError) as error:
                why = f"the archived bytes cannot be read ({error})"
        self._gaps.append((piece.first_offset, piece.end_offset, why))


def by_log(chunk: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the rows of a chunk by log key; most chunks have one log."""
    for key, places in file_contents.by_log(chunk):
        yield archive.log_key(*key), chunk if len(places) == chunk.num_rows else chunk.take(places)


def _unequal(left: pa.Array[Any], right: pa.Array[Any]) -> npt.NDArray[np.bool_]:
    """Return where two columns differ; two nulls are equal."""
    if pa.types.is_nested(left.type):
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return np.fromiter((one != other for one, other in pairs), dtype=bool, count=len(left))
    same_nulls = pc.equal(pc.is_null(left), pc.is_null(right))
    equal = pc.and_(same_nulls, pc.equal(left, right).fill_null(True))  # type: ignore[arg-type]
    places: npt.NDArray[np.bool_] = ~equal.to_numpy(zero_copy_only=False).astype(bool)
    return places


def _note(ranges: list[Range], log: str, offsets: Offsets, what: str) -> None:
    """Add offsets, which ascend, as ranges of neighbours."""
    if not len(offsets):
        return
    breaks = np.flatnonzero(np.diff(offsets) > 1) + 1
    ranges.extend(Range(log, int(run[0]), int(run[-1]) + 1, what) for run in np.split(offsets, breaks))


def _joined(ranges: Sequence[Range]) -> list[Range]:
    spans: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for log, start, end, what in ranges:
        spans[log, what].append((start, end))
    return sorted(Range(log, *span, what) for (log, what), of_kind in spans.items() for span in joined(of_kind))


def _offsets(rows: pa.RecordBatch) -> Offsets:
    offsets: Offsets = rows.column("offset").to_numpy(zero_copy_only=False)
    return offsets


def as_answer(result: Comparison) -> str | list[list[object]]:
    """Return the result to store for a file: ``equal``, ``not provable: …``, or its differences as plain values."""
    differences = result.ranges()
    if differences:
        return [list(each) for each in differences]
    doubts: Mapping[str, None] = {each.what: None for each in result.doubts()}
    return f"not provable: {'; '.join(doubts)}" if doubts else "equal"
