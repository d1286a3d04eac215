"""Which files of a partition directory make up the log, by the rules a broker's start goes by.

Cleaning and splitting write segments under other names first, and a broker that is killed leaves them so:

    written        <base>.log.cleaned          the old segments are the log
    renaming       some .cleaned, some .swap   the old segments are the log (KAFKA-6264, KAFKA-12520)
    all renamed    <base>.log.swap             the new segments are the log, the old ones they cover are not
    replacing      old ones become *.deleted   as before
    finishing      .swap is dropped again      as before

So a start goes through the names in this order:

    1. *.deleted goes (but not *.checkpoint.deleted, which are KRaft's)
       *.swap with an offset at or above the lowest *.cleaned goes: its renaming was not finished; then *.cleaned goes
    2. files with an offset from the lowest remaining *.log.swap up to what those reach go: segments, indexes, snapshots
    3. each *.swap takes its plain name, in the place of a file that has it
    4. an index without its segment goes
    5. producer snapshots that stand at no segment's base go, but for the last of them if it lies above every segment

What is decided here is only said: nothing is removed or renamed, a file is read under the name it has. What a name's
digits state is taken from names of 20 digits alone; a broker would open no others.

Source: Kafka LogLoader, ProducerStateManager.removeStraySnapshots. The end that swapped segments reach is their last
batch's: old segments above it stay in the log, also if compaction had emptied them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from logcore.segments.filenames import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    MAX_OFFSET,
    OFFSET_INDEX_SUFFIX,
    PRODUCER_SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)

INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

_NUMBERED = re.compile(r"([0-9]{20})(\.[a-z.]+)", re.ASCII)
_KINDS = (LOG_SUFFIX, *INDEX_SUFFIXES, PRODUCER_SNAPSHOT_SUFFIX)


class DropReason(StrEnum):
    """Why a start would remove a file."""

    DELETED = "it waits for its deletion"
    CLEANED = "it was being written by a cleaning that did not end"
    UNFINISHED_SWAP = "a cleaning was not done with renaming its output"
    REPLACED = "a cleaned segment takes its place"
    NO_SEGMENT = "its segment is not there"
    STRAY_SNAPSHOT = "no segment begins where this producer snapshot stands"
    OLD_SNAPSHOT = "the log does not start before where this producer snapshot stands"


@dataclass(frozen=True, slots=True)
class StartFiles:
    """What a start would make of a directory's names. Files whose names are not numbered are in neither part.

    kept: for each plain name (`<20 digits>.log`, `.index`, `.timeindex`, `.txnindex`, `.snapshot`) that would be there
    afterwards, the name that the file has now; ascending. dropped: the names that would be removed, and why.
    """

    kept: dict[str, str]
    dropped: dict[str, DropReason]

    @property
    def swapped(self) -> tuple[str, ...]:
        """Names of the segments that would lose their suffix `.swap`."""
        return tuple(now for name, now in self.kept.items() if name != now and name.endswith(LOG_SUFFIX))

    def without_old_snapshots(self, log_start_offset: int) -> StartFiles:
        """Without those that no part of the log is in front of: a start removes them once it knows where the log
        starts (ProducerStateManager.truncateAndReload)."""
        old = {
            name
            for name in self.kept
            if name.endswith(PRODUCER_SNAPSHOT_SUFFIX) and _must_offset(name) <= log_start_offset
        }
        kept = {name: now for name, now in self.kept.items() if name not in old}
        return StartFiles(kept, self.dropped | {self.kept[name]: DropReason.OLD_SNAPSHOT for name in sorted(old)})

    def beside(self, base_offset: int) -> dict[str, str]:
        """Names, as they are now, of the indexes and the producer snapshot of a segment, by suffix."""
        names = {suffix: f"{base_offset:020d}{suffix}" for suffix in (*INDEX_SUFFIXES, PRODUCER_SNAPSHOT_SUFFIX)}
        return {suffix: self.kept[name] for suffix, name in names.items() if name in self.kept}


def kept_at_start(names: Iterable[str], next_offset: Callable[[str], int], *, with_strays: bool = False) -> StartFiles:
    """What a broker's start would make of the files of these names.

    with_strays: leave out step 5, which comes only after segments were recovered, with snapshots that they may need.

    next_offset: asked for each `<20 digits>.log.swap` that is in force: the offset behind its last batch, or its base
    offset if it holds none.
    """
    plain: dict[str, str] = {}
    swaps: dict[str, str] = {}  # plain name: name now
    cleaned: list[str] = []
    dropped: dict[str, DropReason] = {}
    for name in sorted(names):
        if name.endswith(DELETED_SUFFIX):
            if not name.endswith(f".checkpoint{DELETED_SUFFIX}"):
                dropped[name] = DropReason.DELETED
        elif name.endswith(CLEANED_SUFFIX):
            dropped[name] = DropReason.CLEANED
            cleaned.append(name)
        elif name.endswith(SWAP_SUFFIX):
            if _offset(name) is not None:
                swaps[name.removesuffix(SWAP_SUFFIX)] = name
        elif is_plain_name(name):
            plain[name] = name
    lowest_cleaned = min((offset for name in cleaned if (offset := _offset(name)) is not None), default=MAX_OFFSET + 1)
    for name, now in list(swaps.items()):
        if _must_offset(name) >= lowest_cleaned:
            dropped[now] = DropReason.UNFINISHED_SWAP
            del swaps[name]
    swapped_logs = [(name, now) for name, now in swaps.items() if name.endswith(LOG_SUFFIX)]
    low = min((_must_offset(name) for name, _ in swapped_logs), default=0)
    high = max((next_offset(now) for _, now in swapped_logs), default=0)
    for name in list(plain):
        if name in swaps or low <= _must_offset(name) < high:
            dropped[name] = DropReason.REPLACED
            del plain[name]
    kept = plain | {name: now for name, now in swaps.items() if name[20:] in _KINDS}
    bases = {_must_offset(name) for name in kept if name.endswith(LOG_SUFFIX)}
    for name in list(kept):
        if name.endswith(INDEX_SUFFIXES) and _must_offset(name) not in bases:
            dropped[kept.pop(name)] = DropReason.NO_SEGMENT
    if not with_strays:
        _drop_stray_snapshots(kept, dropped, bases)
    return StartFiles(dict(sorted(kept.items())), dropped)


def misnamed(names: Iterable[str]) -> tuple[str, ...]:
    """Names of the output of a cleaning that do not begin with the 20 digits of an offset. A start takes a number from
    whatever is in front of the first dot, and fails where there is none: it cannot be said what it makes of these."""
    return tuple(
        name for name in sorted(names) if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX)) and _offset(name) is None
    )


def is_plain_name(name: str) -> bool:
    """Whether a name is that of a segment, an index or a producer snapshot in use."""
    return _offset(name) is not None and name[20:] in _KINDS


def _drop_stray_snapshots(kept: dict[str, str], dropped: dict[str, DropReason], bases: set[int]) -> None:
    strays = sorted(
        name for name in kept if name.endswith(PRODUCER_SNAPSHOT_SUFFIX) and _must_offset(name) not in bases
    )
    if strays and _must_offset(strays[-1]) > max(bases, default=-1):
        strays.pop()
    for name in strays:
        dropped[kept.pop(name)] = DropReason.STRAY_SNAPSHOT


def _offset(name: str) -> int | None:
    """What the digits of a name state; None for a name that is not numbered as brokers do."""
    match = _NUMBERED.fullmatch(name)
    return int(match[1]) if match is not None and int(match[1]) <= MAX_OFFSET else None


def _must_offset(name: str) -> int:
    return int(name[:20])
