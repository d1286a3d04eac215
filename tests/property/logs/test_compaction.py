"""Cleaning any log of keyed records, compared with a dictionary that is filled record by record."""

import struct
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from logcore.logs.compaction.key_cleaning import (
    CleanedSegment,
    NewestOffsets,
    clean_segment,
    difference,
    newest_offset_by_key,
)
from tests import handmade

Row = tuple[int, bytes, bytes | None]
TOLD = settings(derandomize=True, max_examples=150, deadline=None)

KEYS = st.sampled_from([b"", b"a", b"b", b"c", b"\xff"])
VALUES = st.one_of(st.none(), st.sampled_from([b"", b"x", b"yy"]))
# Per batch: gap in front, and per record (gap in front, key, value).
BATCHES = st.tuples(st.integers(0, 3), st.lists(st.tuples(st.integers(0, 2), KEYS, VALUES), min_size=1, max_size=4))
LOGS = st.lists(st.lists(BATCHES, max_size=4), min_size=1, max_size=4)


def packed(log: list) -> tuple[list[tuple[bytes, int]], list[list[Row]]]:
    """Segments as (bytes, base offset), and their records as rows."""
    segments, contents = [], []
    offset = 0
    for batches in log:
        base, data, rows = offset, b"", []
        for gap, records in batches:
            offset += gap
            first, body = offset, []
            for skipped, key, value in records:
                offset += skipped
                body.append(handmade.record(offset - first, key, value, timestamp_delta=offset))
                rows.append((offset, key, value))
                offset += 1
            data += handmade.batch(
                body,
                base_offset=first,
                last_offset_delta=offset - 1 - first,
                base_timestamp=1000,
                max_timestamp=1000 + offset - 1,
            )
        segments.append((data, base))
        contents.append(rows)
    return segments, contents


def rows_of(data: bytes) -> Iterator[Row]:
    """Records of uncompressed batches, read with nothing but struct and one-byte varints."""
    position = 0
    while position < len(data):
        (base,) = struct.unpack_from(">q", data, position)
        (count,) = struct.unpack_from(">i", data, position + 57)
        end = position + handmade.size_of(data, position)
        assert handmade.fix_crc(data[position:end]) == data[position:end]
        at = position + 61
        for _ in range(count):
            length, at = _small(data, at)
            after = at + length
            _, at = _varint(data, at + 1)
            delta, at = _small(data, at)
            key, at = _bytes(data, at)
            value, at = _bytes(data, at)
            yield base + delta, key or b"", value
            at = after
        position = end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    raw = shift = 0
    while True:
        raw |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return raw >> 1 if raw % 2 == 0 else -(raw >> 1) - 1, at


def _small(data: bytes, at: int) -> tuple[int, int]:
    value, after = _varint(data, at)
    assert value >= 0
    return value, after


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = _varint(data, at)
    return (None, at) if length < 0 else (data[at : at + length], at + length)


def clean(segments: list[tuple[bytes, int]], end: int) -> tuple[list[bytes], NewestOffsets]:
    found = newest_offset_by_key(segments, end_offset=end)
    assert isinstance(found, NewestOffsets)
    last = max((i for i, (data, _) in enumerate(segments) if data), default=0)
    after = []
    for i, (data, base) in enumerate(segments):
        done = clean_segment(data, found, base_offset=base, last_of_range=i == last)
        assert isinstance(done, CleanedSegment)
        after.append(done.data)
    return after, found


@TOLD
@given(LOGS, st.integers(0, 40))
def test_of_each_key_exactly_the_newest_published_record_is_left(log: list, end: int) -> None:
    segments, contents = packed(log)
    rows = [row for rows in contents for row in rows]
    last = {key: offset for offset, key, _ in rows if offset < end}
    after, found = clean(segments, end)
    assert dict(found.by_key) == last
    for data, before in zip(after, contents, strict=True):
        assert list(rows_of(data)) == [row for row in before if row[0] >= end or last[row[1]] == row[0]]


@TOLD
@given(LOGS, st.integers(0, 40))
def test_every_cleaning_is_proven_and_no_other_bytes_are(log: list, end: int) -> None:
    segments, _ = packed(log)
    after, found = clean(segments, end)
    pairs = [(before, done, base) for (before, base), done in zip(segments, after, strict=True)]
    assert difference(pairs, found) is None
    for i, (before, done, base) in enumerate(pairs):
        kept = list(rows_of(done))
        other = b"" if kept else handmade.simple_batch(base, [(b"z", b"z")])
        assert difference([*pairs[:i], (before, other, base), *pairs[i + 1 :]], found) is not None


@TOLD
@given(LOGS, st.integers(0, 40))
def test_cleaning_what_is_clean_changes_no_byte(log: list, end: int) -> None:
    segments, _ = packed(log)
    once, _ = clean(segments, end)
    again = [(data, base) for data, (_, base) in zip(once, segments, strict=True)]
    assert clean(again, end)[0] == once
