"""Where the records of many batches and their parts lie, found for all of them at once and checked to the last byte.

    starts      where each record begins. Only this is a chain: one cursor a batch, all advanced a record a step
    parts       everything else, for all records together: no record waits for another one

What is wrong with a batch is only ever seen as "this is not plainly a good one": the slow reader says what it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from logcore.columns.lockstep_numbers import VARLONG, Source
from logcore.columns.lockstep_walk import MESSAGE, Mask, Numbers, first_false, records_of
from logcore.records.batch import SMALLEST_RECORD
from logcore.records.legacy import FIXED_BYTES, SMALLEST_SIZE_FIELD
from logcore.records.model import CODEC_MASK, LOG_OVERHEAD

FEW_LANES = 48
"""Fewer cursors than this are faster one after the other: an array operation has its price however short the array."""
MOST_HEADERS = 1000
"""Headers are read one a step, of all records that have so many; beyond this a step is for too few."""


@dataclass(frozen=True, slots=True)
class Records:
    """Records in the order of their bytes, a column a field. Sizes are -1 for null.

    count: of each batch, its records. stamp: what the record says, or its batch's base and the record's delta.
    headers: how many each has; header_* are of all headers of all records.
    """

    count: Numbers
    offset: Numbers
    stamp: Numbers
    key_at: Numbers
    key_size: Numbers
    value_at: Numbers
    value_size: Numbers
    headers: Numbers
    name_at: Numbers
    name_size: Numbers
    content_at: Numbers
    content_size: Numbers

    @property
    def lane(self) -> Numbers:
        """The batch that each record is in."""
        return np.repeat(np.arange(len(self.count)), self.count)

    def of_first(self, batches: int) -> Records:
        """Those of so many batches."""
        if batches == len(self.count):
            return self
        rows = int(self.count[:batches].sum())
        pairs = int(self.headers[:rows].sum())
        columns = {name: getattr(self, name)[:rows] for name in _OF_RECORDS}
        return Records(self.count[:batches], **columns, **{name: getattr(self, name)[:pairs] for name in _OF_HEADERS})

    def chosen(self, rows: Numbers) -> Records:
        """Only these, in order."""
        columns = {name: getattr(self, name)[rows] for name in _OF_RECORDS}
        wanted = np.zeros(len(self.offset), np.bool_)
        wanted[rows] = True
        pairs = np.flatnonzero(np.repeat(wanted, self.headers)) if len(self.name_at) else NO_NUMBERS
        count = np.bincount(self.lane[rows], minlength=len(self.count))
        return Records(count, **columns, **{name: getattr(self, name)[pairs] for name in _OF_HEADERS})


_OF_RECORDS = ("offset", "stamp", "key_at", "key_size", "value_at", "value_size", "headers")
_OF_HEADERS = ("name_at", "name_size", "content_at", "content_size")


NO_NUMBERS = np.empty(0, np.int64)


def read_batches(
    source: Source,
    begin: Numbers,
    end: Numbers,
    count: Numbers,
    base: Numbers,
    span: Numbers,
    base_stamp: Numbers,
    most_headers: int,
) -> Records:
    """The records of v2 batches, which lie from `begin` to `end`; of the first in doubt, and from there on, none.

    span: last offset - base offset.
    """
    possible = first_false(count <= (end - begin) // SMALLEST_RECORD)
    begin, end, count = begin[:possible], end[:possible], count[:possible]
    starts, finals = _starts(source, begin, end, count)
    good = first_false(finals == end)
    count = count[:good]
    total = int(count.sum())
    starts = starts[:total]
    first = np.cumsum(count) - count
    ends = np.empty(total, np.int64)
    ends[:-1] = starts[1:]
    holding = np.flatnonzero(count)
    ends[(first + count - 1)[holding]] = end[holding]

    length = ends - starts
    at = starts + 2  # the length's first byte, and attributes that are unused
    longest = int(length.max(initial=0))
    # How many bytes a length takes in the shortest form, by what it and the record take together.
    for bytes_before in (1, 2, 3, 4):
        most = (1 << (7 * bytes_before - 1)) - 1 + bytes_before
        if longest <= most:
            break
        at += length > most
    stamps, at, bad_stamps = source.number(np.minimum(at, ends), VARLONG)
    deltas, at, bad_deltas = source.number(at)
    key_size, key_at, bad_keys = source.number(at)
    value_size, value_at, bad_values = source.number(_behind(key_at, key_size, ends))
    headers, at, bad_counts = source.number(_behind(value_at, value_size, ends))

    okay = headers >= 0
    okay &= deltas <= np.repeat(span[:good], count)
    before = np.empty(total, np.int64)
    before[1:] = deltas[:-1]
    before[first[holding]] = -1
    okay &= deltas > before
    for failed in (bad_stamps, bad_deltas, bad_keys, bad_values, bad_counts):
        okay[failed] = False
    okay &= headers <= min(most_headers, MOST_HEADERS)
    headers = np.where(okay, headers, 0)
    pieces = (NO_NUMBERS,) * 4
    if headers.any():
        at, pieces = _read_headers(source, at, ends, headers, okay)
    okay &= at == ends

    rows = first_false(okay)
    if rows < total:
        good = int(np.searchsorted(first + count, rows, side="right"))
        count, rows = count[:good], int(first[good])
    pairs = int(headers[:rows].sum())
    return Records(
        count,
        deltas[:rows] + np.repeat(base[:good], count),
        stamps[:rows] + np.repeat(base_stamp[:good], count),
        key_at[:rows],
        np.maximum(key_size[:rows], -1),
        value_at[:rows],
        np.maximum(value_size[:rows], -1),
        headers[:rows],
        *(piece[:pairs] for piece in pieces),
    )


def _behind(at: Numbers, size: Numbers, ends: Numbers) -> Numbers:
    """Positions behind bytes, at most where their records end. From there on what is read only leads further off."""
    behind = np.maximum(size, 0)
    behind += at
    return np.minimum(behind, ends, out=behind)


def _read_headers(
    source: Source, at: Numbers, ends: Numbers, headers: Numbers, okay: Mask
) -> tuple[Numbers, tuple[Numbers, Numbers, Numbers, Numbers]]:
    """(positions behind them, their parts); takes records off `okay`. No record may have too many."""
    at = at.copy()
    first = np.cumsum(headers) - headers
    total = int(headers.sum())
    name_at, name_size, content_at, content_size = (np.zeros(total, np.int64) for _ in range(4))
    live = np.flatnonzero(headers)
    step = 0
    while live.size:
        stop, to = ends[live], first[live] + step
        size, place, failed = source.number(np.minimum(at[live], stop))
        okay[live[failed]] = False
        okay[live[size < 0]] = False
        name_at[to], name_size[to] = place, size
        size, place, failed = source.number(_behind(place, size, stop))
        okay[live[failed]] = False
        content_at[to], content_size[to] = place, np.maximum(size, -1)
        at[live] = place + np.maximum(size, 0)
        step += 1
        live = live[headers[live] > step]
    return at, (name_at, name_size, content_at, content_size)


def _starts(source: Source, begin: Numbers, end: Numbers, count: Numbers) -> tuple[Numbers, Numbers]:
    """Where the counted records begin by the lengths of those before them, and where the last of each batch ends; that
    is nowhere near the batch's end if a length is none."""
    order = np.argsort(-count, kind="stable")
    counts = count[order]
    first = np.cumsum(count) - count
    starts = np.empty(int(count.sum()), np.int64)
    finals = begin.copy()
    at, slot = begin[order], first[order]
    live = int(np.count_nonzero(counts))
    at, slot = at[:live], slot[:live]
    step = 0
    while live > FEW_LANES:
        for _ in range(int(counts[live - 1]) - step):
            starts[slot] = at
            at = np.minimum(source.advance(at), source.end + 1)
            slot += 1
        step = int(counts[live - 1])
        still = int(np.searchsorted(-counts[:live], -step, side="left"))
        finals[order[still:live]] = at[still:]
        live, at, slot = still, at[:still], slot[:still]
    for lane, position, to in zip(order[:live].tolist(), at.tolist(), slot.tolist(), strict=True):
        left = int(count[lane]) - step
        chain = _chain(source.view, position, int(end[lane]), left)
        finals[lane] = chain.pop()
        starts[to : to + left] = chain if len(chain) == left else 0
    return starts, finals


def _chain(view: memoryview, at: int, end: int, count: int) -> list[int]:
    """Where so many records begin and the last one ends; shorter where a length is none, and then ends with -1."""
    out = [at]
    for _ in range(count):
        if at >= end:
            return [-1]
        byte = view[at]
        if byte < 0x80:
            at += 1 + (byte >> 1)
        else:
            value, shift = byte & 0x7F, 7
            while byte > 0x7F:
                at += 1
                if at >= end or shift > 28:
                    return [-1]
                byte = view[at]
                value |= (byte & 0x7F) << shift
                shift += 7
            if byte == 0 or value > 0xFFFF_FFFF:
                return [-1]
            byte = value
            at += 1 + (value >> 1)
        if byte & 1 or byte == 0:
            return [-1]
        out.append(at)
    return out


def read_messages(source: Source, begin: Numbers, end: Numbers, magic: Numbers, alone: bool) -> Records:
    """The records of sets of v0 or v1 messages from `begin` to `end`, with the offsets that they carry; of the first
    set in doubt, and from there on, none.

    magic: of all messages in a set. alone: each set is known to be one whole message.
    """
    if alone:
        starts, ends, count = begin, end, np.ones(len(begin), np.int64)
    else:
        starts, ends, count = _message_starts(source, begin, end)
    lanes = len(count)
    first = np.cumsum(count) - count
    magics = np.repeat(magic[:lanes], count)
    message = records_of(MESSAGE, source.data, starts)
    offset = message["offset"].astype(np.int64)
    newer = magics == 1
    fixed = np.where(newer, FIXED_BYTES[1], FIXED_BYTES[0])
    okay = (ends - starts >= fixed + 8) & (message["magic"] == magics)
    if not alone:
        okay &= (message["attributes"] & CODEC_MASK) == 0
    key_at = starts + fixed
    key_size = source.int32(key_at)
    key_at += 4
    value_at = _behind(key_at, key_size, ends)
    value_size = source.int32(value_at)
    value_at += 4
    okay &= (key_size >= -1) & (value_size >= -1) & (value_at + np.maximum(value_size, 0) == ends)
    before = np.empty(len(offset), np.int64)
    before[1:] = offset[:-1]
    before[first] = -1
    okay &= offset > before

    rows = first_false(okay)
    if rows < len(okay):
        lanes = int(np.searchsorted(first + count, rows, side="right"))
        count, rows = count[:lanes], int(first[lanes])
    stamp = np.where(newer[:rows], message["stamp"][:rows], -1)
    none = np.zeros(rows, np.int64)
    parts = (key_at[:rows], key_size[:rows], value_at[:rows], value_size[:rows], none)
    return Records(count, offset[:rows], stamp, *parts, NO_NUMBERS, NO_NUMBERS, NO_NUMBERS, NO_NUMBERS)


def _message_starts(source: Source, begin: Numbers, end: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Where the messages of sets begin and end, and how many each set has; up to the first set that is in doubt, or
    has none."""
    lanes = len(begin)
    count = np.zeros(lanes, np.int64)
    good = begin < end
    live = np.flatnonzero(good)
    at, stop = begin[live], end[live]
    steps: list[tuple[NDArray[np.int64], Numbers]] = []
    while live.size > FEW_LANES:
        steps.append((live, at))
        size = source.int32(at + 8)
        behind = at + (LOG_OVERHEAD + size)
        fits = (size >= SMALLEST_SIZE_FIELD[0]) & (behind <= stop)
        more = fits & (behind < stop)
        at = behind
        if not more.all():
            good[live[~fits]] = False
            count[live[~more]] = len(steps)
            live, at, stop = live[more], at[more], stop[more]
    tails: list[tuple[int, list[int]]] = []
    for lane, position, limit in zip(live.tolist(), at.tolist(), stop.tolist(), strict=True):
        chain = _message_chain(source.view, position, limit)
        good[lane] = chain is not None
        tails.append((lane, chain or []))
        count[lane] = len(steps) + len(chain or [])
    number = first_false(good)
    # A set in doubt leaves what was found of it in front of those behind it; both are cut off.
    first = np.cumsum(count) - count
    total = int(count[:number].sum())
    starts = np.empty(int(count.sum()), np.int64)
    for step, (which, places) in enumerate(steps):
        starts[first[which] + step] = places
    for lane, chain in tails:
        starts[first[lane] + len(steps) : first[lane] + count[lane]] = chain
    starts = starts[:total]
    ends = np.empty(total, np.int64)
    ends[:-1] = starts[1:]
    ends[(first + count - 1)[:number]] = end[:number]
    return starts, ends, count[:number]


def _message_chain(view: memoryview, at: int, end: int) -> list[int] | None:
    """Where the messages of a set begin; None if one of them does not fit."""
    out = []
    while at < end:
        out.append(at)
        size = int.from_bytes(view[at + 8 : at + LOG_OVERHEAD], "big")
        at += LOG_OVERHEAD + size
        if size < SMALLEST_SIZE_FIELD[0] or at > end:
            return None
    return out
