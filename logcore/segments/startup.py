"""The files of a partition directory that make up the log, by the rules of a broker's start.

Cleaning and splitting first write segments under other names. A broker that is killed leaves these files:

    written        <base>.log.cleaned          the old segments are the log
    renaming       some .cleaned, some .swap   the old segments are the log (KAFKA-6264, KAFKA-12520)
    all renamed    <base>.log.swap             the new segments are the log; the old ones that they cover are not
    replacing      old ones become *.deleted   the same
    finishing      .swap is removed again      the same

So a start processes the names in this order:

    1. removes *.deleted (but not *.checkpoint.deleted, which are KRaft's)
       removes *.swap with an offset at or above the lowest *.cleaned, because the renaming is incomplete, and *.cleaned
    2. removes segments, indexes and snapshots from the lowest remaining *.log.swap to the end of all *.log.swap
    3. gives each *.swap its plain name, and replaces a file that has this name
    4. removes indexes without a segment
    5. removes producer snapshots whose offset is no segment's base, except the last if it is above every segment

This module only decides: it removes and renames nothing, and a file is read under its present name. Only names with 20
digits have an offset, because a broker would open no others.

Source: Kafka LogLoader, ProducerStateManager.removeStraySnapshots. Swapped segments end with their last batch. Old
segments above it stay in the log, even if compaction had emptied them.
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

    DELETED = "it is marked for deletion"
    CLEANED = "it is the output of a cleaning that did not finish"
    UNFINISHED_SWAP = "the cleaning that wrote it did not finish renaming"
    REPLACED = "a cleaned segment replaces it"
    NO_SEGMENT = "its segment is missing"
    STRAY_SNAPSHOT = "no segment begins at the offset of this producer snapshot"
    OLD_SNAPSHOT = "the log starts at or above the offset of this producer snapshot"


@dataclass(frozen=True, slots=True)
class StartFiles:
    """The result of a start for a directory's names. Names without a number are in neither part.

    Attributes:
        kept: For each plain name after the start (`<20 digits>.log`, `.index`, `.timeindex`, `.txnindex`, `.snapshot`)
            the file's present name, ascending.
        dropped: The names that would be removed, and why.
    """

    kept: dict[str, str]
    dropped: dict[str, DropReason]

    @property
    def swapped(self) -> tuple[str, ...]:
        """Names of the segments that would lose the suffix `.swap`."""
        return tuple(now for name, now in self.kept.items() if name != now and name.endswith(LOG_SUFFIX))

    def without_old_snapshots(self, log_start_offset: int) -> StartFiles:
        """Remove producer snapshots at or below the log start.

        A start does this when it knows the log start (ProducerStateManager.truncateAndReload).
        """
        old = {
            name
            for name in self.kept
            if name.endswith(PRODUCER_SNAPSHOT_SUFFIX) and _must_offset(name) <= log_start_offset
        }
        kept = {name: now for name, now in self.kept.items() if name not in old}
        return StartFiles(kept, self.dropped | {self.kept[name]: DropReason.OLD_SNAPSHOT for name in sorted(old)})

    def beside(self, base_offset: int) -> dict[str, str]:
        """Present names of the indexes and the producer snapshot of a segment, by suffix."""
        names = {suffix: f"{base_offset:020d}{suffix}" for suffix in (*INDEX_SUFFIXES, PRODUCER_SNAPSHOT_SUFFIX)}
        return {suffix: self.kept[name] for suffix, name in names.items() if name in self.kept}


def kept_at_start(names: Iterable[str], next_offset: Callable[[str], int], *, with_strays: bool = False) -> StartFiles:
    """Find what a broker's start would do with the files of these names.

    Args:
        names: All names in the partition directory.
        next_offset: Called for each `<20 digits>.log.swap` that is in force. It must return the offset after the last
            batch, or the base offset if the segment is empty.
        with_strays: Leave out step 5. A broker does it only after it has recovered segments, which may need these
            snapshots.
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


def orphaned_bases(names: Iterable[str]) -> tuple[int, ...]:
    """Base offsets of indexes whose segment is gone under any name, ascending.

    A broker renames all files of a segment before it removes them, so somebody else removed the segment.
    """
    known = sorted(names)
    bases = {name[:20] for name in known if name[20:].lower().startswith(LOG_SUFFIX)}
    indexes = {name[:20] for name in known if is_plain_name(name) and name.endswith(INDEX_SUFFIXES)}
    return tuple(sorted(map(int, indexes - bases)))


def misnamed(names: Iterable[str]) -> tuple[str, ...]:
    """Names of a cleaning's output that do not begin with the 20 digits of an offset.

    A start parses everything before the first dot as a number, and fails if it is none. So its result is unknown.
    """
    return tuple(
        name for name in sorted(names) if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX)) and _offset(name) is None
    )


def is_plain_name(name: str) -> bool:
    """Whether this is the name of a segment, an index or a producer snapshot in use."""
    return name[20:] in _KINDS and _offset(name) is not None


def _drop_stray_snapshots(kept: dict[str, str], dropped: dict[str, DropReason], bases: set[int]) -> None:
    strays = sorted(
        name for name in kept if name.endswith(PRODUCER_SNAPSHOT_SUFFIX) and _must_offset(name) not in bases
    )
    if strays and _must_offset(strays[-1]) > max(bases, default=-1):
        strays.pop()
    for name in strays:
        dropped[kept.pop(name)] = DropReason.STRAY_SNAPSHOT


def _offset(name: str) -> int | None:
    """The offset in the digits of a name; None if the name is not numbered as brokers do it."""
    match = _NUMBERED.fullmatch(name)
    offset = None if match is None else int(match[1])
    return offset if offset is not None and offset <= MAX_OFFSET else None


def _must_offset(name: str) -> int:
    return int(name[:20])
