"""From where records lie to Arrow columns.

Bytes are gathered by Arrow itself: a view array names position and size of every value, and its cast to a binary array
copies them one behind the other.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from logcore.columns.lockstep_numbers import Source
from logcore.columns.lockstep_walk import Mask, Numbers
from logcore.columns.rows import memory_pool
from logcore.columns.schema import HEADER_TYPE, MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS

INLINE_BYTES = 12
"""Values up to this size stand in the view itself."""


def numbers(values: Numbers | NDArray[np.int32], kind: pa.DataType, valid: Mask | None = None) -> pa.Array:
    """A column of numbers of that width; null where not valid."""
    if valid is None or valid.all():
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)], 0)
    nulls = len(values) - int(np.count_nonzero(valid))
    return pa.Array.from_buffers(kind, len(values), [_bits(valid), pa.py_buffer(values)], nulls)


def timestamps(milliseconds: Numbers) -> pa.Array:
    """The table's `timestamp`: null for -1 and for what lies outside of years 1 to 9999."""
    kind = pa.timestamp("us", tz="UTC")
    valid = (milliseconds >= MIN_TIMESTAMP_MS) & (milliseconds <= MAX_TIMESTAMP_MS) & (milliseconds != -1)
    if valid.all():
        return numbers(milliseconds * 1000, kind)
    return numbers(np.where(valid, milliseconds, 0) * 1000, kind, valid)


def gathered(source: Source, at: Numbers, size: Numbers) -> pa.Array:
    """The bytes at these positions; null where the size is negative."""
    count = len(at)
    views = np.empty((count, 4), np.int32)
    views[:, 0] = np.maximum(size, 0)
    views[:, 2] = 0
    views[:, 3] = at
    short = size <= INLINE_BYTES
    if short.all():
        views[:, 1:] = source.twelve(at)
    elif short.any():
        which = np.flatnonzero(short)
        views[which, 1:] = source.twelve(at[which])
    # The prefix that a view holds for comparisons is not set, nor is cleared what follows a short value: the cast looks
    # at neither.
    nulls = count - int(np.count_nonzero(size >= 0))
    bits = _bits(size >= 0) if nulls else None
    buffers = [bits, pa.py_buffer(views), pa.py_buffer(source.data)]
    found = pa.Array.from_buffers(pa.binary_view(), count, buffers, nulls)
    return found.cast(pa.binary(), memory_pool=memory_pool())


def header_lists(names: pa.Array, contents: pa.Array, headers: Numbers) -> pa.Array:
    """The `headers` of records that have so many of these each; null where it is none."""
    rows = len(headers)
    if not len(names):
        return pa.nulls(rows, pa.list_(HEADER_TYPE))
    pairs = pa.StructArray.from_arrays([names, contents], fields=list(HEADER_TYPE))
    ends = np.zeros(rows + 1, np.int32)
    np.cumsum(headers, out=ends[1:])
    nulls = rows - int(np.count_nonzero(headers))
    bits = _bits(headers > 0) if nulls else None
    return pa.Array.from_buffers(pa.list_(HEADER_TYPE), rows, [bits, pa.py_buffer(ends)], nulls, 0, [pairs])


def as_strings(names: pa.Array) -> tuple[pa.Array, int]:
    """(The names up to the first that is not UTF-8, how many these are)."""
    try:
        return names.cast(pa.string()), len(names)
    except pa.ArrowInvalid:
        good, bad = 0, len(names)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            names.slice(good, middle - good).cast(pa.string())
            good = middle
        except pa.ArrowInvalid:
            bad = middle
    return names.slice(0, good).cast(pa.string()), good


def _bits(valid: Mask) -> pa.Buffer:
    return pa.py_buffer(np.packbits(valid, bitorder="little"))
