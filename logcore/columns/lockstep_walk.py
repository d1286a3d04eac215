"""The walk over batch headers for the lockstep engine: which batches stand here beyond doubt, checksums verified.

Stepping from one length field to the next is plain Python, a step a batch; then the headers of all batches are taken
out at once and judged as columns. Stricter than the scan, never laxer.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import crc32c
import numpy as np
from numpy.typing import NDArray

from logcore.records.batch import CRC_AT, HEADER_SIZE, LENGTH_AT, LOG_OVERHEAD, MAGIC_AT, MAGIC_V2, SMALLEST_RECORD
from logcore.records.compression import Codec
from logcore.records.legacy import CRC_FROM, FIXED_BYTES, SMALLEST_SIZE_FIELD
from logcore.records.model import CODEC_MASK

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

UNKNOWN = -(1 << 63)
"""Base offset of a compressed message before its messages were read."""
NOTHING = (1 << 63) - 1
"""Base offset of no batch at all."""

_LARGEST_LENGTH = (1 << 31) - 64
"""Positions within a group fit 32 bits."""
_SMALLEST = LOG_OVERHEAD + SMALLEST_SIZE_FIELD[0]
_NEVER = 1 << 31
_SMALLEST_MESSAGE = tuple(SMALLEST_SIZE_FIELD.get(magic, _NEVER) for magic in range(256))
_SMALLEST_BATCH = tuple(HEADER_SIZE - LOG_OVERHEAD if magic == MAGIC_V2 else _NEVER for magic in range(256))
"""By the magic byte, what the length field says at least; in a group of messages, and in one of v2 batches."""
_INT64, _INT32 = struct.Struct(">q"), struct.Struct(">i")
_LENGTH_AND_MAGIC = struct.Struct(">i4xB")
_CRC_FROM_V2 = CRC_AT + 4

_HEADER = np.dtype(
    [
        ("base", ">i8"),
        ("length", ">i4"),
        ("epoch", ">i4"),
        ("magic", "u1"),
        ("crc", ">u4"),
        ("attributes", ">u2"),
        ("delta", ">i4"),
        ("base_stamp", ">i8"),
        ("max_stamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("sequence", ">i4"),
        ("count", ">i4"),
    ]
)
MESSAGE = np.dtype(
    [
        ("offset", ">i8"),
        ("size", ">i4"),
        ("crc", ">u4"),
        ("magic", "u1"),
        ("attributes", "u1"),
        ("stamp", ">i8"),
    ]
)
"""Of v1; in v0 the last field is something else."""


@dataclass(frozen=True, slots=True)
class Batches:
    """Batches one behind the other, a column a field; either all v2, or all v0 and v1.

    next_base: what the batch behind claims to begin with, NOTHING without one, UNKNOWN where only unfolding tells.
    """

    are_messages: bool
    position: Numbers
    size: Numbers
    base: Numbers
    last: Numbers
    next_base: Numbers
    count: Numbers
    attributes: Numbers
    magic: Numbers
    base_stamp: Numbers
    max_stamp: Numbers
    epoch: Numbers

    def __len__(self) -> int:
        return len(self.position)

    def __getitem__(self, part: slice) -> Batches:
        columns = {name: getattr(self, name) for name in self.__slots__ if name != "are_messages"}
        return Batches(self.are_messages, **{name: column[part] for name, column in columns.items()})

    @property
    def compressed(self) -> Mask:
        """Which of them are."""
        mask: Mask = (self.attributes & CODEC_MASK) != 0
        return mask

    @property
    def body(self) -> Numbers:
        """Where their records begin; of a message, its key's length."""
        if not self.are_messages:
            return self.position + HEADER_SIZE
        return self.position + np.where(self.magic == 1, FIXED_BYTES[1], FIXED_BYTES[0])


def walk(view: memoryview, data: Bytes, position: int, expected: int, ceiling: int, most_bytes: int) -> Batches:
    """The good batches from `position` on, of one kind and within `most_bytes` (but the first, which may be longer), up
    to one in doubt; the base offset of a wrapper is yet to be found.

    view, data: the segment. expected, ceiling: the lowest offset that the next batch may begin with, and the highest
    that a batch may end with.
    """
    positions, end = _positions(view, position, most_bytes)
    if not positions:
        return _table_of_batches(data, np.empty(0, np.int64), np.empty(0, np.int64), NOTHING)
    at = np.array(positions, np.int64)
    size = np.append(at[1:], end) - at
    behind = _claimed_base(view, end)
    if view[position + MAGIC_AT] == MAGIC_V2:
        batches = _table_of_batches(data, at, size, behind)
        good = _good_batches(view, data, batches, expected, ceiling)
    else:
        batches = _table_of_messages(data, at, size, behind)
        good = _good_messages(view, data, batches, expected, ceiling)
    return batches[: first_false(good)]


def first_false(good: Mask) -> int:
    """Index of the first False; the length if there is none."""
    return len(good) if good.all() else int(np.argmin(good))


def records_of(kind: np.dtype[np.void], data: Bytes, at: Numbers) -> NDArray[np.void]:
    """The structures at these positions, all of which must lie in the data, of which there must be one."""
    size = kind.itemsize
    anywhere: NDArray[np.void] = np.ndarray((max(data.size - size + 1, 0),), f"V{size}", data, 0, (1,))
    return anywhere[at].view(kind)


def expected_offsets(last: Numbers, expected: int) -> Numbers:
    """For each batch the offset behind the one before it."""
    out = np.empty_like(last)
    if len(out):
        out[0] = expected
        out[1:] = last[:-1] + 1
    return out


def unchallenged(batches: Batches, expected: Numbers) -> Mask:
    """Batches of which the successor claims no offset, or which begin where they must, so that they are not the wrong
    ones even if it does."""
    mask: Mask = (batches.next_base > batches.last) | (batches.base == expected)
    return mask


def _positions(view: memoryview, position: int, most_bytes: int) -> tuple[list[int], int]:
    """Where batches of one kind begin, by their length fields alone; and where the last of them ends."""
    last = len(view) - _SMALLEST
    if position > last:
        return [], position
    unpack, at = _LENGTH_AND_MAGIC.unpack_from, position
    length, magic = unpack(view, at + LENGTH_AT)
    if length > _LARGEST_LENGTH:
        return [], position
    smallest = _SMALLEST_BATCH if magic == MAGIC_V2 else _SMALLEST_MESSAGE
    # The first batch may be longer than a group.
    limit = min(max(position + most_bytes, at + LOG_OVERHEAD + length), len(view))
    positions: list[int] = []
    while at <= last:
        length, magic = unpack(view, at + LENGTH_AT)
        behind = at + LOG_OVERHEAD + length
        if length < smallest[magic] or behind > limit:
            break
        positions.append(at)
        at = behind
    return positions, at


def _claimed_base(view: memoryview, at: int) -> int:
    """The base offset that the batch at a position claims, if one may stand there."""
    if len(view) - at < LOG_OVERHEAD or _INT32.unpack_from(view, at + LENGTH_AT)[0] < SMALLEST_SIZE_FIELD[0]:
        return NOTHING
    if len(view) - at > MAGIC_AT + 1 and view[at + MAGIC_AT] < MAGIC_V2 and view[at + MAGIC_AT + 1] & CODEC_MASK:
        return UNKNOWN
    return int(_INT64.unpack_from(view, at)[0])


def _table_of_batches(data: Bytes, at: Numbers, size: Numbers, behind: int) -> Batches:
    header = records_of(_HEADER, data, at) if len(at) else np.empty(0, _HEADER)
    base = header["base"].astype(np.int64)
    return Batches(
        False,
        at,
        size,
        base,
        base + header["delta"],
        np.append(base[1:], behind)[: len(at)],
        header["count"].astype(np.int64),
        header["attributes"].astype(np.int64),
        header["magic"].astype(np.int64),
        header["base_stamp"].astype(np.int64),
        header["max_stamp"].astype(np.int64),
        header["epoch"].astype(np.int64),
    )


def _good_batches(view: memoryview, data: Bytes, batches: Batches, expected: int, ceiling: int) -> Mask:
    base, last, count = batches.base, batches.last, batches.count
    codec = batches.attributes & CODEC_MASK
    due = expected_offsets(last, expected)
    # `last` wraps where the sum is beyond an int64; then it is below the base.
    good = (base >= due) & (last >= base) & (last <= ceiling)
    good &= (count >= 0) & (count <= last - base + 1) & (codec <= Codec.ZSTD)
    good &= (codec != 0) | (count <= (batches.size - HEADER_SIZE) // SMALLEST_RECORD)
    good &= unchallenged(batches, due)
    number = first_false(good)
    starts = (batches.position[:number] + _CRC_FROM_V2).tolist()
    ends = (batches.position[:number] + batches.size[:number]).tolist()
    computed = [crc32c.crc32c(view[start:end]) for start, end in zip(starts, ends, strict=True)]
    stored = records_of(_HEADER, data, batches.position[:number])["crc"]
    good[:number] &= stored == np.array(computed, np.uint32)
    return good


def _table_of_messages(data: Bytes, at: Numbers, size: Numbers, behind: int) -> Batches:
    message = records_of(MESSAGE, data, at)
    offset, magic = message["offset"].astype(np.int64), message["magic"].astype(np.int64)
    attributes = message["attributes"].astype(np.int64)
    base = np.where((attributes & CODEC_MASK) != 0, UNKNOWN, offset)
    none = np.full(len(at), -1, np.int64)
    stamp = np.where(magic == 1, message["stamp"], -1)
    ones = np.ones(len(at), np.int64)
    nexts = np.append(base[1:], behind)
    return Batches(True, at, size, base, offset, nexts, ones, attributes, magic, none, stamp, none)


def _good_messages(view: memoryview, data: Bytes, batches: Batches, expected: int, ceiling: int) -> Mask:
    """Whose base offset is known: the rest is checked when all are unfolded."""
    good = (batches.last >= expected_offsets(batches.last, expected)) & (batches.last <= ceiling)
    good &= (batches.attributes & CODEC_MASK) <= Codec.LZ4
    number = first_false(good)
    starts = (batches.position[:number] + CRC_FROM).tolist()
    ends = (batches.position[:number] + batches.size[:number]).tolist()
    crc32 = zlib.crc32
    computed = [crc32(view[start:end]) for start, end in zip(starts, ends, strict=True)]
    stored = records_of(MESSAGE, data, batches.position[:number])["crc"]
    good[:number] &= stored == np.array(computed, np.uint32)
    return good
