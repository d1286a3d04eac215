"""The records of two copies of a log, where headers do not say whether one of them was cleaned.

A cleaner removes a record if a later one has its key, and a tombstone after some time. So what is left of a cleaned
copy is a part of the other one, and the newest value of each key is equal, where a tombstone counts as no value. If
both were cleaned, each may have records that the other one lacks. A copy that shows no cleaning lost what it lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from logcore.ranges import Range, joined

_NOTHING = b""


@dataclass(frozen=True, slots=True)
class RecordContent:
    """A visible record.

    Attributes:
        offset: Its offset.
        key: A digest of its key; None: it has none.
        content: A digest of all that it holds.
        is_tombstone: Whether its value is null.
    """

    offset: int
    key: bytes | None
    content: bytes
    is_tombstone: bool


@dataclass(frozen=True, slots=True)
class ContentDifference:
    """The result.

    Attributes:
        parts_at: The first offset at which the copies have different records; None: there is none.
        only_left: Offsets whose records only the left copy has, and no cleaner of the other may have removed.
        only_right: The reverse.
    """

    parts_at: int | None = None
    only_left: tuple[Range, ...] = ()
    only_right: tuple[Range, ...] = ()


def compare_contents(
    left: Iterable[RecordContent], right: Iterable[RecordContent], *, cleaned: tuple[bool, bool]
) -> ContentDifference:
    """Compare the records of offsets that both copies hold.

    Args:
        left: The records of one copy, in offset order.
        right: The records of the other one.
        cleaned: Whether each copy shows that it was cleaned. What another one lacks, it lost.
    """
    newest: tuple[dict[bytes, bytes], dict[bytes, bytes]] = ({}, {})
    alone: tuple[list[RecordContent], list[RecordContent]] = ([], [])
    for pair in _side_by_side(left, right):
        if None not in pair and len({record.content for record in pair if record is not None}) > 1:
            return ContentDifference(next(record.offset for record in pair if record is not None))
        for side, record in enumerate(pair):
            if record is not None:
                if record.key is not None:
                    newest[side][record.key] = _NOTHING if record.is_tombstone else record.content
                if pair[1 - side] is None:
                    alone[side].append(record)
    lost = []
    for side, records in enumerate(alone):
        of_other = newest[1 - side]
        lost.append(
            joined(
                (record.offset, record.offset + 1)
                for record in records
                if not cleaned[1 - side]
                or record.key is None
                or newest[side][record.key] != of_other.get(record.key, _NOTHING)
            )
        )
    return ContentDifference(None, *lost)


_Pair = tuple[RecordContent | None, RecordContent | None]


def _side_by_side(left: Iterable[RecordContent], right: Iterable[RecordContent]) -> Iterator[_Pair]:
    """Yield the records of each offset, None for a copy that has none there."""
    ours, theirs = iter(left), iter(right)
    mine, their = next(ours, None), next(theirs, None)
    while mine is not None or their is not None:
        if their is None or (mine is not None and mine.offset < their.offset):
            yield mine, None
            mine = next(ours, None)
        elif mine is None or their.offset < mine.offset:
            yield None, their
            their = next(theirs, None)
        else:
            yield mine, their
            mine, their = next(ours, None), next(theirs, None)
