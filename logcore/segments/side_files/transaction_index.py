"""The transaction index of a segment: which transactions were aborted by a marker in it.

    off len field
    0   2   version              int16, 0
    2   8   producer id          int64
    10  8   first offset         int64: where the transaction's data begins, perhaps in an earlier segment
    18  8   last offset          int64: of its ABORT marker, which lies in this segment
    26  8   last stable offset   int64: its value after the marker was written

Entries follow each other, 34 bytes each, with absolute offsets and increasing last offsets. A partial entry at the end
is ignored. There is no checksum and no header. Commits are not recorded, and a segment without aborts usually has no
such file.

The last stable offset is the first offset of the earliest transaction of another producer that was still open then, or
the offset after the marker. It ends a search: every later entry begins at or above it. The file is not preallocated.
Zeros at its end (a file system that lost a write) are not an entry, because a marker never has offset 0.

Sources: Kafka TransactionIndex, AbortedTxn. A broker exits if it finds another version at its start, so that is an
UnsupportedFormatError here. For any other contradiction it rebuilds the segment's indexes (CorruptIndexError).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from logcore.errors import CorruptIndexError, UnsupportedFormatError

VERSION = 0

_ENTRY = struct.Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size
_MAX_INT64 = 2**63 - 1


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """An aborted transaction. `last_offset` is that of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def parse(data: bytes, base_offset: int) -> tuple[AbortedTransaction, ...]:
    """Parse the transaction index of a segment, without zeros after the last entry.

    Raises:
        UnsupportedFormatError: An entry has another version.
        CorruptIndexError: An entry is negative, ends before it begins or below the segment, or does not increase.
    """
    whole = len(data) - len(data) % ENTRY_SIZE
    used = len(data[:whole].rstrip(b"\0"))
    entries: list[AbortedTransaction] = []
    for at in range(0, used, ENTRY_SIZE):
        version, *fields = _ENTRY.unpack_from(data, at)
        if version != VERSION:
            raise UnsupportedFormatError(
                f"an entry of the transaction index has version {version}, only {VERSION} is known", position=at
            )
        entry = AbortedTransaction(*fields)
        if min(fields) < 0 or entry.first_offset > entry.last_offset:
            raise CorruptIndexError("an entry of the transaction index contradicts itself", position=at)
        if entry.last_offset < base_offset:
            message = f"an entry of the transaction index ends at offset {entry.last_offset}, below its segment's base"
            raise CorruptIndexError(message, position=at)
        if entries and entry.last_offset <= entries[-1].last_offset:
            raise CorruptIndexError("an entry of the transaction index does not rise above the one before", position=at)
        entries.append(entry)
    return tuple(entries)


def encode(entries: Iterable[AbortedTransaction]) -> bytes:
    """Build the bytes of a transaction index.

    Raises:
        ValueError: An entry does not fit.
    """
    packed = bytearray()
    for entry in entries:
        fields = (entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset)
        if not all(0 <= value <= _MAX_INT64 for value in fields):
            raise ValueError(f"{entry} does not fit a transaction index")
        packed += _ENTRY.pack(VERSION, *fields)
    return bytes(packed)


def collect(
    entries: Iterable[AbortedTransaction], fetch_offset: int, upper: int
) -> tuple[tuple[AbortedTransaction, ...], bool]:
    """Find aborted transactions that overlap the offsets fetch_offset..upper (exclusive).

    A broker sends them with a fetch.

    Returns:
        The transactions, and whether these are all. If not, search the indexes of the following segments too.
    """
    found: list[AbortedTransaction] = []
    for entry in entries:
        if entry.last_offset >= fetch_offset and entry.first_offset < upper:
            found.append(entry)
        if entry.last_stable_offset >= upper:
            return tuple(found), True
    return tuple(found), False


def truncate(entries: Sequence[AbortedTransaction], offset: int) -> tuple[AbortedTransaction, ...]:
    """The entries left when the log is cut at an offset: those before the first whose marker lies at or above it."""
    for number, entry in enumerate(entries):
        if entry.last_offset >= offset:
            return tuple(entries[:number])
    return tuple(entries)
