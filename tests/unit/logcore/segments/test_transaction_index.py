"""The transaction index: entries taken with care, and the search that a broker answers fetches with."""

import struct

import pytest

from logcore.errors import CorruptIndexError, UnsupportedFormatError
from logcore.segments.side_files.transaction_index import AbortedTransaction, collect, encode, parse, truncate


def packed(*entries: tuple[int, int, int, int], version: int = 0) -> bytes:
    return b"".join(struct.pack(">hqqqq", version, *entry) for entry in entries)


# Producer 8 aborts while 3 is open since offset 2, 3 while 5 is open since 12, 8 once more, then 5.
ROWS = ((8, 8, 9, 2), (3, 2, 14, 12), (8, 16, 30, 12), (5, 12, 31, 32))
DATA = packed(*ROWS)
ENTRIES = tuple(AbortedTransaction(*row) for row in ROWS)


def test_an_entry_of_a_real_broker() -> None:
    data = bytes.fromhex("0000 0000000000000008 0000000000000008 0000000000000009 000000000000000a")
    expected = AbortedTransaction(producer_id=8, first_offset=8, last_offset=9, last_stable_offset=10)
    assert parse(data, 0) == (expected,)
    assert encode([expected]) == data


def test_entries_are_absolute_and_keep_their_order() -> None:
    assert parse(DATA, 9) == ENTRIES
    assert encode(ENTRIES) == DATA


@pytest.mark.parametrize("length", range(len(DATA) + 1))
def test_an_index_cut_anywhere_keeps_its_whole_entries(length: int) -> None:
    assert parse(DATA[:length], 0) == ENTRIES[: length // 34]


@pytest.mark.parametrize("zeros", [1, 34, 100, 4096])
def test_zeros_after_the_last_entry_are_no_entries(zeros: int) -> None:
    assert parse(DATA + bytes(zeros), 0) == ENTRIES
    assert parse(bytes(zeros), 0) == ()


def test_an_entry_that_ends_in_zero_bytes_is_whole() -> None:
    assert parse(packed((1, 0, 255, 256)), 0) == (AbortedTransaction(1, 0, 255, 256),)


def test_another_version_is_not_read_and_says_so() -> None:
    with pytest.raises(UnsupportedFormatError, match="version 1") as caught:
        parse(DATA + packed((1, 40, 41, 42), version=1), 0)
    assert caught.value.position == len(DATA)


@pytest.mark.parametrize(
    ("rows", "base_offset"),
    [
        (((8, 8, 9, 10),), 10),
        (((-1, 8, 9, 10),), 0),
        (((8, -1, 9, 10),), 0),
        (((8, 8, 9, -1),), 0),
        (((8, 10, 9, 10),), 0),
        (((8, 8, 9, 10), (7, 5, 9, 10)), 0),
        (((8, 8, 9, 10), (7, 5, 8, 10)), 0),
        (((8, 8, 9, 10), (0, 0, 0, 0), (7, 5, 18, 19)), 0),
    ],
)
def test_an_index_that_contradicts_itself_or_its_segment_is_refused(
    rows: tuple[tuple[int, int, int, int], ...], base_offset: int
) -> None:
    with pytest.raises(CorruptIndexError):
        parse(packed(*rows), base_offset)


def test_a_marker_at_the_segments_base_belongs_to_it() -> None:
    assert parse(packed((8, 8, 9, 10)), 9) == (AbortedTransaction(8, 8, 9, 10),)


@pytest.mark.parametrize("row", [(-1, 0, 1, 2), (1, 0, 2**63, 2)])
def test_entries_that_do_not_fit_are_not_encoded(row: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        encode([AbortedTransaction(*row)])


@pytest.mark.parametrize(
    ("fetch_offset", "upper", "found", "is_complete"),
    [
        (0, 2, [], True),
        (0, 3, [1], True),
        (0, 8, [1], True),
        (0, 9, [0, 1], True),
        (10, 12, [1], True),
        (0, 13, [0, 1, 3], True),
        (15, 17, [2, 3], True),
        (31, 32, [3], True),
        (31, 33, [3], False),
        (32, 100, [], False),
    ],
)
def test_what_touches_a_range_is_collected_until_nothing_more_can(
    fetch_offset: int, upper: int, found: list[int], is_complete: bool
) -> None:
    entries, complete = collect(ENTRIES, fetch_offset, upper)
    assert entries == tuple(ENTRIES[number] for number in found)
    assert complete is is_complete


@pytest.mark.parametrize(("offset", "left"), [(0, 0), (9, 0), (10, 1), (14, 1), (15, 2), (31, 3), (32, 4), (10**9, 4)])
def test_a_cut_takes_the_entries_whose_markers_it_takes(offset: int, left: int) -> None:
    assert truncate(ENTRIES, offset) == ENTRIES[:left]
