"""Offsets that an earlier run left in the remote tier, and that remote storage gives now.

A lake may be filled without remote storage first. Its offsets are then `remote`, and the row of the log says so. As
soon as a run is given the storage, its segments are copied like any others: each is a segment of its own, and one that
cannot be read does not hinder the others. Its offsets stay `remote`.

    the segment lies between archived ones      it is copied whole
    a part of it is archived already            the rest is copied, from one batch to another
    a batch of it crosses archived offsets      it is left out, with a finding
    a compacted segment spans its offsets       it is left out, with a finding
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from logcore.errors import LogError
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.log_selection import LogSelection
from logcore.logs.model.offset_ledger import OF_REMOTE
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.ranges import joined
from logcore.reading.joined_logs import join_remote
from logcore.reading.read_options import Notes
from logcore.storage.discovery import HeaderReader
from logcore.storage.objects.addresses import AddressError
from logcore.storage.source_errors import SourceUnreadable, shown
from spark_jobs.errors import UsageError
from spark_jobs.ingest.late_segments import without_held
from spark_jobs.lake.segments.archive import LogRow, Segment


@dataclass(frozen=True, slots=True)
class RemotePart:
    """Bytes [start, end) of a remote segment, with the offsets [base_offset, next_offset) of its log."""

    file: SegmentFile
    start: int
    end: int
    base_offset: int
    next_offset: int


def with_remote(
    logs: Sequence[SourceLog],
    remote: Sequence[str],
    selection: LogSelection,
    held: Iterable[Segment] = (),
) -> tuple[tuple[SourceLog, ...], tuple[Finding, ...]]:
    """Return the logs joined with their remote segments, and the findings about remote storage.

    Storage that cannot be listed is a finding, and the local logs go on without it.

    Args:
        logs: All logs at the sources, those of the metadata topic too.
        remote: Directories or prefixes; none: the logs stay as they are.
        selection: Which logs are joined.
        held: Segments of the lake. Manifests whose contents are registered with them are not read.

    Raises:
        UsageError: The name of an object store cannot be used.
    """
    if not remote:
        return tuple(logs), ()
    notes = Notes()
    registered = {each.path: each.registered for each in held if each.registered and each.chunk_map}
    try:
        return join_remote(logs, remote, notes, selection, registered), tuple(notes.findings)
    except AddressError as error:
        raise UsageError(str(error)) from error
    except SourceUnreadable as error:
        message = f"{error}. The logs are read without remote storage; what is archived of it stays."
        return tuple(logs), (*notes.findings, found("unreadable", message, file=error.file or shown(remote[0])))


def is_held_up(source: SourceLog, known: LogRow) -> bool:
    """Whether a log stopped at a remote segment that could not be copied.

    Args:
        source: The log, joined with its remote segments.
        known: Its current row.
    """
    if source.local_start_offset is None or known.stopped_file is None:
        return False
    remote = (file.path for file in source.segments if file.base_offset < source.local_start_offset)
    return any(known.stopped_file.startswith(f"{path} ") for path in remote)


def remote_parts(
    source: SourceLog, row: LogRow, held: Iterable[Segment], cleaned: Sequence[Segment] = ()
) -> tuple[tuple[RemotePart, ...], tuple[Finding, ...]]:
    """Find bytes for the offsets of a log that are only in the remote tier, in offset order.

    No two parts have an offset twice, and none has one that is archived. Offsets from the end of the archive on are
    left to growth, which takes them too.

    Args:
        source: The log, joined with its remote segments.
        row: The row of the log.
        held: The segments that feed the log.
        cleaned: Its live segments that compaction wrote. Offsets that one of them spans are left out: the archive would
            have them twice.

    Returns:
        The parts, and a finding for each range that stays `remote` although remote storage has it.
    """
    segments = sorted(held, key=lambda each: each.base_offset)
    parts: list[RemotePart] = []
    findings: list[Finding] = []
    for start, end in _not_held(row, segments):
        spanning = next((each for each in cleaned if each.base_offset < end and each.next_offset > start), None)
        if spanning is not None:
            why = f"the compacted segment {spanning.base_offset} to {spanning.next_offset - 1} of the lake spans them"
            findings.append(left_out(row, start, end, why))
            continue
        taken = parts[-1].next_offset if parts else 0
        below = max([taken, *(each.next_offset for each in segments if each.next_offset <= start)])
        above = min((each.base_offset for each in segments if each.base_offset >= end), default=row.next_offset)
        for file in source.segments:
            following = source.next_base_offset(file)
            if following is None or following <= max(start, below) or file.base_offset >= end:
                continue
            part = _part(file, following, below, min(above, row.next_offset))
            if isinstance(part, RemotePart):
                parts.append(part)
                below = part.next_offset
            elif part is not None:
                low, high = max(start, file.base_offset), min(end, following)
                findings.append(left_out(row, low, high, part, shown(file.path)))
    return tuple(parts), tuple(findings)


def with_start_lowered(row: LogRow, held: Iterable[Segment]) -> LogRow:
    """Return the row with the log start and without the evidence that its archived segments make wrong.

    A log begins at its first local segment as long as its remote part was not read.

    Args:
        row: A row of the log, with its evidence of remote offsets.
        held: The segments that feed the log.
    """
    segments = tuple(held)
    start = row.log_start_offset
    for low, high in _remote(row):
        if low < start:
            inside = [each.base_offset for each in segments if each.base_offset < high and each.next_offset > low]
            start = min([start, *(max(low, base) for base in inside)])
    gaps = json.dumps(without_held(row.gap_evidence, segments)) if row.gap_evidence else row.gaps
    return replace(row, log_start_offset=start, gaps=gaps)


def read_findings(row: LogRow, added: Iterable[Segment]) -> tuple[Finding, ...]:
    """Return a finding for each range of offsets that was remote and is archived now."""
    spans = joined((each.base_offset, each.next_offset) for each in added)
    return tuple(
        found(
            "range-filled",
            f"{row.topic_partition}: offsets [{start}, {end}) were in the remote tier alone and were read from there. "
            "After validation they are published, as a replacement where the frontier has passed them.",
            start_offset=start,
            end_offset=end,
        )
        for start, end in spans
    )


def _remote(row: LogRow) -> list[tuple[int, int]]:
    return [(start, end) for start, end, why in row.gap_evidence if why in OF_REMOTE]


def _not_held(row: LogRow, held: Sequence[Segment]) -> list[tuple[int, int]]:
    """The remote offsets of a log below its archived end, without those that are archived, as ranges that ascend."""
    ranges = [(start, min(end, row.next_offset), OF_REMOTE[0]) for start, end in joined(_remote(row))]
    return [(start, end) for start, end, _ in without_held(ranges, held) if start < end]


def left_out(row: LogRow, start: int, end: int, why: str, file: str | None = None) -> Finding:
    """Return the finding that remote offsets are not copied. It is open as long as they are remote.

    Args:
        row: The row of the log.
        start: First offset.
        end: Offset after the last one.
        why: The reason, without a full stop.
        file: The remote segment, for people.
    """
    return found(
        "remote-range-left-out",
        f"{row.topic_partition}: offsets [{start}, {end}) are in remote storage, and stay there alone: {why}.",
        file=file,
        start_offset=start,
        end_offset=end,
    )


def _part(file: SegmentFile, following: int, below: int, above: int) -> RemotePart | str | None:
    """The part of a segment between archived offsets; why it cannot be taken; None if no batch is there."""
    if file.base_offset >= below and following <= above:
        return RemotePart(file, 0, file.log_bytes, file.base_offset, following)
    start, end, base = None, file.log_bytes, below
    try:
        for position, header in HeaderReader().headers(file):
            if header is None:
                return f"nothing can be read from position {position} of its segment on"
            if header.base_offset >= above:
                end = position
                break
            if header.next_offset <= below:
                continue
            if header.base_offset < below or header.next_offset > above:
                last = header.next_offset - 1
                return f"the batch of offsets [{header.base_offset}, {last + 1}) has archived offsets too"
            if start is None:
                start, base = position, max(below, file.base_offset)
    except LogError as error:
        return f"its segment cannot be read: {error.message}"  # a later run looks again
    return None if start is None else RemotePart(file, start, end, base, min(following, above))
