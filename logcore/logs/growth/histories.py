"""Copies of one log, in pairs: where their histories part, what each would cut off, and which offsets only one has.

    parts at      the first offset that both have, of different leader epochs or in different batches
    truncates to  where a broker cuts a copy back if the other one leads it, in a new epoch from its log end on
                  (KIP-101, KIP-279); None: nothing goes
    only          offsets that only one of the two has, before they part

Batches are the same if base offset, last offset, leader epoch and CRC are equal. Others of one epoch may differ if one
of them has less records than offsets, or another format: then headers do not decide, and `contents` does.

The CRC covers neither base offset nor leader epoch. So a batch that only one copy has is damaged (`without_moved`) if
the other one has it at the same place of the order, and these two fields contradict what is around it.

Everything is by headers that the caller has read. `copies` says which copy has the history.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum, auto
from itertools import combinations

from logcore.logs.growth.divergence import epochs_part_at
from logcore.ranges import Range, joined
from logcore.segments.side_files.leader_epochs import EpochEntry, Epochs, assign, epoch_for_offset, truncate_from_end

_BLOCK = 1 << 12


class CopyVerdict(StrEnum):
    """What a pair of copies shows; of several the first one that applies."""

    DIVERGED = auto()
    DAMAGED = auto()
    BEHIND = auto()
    CLEANED = auto()
    EQUAL = auto()


def _numbers() -> array[int]:
    return array("q")


@dataclass(frozen=True, slots=True)
class HeldBatches:
    """The good batches of a log in offset order, as columns: a log may have very many.

    `counts` has the number of records of each, and -1 where the format is not v2.
    """

    bases: array[int] = field(default_factory=_numbers)
    lasts: array[int] = field(default_factory=_numbers)
    epochs: array[int] = field(default_factory=_numbers)
    crcs: array[int] = field(default_factory=_numbers)
    counts: array[int] = field(default_factory=_numbers)

    @property
    def columns(self) -> tuple[array[int], ...]:
        """The columns, in the order of the arguments of `add`."""
        return self.bases, self.lasts, self.epochs, self.crcs, self.counts

    def add(self, *batch: int) -> None:
        """Add a batch: base offset, last offset, leader epoch, CRC, number of records."""
        for column, number in zip(self.columns, batch, strict=True):
            column.append(number)

    def __len__(self) -> int:
        return len(self.bases)

    def first_from(self, offset: int) -> int:
        """The number of the first batch that has this offset or a later one."""
        return bisect_left(self.lasts, offset)

    def is_sparse(self, number: int) -> bool:
        """Whether a batch may have less records than offsets."""
        return self.counts[number] <= self.lasts[number] - self.bases[number]


@dataclass(frozen=True, slots=True)
class CopyHistory:
    """One copy of a log.

    Attributes:
        log_start_offset: Where it begins.
        log_end_offset: Where it ends; before its start if a broker would delete all of it.
        high_watermark: None if it is not known.
        stated_epochs: Lines of its file of leader epochs; none: there is no such file.
        batches: Its batches that can be trusted.
        damaged: Offsets of bytes that cannot be trusted, ascending.
        lost: Offsets that it lost, and no cleaning removed, as far as its files show it.
        is_cleaned: Whether its batches, a checkpoint or the topic's policy show that its broker has cleaned it.
    """

    log_start_offset: int
    log_end_offset: int
    high_watermark: int | None
    stated_epochs: Epochs
    batches: HeldBatches
    damaged: tuple[Range, ...] = ()
    lost: tuple[Range, ...] = ()
    is_cleaned: bool = False

    @property
    def not_held(self) -> tuple[Range, ...]:
        """Offsets that are damaged or lost, ascending."""
        return joined((*self.damaged, *self.lost))

    @property
    def epochs(self) -> Epochs:
        """The leader epochs with records, as a broker has them after its start: its file, and what its batches add."""
        epochs, known, before = self.stated_epochs, self.batches, -1
        for number, epoch in enumerate(known.epochs):
            if epoch > before:
                before = epoch
                if not epochs or epoch > epochs[-1].epoch:
                    epochs = assign(epochs, epoch, known.bases[number])
        return truncate_from_end(epochs, self.log_end_offset)


@dataclass(frozen=True, slots=True)
class PairDifference:
    """How two copies differ.

    Attributes:
        parts_at: The first offset that both have with different histories; None: they do not part.
        left_truncates_to: Where the left copy is cut if the right one leads; None: nothing of it goes.
        right_truncates_to: The reverse.
        only_left: Offsets that only the left copy has, up to where they part and from there to its end.
        only_right: The reverse.
        is_damaged: Whether a batch of one of them cannot be trusted, or a broker would delete all of one.
        is_open: Headers do not decide whether one of them was cleaned.
        is_cleaned: One of them was cleaned, and nothing is lost by that.
    """

    parts_at: int | None
    left_truncates_to: int | None
    right_truncates_to: int | None
    only_left: tuple[Range, ...]
    only_right: tuple[Range, ...]
    is_damaged: bool = False
    is_open: bool = False
    is_cleaned: bool = False

    def verdict(self, not_below: int) -> CopyVerdict:
        """Return the verdict. Offsets below `not_below`, the start of the kept copy, are lacking in none."""
        if self.parts_at is not None:
            return CopyVerdict.DIVERGED
        if self.is_damaged:
            return CopyVerdict.DAMAGED
        if any(end > not_below for _, end in (*self.only_left, *self.only_right)):
            return CopyVerdict.BEHIND
        return CopyVerdict.CLEANED if self.is_cleaned else CopyVerdict.EQUAL

    def decided(self, parts_at: int | None, only_left: Sequence[Range], only_right: Sequence[Range]) -> PairDifference:
        """Return this with what the records of offsets that both hold say, where headers did not decide.

        Args:
            parts_at: The first offset with other content; None: there is none.
            only_left: Offsets whose records only the left copy has, and no cleaning removed.
            only_right: The reverse.
        """
        if parts_at is not None:
            return replace(self, parts_at=parts_at, is_open=False)
        return replace(
            self,
            only_left=joined((*self.only_left, *only_left)),
            only_right=joined((*self.only_right, *only_right)),
            is_open=False,
            is_cleaned=not only_left and not only_right,
        )


def without_moved(copies: Sequence[CopyHistory]) -> list[CopyHistory]:
    """Return the copies with each batch as damaged whose base offset or leader epoch another copy shows to be wrong."""
    moved: list[dict[int, Range]] = [{} for _ in copies]
    for left, right in combinations(range(len(copies)), 2):
        for side, number, span in _moved_batches(copies[left], copies[right]):
            moved[(left, right)[side]][number] = span
    return [_without(copy, spans) if spans else copy for copy, spans in zip(copies, moved, strict=True)]


def _without(copy: CopyHistory, spans: Mapping[int, Range]) -> CopyHistory:
    kept, last = HeldBatches(), len(copy.batches) - 1
    for column, numbers in zip(kept.columns, copy.batches.columns, strict=True):
        column.extend(number for at, number in enumerate(numbers) if at not in spans)
    damaged = joined((*copy.damaged, *spans.values()))
    return replace(copy, batches=kept, damaged=damaged, log_end_offset=spans.get(last, (0, copy.log_end_offset))[1])


def _moved_batches(left: CopyHistory, right: CopyHistory) -> Iterator[tuple[int, int, Range]]:
    """Yield moved batches of two copies: the side, the number of the batch there, and its right offsets."""
    ours, theirs, low = left.batches, right.batches, max(left.log_start_offset, right.log_start_offset)
    i, j = ours.first_from(low), theirs.first_from(low)
    while True:
        same = _same_run(ours, i, theirs, j)
        i, j = i + same, j + same
        if i >= len(ours) or j >= len(theirs):
            return
        side = _moved_side((left, i), (right, j))
        if side is not None:
            held, number = ((theirs, j), (ours, i))[side]
            yield side, (i, j)[side], (held.bases[number], held.lasts[number] + 1)
            i, j = i + 1, j + 1
            continue
        ours_ends, theirs_end = ours.lasts[i], theirs.lasts[j]
        i += ours_ends <= theirs_end
        j += theirs_end <= ours_ends


_Place = tuple[CopyHistory, int]
"""A copy, and the number of one of its batches."""


def _moved_side(ours: _Place, theirs: _Place) -> int | None:
    """Which of two batches has the wrong base offset or leader epoch; None if they are not one, or nothing says it."""
    (one, i), (other, j) = ours, theirs
    x, y = one.batches, other.batches
    if (x.crcs[i], x.counts[i], x.lasts[i] - x.bases[i]) != (y.crcs[j], y.counts[j], y.lasts[j] - y.bases[j]):
        return None
    if x.bases[i] != y.bases[j]:
        if x.epochs[i] != y.epochs[j]:
            return None
        is_next = [_follows(*place) for place in (ours, theirs)]
        return is_next.index(False) if any(is_next) and not all(is_next) else None
    is_right = [_epoch_is_right(*place) for place in (ours, theirs)]
    return is_right.index(False) if False in is_right and is_right.count(False) == 1 else None


def _follows(copy: CopyHistory, number: int) -> bool:
    """Whether a batch begins where the one before it ends."""
    before = copy.batches.lasts[number - 1] + 1 if number else copy.log_start_offset
    return copy.batches.bases[number] == before


def _epoch_is_right(copy: CopyHistory, number: int) -> bool:
    """Whether the file of epochs and the next batch allow the leader epoch of a batch: epochs never fall."""
    held, epoch = copy.batches, copy.batches.epochs[number]
    stated = epoch_for_offset(copy.stated_epochs, held.bases[number]) if copy.stated_epochs else epoch
    return stated in (None, epoch) and (number + 1 == len(held) or epoch <= held.epochs[number + 1])


def cleaned_away(copies: Sequence[CopyHistory]) -> list[int]:
    """How many records less than another copy each has, at the offsets that all have."""
    low = max(copy.log_start_offset for copy in copies)
    high = min(copy.log_end_offset for copy in copies)
    records = []
    for copy in copies:
        held = copy.batches
        first, last = held.first_from(low), bisect_left(held.bases, high)
        records.append(sum(map(abs, memoryview(held.counts)[first:last])))
    return [max(records) - each for each in records]


def compare_histories(left: CopyHistory, right: CopyHistory) -> PairDifference:
    """Compare two copies of one log by their headers. What is open is in no range: records decide it."""
    low = max(left.log_start_offset, right.log_start_offset)
    high = max(low, min(left.log_end_offset, right.log_end_offset))
    walk = _Walk(left, right, low, high)
    forks = [walk.fork(), _epochs_part_at(left, right, low, high)]
    fork = min((each for each in forks if each is not None), default=None)
    lost = [
        bool(spans) and (not other.is_cleaned or _shared(spans, other.lost))
        for spans, other in zip(walk.alone, (right, left), strict=True)
    ]
    alone = [spans if is_lost else [] for spans, is_lost in zip(walk.alone, lost, strict=True)]
    is_open = walk.is_open or any(spans and not is_lost for spans, is_lost in zip(walk.alone, lost, strict=True))
    bound = high if fork is None else fork
    return PairDifference(
        fork,
        truncates_to(left, right),
        truncates_to(right, left),
        _only(left, right, alone[0], bound),
        _only(right, left, alone[1], bound),
        is_damaged=any(copy.damaged or copy.log_end_offset < copy.log_start_offset for copy in (left, right)),
        is_open=fork is None and is_open,
    )


def _only(copy: CopyHistory, other: CopyHistory, alone: Iterable[Range], bound: int) -> tuple[Range, ...]:
    """Offsets that only one copy has: before the other begins, `alone`, and from `bound` on."""
    before = (copy.log_start_offset, min(other.log_start_offset, copy.log_end_offset))
    inside = ((first, min(last, bound)) for first, last in alone)
    after = (max(bound, copy.log_start_offset), copy.log_end_offset)
    return joined((before, *inside, after))


def truncates_to(follower: CopyHistory, leader: CopyHistory) -> int | None:
    """Where a copy is cut if another one leads, in a new epoch from its log end on; None: nothing of it goes.

    A follower without leader epochs is cut at its high watermark. Where the leader has nothing at the end of what is
    left, all of it goes: the follower begins again at the leader's log start.

    Source: Kafka AbstractFetcherThread.getOffsetTruncationState, ReplicaFetcherThread, fetchOffsetAndTruncate.
    """
    end, ours, theirs = follower.log_end_offset, follower.epochs, leader.epochs
    cut = end if follower.high_watermark is None else min(follower.high_watermark, end)
    if ours:
        new = max(each[-1].epoch for each in (ours, theirs) if each) + 1
        led = (*theirs, EpochEntry(new, leader.log_end_offset))
        fork = epochs_part_at(ours, led, end, leader.log_end_offset)
        cut = end if fork is None else fork
    cut = min(cut, leader.log_end_offset)
    if cut < leader.log_start_offset:
        cut = follower.log_start_offset
    return cut if cut < end else None


def held_batches(copies: Sequence[CopyHistory]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the batches that are damaged in a copy: their base offset, and the numbers of the copies that hold them."""
    bases = set()
    for copy in copies:
        for start, end in copy.damaged:
            found = set()
            for held in (each.batches for each in copies):
                number = held.first_from(start)
                while number < len(held) and held.bases[number] < end:
                    found.add(held.bases[number])
                    number += 1
            bases |= found or {start}
    for base in sorted(bases):
        holders = []
        for place, copy in enumerate(copies):
            number = bisect_left(copy.batches.bases, base)
            if number < len(copy.batches) and copy.batches.bases[number] == base:
                holders.append(place)
        yield base, tuple(holders)


def _epochs_part_at(left: CopyHistory, right: CopyHistory, low: int, high: int) -> int | None:
    """The first offset that the files of both say was written in different epochs."""
    if not left.stated_epochs or not right.stated_epochs:
        return None
    ours, theirs = left.epochs, right.epochs
    borders = {low, *(entry.start_offset for entry in (*ours, *theirs))}
    for offset in sorted(border for border in borders if low <= border < high):
        one, other = epoch_for_offset(ours, offset), epoch_for_offset(theirs, offset)
        if one is not None and other is not None and one != other:
            return offset
    return None


class _Walk:
    """The batches of two copies side by side, at the offsets [low, high) that both have.

    Attributes:
        alone: Offsets of batches that only the left copy has, and only the right one.
        is_open: A batch differs, and cleaning or another format may be the reason.
    """

    def __init__(self, left: CopyHistory, right: CopyHistory, low: int, high: int) -> None:
        self._copies, self._low, self._high = (left, right), low, high
        self.alone: tuple[list[Range], list[Range]] = ([], [])
        self.is_open = False

    def fork(self) -> int | None:
        """Walk up to the first batch that is another one, and return its offset; None: there is none."""
        ours, theirs = (copy.batches for copy in self._copies)
        i, j = ours.first_from(self._low), theirs.first_from(self._low)
        while True:
            same = _same_run(ours, i, theirs, j)
            i, j = i + same, j + same
            has_ours = i < len(ours) and ours.bases[i] < self._high
            has_theirs = j < len(theirs) and theirs.bases[j] < self._high
            if has_ours and (not has_theirs or ours.lasts[i] < theirs.bases[j]):
                self._leave_alone(0, ours, i)
                i += 1
            elif has_theirs and (not has_ours or theirs.lasts[j] < ours.bases[i]):
                self._leave_alone(1, theirs, j)
                j += 1
            elif not has_ours:
                return None
            else:
                is_open = ours.is_sparse(i) or theirs.is_sparse(j)
                if ours.epochs[i] != theirs.epochs[j] or not is_open:
                    return max(ours.bases[i], theirs.bases[j], self._low)
                self.is_open = True
                ours_ends, theirs_end = ours.lasts[i], theirs.lasts[j]
                i += ours_ends <= theirs_end
                j += theirs_end <= ours_ends

    def _leave_alone(self, side: int, held: HeldBatches, number: int) -> None:
        span = max(held.bases[number], self._low), min(held.lasts[number] + 1, self._high)
        if not _shared([span], self._copies[1 - side].damaged):
            self.alone[side].append(span)


def _same_run(ours: HeldBatches, i: int, theirs: HeldBatches, j: int) -> int:
    """How many batches are the same from two places on."""
    pairs = tuple(zip(ours.columns[:4], theirs.columns[:4], strict=True))
    run, most = 0, min(len(ours) - i, len(theirs) - j)
    length = 1
    while run < most:  # blocks that grow, so that neither a long run nor a short one costs much
        end = min(run + length, most)
        if all(one[i + run : i + end].tobytes() == other[j + run : j + end].tobytes() for one, other in pairs):
            run, length = end, min(2 * length, _BLOCK)
        elif end - run == 1:
            break
        else:
            length = max((end - run) // 2, 1)
    return run


def _shared(ranges: Sequence[Range], others: Sequence[Range]) -> bool:
    """Whether any of some ranges has an offset in any of others."""
    return any(start < end_of and start_of < end for start, end in ranges for start_of, end_of in others)
