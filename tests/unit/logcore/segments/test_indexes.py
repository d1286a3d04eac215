"""Offset and time indexes: parsed with care, and built as a broker's recovery writes them (LogSegment.recover)."""

import struct

import pytest

from logcore.errors import CorruptIndexError
from logcore.logs.recovery.segment_recovery import IndexRules, OffsetsDoNotRise, OffsetsOverflow, recover_segment
from logcore.segments.scanning.scan import ScannedBatch, SegmentScan
from logcore.segments.side_files import offset_index, time_index
from logcore.segments.side_files.offset_index import OffsetEntry
from logcore.segments.side_files.time_index import TimeEntry
from tests import handmade

BASE = 100


def offset_bytes(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">ii", relative, position) for relative, position in entries)


def time_bytes(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">qi", timestamp, relative) for timestamp, relative in entries)


def segment(*shapes: tuple[int, int, int]) -> bytes:
    """Batches of (first offset, last offset, max timestamp), about 100 bytes each."""
    data = b""
    for first, last, timestamp in shapes:
        record = handmade.record(0, b"k" * 10, b"v" * 20)
        data += handmade.batch([record], base_offset=first, last_offset_delta=last - first, base_timestamp=timestamp)
    return data


def batches(*shapes: tuple[int, int, int]) -> list[ScannedBatch]:
    """The same, scanned."""
    return [
        item for item in SegmentScan(segment(*shapes), base_offset=0, sealed=True) if isinstance(item, ScannedBatch)
    ]


def offsets_of(data: bytes, interval_bytes: int = 4096, base: int = BASE) -> bytes:
    return recover_segment(data, base, IndexRules(interval_bytes)).offset_index


def times_of(data: bytes, interval_bytes: int = 4096) -> bytes:
    return recover_segment(data, BASE, IndexRules(interval_bytes)).time_index


SHAPES = ((100, 101, 1000), (102, 105, 3000), (106, 106, 2000), (110, 112, 3000), (113, 113, 9000), (114, 120, 50))
SEGMENT = segment(*SHAPES)
BATCHES = batches(*SHAPES)
SIZE = BATCHES[0].size


def test_the_batches_are_of_one_size() -> None:
    assert {batch.size for batch in BATCHES} == {SIZE}


def test_every_batch_but_the_first_is_indexed_by_its_last_offset_when_the_interval_is_zero() -> None:
    expected = offset_bytes((5, SIZE), (6, 2 * SIZE), (12, 3 * SIZE), (13, 4 * SIZE), (20, 5 * SIZE))
    assert offsets_of(SEGMENT, 0) == expected


def test_an_entry_needs_more_bytes_than_the_interval_and_not_as_many() -> None:
    assert offsets_of(SEGMENT, SIZE) == offset_bytes((6, 2 * SIZE), (13, 4 * SIZE))
    assert offsets_of(SEGMENT, SIZE - 1) == offsets_of(SEGMENT, 0)


def test_the_interval_counts_from_the_batch_indexed_last() -> None:
    assert offsets_of(SEGMENT, 2 * SIZE + 1) == offset_bytes((12, 3 * SIZE))


def test_a_small_segment_has_an_empty_offset_index_and_one_time_entry() -> None:
    assert offsets_of(SEGMENT) == b""
    assert times_of(SEGMENT) == time_bytes((9000, 13))


def test_the_time_index_holds_risen_maxima_with_the_offset_of_the_first_batch_that_reached_them() -> None:
    # At 3000 the second batch wins over the fourth, which is as great; 50 adds nothing.
    assert times_of(SEGMENT, 0) == time_bytes((3000, 5), (9000, 13))


def test_the_closing_entry_is_the_greatest_timestamp_of_all() -> None:
    assert times_of(segment(*SHAPES[:5]), 3 * SIZE - 1) == time_bytes((3000, 5), (9000, 13))


def test_batches_without_timestamps_leave_the_time_index_empty() -> None:
    assert times_of(segment((100, 100, -1), (101, 101, -1)), 0) == b""


def test_a_timestamp_of_zero_is_one() -> None:
    assert times_of(segment((100, 100, 0))) == time_bytes((0, 0))


def test_no_batches_make_empty_indexes() -> None:
    assert offsets_of(b"") == b""
    assert times_of(b"") == b""


@pytest.mark.parametrize("base_offset", [121, 120 - 2**31])
def test_offsets_that_no_index_of_that_base_holds_are_refused(base_offset: int) -> None:
    with pytest.raises(OffsetsOverflow, match="too far for an index"):
        offsets_of(SEGMENT, base=base_offset)


def test_offsets_that_do_not_rise_are_refused_where_an_entry_would_be_written() -> None:
    with pytest.raises(OffsetsDoNotRise, match="not above"):
        offsets_of(segment(SHAPES[0], SHAPES[3], SHAPES[1]), 0)


OFFSETS = offset_bytes((5, 300), (6, 700), (2**31 - 1, 2**31 - 1))
TIMES = time_bytes((0, 0), (1000, 0), (2**63 - 1, 2**31 - 1))


def test_entries_are_absolute() -> None:
    assert offset_index.parse(OFFSETS, BASE)[:2] == (OffsetEntry(105, 300), OffsetEntry(106, 700))
    assert time_index.parse(TIMES, BASE)[:2] == (TimeEntry(0, 100), TimeEntry(1000, 100))


def test_parsed_entries_encode_to_the_same_bytes() -> None:
    assert offset_index.encode(offset_index.parse(OFFSETS, BASE), BASE) == OFFSETS
    assert time_index.encode(time_index.parse(TIMES, BASE), BASE) == TIMES


@pytest.mark.parametrize("length", range(len(OFFSETS) + 1))
def test_an_offset_index_cut_anywhere_keeps_its_whole_entries(length: int) -> None:
    assert offset_index.parse(OFFSETS[:length], BASE) == offset_index.parse(OFFSETS, BASE)[: length // 8]


@pytest.mark.parametrize("length", range(len(TIMES) + 1))
def test_a_time_index_cut_anywhere_keeps_its_whole_entries(length: int) -> None:
    assert time_index.parse(TIMES[:length], BASE) == time_index.parse(TIMES, BASE)[: length // 12]


@pytest.mark.parametrize("zeros", [1, 8, 12, 24, 4096])
def test_a_preallocated_tail_holds_no_entries(zeros: int) -> None:
    assert offset_index.parse(OFFSETS + bytes(zeros), BASE) == offset_index.parse(OFFSETS, BASE)
    assert time_index.parse(TIMES + bytes(zeros), BASE) == time_index.parse(TIMES, BASE)


def test_an_index_of_nothing_but_preallocated_zeros_is_empty() -> None:
    assert offset_index.parse(bytes(2040), BASE) == ()
    assert time_index.parse(bytes(2040), BASE) == ()


def test_one_lone_time_entry_of_zeros_is_the_first_millisecond_of_1970() -> None:
    assert time_index.parse(bytes(12), BASE) == (TimeEntry(0, 100),)


def test_one_lone_offset_entry_of_zeros_is_the_base_offset_at_the_beginning() -> None:
    assert offset_index.parse(bytes(8), BASE) == (OffsetEntry(BASE, 0),)


def test_a_time_entry_of_zeros_before_others_is_real() -> None:
    assert time_index.parse(time_bytes((0, 0), (5, 1)) + bytes(24), BASE) == (TimeEntry(0, 100), TimeEntry(5, 101))


@pytest.mark.parametrize(
    "data",
    [
        offset_bytes((-1, 0)),
        offset_bytes((1, -1)),
        offset_bytes((5, 300), (5, 400)),
        offset_bytes((5, 300), (4, 400)),
        offset_bytes((5, 300), (0, 0), (6, 700)),
        b"trailing garbage that is no entry",
    ],
)
def test_an_offset_index_that_contradicts_itself_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptIndexError):
        offset_index.parse(data, BASE)


@pytest.mark.parametrize(
    "data",
    [
        time_bytes((-1, 0)),
        time_bytes((1, -1)),
        time_bytes((5, 3), (5, 4)),
        time_bytes((5, 3), (6, 2)),
        time_bytes((5, 3), (0, 0), (6, 4)),
    ],
)
def test_a_time_index_that_contradicts_itself_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptIndexError):
        time_index.parse(data, BASE)


def test_entries_that_do_not_fit_are_not_encoded() -> None:
    for entry in (OffsetEntry(99, 0), OffsetEntry(BASE + 2**31, 0), OffsetEntry(BASE, -1), OffsetEntry(BASE, 2**31)):
        with pytest.raises(ValueError, match="does not fit"):
            offset_index.encode([entry], BASE)
    for stamp in (TimeEntry(-1, BASE), TimeEntry(0, 99), TimeEntry(2**63, BASE)):
        with pytest.raises(ValueError, match="does not fit"):
            time_index.encode([stamp], BASE)


@pytest.mark.parametrize(
    ("offset", "position"), [(0, 0), (104, 0), (105, 300), (106, 700), (107, 700), (10**12, 2**31 - 1)]
)
def test_an_offset_is_looked_up_in_the_last_entry_at_or_below_it(offset: int, position: int) -> None:
    assert offset_index.lookup(offset_index.parse(OFFSETS, BASE), offset, BASE).position == position


def test_every_lookup_lands_at_or_before_a_linear_scan() -> None:
    entries = offset_index.parse(offsets_of(SEGMENT, 0), BASE)
    for offset in range(BASE, 121):
        holder = next(batch for batch in BATCHES if batch.header.last_offset >= offset)
        assert offset_index.lookup(entries, offset, BASE).position <= holder.position


def offset_entries(*entries: tuple[int, int]) -> tuple[OffsetEntry, ...]:
    return tuple(OffsetEntry(offset, number * SIZE) for offset, number in entries)


def time_entries(*entries: tuple[int, int]) -> tuple[TimeEntry, ...]:
    return tuple(TimeEntry(*entry) for entry in entries)


def test_what_a_recovery_builds_is_explained() -> None:
    assert offset_index.unexplained(offset_index.parse(offsets_of(SEGMENT, 0), BASE), BATCHES) == ()
    assert time_index.unexplained(time_index.parse(times_of(SEGMENT, 0), BASE), BATCHES) == ()


@pytest.mark.parametrize(
    "entries",
    [
        offset_entries((102, 1), (106, 2)),  # 0.8 to 1.1: the first offset of the call
        offset_entries((106, 1), (120, 3)),  # 2.x: the last offset of a call of two and of three batches
        offset_entries((120, 1)),
        offset_entries((104, 1)),
        (),
    ],
)
def test_offset_entries_of_older_brokers_are_explained(entries: tuple[OffsetEntry, ...]) -> None:
    assert offset_index.unexplained(entries, BATCHES) == ()


@pytest.mark.parametrize(
    ("entries", "wrong"),
    [
        ((OffsetEntry(105, SIZE + 1),), [0]),  # no batch starts there
        ((OffsetEntry(105, 6 * SIZE),), [0]),  # after the end
        (offset_entries((101, 1)), [0]),  # of the batch before
        (offset_entries((121, 1)), [0]),  # past the end of the segment
        (offset_entries((106, 1), (112, 2)), [0]),  # 106 lies after the position of the next entry
        (offset_entries((105, 1), (99, 2), (120, 5)), [1]),
    ],
)
def test_offset_entries_that_no_broker_writes_are_named(entries: tuple[OffsetEntry, ...], wrong: list[int]) -> None:
    assert offset_index.unexplained(entries, BATCHES) == tuple(entries[number] for number in wrong)


@pytest.mark.parametrize(
    "entries",
    [
        time_entries((1000, 101), (3000, 105), (9000, 113)),
        time_entries((1000, 100), (3000, 103)),  # 0.11 to 2.8: the record's own offset
        time_entries((3000, 112)),  # the fourth batch is as great as the second
        (),
    ],
)
def test_time_entries_of_older_brokers_are_explained(entries: tuple[TimeEntry, ...]) -> None:
    assert time_index.unexplained(entries, BATCHES) == ()


@pytest.mark.parametrize(
    ("entries", "wrong"),
    [
        (time_entries((2000, 106)), [0]),  # a batch's timestamp, but not the greatest by then
        (time_entries((50, 120)), [0]),
        (time_entries((2999, 105)), [0]),  # of no batch
        (time_entries((3000, 106)), [0]),  # of another batch
        (time_entries((3000, 108)), [0]),  # in a gap
        (time_entries((1000, 101), (3000, 101), (9000, 113)), [1]),
        (time_entries((9001, 113)), [0]),
    ],
)
def test_time_entries_that_no_broker_writes_are_named(entries: tuple[TimeEntry, ...], wrong: list[int]) -> None:
    assert time_index.unexplained(entries, BATCHES) == tuple(entries[number] for number in wrong)


def test_nothing_explains_an_entry_of_an_empty_segment() -> None:
    assert offset_index.unexplained((OffsetEntry(100, 0),), []) == (OffsetEntry(100, 0),)
    assert time_index.unexplained((TimeEntry(1, 100),), []) == (TimeEntry(1, 100),)
