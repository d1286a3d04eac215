"""Fills missing or corrupt offsets later: from the log's own source, or from a named copy.

    between segments    the batches found are a segment of their own
    inside a segment    that segment is retired as `filled`; its valid parts, the batches found, and damage without
                        replacement become segments of their own

Damage may hide no offset: other batches have its offsets, as where segments overlap. When the source no longer has
such damage, the segment is replaced by its valid parts in the same way. Of a segment that was registered in place, the
valid parts may lie elsewhere in the file now, as do later parts of the file: they are registered there.

`logcore.logs.growth.fillers` decides which bytes may fill a gap. This module finds the gaps in the archive and plans
the segments that replace them. The ingest job copies and commits.
"""

from __future__ import annotations

import itertools
import json
import posixpath
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from logcore.errors import LogError
from logcore.logs.growth.copies import LogCopy
from logcore.logs.growth.fillers import Filler, Hole, find_fillers
from logcore.logs.model.findings import Finding, Severity, found
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.reading.checked_segments import checked_items
from logcore.reading.compared_copies import ComparedCopies, not_decided
from logcore.reading.read_options import Notes
from logcore.records.model import BatchIdentity
from logcore.segments.scanning.scan import ScannedBatch, SegmentScan
from logcore.storage.discovery import HeaderReader, shown
from logcore.storage.objects.remembered_reads import RememberedReads
from spark_jobs.groups import by_key
from spark_jobs.ingest.segment_copy import CopyTask
from spark_jobs.ingest.segment_slices import SliceCopy, Swap, part_of
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.ledger.frontier import read_ledger
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import LogRow, Segment
from spark_jobs.lake.segments.ledger_ranges import unarchived

CORRUPT, MISSING, SPARE = "corrupt", "missing", "spare"

Range = tuple[int, int, str]
"""First offset, end offset (exclusive), state."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A directory that may have the lost offsets."""

    log: SourceLog
    is_own: bool


@dataclass(frozen=True, slots=True)
class _Search:
    """A search for the lost offsets of a log."""

    lake: str
    row: LogRow
    feeding: Sequence[Segment]
    copies: Sequence[Copy]
    compared: ComparedCopies
    reader: HeaderReader

    @property
    def own(self) -> SourceLog | None:
        """The source of the log; None: it is not searched."""
        return next((copy.log for copy in self.copies if copy.is_own), None)


@dataclass(frozen=True, slots=True)
class _Filled:
    """A gap, what fills it, and the rows of `batches` for the bytes in it."""

    start: int
    end: int
    state: str
    fillers: tuple[Filler, ...]
    damage: tuple[Mapping[str, Any], ...]

    @property
    def left(self) -> tuple[int, int] | None:
        """The first offsets of the gap that are not filled."""
        at = self.start
        for filler in self.fillers:
            if filler.base_offset > at:
                return at, filler.base_offset
            at = filler.next_offset
        return (at, self.end) if at < self.end else None


def holes_of(
    lake: str, logs: Mapping[str, LogRow], segments: Mapping[str, Sequence[Segment]]
) -> dict[str, list[Range]]:
    """Missing or corrupt ranges of the ledger, by log; adjacent ranges with the same state are joined.

    Offsets that the ledger has and no segment, as after a loss of `segments`, are missing too.

    Args:
        lake: The lake.
        logs: Its logs.
        segments: All segments of each log, including retired ones.
    """
    columns = ["log", "start_offset", "end_offset", "state"]
    rows = read_rows(lake, "offset_ledger", columns, [("state", "in", [CORRUPT, MISSING])]).to_pylist()
    holes: dict[str, list[Range]] = {}
    for row in sorted(rows, key=lambda row: (row["log"], row["start_offset"])):
        mine = holes.setdefault(row["log"], [])
        start = row["start_offset"]
        if mine and mine[-1][1:] == (start, row["state"]):
            start = mine.pop()[0]
        mine.append((start, row["end_offset"], row["state"]))
    feeding = {log: sorted((s for s in segments.get(log, ()) if s.feeds), key=lambda s: s.base_offset) for log in logs}
    # Of most logs the segments follow each other: their ledgers, which may be large, are not read.
    doubtful = [log for log, row in logs.items() if _leave_out(row, feeding[log])]
    for log, ledger in read_ledger(lake, doubtful).items() if doubtful else ():
        lost = [(start, end, MISSING) for start, end in unarchived(feeding[log], ledger)]
        if lost:
            holes[log] = sorted([*holes.get(log, ()), *lost])
    return holes


def _leave_out(row: LogRow, feeding: Sequence[Segment]) -> bool:
    """Whether segments may leave out offsets of a log."""
    if not feeding or feeding[0].base_offset > row.log_start_offset or feeding[-1].next_offset < row.next_offset:
        return True
    return any(after.base_offset > before.next_offset for before, after in itertools.pairwise(feeding))


def damaged_segments(lake: str) -> dict[str, list[str]]:
    """Ids of validated segments with bytes that cannot be trusted, by log; also of retired ones."""
    rows = read_rows(lake, "validations", ["log", "segment_id"], [("verdict", "==", "corrupt")]).to_pylist()
    damaged: dict[str, list[str]] = {}
    for row in rows:
        damaged.setdefault(row["log"], []).append(row["segment_id"])
    return damaged


def plan_fill(
    lake: str,
    row: LogRow,
    segments: Iterable[Segment],
    holes: Sequence[Range],
    copies: Sequence[Copy],
    compared: ComparedCopies,
    *,
    in_place: bool,
    damaged: Collection[str] = (),
    remembered: RememberedReads | None = None,
) -> tuple[Swap | None, list[Finding]]:
    """Plan how to fill the gaps of a log; None where no copy has anything for them.

    Also returns findings about gaps that several copies would fill, if their histories do not say which of them.

    Args:
        compared: Compares copies with each other.
        segments: All segments of the log, including retired ones.
        in_place: Register the bytes at their source instead of copying them.
        damaged: Ids of segments with bytes that cannot be trusted.
        remembered: Small reads of objects by earlier runs; None: none.
    """
    segments = sorted(segments, key=lambda s: s.base_offset)
    feeding = [s for s in segments if s.feeds]
    cleaned = [s for s in segments if s.retired_ms is None and s.generation != archive.GENERATION_INGESTED]
    filled, undecided = list[_Filled](), list[Finding]()
    search = _Search(lake, row, feeding, copies, compared, HeaderReader(remembered))
    for start, end, state in holes:
        if any(s.base_offset < end and s.next_offset > start for s in cleaned):
            continue  # a cleaned segment covers these offsets too
        seen = {copy.log.directory: _seen(copy.log, feeding, start, end) for copy in copies}
        if any(_is_news(copy.log, seen[copy.log.directory], start, end) for copy in copies):
            found_here = _fill(search, start, end, state, seen, undecided)
            if found_here is not None:
                filled.append(found_here)
    if in_place:
        filled = _as_whole_objects(search, filled)
    own = search.own
    whole = {(f.start, f.end) for f in filled if f.left is None}
    if own is not None and not cleaned and all((start, end) in whole for start, end, _ in holes):
        harmed = [s for s in feeding if s.segment_id in damaged and s.retired_ms is None]
        with suppress(LogError):  # what cannot be read is not whole
            spare = [each for s in harmed for each in _without_damage(search, own, s)]
            filled += [each for each in spare if not any(start <= each.start < end for start, end, _ in holes)]
    if own is not None and not cleaned:
        with suppress(LogError):
            filled += _in_other_files(search, own, damaged)
    filled.sort(key=lambda each: each.start)
    while True:
        retired = [s for s in feeding if any(s.segment_id == d["segment_id"] for f in filled for d in f.damage)]
        rest = [(segment, _rest_of(search, segment, filled)) for segment in retired]
        kept = {segment.segment_id: _not_filled(row, segment) for segment, left in rest if left is None}
        if not kept:
            break
        undecided += kept.values()
        filled = [f for f in filled if not any(d["segment_id"] in kept for d in f.damage)]
    if not filled:
        return None, undecided
    remote = {path for copy in copies for path in _remote_files(copy.log)}
    parts = [
        _filler_part(lake, row, filler, in_place, is_remote=filler.segment.path in remote)
        for f in filled
        for filler in f.fillers
    ]
    parts += [part for _, left in rest for part in left or ()]
    parts.sort(key=lambda part: part.task.first_offset)
    findings = tuple(_said(row, f, filler) for f in filled if f.state != SPARE for filler in f.fillers)
    return Swap(tuple(retired), archive.FILLED, tuple(parts), findings), undecided


def without_held(gaps: Sequence[tuple[int, int, str]], held: Iterable[Segment]) -> list[tuple[int, int, str]]:
    """Evidence of lost offsets, without offsets that are archived now.

    Offsets that a source's cleaner removed stay in the evidence: segments there were ingested with gaps.
    """
    left = list(gaps)
    for segment in held:
        parts: list[tuple[int, int, str]] = []
        for start, end, why in left:
            if why == "source-cleaned" or segment.next_offset <= start or segment.base_offset >= end:
                parts.append((start, end, why))
                continue
            if start < segment.base_offset:
                parts.append((start, segment.base_offset, why))
            if segment.next_offset < end:
                parts.append((segment.next_offset, end, why))
        left = parts
    return left


def gaps_without(row: LogRow, held: Iterable[Segment]) -> str:
    """The row's evidence in its stored form, without offsets that are archived."""
    return json.dumps(without_held(row.gap_evidence, held))


def _seen(source: SourceLog, feeding: Iterable[Segment], start: int, end: int) -> set[str]:
    """Objects from which segments around the gap were ingested, in their current version: they have nothing more.

    A file of a disk may get its right bytes back together with its time, so it is searched in each run.
    """
    beside = {(s.origin_file, s.modified_ms) for s in feeding if s.base_offset <= end and s.next_offset >= start}
    return {file.path for file in source.segments if file.etag and (file.path, file.modified_ms) in beside}


def _is_news(source: SourceLog, seen: set[str], start: int, end: int) -> bool:
    """Whether a file that may have some of the offsets was not searched yet; decided without reading."""
    return any(
        file.path not in seen and file.base_offset < end and _ends_above(source, file, start)
        for file in source.segments
    )


def _ends_above(source: SourceLog, file: SegmentFile, offset: int) -> bool:
    following = source.next_base_offset(file)
    return following is None or following > offset


def _fill(
    search: _Search, start: int, end: int, state: str, seen: Mapping[str, set[str]], undecided: list[Finding]
) -> _Filled | None:
    row, feeding, reader = search.row, search.feeding, search.reader
    batches = _batches_around(search.lake, feeding, start, end)
    lost = [b for b in batches if b["last_offset"] is None and start <= b["base_offset"] < end]
    inside = [s for s in feeding if s.base_offset < end and s.next_offset > start]
    if state == MISSING:
        if not _are_validated(search.lake, inside):
            return None  # filled already: the ledger is `missing` only until the next validation
        lost = []
    elif not lost:
        return None
    # A segment may be named for offsets that it lacks: the rest of it begins where the gap ends.
    have = {b["segment_id"] for b in lost}
    lost += [_gap_in(s, batches, start, end) for s in inside if s.segment_id not in have]
    damage = tuple(sorted(lost, key=lambda b: (b["base_offset"], not b["size"], b["position"])))
    live = {s.segment_id for s in feeding if s.retired_ms is None}
    if any(d["segment_id"] not in live for d in damage):
        return None
    good = _good(batches)
    before = max((b for b in good if b["last_offset"] < start), key=lambda b: b["base_offset"], default=None)
    after = min((b for b in good if b["base_offset"] >= end), key=lambda b: b["base_offset"], default=None)
    hole = Hole(start, end, _identity(before), _identity(after), row.epochs, row.topic_id)
    given: dict[str, tuple[SourceLog, tuple[Filler, ...]]] = {}
    for copy in search.copies:
        files = seen[copy.log.directory]
        begin_at = _begin_at(feeding, start) if copy.is_own else {}
        fillers = find_fillers(hole, copy.log, reader, is_own=copy.is_own, seen=files, begin_at=begin_at)
        if fillers:
            given[copy.log.directory] = (copy.log, fillers)
        elif not copy.is_own and find_fillers(hole, copy.log, reader, is_own=True, seen=files):
            place = shown(copy.log.directory)
            message = (
                f"{place} has offsets of {row.topic_partition} that are lost here, in [{start}, {end}). They are not "
            )
            message += "taken: it has no batch beside them, and no topic id and leader epochs show that it is a copy."
            undecided.append(found("copies-undecided", message, file=place, start_offset=start, end_offset=end))
        if fillers and copy.is_own:
            break
    if not given:
        return None
    chosen = next(iter(given))
    if len(given) > 1:
        best = search.compared.compare([LogCopy(log) for log, _ in given.values()])
        chosen = best.best.log.directory
        if best.undecided is not None:
            undecided.append(not_decided(best))
            return None
    return _Filled(start, end, state, given[chosen][1], damage)


def _as_whole_objects(search: _Search, filled: Sequence[_Filled]) -> list[_Filled]:
    """Gaps that a later version of a registered object fills: the version takes the place of its whole segment.

    The segment's other batches cannot be read any more in the version that had the gap. They are in the later one, or
    in other objects of the log if the first one had bytes of another segment.
    """
    live = by_key((s for s in search.feeding if s.etag and s.retired_ms is None), lambda s: s.path)
    registered = {path: parts[0] for path, parts in live.items() if len(parts) == 1}
    taken: set[str] = set()
    result: list[_Filled] = []
    for gap in filled:
        segment = registered.get(gap.fillers[0].segment.path) if len(gap.fillers) == 1 else None
        fillers = None if segment is None else _fillers_of(search, segment, gap)
        if segment is not None and fillers is not None:
            lost = {"segment_id": segment.segment_id, "position": 0, "size": segment.size, "base_offset": gap.start}
            gap = replace(gap, fillers=() if segment.path in taken else fillers, damage=(lost,))
            taken.add(segment.path)
        result.append(gap)
    return result


def _fillers_of(search: _Search, segment: Segment, gap: _Filled) -> tuple[Filler, ...] | None:
    """What has all batches of a registered segment and those of its gap; None if nothing has."""
    (filler,) = gap.fillers
    headers = [header for _, header in search.reader.headers(filler.segment)]
    there = {header.identity for header in headers if header is not None}
    good = _good_of(search.lake, segment)
    if None not in headers and all(_identity(batch) in there for batch in good):
        return (Filler(filler.segment, 0, filler.segment.log_bytes, segment.base_offset, segment.next_offset),)
    if search.own is None or gap.start > segment.base_offset:
        return None
    others = (each for each in search.own.segments if gap.end <= each.base_offset < segment.next_offset)
    moved = _moved(segment, others, good, search.reader)
    if moved is None:
        return None
    return (filler, replace(moved.fillers[0], base_offset=gap.end), *moved.fillers[1:])


def _without_damage(search: _Search, source: SourceLog, segment: Segment) -> list[_Filled]:
    """Damage of a segment of a log without gaps, if its source no longer has it. It hides no offset then.

    Batches above the archive's end may be the only copy of their records: without them in the source the damage stays.
    So does damage in whose place the source now has a good batch that the archive does not have.
    """
    lake, reader = search.lake, search.reader
    file = next((each for each in source.segments if each.base_offset == segment.origin_base_offset), None)
    if file is None and (source.named_files or posixpath.dirname(segment.origin_file) != source.directory):
        return []  # this run does not read it, or it is in another directory or in remote storage
    good = _good_of(lake, segment)
    if file is not None and not _is_whole(source, file, segment):
        return []
    moved = _moved_parts(search, segment, file) if file is not None and segment.lies_at_source else []
    if moved is None:
        return []
    gone: list[_Filled] = []
    for offset, group in itertools.groupby(_quarantine(lake, segment), key=lambda stretch: stretch["expected_offset"]):
        damage = tuple(group)
        above = _above(search.row, damage)
        ours = map(_identity, (*good, *_good(_batches_around(lake, search.feeding, offset, offset + 1))))
        at = segment.origin_position + damage[0]["position"]
        batch = None if file is None else reader.header_at(file, at)
        if (batch is None or batch.identity in ours) and _has(source, above, reader):
            gone.append(_Filled(offset, offset, SPARE, (), damage))
        elif moved:
            return []
    return moved if gone and moved else gone


def gone_at_source(source: SourceLog, segments: Iterable[Segment]) -> list[Segment]:
    """Live segments that are registered in files of a log's directory which it no longer has."""
    if source.named_files:
        return []  # this run does not read the others
    files = {file.path for file in source.segments}
    return [
        s
        for s in segments
        if s.retired_ms is None
        and s.lies_at_source
        and s.origin_file not in files
        and posixpath.dirname(s.origin_file) == source.directory
    ]


def _in_other_files(search: _Search, source: SourceLog, damaged: Collection[str]) -> list[_Filled]:
    """Registered segments whose file is gone and whose batches other files of the log have now."""
    moved: list[_Filled] = []
    for segment in gone_at_source(source, search.feeding):
        if segment.segment_id not in damaged:
            files = (
                each
                for each in source.segments
                if each.base_offset < segment.next_offset and _ends_above(source, each, segment.base_offset)
            )
            found_here = _moved(segment, files, _good_of(search.lake, segment), search.reader)
            moved += [] if found_here is None else [found_here]
    return moved


def _quarantine(lake: str, segment: Segment) -> list[dict[str, Any]]:
    """Bytes of a segment that cannot be trusted, in their order."""
    columns = ["segment_id", "position", "size", "expected_offset", "bytes"]
    stretches = read_rows(lake, "quarantine", columns, [("segment_id", "==", segment.segment_id)]).to_pylist()
    return sorted(stretches, key=lambda stretch: int(stretch["position"]))


def _above(row: LogRow, stretches: Iterable[Mapping[str, Any]]) -> set[BatchIdentity]:
    """Whole batches in such bytes that reach above the archive's end."""
    walk = SegmentScan(b"".join(each["bytes"] for each in stretches), base_offset=0, sealed=True, decode=False)
    headers = [item.header for item in walk if isinstance(item, ScannedBatch)]
    return {header.identity for header in headers if header.next_offset > row.next_offset}


def _has(source: SourceLog, batches: set[BatchIdentity], reader: HeaderReader) -> bool:
    """Whether a source has all of these batches, each in the segment of its offsets."""
    left = set(batches)
    for file in source.segments if left else ():
        end = source.next_base_offset(file)
        if _ends_above(source, file, min(batches)[0]):
            headers = (header for _, header in reader.headers(file) if header is not None)
            left -= {header.identity for header in headers if end is None or header.next_offset <= end}
    return not left


def _is_whole(source: SourceLog, file: SegmentFile, segment: Segment) -> bool:
    """Whether the source has nothing bad of a segment any more."""
    is_same = (file.path, file.modified_ms) == (segment.origin_file, segment.modified_ms)
    if file.etag and is_same and source.next_base_offset(file) == segment.next_offset:
        return False  # the object that was read before
    notes = Notes()
    for _ in checked_items(source, [file], notes):
        pass
    return not any(finding.severity is Severity.ERROR for finding in notes.findings)


def _moved_parts(search: _Search, segment: Segment, file: SegmentFile) -> list[_Filled] | None:
    """A segment that was registered in place, and later parts of its file, if their batches lie elsewhere in it now.

    None where not all of them are there, or where a later part is damaged: it comes first.
    """
    headers, live = search.reader.headers(file), (s for s in search.feeding if s.retired_ms is None)
    there = {(position, header.identity) for position, header in headers if header is not None}
    of_file = (s for s in live if s.lies_at_source and s.origin_file == segment.origin_file)
    moved: list[_Filled] = []
    for part in sorted(of_file, key=lambda s: s.origin_position):
        if part.origin_position < segment.origin_position:
            continue
        good = _good_of(search.lake, part)
        if all((part.origin_position + batch["position"], _identity(batch)) in there for batch in good):
            continue
        found_here = _moved(part, [file], good, search.reader)
        if found_here is None or (part.segment_id != segment.segment_id and _quarantine(search.lake, part)):
            return None
        moved.append(found_here)
    return moved


def _moved(
    segment: Segment, files: Iterable[SegmentFile], good: Sequence[Mapping[str, Any]], reader: HeaderReader
) -> _Filled | None:
    """The good batches of a segment that was registered in place, where they lie now; None if some do not.

    A broker's file only grows, but what is restored in its place may lack bytes that were between batches, and may
    begin and end elsewhere.
    """
    ours = {_identity(batch) for batch in good}
    fillers: list[Filler] = []
    count = 0
    for file in files:
        headers = ((at, header) for at, header in reader.headers(file) if header is not None)
        there = [(at, header) for at, header in headers if header.identity in ours]
        if not there:
            continue
        start, sizes = there[0][0], [header.size for _, header in there]
        if [at for at, _ in there] != list(itertools.accumulate(sizes, initial=start))[:-1]:
            return None
        first = there[0][1].base_offset if fillers else segment.base_offset
        fillers = [*fillers[:-1], *(replace(each, next_offset=first) for each in fillers[-1:])]
        fillers.append(Filler(file, start, start + sum(sizes), first, segment.next_offset))
        count += len(there)
    if not fillers or count != len(good):
        return None
    whole = {"segment_id": segment.segment_id, "position": 0, "size": segment.size, "base_offset": segment.base_offset}
    return _Filled(segment.base_offset, segment.next_offset, SPARE, tuple(fillers), (whole,))


def _batches_around(lake: str, feeding: Sequence[Segment], start: int, end: int) -> list[dict[str, Any]]:
    """Rows of `batches` of the segments in the gap and on both sides of it."""
    before = [s for s in feeding if s.next_offset <= start and s.last_batch_end is not None][-1:]
    inside = [s for s in feeding if s.base_offset < end and s.next_offset > start]
    after = [s for s in feeding if s.base_offset >= end][:1]
    ids = [s.segment_id for s in (*before, *inside, *after)]
    columns = ["segment_id", "position", "size", "base_offset", "last_offset", "leader_epoch", "crc"]
    return read_rows(lake, "batches", columns, [("segment_id", "in", ids)]).to_pylist() if ids else []


def _are_validated(lake: str, segments: Iterable[Segment]) -> bool:
    ids = {s.segment_id for s in segments}
    rows = read_rows(lake, "validations", ["segment_id"], [("segment_id", "in", sorted(ids))]) if ids else None
    return rows is None or ids <= set(rows["segment_id"].to_pylist())


def _gap_in(segment: Segment, batches: Iterable[Mapping[str, Any]], start: int, end: int) -> dict[str, Any]:
    """The bytes of a segment where offsets are missing, as a row of `batches`: none, or zeros at its end."""
    mine = [b for b in batches if b["segment_id"] == segment.segment_id and b["last_offset"] is not None]
    begin = max((b["position"] + b["size"] for b in mine if b["last_offset"] < start), default=0)
    behind = min((b["position"] for b in mine if b["base_offset"] >= end), default=segment.size)
    return {"segment_id": segment.segment_id, "position": begin, "size": behind - begin, "base_offset": start}


def _good_of(lake: str, segment: Segment) -> list[dict[str, Any]]:
    """Rows of the good `batches` of one segment."""
    return _good(_batches_around(lake, [segment], segment.base_offset, segment.base_offset + 1))


def _good(batches: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [batch for batch in batches if batch["last_offset"] is not None]


def _identity(batch: Mapping[str, Any] | None) -> BatchIdentity | None:
    return None if batch is None else (batch["base_offset"], batch["leader_epoch"], batch["crc"])


def _begin_at(feeding: Iterable[Segment], start: int) -> dict[str, int]:
    """Lower bounds for the gap's positions in the source's files."""
    positions: dict[str, int] = {}
    for segment in feeding:
        if segment.base_offset <= start:
            is_before = segment.next_offset <= start and segment.last_batch_end is not None
            at = segment.last_batch_end if is_before and segment.last_batch_end else segment.origin_position
            positions[segment.origin_file] = max(positions.get(segment.origin_file, 0), at)
    return positions


def _filler_part(lake: str, row: LogRow, filler: Filler, in_place: bool, *, is_remote: bool) -> SliceCopy:
    task = CopyTask.of(lake, row, filler.segment, in_place=in_place)
    start, first, end = filler.start, filler.base_offset, filler.end
    return SliceCopy(replace(task, start=start, first_offset=first, end=end, is_remote=is_remote))


def _remote_files(source: SourceLog) -> list[str]:
    start = source.local_start_offset
    return [] if start is None else [file.path for file in source.segments if file.base_offset < start]


def _rest_of(search: _Search, segment: Segment, filled: Sequence[_Filled]) -> list[SliceCopy] | None:
    """Remaining parts of a damaged segment: its valid stretches, and damage without a replacement.

    Batches above the archive's end may be the only copy of their records: without them in the log's source, the part
    before such damage keeps it. Where no part is before it, the segment must stay as it is: None.
    """
    parts: list[tuple[int, int, int, int]] = []
    at, base_offset, lost = 0, segment.base_offset, 0
    for hole in filled:
        mine = sorted((d for d in hole.damage if d["segment_id"] == segment.segment_id), key=lambda d: d["position"])
        if not mine:
            continue
        start, end = mine[0]["position"], mine[-1]["position"] + mine[-1]["size"]
        if start > at:
            parts.append((at, start, base_offset, hole.start))
        if hole.state == CORRUPT and hole.left is not None and mine[0] == hole.damage[0]:
            parts.append((start, end, *hole.left))
        at, base_offset, lost = end, hole.end, start
    if at < segment.size and base_offset < segment.next_offset:
        parts.append((at, segment.size, base_offset, segment.next_offset))
    elif base_offset >= segment.next_offset:
        stretches = (each for each in _quarantine(search.lake, segment) if each["position"] >= lost)
        above = _above(search.row, stretches)
        if above and (search.own is None or not _has(search.own, above, search.reader)):
            if not parts:
                return None
            start, _, first, following = parts.pop()
            parts.append((start, segment.size, first, following))
    return [part_of(search.lake, segment, *part) for part in parts]


def _not_filled(row: LogRow, segment: Segment) -> Finding:
    return found(
        "range-not-filled",
        f"{row.topic_partition}: a copy has lost offsets of [{segment.base_offset}, {segment.next_offset}). They are "
        f"not taken: after the damage, the segment has the only copy of batches from offset {row.next_offset} on.",
        file=segment.origin_file,
        start_offset=segment.base_offset,
        end_offset=segment.next_offset,
    )


def _said(row: LogRow, hole: _Filled, filler: Filler) -> Finding:
    return found(
        "range-filled",
        f"{row.topic_partition}: offsets [{filler.base_offset}, {filler.next_offset}) were {hole.state} and were found "
        "there. After validation they are published, as a replacement where the frontier has passed them.",
        file=filler.segment.path,
        position=filler.start,
        nbytes=filler.end - filler.start,
        start_offset=filler.base_offset,
        end_offset=filler.next_offset,
    )
