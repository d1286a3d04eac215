"""A small log that only one thread writes: what was written to it, what became of it, and the bytes that say so.

`ReferenceLog` is a value; every step gives a new one. It holds two things side by side: the truth (every record ever
written, which transaction it belongs to, how that ended, what was damaged) and the segments as bytes, which maintenance
may change. `tests/model/checker.py` compares the two. It shares no code with logcore.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tests.handmade import ABORT, COMMIT, GZIP, TRANSACTIONAL, batch, flip, marker, patch, record
from tests.model.batches import AbortedEntry, Batch, batches

START_MS = 1_700_000_000_000

Row = tuple[bytes | None, bytes | None]


class Fate(StrEnum):
    """How a transaction ended."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Written:
    """A record that was written. transaction: its number, None without one. batch_offset: base of its batch."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    producer_id: int
    transaction: int | None
    batch_offset: int


@dataclass(frozen=True, slots=True)
class Marked:
    """A marker that was written."""

    offset: int
    producer_id: int
    transaction: int
    commits: bool


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """One that has data and no marker yet."""

    number: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment as bytes. aborted: the entries of its transaction index."""

    base_offset: int
    content: bytes
    modified_ms: int
    aborted: tuple[AbortedEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class Damage:
    """A batch whose bytes were changed, and what they were."""

    base_offset: int
    last_offset: int
    sound: bytes
    broken: bytes


@dataclass(frozen=True, slots=True)
class ReferenceLog:
    """The log and the truth about it. high_watermark, first_dirty: None where nothing states them."""

    segments: tuple[Segment, ...] = (Segment(0, b"", START_MS),)
    written: tuple[Written, ...] = ()
    marked: tuple[Marked, ...] = ()
    fates: tuple[Fate, ...] = ()
    open: Mapping[int, OpenTransaction] | None = None
    sequences: Mapping[int, int] | None = None
    last_seen_ms: Mapping[int, int] | None = None
    damage: tuple[Damage, ...] = ()
    clock_ms: int = START_MS
    log_start: int = 0
    end: int = 0
    first_dirty: int | None = None
    high_watermark: int | None = None
    cleaned_to: int = 0
    """Up to where a round looked: the high watermark never falls below."""

    # What can be asked

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    @property
    def committed_end(self) -> int:
        """The high watermark."""
        return self.end if self.high_watermark is None else self.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction is decided, with a marker below the high watermark. What lies below the log start
        leaves nothing open, as a broker's replay begins there. Nor does what was cleaned away: a round may have known
        of an abort after its own end, and the high watermark fell below the marker since."""
        late = {mark.transaction for mark in self.marked if mark.offset >= self.committed_end}
        left = {batch.base_offset for batch in self.batches_left()} if late else set()
        unstable = [
            max(each.batch_offset, self.log_start)
            for each in self.written
            if each.offset >= self.log_start
            and each.transaction is not None
            and (self.fate(each) is Fate.OPEN or (each.transaction in late and each.batch_offset in left))
        ]
        return min([self.committed_end, *unstable])

    def batches_left(self) -> Iterator[Batch]:
        """Every batch that is there, as it was before it was damaged: what was cleaned away by then is not in it."""
        for segment in self.segments:
            content = segment.content
            for each in reversed(self.damage):
                content = content.replace(each.broken, each.sound)
            yield from batches(content)

    @property
    def cleanable_end(self) -> int:
        """Base of the first segment that a round of cleaning leaves alone."""
        start = self.first_dirty
        if start is None or not self.log_start <= start <= self.end:
            start = self.log_start
        limit = max(start, min(self.last_stable_offset, self.active.base_offset))
        return max(
            (each.base_offset for each in self.segments if each.base_offset <= limit),
            default=self.segments[0].base_offset,
        )

    def fate(self, each: Written | Marked) -> Fate:
        """Of a record: committed where it belongs to no transaction."""
        return Fate.COMMITTED if each.transaction is None else self.fates[each.transaction]

    # What can be done to it

    def write(
        self,
        rows: Sequence[Row],
        *,
        producer: int = -1,
        in_transaction: bool = False,
        compressed: bool = False,
    ) -> ReferenceLog:
        """A batch of these keys and values, at the clock, which then moves on by a millisecond."""
        base = self.end
        opened, fates, number = dict(self.open or {}), self.fates, None
        if in_transaction:
            if producer not in opened:
                opened[producer] = OpenTransaction(len(fates), base)
                fates += (Fate.OPEN,)
            number = opened[producer].number
        sequences, seen = dict(self.sequences or {}), dict(self.last_seen_ms or {})
        fields = {"attributes": TRANSACTIONAL if in_transaction else 0}
        if producer >= 0:
            fields |= {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequences.get(producer, 0)}
            sequences[producer] = sequences.get(producer, 0) + len(rows)
            seen[producer] = self.clock_ms
        records = [record(delta, key, value) for delta, (key, value) in enumerate(rows)]
        body = None
        if compressed:
            fields["attributes"] |= GZIP
            body = gzip.compress(b"".join(records), mtime=0)
        raw = batch(records, base_offset=base, base_timestamp=self.clock_ms, body=body, **fields)
        written = tuple(
            Written(base + delta, self.clock_ms, key, value, producer, number, base)
            for delta, (key, value) in enumerate(rows)
        )
        return replace(
            self._appended(raw, len(rows)),
            written=self.written + written,
            fates=fates,
            open=opened,
            sequences=sequences,
            last_seen_ms=seen,
        )

    def finish(self, producer: int, *, commits: bool) -> ReferenceLog:
        """The producer's open transaction ends with a marker."""
        assert self.open
        mine = self.open[producer]
        opened = {pid: each for pid, each in self.open.items() if pid != producer}
        kind = COMMIT if commits else ABORT
        raw = marker(self.end, kind, producer_id=producer, base_timestamp=self.clock_ms)
        entry = ()
        if not commits:
            stable = min((each.first_offset for each in opened.values()), default=self.end + 1)
            entry = (AbortedEntry(producer, mine.first_offset, self.end, stable),)
        fates = list(self.fates)
        fates[mine.number] = Fate.COMMITTED if commits else Fate.ABORTED
        return replace(
            self._appended(raw, 1, entry),
            marked=(*self.marked, Marked(self.end, producer, mine.number, commits)),
            fates=tuple(fates),
            open=opened,
            last_seen_ms={**(self.last_seen_ms or {}), producer: self.clock_ms},
        )

    def roll(self) -> ReferenceLog:
        """A new active segment, if there is anything in the old one."""
        if not self.active.content:
            return self
        return replace(self, segments=(*self.segments, Segment(self.end, b"", self.clock_ms)))

    def later(self, milliseconds: int) -> ReferenceLog:
        """The clock moves on."""
        return replace(self, clock_ms=self.clock_ms + milliseconds)

    def injured(self, from_the_end: int, *, unwalkable: bool = False) -> ReferenceLog | None:
        """The batch at that place, counted from the newest sound one, cannot be read any more: its checksum is wrong,
        or its size makes no sense, so that nothing after it in its segment can be found either. None if there is no
        such batch."""
        sound = [(place, each) for place in self.segments for each in batches(place.content) if each.is_sound]
        if from_the_end >= len(sound):
            return None
        segment, hurt = sound[-1 - from_the_end]
        tail = segment.content[hurt.position :] if unwalkable else hurt.raw
        broken = patch(tail, 8, b"\x00\x00\x00\x02") if unwalkable else flip(tail, len(tail) - 1)
        rest = [each for each in batches(segment.content) if each.position >= hurt.position]
        last = hurt.last_offset
        if unwalkable:  # what was damaged before lies after it now
            inside = [each.last_offset for each in self.damage if each.broken in tail]
            last = max([rest[-1].last_offset, *inside])
        content = patch(segment.content, hurt.position, broken)
        hurt_log = replace(
            self,
            segments=tuple(replace(each, content=content) if each is segment else each for each in self.segments),
            damage=(*self.damage, Damage(hurt.base_offset, last, tail, broken)),
        )
        return hurt_log.roll() if unwalkable else hurt_log  # nothing is appended after unwalkable bytes

    def healed(self) -> ReferenceLog:
        """What was damaged can be read again (another copy was found): the bytes are what they were. Damage
        below the log start stays."""
        healed = self
        wanted = [each for each in self.damage if each.last_offset >= self.log_start]
        for each in reversed(wanted):
            segments = tuple(
                replace(segment, content=segment.content.replace(each.broken, each.sound))
                for segment in healed.segments
            )
            healed = replace(healed, segments=segments)
        return replace(healed, damage=tuple(each for each in self.damage if each not in wanted))

    def starting_at(self, log_start: int) -> ReferenceLog:
        """What lies below is no longer part of the log, whether or not its bytes are there."""
        return replace(self, log_start=max(log_start, self.log_start))

    def _appended(self, raw: bytes, count: int, aborted: tuple[AbortedEntry, ...] = ()) -> ReferenceLog:
        last = self.active
        grown = replace(last, content=last.content + raw, modified_ms=self.clock_ms, aborted=(*last.aborted, *aborted))
        return replace(self, segments=(*self.segments[:-1], grown), end=self.end + count, clock_ms=self.clock_ms + 1)
