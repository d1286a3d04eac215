"""What must hold after a round of cleaning by any cleaner: invariants I4 to I8, checked by the truth of the model.

    I4  the newest committed record of a key stays, unless it is a tombstone past its horizon
    I5  a key whose newest committed record is a tombstone shows no older value, now or at any later clean
    I6  what was aborted or is undecided never becomes readable; a marker outlives the data of its transaction
    I7  what stays is what was written, in order; the log end offset does not fall
    I8  damage freezes garbage collection: what cannot be read stays as it is, nothing at or above it goes but a value
        that a readable newer one replaces
    I9  retention leaves what the model leaves, and a second pass nothing else
    G   garbage goes: where nothing is damaged, a round leaves exactly what the rules of section 9 leave

Every check takes the log before and the log after and gives sentences; none is good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from tests.model.batches import Batch, batches
from tests.model.reference_log import Fate, Marked, ReferenceLog, Segment, Written


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a round. groups: whether segments are merged. max_keys: of the offset map; None: no limit."""

    delete_retention_ms: int = 1000
    producer_expiration_ms: int = 86_400_000
    line: str = "4.4"
    groups: bool = True
    max_keys: int | None = None
    retention_ms: int = 5
    retention_bytes: int = -1


class Cleaned(NamedTuple):
    """What a round left: every segment of the log, and where the next one begins."""

    segments: tuple[Segment, ...]
    first_dirty: int


Cleaner: TypeAlias = Callable[[ReferenceLog, Settings], "Cleaned | None"]
"""Does one round at the log's clock; None if it finds nothing to do. The last segment is the active one."""


class Kept(NamedTuple):
    """What retention left."""

    segments: tuple[Segment, ...]
    log_start: int


Retainer: TypeAlias = Callable[[ReferenceLog, Settings], Kept]


def cleaned(log: ReferenceLog, settings: Settings, clean: Cleaner) -> ReferenceLog:
    """The log after a round. Raises AssertionError with what does not hold."""
    result = clean(log, settings)
    if result is None:
        assert log.damage or not _is_dirty(log), "G: a dirty log was not cleaned"
        return log
    reached = max(log.cleaned_to, log.cleanable_end)
    after = replace(log, segments=result.segments, first_dirty=result.first_dirty, cleaned_to=reached)
    problems = list(violations(log, after, settings))
    assert not problems, "; ".join(problems)
    return after


def retained(log: ReferenceLog, settings: Settings, retain: Retainer) -> ReferenceLog:
    """The log after a pass of retention. Raises AssertionError where it is not the model's."""
    first = retain(log, settings)
    expected = expected_retention(log, settings)
    assert [each.base_offset for each in first.segments] == [each.base_offset for each in expected.segments], "I9: set"
    assert first.log_start == expected.log_start, f"I9: log start {first.log_start}, not {expected.log_start}"
    by_base = {each.base_offset: each for each in log.segments}
    for each in first.segments:
        same = by_base.get(each.base_offset)
        assert each.content == (same.content if same else b""), "I9: bytes"
    after = replace(log, segments=first.segments, log_start=first.log_start)
    again = retain(after, settings)
    assert (again.segments, again.log_start) == (first.segments, first.log_start), "I9: a second pass goes on"
    return after


def expected_retention(log: ReferenceLog, settings: Settings) -> Kept:
    """Section 8: log start, then size, then time, each from the oldest segment on and up to the first that stays."""
    segments, start = list(log.segments), log.log_start

    def upper(place: int) -> int:
        return segments[place + 1].base_offset if place + 1 < len(segments) else log.end

    def delete(should: Callable[[int], bool]) -> None:
        nonlocal segments, start
        gone = 0
        while gone < len(segments) and log.committed_end >= upper(gone):
            is_last = gone + 1 == len(segments)
            if (is_last and not segments[gone].content) or not should(gone):
                break
            gone += 1
        if gone and gone == len(segments):
            segments.append(Segment(log.end, b"", log.clock_ms))
        if gone:
            segments = segments[gone:]
            start = max(start, segments[0].base_offset)

    delete(lambda place: place + 1 < len(segments) and segments[place + 1].base_offset <= start)
    if settings.retention_bytes >= 0:
        left = sum(len(each.content) for each in segments) - settings.retention_bytes

        def is_over(place: int) -> bool:
            nonlocal left
            if left - len(segments[place].content) < 0:
                return False
            left -= len(segments[place].content)
            return True

        if left >= 0:
            delete(is_over)
    if settings.retention_ms >= 0:
        delete(lambda place: log.clock_ms - _largest_timestamp(segments[place]) > settings.retention_ms)
    return Kept(tuple(segments), start)


def violations(before: ReferenceLog, after: ReferenceLog, settings: Settings) -> Iterator[str]:
    """What does not hold after a round of cleaning that made `after` of `before`."""
    yield from _survivors_are_what_they_were(before, after, settings)
    yield from _nothing_needed_is_gone(before, after, settings)
    yield from _nothing_comes_back(before, after)
    yield from _markers_outlive_their_data(before, after)
    yield from _readers_see_what_was_committed(after)
    yield from _damage_stays_as_it_is(before, after)
    yield from _producers_are_remembered(before, after, settings)
    if not before.damage:
        yield from _garbage_is_gone(before, after, settings)


def data_offsets(log: ReferenceLog) -> set[int]:
    """Offsets of the records that are there, readable or not."""
    return {each.offset for batch in log.batches_left() if not batch.is_control for each in batch.records}


def marker_offsets(log: ReferenceLog) -> set[int]:
    """Offsets of the markers that are there, readable or not."""
    return {batch.base_offset for batch in log.batches_left() if batch.marks_commit is not None}


def unreadable(log: ReferenceLog, offset: int) -> bool:
    """Whether the offset lies in damaged bytes."""
    return any(each.base_offset <= offset <= each.last_offset for each in log.damage)


def _is_frozen(log: ReferenceLog, offset: int) -> bool:
    """Whether there is something below the offset, in the log, that cannot be read."""
    return any(each.base_offset <= offset and each.last_offset >= log.log_start for each in log.damage)


def _is_dirty(log: ReferenceLog) -> bool:
    start = log.first_dirty if log.first_dirty is not None and log.first_dirty >= log.log_start else log.log_start
    return any(
        each.content
        for each, behind in zip(log.segments, log.segments[1:], strict=False)
        if behind.base_offset > start and each.base_offset < log.cleanable_end
    )


def _largest_timestamp(segment: Segment) -> int:
    stamps = [batch.max_timestamp for batch in batches(segment.content) if batch.max_timestamp >= 0]
    return max(stamps, default=segment.modified_ms)


def _survivors_are_what_they_were(before: ReferenceLog, after: ReferenceLog, settings: Settings) -> Iterator[str]:
    truth = {each.offset: each for each in before.written}
    marks = {each.offset: each for each in before.marked}
    old = {batch.base_offset: batch for segment in before.segments for batch in batches(segment.content)}
    last = -1
    for segment, limit in zip(
        after.segments, [*(each.base_offset for each in after.segments[1:]), before.end], strict=True
    ):
        for batch in batches(segment.content):
            was = old.get(batch.base_offset)
            if was is None or was.last_offset != batch.last_offset:
                yield f"I7: no batch was at {batch.base_offset} to {batch.last_offset}"
                continue
            if not segment.base_offset <= batch.base_offset <= batch.last_offset < limit:
                yield f"I7: batch {batch.base_offset} is outside of segment {segment.base_offset}"
            if not batch.is_sound:
                continue
            if _who(batch) != _who(was):
                yield f"I7: batch {batch.base_offset} has another producer or kind"
            right = {was.horizon, was.horizon or before.clock_ms + settings.delete_retention_ms}
            if batch.horizon not in right and batch.records:
                yield f"I4: the horizon of batch {batch.base_offset} is {batch.horizon}, was {was.horizon}"
            if batch.base_offset <= last:
                yield f"I7: batch {batch.base_offset} is out of order"
            last = batch.last_offset
            yield from _records_are_what_they_were(batch, truth, marks)
    ends = [segment.base_offset for segment in after.segments[-1:]]
    ends += [batch.last_offset + 1 for batch in batches(after.active.content)]
    if not before.damage and max(ends) < before.end:
        yield f"I7: the log end offset fell to {max(ends)}"
    if before.active.content != after.active.content or before.active.base_offset != after.active.base_offset:
        yield "I7: the active segment is another"
    if after.first_dirty is not None and after.first_dirty > max(before.cleanable_end, before.first_dirty or 0):
        yield f"I7: the checkpoint moved to {after.first_dirty}, beyond what may be cleaned"


def _who(batch: Batch) -> tuple[object, ...]:
    return (
        *(batch.producer_id, batch.producer_epoch, batch.base_sequence),
        *(batch.is_control, batch.is_transactional),
    )


def _records_are_what_they_were(batch: Batch, truth: dict[int, Written], marks: dict[int, Marked]) -> Iterator[str]:
    previous = -1
    for each in batch.records:
        if each.offset <= previous or not batch.base_offset <= each.offset <= batch.last_offset:
            yield f"I7: record {each.offset} is out of order"
        previous = each.offset
        if batch.is_control:
            mark = marks.get(each.offset)
            if mark is None or mark.commits is not batch.marks_commit or mark.producer_id != batch.producer_id:
                yield f"I6: no such marker was written at {each.offset}"
            continue
        was = truth.get(each.offset)
        if was is None or (was.timestamp, was.key, was.value) != (each.timestamp, each.key, each.value):
            yield f"I7: record {each.offset} was another"


def _nothing_needed_is_gone(before: ReferenceLog, after: ReferenceLog, settings: Settings) -> Iterator[str]:
    there, left = data_offsets(before), data_offsets(after)
    horizons = {
        each.offset: batch.horizon
        for segment in before.segments
        for batch in batches(segment.content)
        for each in batch.records
    }
    newest: dict[bytes, int] = {}
    for each in before.written:
        if each.key is None or each.offset not in there:
            continue
        if each.offset >= before.last_stable_offset and not before.damage:
            continue  # where a transaction's only bytes cannot be read, a cleaner cannot know that it is open
        if before.fate(each) is Fate.COMMITTED and not unreadable(before, each.offset):
            newest[each.key] = each.offset
    for each in before.written:
        if each.offset not in there or each.offset in left or each.offset < before.log_start:
            continue
        frozen = _is_frozen(before, each.offset)
        rule = "I8" if before.damage else "I4"
        fate = before.fate(each)
        if unreadable(before, each.offset):
            yield f"I8: record {each.offset} cannot be read, and is gone"
        elif fate is Fate.OPEN:
            yield f"I6: record {each.offset} of an undecided transaction is gone"
        elif fate is Fate.ABORTED:
            pass
        elif each.key is None:
            if frozen:
                yield f"I8: record {each.offset} without a key is gone"
        elif newest.get(each.key, -1) > each.offset:
            pass
        elif each.value is not None:
            yield f"{rule}: record {each.offset}, the last value of {each.key!r}, is gone"
        elif frozen:
            yield f"I8: tombstone {each.offset} of {each.key!r} is gone"
        elif horizons[each.offset] is None or horizons[each.offset] > before.clock_ms:
            yield f"I4: tombstone {each.offset} of {each.key!r} is gone before its horizon"


def _nothing_comes_back(before: ReferenceLog, after: ReferenceLog) -> Iterator[str]:
    """Over everything ever written, so that it holds over any number of rounds."""
    left = data_offsets(after)
    newest: dict[bytes, Written] = {}
    newest_left: dict[bytes, int] = {}
    for each in before.written:
        if each.key is not None and before.fate(each) is Fate.COMMITTED:
            newest[each.key] = each
            if each.offset in left and each.offset >= before.log_start:
                newest_left[each.key] = each.offset
    for key, last in newest.items():
        if key in newest_left and newest_left[key] < last.offset:
            yield f"I5: {key!r} is back at {newest_left[key]}: its newest record, {last.offset}, is gone"


def _markers_outlive_their_data(before: ReferenceLog, after: ReferenceLog) -> Iterator[str]:
    data = {False: data_offsets(before), True: data_offsets(after)}
    had, has = marker_offsets(before), marker_offsets(after)
    horizons = {batch.base_offset: batch.horizon for segment in before.segments for batch in batches(segment.content)}
    for mark in before.marked:
        if mark.offset not in had or mark.offset in has or mark.offset < before.log_start:
            continue
        mine = [each.offset for each in before.written if each.transaction == mark.transaction]
        if any(offset in data[True] for offset in mine):
            yield f"I6: marker {mark.offset} is gone, and data of its transaction is not"
        elif any(offset in data[False] for offset in mine):
            yield f"I6: marker {mark.offset} went with data of its transaction, in one round"
        elif _is_frozen(before, mark.offset):
            yield f"I8: marker {mark.offset} is gone"
        elif horizons.get(mark.offset) is None or horizons[mark.offset] > before.clock_ms:
            yield f"I6: marker {mark.offset} is gone before its horizon"


def _readers_see_what_was_committed(log: ReferenceLog) -> Iterator[str]:
    """As a consumer of read_committed sees the log: by the transaction indexes, as a broker reports it, and by
    the markers alone."""
    unsure = {each.producer_id for each in log.marked if unreadable(log, each.offset)}
    truth = {each.offset: each for each in log.written}
    waiting = sorted(
        (entry for segment in log.segments for entry in segment.aborted if entry.last_offset >= log.log_start),
        key=lambda entry: entry.first_offset,
    )
    marks = {each.offset: each for each in log.marked}
    for entry in waiting:
        mark = marks.get(entry.last_offset)
        if mark is None or mark.commits or mark.producer_id != entry.producer_id:
            yield f"I6: the transaction index tells of an abort at {entry.last_offset}"
    active: set[int] = set()
    pending: dict[int, list[int]] = {}
    by_markers: dict[int, bool] = {}
    for segment in log.segments:
        for batch in batches(segment.content):
            if not batch.is_sound:
                continue
            while waiting and waiting[0].first_offset <= batch.last_offset:
                active.add(waiting.pop(0).producer_id)
            if batch.is_control:
                if batch.marks_commit is False:
                    active.discard(batch.producer_id)
                if batch.marks_commit is not None:
                    for offset in pending.pop(batch.producer_id, ()):
                        by_markers[offset] = batch.marks_commit
                continue
            for each in batch.records:
                hidden = batch.is_transactional and batch.producer_id in active
                if batch.is_transactional:
                    pending.setdefault(batch.producer_id, []).append(each.offset)
                if batch.producer_id in unsure or not log.log_start <= each.offset < log.last_stable_offset:
                    continue
                if each.offset in truth and hidden is (log.fate(truth[each.offset]) is Fate.COMMITTED):
                    seen = "hidden from" if hidden else "shown to"
                    yield f"I6: record {each.offset}, {log.fate(truth[each.offset])}, is {seen} a consumer"
    for offset, commits in by_markers.items():
        each = truth.get(offset)
        if each is None or each.producer_id in unsure or each.offset < log.log_start:
            continue
        if commits is not (log.fate(each) is Fate.COMMITTED):
            yield f"I6: record {offset}, {log.fate(each)}, is told otherwise by the next marker"


def _damage_stays_as_it_is(before: ReferenceLog, after: ReferenceLog) -> Iterator[str]:
    files = {each.base_offset: each.content for each in after.segments}
    for segment in before.segments:
        hurt = [each for each in before.damage if each.broken in segment.content]
        if hurt and files.get(segment.base_offset) != segment.content:
            yield f"I8: segment {segment.base_offset}, which cannot be read as a whole, is not what it was"
        if hurt and after.first_dirty is not None:
            moved = after.first_dirty > max(segment.base_offset, before.first_dirty or 0, before.log_start)
            if moved and segment.base_offset < before.active.base_offset:
                yield f"I8: the checkpoint moved to {after.first_dirty}, beyond segment {segment.base_offset}"


def _producers_are_remembered(before: ReferenceLog, after: ReferenceLog, settings: Settings) -> Iterator[str]:
    """The last data batch of a producer that a broker still knows holds its sequence. It stays, perhaps empty."""
    there = {batch.base_offset for segment in before.segments for batch in batches(segment.content)}
    left = {batch.base_offset for segment in after.segments for batch in batches(segment.content)}
    last: dict[int, int] = {}
    for each in before.written:
        if each.producer_id >= 0 and (each.batch_offset in there or unreadable(before, each.batch_offset)):
            last[each.producer_id] = each.batch_offset
    for producer, offset in last.items():
        seen = (before.last_seen_ms or {})[producer]
        forgotten = before.clock_ms - seen >= settings.producer_expiration_ms and producer not in (before.open or {})
        if not forgotten and offset not in left and not unreadable(before, offset) and offset >= before.log_start:
            yield f"producers: batch {offset}, the last of producer {producer}, is gone"


def _garbage_is_gone(before: ReferenceLog, after: ReferenceLog, settings: Settings) -> Iterator[str]:
    """Exactly the records that section 9 leaves, below where the round ended."""
    end = after.first_dirty or 0
    if settings.max_keys is None and end != before.cleanable_end:
        # The last batches of the range may have been cleaned away before; a whole segment counts up to its end.
        yield f"G: the round ended at {end}, not at {before.cleanable_end}"
    there, left = data_offsets(before), data_offsets(after)
    horizons = {
        each.offset: batch.horizon
        for segment in before.segments
        for batch in batches(segment.content)
        for each in batch.records
    }
    newest: dict[bytes, int] = {}
    for each in before.written:
        if each.key is None or each.offset not in there or not before.log_start <= each.offset < end:
            continue
        if before.fate(each) is Fate.COMMITTED:
            newest[each.key] = each.offset
    for each in before.written:
        if each.offset not in there or each.offset < before.log_start:
            continue
        if each.offset >= end:
            stays = not (before.fate(each) is Fate.ABORTED and each.offset not in left)
        elif each.key is None or before.fate(each) is not Fate.COMMITTED or newest[each.key] > each.offset:
            stays = False
        else:
            horizon = horizons[each.offset]
            stays = each.value is not None or horizon is None or horizon > before.clock_ms
        if stays is not (each.offset in left):
            yield f"G: record {each.offset} is {'gone' if stays else 'still there'}"
