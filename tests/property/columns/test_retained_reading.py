"""What retention reads of a segment is the same by both ways of reading it, on any bytes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from logcore.columns.checking.checked import checked_reading
from logcore.logs.retention.retained_segments import SegmentReading, read_segment
from tests import handmade
from tests.sampling import examples

_PIECES = st.sampled_from(["plain", "marker", "v1", "wrapper"])


def _batch(kind: str, offset: int, timestamp: int) -> bytes:
    if kind == "v1":
        return handmade.message_v1(offset, timestamp, b"k", b"v")
    if kind == "wrapper":
        return handmade.wrapper_v1([offset, offset + 1])
    if kind == "marker":
        return handmade.marker(offset, handmade.COMMIT, producer_id=4, producer_epoch=0, base_timestamp=timestamp)
    return handmade.simple_batch(offset, [(b"k", b"v")], base_timestamp=timestamp)


def _untyped(reading: SegmentReading) -> SegmentReading:
    last = reading.last_batch
    return reading if last is None else replace(reading, last_batch=replace(last, control_type=None))


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(st.tuples(_PIECES, st.integers(0, 3), st.integers(-1, 10**12)), max_size=6),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 7)), max_size=2),
    st.integers(0, 40),
    st.integers(0, 60),
    st.sampled_from([None, 4, 10**6]),
)
def test_both_ways_of_reading_a_segment_find_the_same(pieces, flips, zeros, cut, next_base):
    content, offset = b"", 0
    for kind, gap, timestamp in pieces:
        content += _batch(kind, offset + gap, timestamp)
        offset += gap + 2
    for position, bit in flips:
        content = handmade.flip(content, position % len(content), bit) if content else content
    content = content[: len(content) - cut] if cut < len(content) else content
    segment = content + bytes(zeros), 0, next_base is not None, next_base, None
    assert _untyped(checked_reading(*segment)) == _untyped(read_segment(*segment))
