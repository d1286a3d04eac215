"""Which archived bytes contain given offsets of a log: segments cut into pieces, pieces grouped into tasks for workers.

    segment    of the feeding set: ingested, and neither cut back nor filled since
    piece      a part of it between two split points, about 64 MiB
    task       adjacent pieces of one log, about 128 MiB: one file of a table

This module finds the bytes that a worker has to read. ``publish``, ``replace`` and ``uncommitted_rows`` select the
offsets, and ``records_file`` decodes the bytes.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from spark_jobs.archived_rows.records_file import Piece, WriteTask
from spark_jobs.groups import by_key
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.ledger.offset_ranges import Ranges, clipped, meets
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import LogRow, Segment
from spark_jobs.policies.compression import DEFAULT, Compression

TASK_BYTES = 128 << 20
"""Target bytes of a log per task: as Parquet about 30 to 130 MB, for any codec of the log."""


@dataclass(frozen=True, slots=True)
class ArchivedBytes:
    """The archived bytes of some logs."""

    lake: str
    segments: Mapping[str, Sequence[Segment]]
    """By log, in offset order."""
    splits: Mapping[str, Sequence[tuple[int, int]]]
    """Position and offset of the split points, by segment id."""
    validated_ms: Mapping[str, int]
    """Clock of the run that validated a segment, by segment id."""

    @classmethod
    def of(cls, lake: str, logs: Iterable[str]) -> ArchivedBytes:
        """Read the feeding set of these logs; reads nothing if there are no logs."""
        wanted = sorted(logs)
        if not wanted:
            return cls(lake, {}, {}, {})
        segments = by_key(archive.ingested_segments(lake, wanted), lambda segment: segment.log)
        columns = ["segment_id", "split_points", "as_of_ms"]
        rows = read_rows(lake, "validations", columns, [("log", "in", wanted)])
        ids = rows["segment_id"].to_pylist()
        # Almost every segment is smaller than the distance between two split points.
        splits = {
            identity: tuple((position, offset) for position, offset in json.loads(text))  # type: ignore[arg-type]
            for identity, text in zip(ids, rows["split_points"].to_pylist(), strict=True)
            if text != "[]"
        }
        return cls(lake, segments, splits, dict(zip(ids, rows["as_of_ms"].to_pylist(), strict=True)))  # type: ignore[arg-type]

    def pieces(self, log: str, wanted: Ranges) -> list[Piece]:
        """Pieces that may have records of the wanted offsets, in offset order."""
        found = []
        for segment in self.segments.get(log, ()):
            if meets(wanted, segment.base_offset, segment.next_offset):
                found += [p for p in self._cut(segment) if meets(wanted, p.first_offset, p.end_offset)]
        return found

    def tasks(
        self,
        log: LedgerRow | LogRow | Segment,
        wanted: Ranges,
        published_ms: int | None = None,
        compression: Compression = DEFAULT,
    ) -> tuple[WriteTask, ...]:
        """Tasks that decode the wanted offsets of the log of a row, in offset order.

        Args:
            published_ms: Clock of the run that publishes them; None: the rows have no ``published_at``.
        """
        return tuple(
            WriteTask(
                self.lake,
                log.topic,
                log.log_id,
                log.partition,
                tuple(group),
                tuple(clipped(wanted, group[0].first_offset, group[-1].end_offset)),
                published_ms,
                compression,
            )
            for group in grouped(self.pieces(log.log, wanted))
        )

    def bytes_within(self, log: str, start: int, end: int) -> int:
        """Estimate the archived bytes of offsets [start, end). A segment that is only partly included counts in
        proportion.
        """
        total = 0
        for segment in self.segments.get(log, ()):
            overlap = min(end, segment.next_offset) - max(start, segment.base_offset)
            if overlap > 0:
                total += segment.size * overlap // (segment.next_offset - segment.base_offset)
        return total

    def validated_since(self, log: str, start: int, end: int) -> int | None:
        """Clock of the first run that validated any of offsets [start, end); None if there is no segment."""
        clocks = [
            self.validated_ms[segment.segment_id]
            for segment in self.segments.get(log, ())
            if segment.base_offset < end and segment.next_offset > start and segment.segment_id in self.validated_ms
        ]
        return min(clocks, default=None)

    def is_validated(self, log: str, start: int, end: int) -> bool:
        """Whether the ledger was made from the current bytes of offsets [start, end).

        It was not if ingest cut a tail back or filled a gap, and validation has not read the new bytes yet.
        """
        segments = self.segments.get(log, ())
        if segments and segments[-1].next_offset < end:
            return False
        there = (s.segment_id for s in segments if s.base_offset < end and s.next_offset > start)
        return all(identity in self.validated_ms for identity in there)

    def _cut(self, segment: Segment) -> list[Piece]:
        cuts = [(position, offset) for position, offset in self.splits.get(segment.segment_id, ())]
        cuts = [(position, offset) for position, offset in cuts if 0 < position < segment.size]
        starts = [(0, segment.base_offset), *cuts]
        ends = [*cuts, (segment.size, segment.next_offset)]
        path = segment.local_path(self.lake)
        return [
            Piece(segment.segment_id, path, segment.start, position, until, offset, end_offset, segment.registered)
            for (position, offset), (until, end_offset) in zip(starts, ends, strict=True)
        ]


def grouped(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Group adjacent pieces: those of a large segment by themselves, and those of small segments together."""
    of_segments = ([*of] for _, of in itertools.groupby(pieces, lambda piece: piece.segment_id))
    runs = itertools.groupby(of_segments, lambda of: of[0].segment_id if has_own_files(of) else None)
    return [group for _, run in runs for group in _divided([*itertools.chain(*run)])]


def has_own_files(pieces: Sequence[Piece]) -> bool:
    """Whether the pieces of a segment are grouped by themselves, whatever lies beside them."""
    return sum(piece.end - piece.start for piece in pieces) >= TASK_BYTES // 2


def _divided(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Divide pieces into as few groups as possible, of similar size and at most about ``TASK_BYTES``.

    A small last group would be a small file, and one worker would work while the others wait.
    """
    total = sum(piece.end - piece.start for piece in pieces)
    fair = total / max(1, round(total / TASK_BYTES))
    groups: list[list[Piece]] = []
    done = 0
    for piece in pieces:
        if done >= len(groups) * fair:
            groups.append([])
        groups[-1].append(piece)
        done += piece.end - piece.start
    return groups
