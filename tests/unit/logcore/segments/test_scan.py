"""The walk over a segment: what is trusted, what is not, and where every byte went."""

import struct

import pytest

from logcore.errors import CorruptionReason
from logcore.segments.scanning.scan import End, SegmentScan, Stretch, last_good_end
from tests import handmade
from tests.handmade import cut, fix_crc, flip, patch, zero_tail
from tests.unit.logcore.segments.walked_segments import (
    BASE,
    FIRST,
    OLD,
    ROWS,
    SECOND,
    SEGMENT,
    THIRD,
    bad,
    good,
    repaired,
    walk,
)

STARTS = (0, len(FIRST), len(FIRST) + len(SECOND))


@pytest.mark.parametrize("sealed", [True, False])
def test_whole_batches_are_clean(sealed: bool) -> None:
    finished = walk(SEGMENT, sealed=sealed)
    assert good(finished) == [10, 13, 16]
    assert finished.end is End.CLEAN
    assert finished.next_offset == 19
    assert finished.last_batch is not None
    assert (finished.last_batch.position, finished.last_batch.end) == (STARTS[2], len(SEGMENT))


@pytest.mark.parametrize("sealed", [True, False])
def test_an_empty_file_is_clean_and_goes_on_at_its_name(sealed: bool) -> None:
    finished = walk(b"", sealed=sealed)
    assert (finished.end, finished.next_offset, finished.last_batch) == (End.CLEAN, BASE, None)


def test_the_outcome_is_not_available_before_the_end() -> None:
    unfinished = SegmentScan(SEGMENT, base_offset=BASE, sealed=True)
    next(iter(unfinished))
    with pytest.raises(ValueError, match="not reached its end"):
        _ = unfinished.accounting


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_any_buffer_will_do(buffer: type) -> None:
    assert [item.size for item in SegmentScan(buffer(SEGMENT), base_offset=BASE, sealed=True)] == [
        len(FIRST),
        len(SECOND),
        len(THIRD),
    ]


@pytest.mark.parametrize("length", [length for length in range(len(SEGMENT)) if length not in (*STARTS, len(SEGMENT))])
def test_a_segment_cut_inside_a_batch_is_torn_if_active_and_corrupt_if_sealed(length: int) -> None:
    whole = sum(start <= length for start in STARTS) - 1
    active, sealed = walk(cut(SEGMENT, length), sealed=False), walk(cut(SEGMENT, length), sealed=True)
    assert good(active) == good(sealed) == [10, 13, 16][:whole]
    assert active.next_offset == sealed.next_offset == BASE + 3 * whole
    # The first eight bytes of a batch are its offset. Cut after its leading zeros, they look like reserved space.
    rest = SEGMENT[STARTS[whole] : length]
    if any(rest):
        assert (active.end, sealed.end) == (End.TORN, End.CORRUPT)
        assert active.accounting.tail == sealed.accounting.quarantined == len(rest)
    else:
        assert active.accounting.padding == sealed.accounting.padding == len(rest)


@pytest.mark.parametrize("length", STARTS)
def test_a_segment_cut_between_batches_looks_like_a_whole_one(length: int) -> None:
    assert walk(cut(SEGMENT, length), sealed=True).end is End.CLEAN


@pytest.mark.parametrize("garbage", [b"\1", b"\xff" * 11, b"\xff" * 12, b"garbage!" * 9, bytes(30) + b"\1"])
@pytest.mark.parametrize("sealed", [True, False])
def test_trailing_garbage_that_does_not_begin_like_a_batch_is_quarantined(garbage: bytes, sealed: bool) -> None:
    finished = walk(SEGMENT + garbage, sealed=sealed)
    assert good(finished) == [10, 13, 16]
    assert (finished.end, finished.accounting.quarantined) == (End.CORRUPT, len(garbage))
    (stretch,) = [item for item in finished.items if isinstance(item, Stretch)]  # type: ignore[attr-defined]
    assert (stretch.hides is None) == sealed


@pytest.mark.parametrize("count", [1, 8, 11, 12, 17, 18, 61, 4096, (1 << 20) + 5])
def test_zeros_up_to_the_end_are_padding(count: int) -> None:
    active, sealed = walk(zero_tail(SEGMENT, count), sealed=False), walk(zero_tail(SEGMENT, count), sealed=True)
    assert active.accounting.padding == sealed.accounting.padding == count
    assert active.end is End.CLEAN
    assert sealed.end is End.CORRUPT, "nothing reserves room in a segment that is complete"


def test_a_partial_batch_in_reserved_space_is_a_tail_and_the_zeros_after_it_are_not_trusted() -> None:
    torn = walk(zero_tail(FIRST + cut(SECOND, len(SECOND) - 5), 5000), sealed=False)
    assert good(torn) == [10]
    assert torn.end is End.TORN
    assert torn.accounting.tail == len(SECOND)
    assert torn.accounting.padding == 5000 - 5


@pytest.mark.parametrize("sealed", [True, False])
def test_zeros_in_the_middle_are_quarantined_alone(sealed: bool) -> None:
    finished = walk(FIRST + bytes(100) + SECOND, sealed=sealed)
    assert good(finished) == [10, 13]
    assert bad(finished) == [(len(FIRST), 100, CorruptionReason.LENGTH)]
    assert finished.accounting.padding == 0


@pytest.mark.parametrize("position", [17, 21, 30, 60, 61, 70])
@pytest.mark.parametrize("sealed", [True, False])
def test_a_flipped_bit_costs_its_batch_alone(position: int, sealed: bool) -> None:
    finished = walk(flip(SEGMENT, STARTS[1] + position), sealed=sealed)
    assert good(finished) == [10, 16]
    assert bad(finished) == [(STARTS[1], len(SECOND), CorruptionReason.CRC)]
    assert finished.end is End.CORRUPT
    assert finished.next_offset == 19


def test_a_stretch_says_which_offset_was_expected_there() -> None:
    finished = walk(flip(SEGMENT, STARTS[1] + 61))
    assert [item.offset for item in finished.items if isinstance(item, Stretch)] == [13]  # type: ignore[attr-defined]


def test_a_bad_last_batch_of_an_active_segment_is_a_tail() -> None:
    finished = walk(flip(SEGMENT, STARTS[2] + 61), sealed=False)
    assert finished.end is End.TORN
    assert finished.accounting.tail == len(THIRD)
    assert finished.next_offset == 16


def test_a_batch_of_older_offsets_after_a_bad_one_proves_nothing() -> None:
    older = handmade.simple_batch(0, ROWS)
    finished = walk(FIRST + flip(SECOND, 61) + older + THIRD)
    assert good(finished) == [10, 16]
    assert finished.accounting.quarantined == len(SECOND) + len(older)


def test_a_successor_with_a_wrong_crc_proves_no_damage_before_it() -> None:
    after_gap = handmade.simple_batch(20, ROWS)
    liar = flip(handmade.simple_batch(21, ROWS), 61)
    assert good(walk(FIRST + after_gap + liar + handmade.simple_batch(24, ROWS))) == [10, 20, 24]


@pytest.mark.parametrize("sealed", [True, False])
def test_two_bad_batches_in_a_row_do_not_hide_what_follows(sealed: bool) -> None:
    finished = walk(flip(flip(SEGMENT, STARTS[0] + 61), STARTS[1] + 61), sealed=sealed)
    assert good(finished) == [16]
    sizes = [STARTS[1], STARTS[2] - STARTS[1]]
    assert bad(finished) == [(0, sizes[0], CorruptionReason.CRC), (STARTS[1], sizes[1], CorruptionReason.CRC)]


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 14, 48, 2**31 - 1])
@pytest.mark.parametrize("sealed", [True, False])
def test_an_impossible_length_in_the_middle_costs_its_batch_alone(length: int, sealed: bool) -> None:
    finished = walk(patch(SEGMENT, STARTS[1] + 8, struct.pack(">i", length)), sealed=sealed)
    assert good(finished) == [10, 16]
    ((position, size, reason),) = bad(finished)
    assert (position, size) == (STARTS[1], len(SECOND))
    assert reason in (CorruptionReason.LENGTH, CorruptionReason.TRUNCATED)
    assert repaired(finished) == [STARTS[1]]


@pytest.mark.parametrize("sealed", [True, False])
def test_a_length_past_the_end_is_never_taken_for_the_end_of_the_file(sealed: bool) -> None:
    finished = walk(patch(SEGMENT, STARTS[1] + 8, struct.pack(">i", len(SEGMENT))), sealed=sealed)
    assert finished.end is End.CORRUPT
    assert finished.accounting.quarantined == len(SECOND)
    assert repaired(finished) == [STARTS[1]]


def test_a_wrong_length_that_ends_at_no_batch_costs_its_batch_alone() -> None:
    finished = walk(patch(SEGMENT, STARTS[1] + 8, struct.pack(">i", len(SECOND) - 12 + 7)))
    assert good(finished) == [10, 16]
    assert finished.accounting.quarantined == len(SECOND)


@pytest.mark.parametrize("magic", [m for m in range(-128, 128) if m != 2])
def test_every_other_magic_byte_costs_its_batch_alone(magic: int) -> None:
    finished = walk(patch(SEGMENT, STARTS[1] + 16, struct.pack(">b", magic)))
    assert good(finished) == [10, 16]
    # A batch with the magic byte of an old format is checked by the checksum of that format.
    reason = CorruptionReason.CRC if magic in (0, 1) else CorruptionReason.MAGIC
    assert bad(finished) == [(STARTS[1], len(SECOND), reason)]


@pytest.mark.parametrize("bit", range(64))
def test_a_base_offset_with_a_flipped_bit_never_passes_between_neighbours(bit: int) -> None:
    """It lies outside the crc: only order, successor and the segment's span can show it."""
    injured = flip(SEGMENT, STARTS[1] + 7 - bit // 8, bit % 8)
    finished = walk(injured)
    assert good(finished) == [10, 16]
    assert bad(finished) == [(STARTS[1], len(SECOND), CorruptionReason.OFFSET_ORDER)]


def test_a_walk_reports_its_position_and_another_continues_from_there() -> None:
    data = b"".join(OLD[:3]) + flip(OLD[3], 40) + b"".join(OLD[4:]) + bytes(30)
    whole = SegmentScan(data, base_offset=BASE, sealed=False)
    assert (whole.position, whole.next_offset) == (0, BASE)
    items, positions = [], [(0, BASE)]
    for item in whole:
        items.append(item)
        positions.append((whole.position, whole.next_offset))
    for done, (position, next_offset) in enumerate(positions):
        rest = SegmentScan(data, base_offset=BASE, sealed=False, start=position, next_offset=next_offset)
        assert next(iter(rest), None) == (items[done] if done < len(items) else None)
        assert list(rest) == items[done + 1 :]
        assert (rest.position, rest.next_offset) == (len(data), 26)
        assert rest.accounting.file_size == len(data) - position
        assert rest.accounting.padding == 30


def test_oddities_of_the_last_batch_are_available_to_an_inspection() -> None:
    odd = handmade.wrapper([handmade.message(0, crc=1)], offset=10)
    unheard = SegmentScan(odd, base_offset=BASE, sealed=True)
    assert len(list(unheard)) == 1
    assert unheard.oddities.inner_crcs_differ == 0
    heard = SegmentScan(odd + OLD[1], base_offset=BASE, sealed=True, inspect=lambda *_: None)
    steps = iter(heard)
    next(steps)
    assert heard.oddities.inner_crcs_differ == 1
    next(steps)
    assert heard.oddities.inner_crcs_differ == 0


@pytest.mark.parametrize("bit", range(64))
def test_the_last_batchs_base_offset_is_checked_against_the_next_segment(bit: int) -> None:
    finished = walk(flip(SEGMENT, STARTS[2] + 7 - bit // 8, bit % 8), next_base_offset=19)
    assert good(finished) == [10, 13]
    assert bad(finished) == [(STARTS[2], len(THIRD), CorruptionReason.OFFSET_ORDER)]


def test_a_batch_below_the_segments_name_is_refused() -> None:
    finished = walk(SEGMENT, base_offset=11)
    assert good(finished) == [13, 16]


def test_a_segment_may_begin_above_its_name_and_have_gaps() -> None:
    finished = walk(FIRST + THIRD, base_offset=3)
    assert good(finished) == [10, 16]
    assert finished.end is End.CLEAN


@pytest.mark.parametrize("base_offset", [10, 11, 12])
def test_batches_that_overlap_do_not_both_pass(base_offset: int) -> None:
    finished = walk(FIRST + handmade.simple_batch(base_offset, ROWS) + THIRD)
    assert good(finished) == [10, 16]


def test_offsets_out_of_reach_of_an_index_are_refused() -> None:
    far = handmade.simple_batch(BASE + 2**31 - 1, [(b"k", b"v")])
    assert good(walk(FIRST + far)) == [10, BASE + 2**31 - 1]
    farther = handmade.simple_batch(BASE + 2**31, [(b"k", b"v")])
    assert good(walk(FIRST + farther)) == [10]


def test_an_offset_that_would_leave_64_bits_is_refused() -> None:
    base_offset = 2**63 - 2
    finished = walk(handmade.simple_batch(base_offset, ROWS), base_offset=base_offset)
    assert good(finished) == []
    assert finished.accounting.quarantined > 0


class TestLastGoodEnd:
    """How far a segment that is still being written may be taken."""

    def test_it_is_the_end_of_the_last_whole_batch(self) -> None:
        for length in range(STARTS[2], len(SEGMENT)):
            end, next_offset, last = last_good_end(cut(SEGMENT, length), BASE)
            assert (end, next_offset) == (STARTS[2], 16)
            assert last is not None
            assert last.header.base_offset == 13

    def test_a_bad_stretch_before_good_batches_is_included(self) -> None:
        assert last_good_end(flip(SEGMENT, STARTS[1] + 61), BASE)[:2] == (len(SEGMENT), 19)

    def test_nothing_good_means_nothing_to_take(self) -> None:
        assert last_good_end(b"", BASE) == (0, BASE, None)
        assert last_good_end(zero_tail(b"", 500), BASE) == (0, BASE, None)
        assert last_good_end(flip(FIRST, 61), BASE) == (0, BASE, None)

    def test_a_whole_batch_with_a_wrong_crc_waits_for_its_bytes(self) -> None:
        assert last_good_end(SEGMENT + flip(handmade.simple_batch(19, ROWS), 61), BASE)[:2] == (len(SEGMENT), 19)


def test_a_right_crc_of_other_bytes_than_the_length_says_proves_the_end() -> None:
    """The crc does not cover the length field. The bytes that match the crc show where the batch ends."""
    injured = patch(SECOND, 8, struct.pack(">i", len(SECOND) - 12 - 1))
    finished = walk(FIRST + fix_crc(injured) + THIRD)
    assert good(finished) == [10, 16]
    assert repaired(finished) == [STARTS[1]]
