"""What an unclean start leaves of the model's log, by the model's own reading of bytes (sections 3.4 and 5)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.model.batches import AbortedEntry, Batch, batches, indexes, transaction_index, unread_bytes
from tests.model.reference_log import ReferenceLog, Segment


@dataclass(frozen=True, slots=True)
class Recovered:
    """Files by name, and the bounds of the log. It has transaction indexes only if all of the log is replayed."""

    files: dict[str, bytes]
    log_start: int
    end: int
    cut: bool


def expected_recovery(log: ReferenceLog, recovery_point: int, interval: int) -> Recovered:
    """From the segment that holds the recovery point on, each ends before the first batch that is not sound; where
    anything was cut, the log ends there."""
    unflushed = max(
        (each.base_offset for each in log.segments if each.base_offset <= recovery_point),
        default=log.segments[0].base_offset,
    )
    left: list[Segment] = []
    cut = False
    for segment in log.segments:
        if segment.base_offset >= unflushed:
            valid = _valid(segment.content)
            left.append(replace(segment, content=segment.content[:valid]))
            if valid < len(segment.content):
                cut = True
                break
        else:
            left.append(segment)
    end = max([left[-1].base_offset, *(each.last_offset + 1 for each in batches(left[-1].content))])
    if end < log.log_start:
        left, end = [Segment(log.log_start, b"", log.clock_ms)], log.log_start
    files = {}
    aborted = _replayed(left)
    for segment in left:
        stem = f"{segment.base_offset:020d}"
        files[f"{stem}.log"] = segment.content
        files[f"{stem}.index"], files[f"{stem}.timeindex"] = indexes(segment.content, segment.base_offset, interval)
        entries = tuple(each for each in aborted if _holds(segment, left, each.last_offset))
        if entries:
            files[f"{stem}.txnindex"] = transaction_index(entries)
    return Recovered(files, max(log.log_start, left[0].base_offset), end, cut)


def sound_batches(files: dict[str, bytes]) -> set[tuple[int, bytes]]:
    """Every batch of a directory's logs that can be read."""
    return {
        (batch.base_offset, batch.raw)
        for name, content in files.items()
        if name.endswith(".log")
        for batch in batches(content)
        if batch.is_sound
    }


def _valid(content: bytes) -> int:
    for batch in batches(content):
        if not batch.is_sound:
            return batch.position
    return len(content) - unread_bytes(content)


def _holds(segment: Segment, segments: list[Segment], offset: int) -> bool:
    return segment.base_offset == max(each.base_offset for each in segments if each.base_offset <= offset)


def _replayed(segments: list[Segment]) -> list[AbortedEntry]:
    """The aborted transactions that a replay of all batches finds."""
    opened: dict[int, int] = {}
    found = []
    for batch in _all(segments):
        if batch.marks_commit is not None:
            first = opened.pop(batch.producer_id, None)
            if first is not None and not batch.marks_commit:
                stable = min(opened.values(), default=batch.last_offset + 1)
                found.append(AbortedEntry(batch.producer_id, first, batch.last_offset, stable))
        elif batch.is_transactional and not batch.is_control:
            opened.setdefault(batch.producer_id, batch.base_offset)
    return found


def _all(segments: list[Segment]) -> list[Batch]:
    return [batch for segment in segments for batch in batches(segment.content) if batch.is_sound]
