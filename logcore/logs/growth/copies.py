"""Which of several copies of a log has its history, and where the others part from it.

Evidence, in this order. A copy that fails one is out, whatever its length, and in whatever order copies are named:

    log start                 not after its end: a broker deletes such a log when it starts. Not if all are so
    __cluster_metadata        its leader; without the leader's copy, a replica in sync. Only if no copy has a later
                              leader epoch, and the leader's copy has what another one knows to be committed
    leader-epoch-checkpoint   the highest last line; an epoch without records counts
    epochs of batches         the same, where the file does not state it
    log end, high watermark   of copies that do not part; of those that end together, the least cleaned one

Nothing decides if copies with the same last epoch part, or if the copy with a later epoch knows nothing as committed
where the copies part and an earlier one does: either may be the history then.

Where two copies part is what a follower does with its leader's answers (KIP-101, KIP-279), and the first offset with
different batches. Batches of a cleaned part, or with another format, may differ; so may damaged ones.

Nothing is read here: headers come from a reader.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from logcore.errors import LogError
from logcore.logs.growth.agreement import Stopped
from logcore.logs.growth.divergence import CheckingReader, epochs_part_at, is_same_batch, source_from
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.ranges import Range, joined, left_out
from logcore.records.batch import BatchHeader
from logcore.segments.filenames import MAX_OFFSET


class Evidence(StrEnum):
    """What decides between copies."""

    WIPED = "log start after log end"
    METADATA = "__cluster_metadata"
    LEADER_EPOCHS = "leader-epoch-checkpoint"
    BATCH_EPOCHS = "leader epochs of batches"
    LOG_END = "log end"
    LOSSES = "losses"
    CLEANING = "cleaning"
    HIGH_WATERMARK = "high watermark"
    LOG_START = "log start"
    NONE = "same history"
    NAMED = "--side"


@dataclass(frozen=True, slots=True)
class Leadership:
    """What `__cluster_metadata` says of a topic partition. `in_sync`: broker ids, also of eligible leader replicas."""

    leader: int
    leader_epoch: int
    in_sync: Collection[int]


@dataclass(frozen=True, slots=True)
class LogCopy:
    """A copy of a log.

    Attributes:
        log: What its directory shows.
        end: Where it ends after its recovery; None: where its batches end.
        losses: Of copies that reach as far, the one with the least losses is used.
        holes: Offsets below its end that it lost, ascending.
        last_epoch: The leader epoch of its last batch, -1 without any; None: it is not known yet.
        cleaned: How many records less than another one it has, where both have offsets.
    """

    log: SourceLog
    end: int | None = None
    losses: tuple[int, ...] = ()
    holes: tuple[Range, ...] = ()
    last_epoch: int | None = None
    cleaned: int = 0


@dataclass(frozen=True, slots=True)
class CopyDifference:
    """How a copy differs from the one that is used, or that reaches furthest if none can be used.

    Attributes:
        copy: The copy.
        evidence: What decided against it.
        reason: The same with values, as a part of a sentence.
        parts_at: The first offset at which the copies have different histories; None: they do not part.
        has: Offsets that only this copy has.
        lacks: Offsets that only the other copy has.
        fills: Those that it has and the other copy lost, before the end of what both share, and can take.
    """

    copy: LogCopy
    evidence: Evidence
    reason: str
    parts_at: int | None
    has: tuple[Range, ...]
    lacks: tuple[Range, ...]
    fills: tuple[Range, ...] = ()

    def __str__(self) -> str:
        parts = [] if self.parts_at is None else [f"the copies part at offset {self.parts_at}"]
        for ranges, words in ((self.has, "only it has"), (self.lacks, "it lacks")):
            parts += [f"{words} {' and '.join(f'[{start}, {end})' for start, end in ranges)}"] if ranges else []
        return "; ".join([self.reason, *parts])


@dataclass(frozen=True, slots=True)
class CopyComparison:
    """The result.

    Attributes:
        best: The copy that is used, or would be if `undecided` is None.
        evidence: What decided.
        others: The other copies, in the order of the arguments.
        undecided: Why none can be used without being named, as a part of a sentence; None: `best` is used.
    """

    best: LogCopy
    evidence: Evidence
    others: tuple[CopyDifference, ...]
    undecided: str | None = None


@dataclass(frozen=True, slots=True)
class _Seen:
    """A copy with its end. `epoch`: its last leader epoch, which its file of epochs states if `is_stated`.

    `is_wiped`: its start lies after its end, so that a broker deletes all of it at its start.
    """

    copy: LogCopy
    end: int
    epoch: int
    is_stated: bool
    is_wiped: bool

    @property
    def log(self) -> SourceLog:
        return self.copy.log

    @property
    def committed(self) -> int:
        return self.log.high_watermark or 0

    @property
    def broker(self) -> int | None:
        stated = self.log.broker_id or ""
        return int(stated) if stated.isdecimal() else None

    @property
    def is_without_epochs(self) -> bool:
        """Whether it has batches, and nothing says in which leader epochs they were written."""
        return self.epoch < 0 and self.end > self.log.log_start_offset

    @property
    def rank(self) -> tuple[int, tuple[int, ...], int, int, int]:
        lost = *self.copy.losses, sum(end - start for start, end in self.copy.holes)
        less = tuple(-each for each in lost)
        return self.end, less, -self.copy.cleaned, self.committed, -self.log.log_start_offset


def compare_copies(
    copies: Sequence[LogCopy],
    reader: CheckingReader,
    said: Leadership | None = None,
    forks: Mapping[frozenset[str], int | None] | None = None,
    side: str | None = None,
) -> CopyComparison:
    """Compare copies of one log. The content of a copy never raises.

    Args:
        copies: The copies, at least one.
        reader: Reads their headers.
        said: What the cluster metadata says; None: it is not there.
        forks: Where copies part whose batches were all compared, by the directories of the two; None: they do not.
        side: The directory of the copy to use if nothing else decides. It may be one that a broker would delete.
    """
    seen = sorted((_seen(copy, reader, side) for copy in copies), key=lambda each: each.log.directory)
    out: dict[str, tuple[Evidence, str]] = {}
    left = _by_metadata(_not_wiped(seen, out), said, out)
    newest = max(each.epoch for each in left)
    for each in left:
        if each.epoch < newest and not each.is_without_epochs:
            stated = each.is_stated and any(other.is_stated for other in left if other.epoch == newest)
            evidence = Evidence.LEADER_EPOCHS if stated else Evidence.BATCH_EPOCHS
            last = "none" if each.epoch < 0 else each.epoch
            out[each.log.directory] = (evidence, f"its last leader epoch is {last}, not {newest} ({evidence})")
    left = [each for each in left if each.log.directory not in out]
    best = max(left, key=lambda each: each.rank)
    undecided = _not_of_one_log([each.log for each in seen])
    parted = _forks(best, seen, reader, forks or {})
    for each in seen:
        fork = parted.get(each.log.directory)
        if undecided is None and fork is not None:
            undecided = _in_doubt(best, each, fork, out.get(each.log.directory))
    named = next((each for each in seen if each.log.directory == side), None)
    if undecided is not None and named is not None:
        out = {each.log.directory: (Evidence.NAMED, f"another one was named ({undecided})") for each in seen}
        best, undecided = named, None
        parted = _forks(best, seen, reader, forks or {})
    others = [
        _difference(best, each, parted.get(each.log.directory), *out.get(each.log.directory, _by_end(best, each)))
        for each in seen
        if each is not best
    ]
    others.sort(key=lambda other: copies.index(other.copy))
    order = list(Evidence)
    evidence = max((other.evidence for other in others), key=order.index, default=Evidence.NONE)
    return CopyComparison(best.copy, evidence, tuple(others), undecided)


def _forks(
    best: _Seen, seen: Iterable[_Seen], reader: CheckingReader, known: Mapping[frozenset[str], int | None]
) -> dict[str, int]:
    """Where other copies part from the best one, by their directories."""
    found = {}
    for each in seen:
        if each is not best:
            pair = frozenset((best.log.directory, each.log.directory))
            fork = parts_at(best, each, known[pair] if pair in known else _batches_part_at(best, each, reader))
            if fork is not None:
                found[each.log.directory] = fork
    return found


def _not_wiped(seen: Sequence[_Seen], out: dict[str, tuple[Evidence, str]]) -> list[_Seen]:
    """The copies that a broker would not delete at its start; all if it would delete each."""
    kept = [each for each in seen if not each.is_wiped]
    for each in seen if kept else ():
        if each.is_wiped:
            start = each.log.log_start_offset
            text = f"its start at offset {start} lies after its end at {each.end}: a broker deletes it"
            out[each.log.directory] = (Evidence.WIPED, text)
    return kept or list(seen)


def _seen(copy: LogCopy, reader: CheckingReader, side: str | None) -> _Seen:
    log = copy.log
    end, epoch = log.segments[-1].base_offset if log.segments else log.log_start_offset, copy.last_epoch
    reached, epoch = copy.end, -1 if epoch is None else epoch
    with suppress(LogError):
        for segment in reversed(log.segments if copy.end is None or copy.last_epoch is None else ()):
            last = None
            for _, header in reader.headers(segment):
                last = header or last
            if last is not None:
                end, epoch = max(end, last.next_offset), last.partition_leader_epoch
                reached = end
                break
    stated = log.leader_epochs[-1].epoch if log.leader_epochs else -1
    start, is_wiped = log.log_start_offset, False
    if reached is not None and not (log.named_files or log.unreadable or log.directory == side):
        is_wiped = reached < start and (copy.end is None or copy.end <= start)
    if copy.end is not None:
        end = reached if is_wiped and reached is not None else copy.end
    return _Seen(copy, end, max(epoch, stated), stated >= epoch, is_wiped)


def _by_metadata(seen: Sequence[_Seen], said: Leadership | None, out: dict[str, tuple[Evidence, str]]) -> list[_Seen]:
    """The copies that the cluster metadata allows; all if it says nothing of them."""
    if said is None or said.leader_epoch < max(each.epoch for each in seen):
        return list(seen)
    in_sync = [each for each in seen if each.broker in said.in_sync]
    leaders = [each for each in in_sync if each.broker == said.leader]
    is_whole = len(leaders) == 1 and leaders[0].end >= max(each.committed for each in in_sync)
    kept = leaders if is_whole else in_sync
    for each in seen if kept else ():
        if each not in kept:
            why = f"broker {said.leader} leads" if is_whole else "it is not in sync"
            text = f"{why} in leader epoch {said.leader_epoch} ({Evidence.METADATA})"
            out[each.log.directory] = (Evidence.METADATA, text)
    return kept or list(seen)


def _not_of_one_log(logs: Sequence[SourceLog]) -> str | None:
    for what, known in (
        ("topic ids", {log.topic_id for log in logs} - {None}),
        ("clusters", {log.cluster_id for log in logs} - {None}),
    ):
        if len(known) > 1:
            return f"these are not copies of one log, they have different {what}"
    return None


def _in_doubt(best: _Seen, other: _Seen, fork: int, why: tuple[Evidence, str] | None) -> str | None:
    """Why the history may also be that of another copy, which parts from the best one; None: it is not."""
    if why is None:
        return f"the copies part at offset {fork}, and no leader epoch says which of them is the history"
    if why[0] is not Evidence.METADATA and best.committed <= fork < other.committed:
        return (
            f"the copies part at offset {fork}; leader epoch {best.epoch} is the last one, and the high watermark of "
            f"epoch {other.epoch} is {other.committed}"
        )
    return None


def _by_end(best: _Seen, other: _Seen) -> tuple[Evidence, str]:
    if other.end != best.end:
        return Evidence.LOG_END, f"it ends at offset {other.end}, not at {best.end}"
    if other.copy.losses != best.copy.losses or other.copy.holes != best.copy.holes:
        more = "more of it is lost" if other.rank[1] < best.rank[1] else "it lost other offsets"
        return Evidence.LOSSES, f"it ends at the same offset, and {more}"
    if other.copy.cleaned != best.copy.cleaned:
        count = other.copy.cleaned - best.copy.cleaned
        return Evidence.CLEANING, f"it ends at the same offset, and has {count} records less"
    if other.committed != best.committed:
        is_known = other.log.high_watermark is not None
        stated = f"{other.committed}, not {best.committed}" if is_known else "not known"
        return Evidence.HIGH_WATERMARK, f"it ends at the same offset, and its high watermark is {stated}"
    start, least = other.log.log_start_offset, best.log.log_start_offset
    if start != least:
        return Evidence.LOG_START, f"it has the same end, and begins at offset {start}, not at {least}"
    return Evidence.NONE, "it has the same history"


def _difference(best: _Seen, other: _Seen, fork: int | None, evidence: Evidence, reason: str) -> CopyDifference:
    end = min(best.end, other.end, other.end if fork is None else fork)
    has, lacks = _only(other, best, end), _only(best, other, end)
    fills = tuple(_uncovered(_cut(best.copy.holes, other.log.log_start_offset, end), other.copy.holes))
    more = tuple(_uncovered(_cut(other.copy.holes, best.log.log_start_offset, end), best.copy.holes))
    return CopyDifference(
        copy=other.copy,
        evidence=evidence,
        reason=reason,
        parts_at=fork,
        has=tuple(sorted((*_uncovered(has, fills), *fills))),
        lacks=tuple(sorted((*_uncovered(lacks, more), *more))),
        fills=tuple(each for each in fills if _can_fill(each, best, other)),
    )


def _can_fill(hole: Range, best: _Seen, other: _Seen) -> bool:
    """Whether another copy has a batch beside a hole, or shows that it is a copy; see `logcore.logs.growth.fillers`."""
    if (
        best.log.topic_id
        and best.log.topic_id == other.log.topic_id
        and best.log.leader_epochs
        and other.log.leader_epochs
    ):
        return True
    lost = [*other.copy.holes, (-1, other.log.log_start_offset), (other.end, MAX_OFFSET)]
    return any(not any(start <= at < end for start, end in lost) for at in (hole[0] - 1, hole[1]))


def _cut(ranges: Sequence[Range], start: int, end: int) -> Iterator[Range]:
    return ((max(first, start), min(last, end)) for first, last in ranges if first < end and last > start)


def _uncovered(ranges: Iterable[Range], others: Sequence[Range]) -> Iterator[Range]:
    """Parts of ranges that lie in none of the others."""
    apart = joined(others)
    return (part for start, end in ranges for part in left_out(start, end, apart))


def _only(one: _Seen, other: _Seen, end: int) -> tuple[Range, ...]:
    """Offsets of a copy that another one lacks. `end`: where the history ends that both share."""
    start, bound = one.log.log_start_offset, other.log.log_start_offset
    ranges = ((start, min(bound, one.end, end)), (max(start, end), one.end))
    return tuple((first, last) for first, last in ranges if first < last)


def parts_at(best: _Seen, other: _Seen, batches_part_at: int | None) -> int | None:
    """Where another copy has a different history; None if it only begins later, ends earlier or goes on.

    `batches_part_at`: the first offset with different batches; None: they are the same.
    """
    ours, theirs = best.log.leader_epochs, other.log.leader_epochs
    bounds = [
        epochs_part_at(ours, theirs, best.end, other.end),
        epochs_part_at(theirs, ours, other.end, best.end),
        batches_part_at,
    ]
    fork = min((bound for bound in bounds if bound is not None), default=other.end)
    is_replaced = fork < best.end or best.epoch > other.epoch
    return fork if fork < other.end and is_replaced else None


def _batches_part_at(one: _Seen, other: _Seen, reader: CheckingReader) -> int | None:
    """The first offset at which two logs have different batches, from the last segment on where they agree at all.

    The same offset and leader epoch mean the same history up to there.
    """
    fork = None
    with suppress(LogError, Stopped):
        for segment in reversed(one.log.segments):
            if segment.base_offset < other.end:
                agrees, first = _first_difference(one.log, other.log, segment, reader)
                fork = fork if first is None else first
                if agrees:
                    break
    return fork


_Place = tuple[tuple[SegmentFile, int], BatchHeader]


def _first_difference(
    one: SourceLog, other: SourceLog, segment: SegmentFile, reader: CheckingReader
) -> tuple[bool, int | None]:
    """Whether a batch from a segment on agrees, and the first offset that differs."""
    ours, theirs = (_batches(log, segment.base_offset, reader) for log in (one, other))
    agrees, mine, their = False, next(ours, None), next(theirs, None)
    while mine is not None and their is not None:
        x, y = mine[1], their[1]
        if x.last_offset >= y.base_offset and y.last_offset >= x.base_offset:
            if not is_same_batch(x, y) and not _may_differ(one, other, mine, their, reader):
                return agrees, min(x.base_offset, y.base_offset)
            agrees = True
        if x.last_offset <= y.last_offset:
            mine = next(ours, None)
        if y.last_offset <= x.last_offset:
            their = next(theirs, None)
    return agrees, None


def _batches(log: SourceLog, offset: int, reader: CheckingReader) -> Iterator[_Place]:
    return ((place, header) for place, header in source_from(offset, log, reader) if header is not None)


def _may_differ(one: SourceLog, other: SourceLog, mine: _Place, their: _Place, reader: CheckingReader) -> bool:
    """Whether batches of the same offsets may differ in copies of one history: cleaned, converted or damaged."""
    x, y = mine[1], their[1]
    cleaned_to = max(one.cleaner_checkpoint or 0, other.cleaner_checkpoint or 0)
    is_cleaned = x.base_offset < cleaned_to or any(h.record_count <= h.last_offset_delta for h in (x, y))
    if (is_cleaned or x.magic != y.magic) and x.partition_leader_epoch == y.partition_leader_epoch:
        return True
    return not all(reader.is_good(*place, header) for place, header in (mine, their))
