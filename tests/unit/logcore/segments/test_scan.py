"""The walk over a segment: what is trusted, what is not, and where every byte went."""

import struct

import pytest

from logcore.errors import CorruptionReason
from logcore.records.control import ControlType
from logcore.records.record import Limits
from logcore.segments.scanning.scan import End, ScannedBatch, SegmentScan, Stretch, last_good_end, scan
from tests import handmade
from tests.handmade import cut, fix_crc, flip, patch, zero_tail

ROWS = [(b"k1", b"v1"), (None, b""), (b"", None)]
FIRST = handmade.simple_batch(10, ROWS, leader_epoch=3)
SECOND = handmade.simple_batch(13, ROWS, leader_epoch=3)
THIRD = handmade.simple_batch(16, ROWS, leader_epoch=4)
SEGMENT = FIRST + SECOND + THIRD
STARTS = (0, len(FIRST), len(FIRST) + len(SECOND))
BASE = 10


def walk(
    data: bytes, *, sealed: bool = True, decode: bool = True, base_offset: int = BASE, **options: int
) -> SegmentScan:
    """A finished scan of which the items are in `.items`, and whose bytes add up."""
    finished = scan(data, base_offset=base_offset, sealed=sealed, decode=decode, **options)  # type: ignore[arg-type]
    items = list(finished)
    assert_accounted(data, finished, items)
    finished.items = items  # type: ignore[attr-defined]
    return finished


def assert_accounted(data: bytes, finished: SegmentScan, items: list[ScannedBatch | Stretch]) -> None:
    """Items tile the file in order up to the padding, and the sums say the same."""
    position = 0
    sums = {"valid": 0, "quarantined": 0, "tail": 0}
    for item in items:
        assert item.position == position
        assert item.size > 0
        position += item.size
        sums["valid" if isinstance(item, ScannedBatch) else "tail" if item.tail else "quarantined"] += item.size
    accounting = finished.accounting
    assert accounting.file_size == len(data)
    assert (accounting.valid, accounting.quarantined, accounting.tail) == tuple(sums.values())
    assert position + accounting.padding == len(data)
    assert not any(data[position:])


def good(finished: SegmentScan) -> list[int]:
    return [item.header.base_offset for item in finished.items if isinstance(item, ScannedBatch)]  # type: ignore[attr-defined]


def bad(finished: SegmentScan) -> list[tuple[int, int, CorruptionReason]]:
    items = finished.items  # type: ignore[attr-defined]
    return [(item.position, item.size, item.reason) for item in items if isinstance(item, Stretch)]


def repaired(finished: SegmentScan) -> list[int]:
    items = finished.items  # type: ignore[attr-defined]
    return [item.position for item in items if isinstance(item, Stretch) and item.is_repaired]


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
    unfinished = scan(SEGMENT, base_offset=BASE, sealed=True)
    next(iter(unfinished))
    with pytest.raises(ValueError, match="not reached its end"):
        _ = unfinished.accounting


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_any_buffer_will_do(buffer: type) -> None:
    assert [item.size for item in scan(buffer(SEGMENT), base_offset=BASE, sealed=True)] == [
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


OLD = [
    handmade.message_v0(10, b"key", b"value"),
    handmade.wrapper_v0([11, 12, 14], codec=handmade.LZ4),
    handmade.message_v1(15, 5, b"k", None),
    handmade.wrapper_v1([16, 17, 19], codec=handmade.SNAPPY),
    handmade.simple_batch(20, ROWS),
    handmade.wrapper_append_time([23, 24], 77),
    handmade.message_v0(25, None, b"v"),
]
OLD_OFFSETS = [10, 11, 15, 16, 20, 23, 25]


@pytest.mark.parametrize("decode", [True, False])
@pytest.mark.parametrize("sealed", [True, False])
def test_formats_may_alternate_in_a_segment(sealed: bool, decode: bool) -> None:
    finished = walk(b"".join(OLD), sealed=sealed, decode=decode)
    assert finished.end is End.CLEAN
    assert [
        (item.header.base_offset, item.header.last_offset, item.header.record_count) for item in finished.items
    ] == [
        (10, 10, 1),
        (11, 14, 3),
        (15, 15, 1),
        (16, 19, 3),
        (20, 22, 3),
        (23, 24, 2),
        (25, 25, 1),
    ]
    assert [item.header.magic for item in finished.items] == [0, 0, 1, 1, 2, 1, 0]


@pytest.mark.parametrize("index", range(len(OLD)))
def test_every_flip_costs_its_message_alone_or_is_outside_of_the_checksum(index: int) -> None:
    position = sum(map(len, OLD[:index]))
    for at in range(len(OLD[index])):
        for bit in (0, 3, 6):
            finished = walk(flip(b"".join(OLD), position + at, bit), next_base_offset=26)
            rest = [offset for place, offset in enumerate(OLD_OFFSETS) if place != index]
            if 12 <= at < 16 and OLD[index][16] == 2:
                assert good(finished) == OLD_OFFSETS  # the leader epoch
            else:
                lost = [(position, len(OLD[index]))]
                assert good(finished) == rest
                assert [stretch[:2] for stretch in bad(finished)] == lost
                assert repaired(finished) == ([position] if 8 <= at < 12 else [])


@pytest.mark.parametrize("index", range(len(OLD)))
@pytest.mark.parametrize("bit", range(64))
def test_an_offset_with_a_flipped_bit_never_passes_between_messages_of_any_format(index: int, bit: int) -> None:
    position = sum(map(len, OLD[:index]))
    finished = walk(flip(b"".join(OLD), position + 7 - bit // 8, bit % 8), next_base_offset=26)
    assert good(finished) == [offset for place, offset in enumerate(OLD_OFFSETS) if place != index]
    assert bad(finished) == [(position, len(OLD[index]), CorruptionReason.OFFSET_ORDER)]


@pytest.mark.parametrize(
    ("bad_one", "reason"),
    [
        (handmade.wrapper([], offset=14, value=b"no gzip"), CorruptionReason.CODEC_STREAM),
        (handmade.wrapper([b""], offset=14), CorruptionReason.COUNT),
        (handmade.wrapper([], offset=14, codec=handmade.ZSTD, value=b"x"), CorruptionReason.CODEC),
        (handmade.wrapper([handmade.wrapper_v1([11, 12])], offset=14), CorruptionReason.CODEC),
        (handmade.message(14, after=b"x"), CorruptionReason.RECORD_LENGTH),
    ],
)
def test_a_bad_wrapper_with_a_right_checksum_costs_itself_and_is_never_a_tail(bad_one: bytes, reason) -> None:
    first, last = OLD[0], OLD[2]
    finished = walk(first + bad_one + last)
    assert good(finished) == [10, 15]
    assert bad(finished) == [(len(first), len(bad_one), reason)]
    last_of_all = walk(first + bad_one, sealed=False)
    assert last_of_all.end is End.CORRUPT
    assert last_of_all.accounting.quarantined == len(bad_one)


def test_offsets_inside_a_wrapper_rise_and_stay_in_it() -> None:
    for offsets in ([11, 11, 14], [12, 11, 14], [11, 15, 14]):
        inside = [handmade.message_v0(offset, b"k", b"v") for offset in offsets]
        finished = walk(OLD[0] + handmade.wrapper(inside, offset=14, magic=0) + OLD[2])
        assert good(finished) == [10, 15]
        assert [reason for _, _, reason in bad(finished)] == [CorruptionReason.OFFSET_ORDER]


def test_a_last_message_cut_at_any_byte_is_a_tail() -> None:
    for last in (OLD[1], OLD[3]):
        for length in range(8, len(last)):  # before, it is zeros alone: padding
            finished = walk(OLD[0] + last[:length], sealed=False)
            assert (good(finished), finished.end) == ([10], End.TORN)
            sealed = walk(OLD[0] + last[:length])
            assert (good(sealed), sealed.end) == ([10], End.CORRUPT)


def test_a_good_wrapper_after_a_bad_batch_proves_where_the_bad_one_ends() -> None:
    for following in (OLD[1], OLD[3]):
        data = flip(OLD[0], 20) + following
        finished = walk(data, sealed=False)
        assert bad(finished) == [(0, len(OLD[0]), CorruptionReason.CRC)]


def test_a_walk_reports_its_position_and_another_continues_from_there() -> None:
    data = b"".join(OLD[:3]) + flip(OLD[3], 40) + b"".join(OLD[4:]) + bytes(30)
    whole = scan(data, base_offset=BASE, sealed=False)
    assert (whole.position, whole.next_offset) == (0, BASE)
    items, positions = [], [(0, BASE)]
    for item in whole:
        items.append(item)
        positions.append((whole.position, whole.next_offset))
    for done, (position, next_offset) in enumerate(positions):
        rest = scan(data, base_offset=BASE, sealed=False, start=position, next_offset=next_offset)
        assert next(iter(rest), None) == (items[done] if done < len(items) else None)
        assert list(rest) == items[done + 1 :]
        assert (rest.position, rest.next_offset) == (len(data), 26)
        assert rest.accounting.file_size == len(data) - position
        assert rest.accounting.padding == 30


def test_oddities_of_the_last_batch_are_available_to_an_inspection() -> None:
    odd = handmade.wrapper([handmade.message(0, crc=1)], offset=10)
    unheard = scan(odd, base_offset=BASE, sealed=True)
    assert len(list(unheard)) == 1
    assert unheard.oddities.inner_crcs_differ == 0
    heard = scan(odd + OLD[1], base_offset=BASE, sealed=True, inspect=lambda *_: None)
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


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"count": -1}, CorruptionReason.COUNT),
        ({"count": 4}, CorruptionReason.COUNT),
        ({"count": 2}, CorruptionReason.TRAILING_BYTES),
        ({"count": 2**31 - 1}, CorruptionReason.COUNT),
        ({"last_offset_delta": -1}, CorruptionReason.COUNT),
        ({"last_offset_delta": 1}, CorruptionReason.COUNT),
        ({"attributes": 5}, CorruptionReason.CODEC),
        ({"attributes": 1}, CorruptionReason.CODEC_STREAM),
    ],
)
def test_a_right_crc_does_not_excuse_wrong_contents(fields: dict[str, int], reason: CorruptionReason) -> None:
    injured = handmade.simple_batch(13, ROWS, **fields)
    finished = walk(FIRST + injured + THIRD)
    assert good(finished) == [10, 16]
    assert bad(finished) == [(len(FIRST), len(injured), reason)]


def test_damage_under_a_right_crc_is_no_tail_even_at_the_end() -> None:
    finished = walk(FIRST + handmade.simple_batch(13, ROWS, count=2), sealed=False)
    assert finished.end is End.CORRUPT
    assert finished.accounting.tail == 0


def test_batches_after_two_that_do_not_parse_are_still_read() -> None:
    """A right crc proves where its batch ends, whatever is wrong inside."""
    injured = handmade.simple_batch(13, ROWS, count=2) + handmade.simple_batch(16, ROWS, count=2)
    assert good(walk(FIRST + injured + handmade.simple_batch(19, ROWS))) == [10, 19]


@pytest.mark.parametrize("deltas", [(0, 0), (1, 0), (0, 3), (-1, 0)])
def test_records_outside_of_their_batch_or_out_of_order_are_refused(deltas: tuple[int, int]) -> None:
    records = [handmade.record(delta, b"k", b"v") for delta in deltas]
    finished = walk(FIRST + handmade.batch(records, base_offset=13, last_offset_delta=2) + THIRD)
    assert [reason for _, _, reason in bad(finished)] == [CorruptionReason.OFFSET_ORDER]


def test_without_decoding_records_are_not_looked_at() -> None:
    finished = walk(FIRST + handmade.simple_batch(13, ROWS, count=2), decode=False)
    assert good(finished) == [10, 13]


def test_limits_reach_the_records() -> None:
    big = handmade.batch([handmade.record(0, headers=[(b"a", b"")] * 3)], base_offset=10)
    finished = scan(big, base_offset=10, sealed=True, limits=Limits(headers_per_record=2))
    assert [type(item) for item in finished] == [Stretch]
    assert finished.accounting.quarantined == len(big)


def test_a_batch_that_compaction_emptied_is_good() -> None:
    finished = walk(handmade.empty_batch(10, 5) + THIRD)
    assert good(finished) == [10, 16]


def test_a_batch_inside_a_records_value_is_never_read() -> None:
    inner = handmade.simple_batch(14, ROWS)
    outer = handmade.simple_batch(13, [(b"k", inner)])
    hidden = handmade.simple_batch(14, ROWS)
    assert good(walk(FIRST + outer + hidden)) == [10, 13, 14]
    torn = walk(FIRST + cut(outer, len(outer) - 3), sealed=False)
    assert good(torn) == [10]
    for length in (5, len(outer) - 13, len(outer) + 1, 2**30):
        broken = walk(FIRST + patch(outer, 8, struct.pack(">i", length)) + hidden)
        assert bad(broken)[0][:2] == (len(FIRST), len(outer))
        assert good(broken) == [10, 14]


@pytest.mark.parametrize("decode", [True, False])
def test_control_batches_say_what_they_are(decode: bool) -> None:
    data = (
        handmade.marker(10, handmade.ABORT, producer_id=7)
        + handmade.marker(11, handmade.COMMIT, producer_id=7)
        + handmade.control_batch(12, struct.pack(">hh", 0, 99), b"")
        + handmade.simple_batch(13, ROWS)
        + handmade.empty_batch(16, 0, attributes=handmade.CONTROL | handmade.TRANSACTIONAL, producer_id=7)
    )
    kinds = [item.control_type for item in walk(data, decode=decode).items]  # type: ignore[attr-defined]
    assert kinds == [ControlType.ABORT, ControlType.COMMIT, ControlType.UNKNOWN, None, None]


def test_a_control_record_that_is_none_is_refused_when_decoding() -> None:
    finished = walk(handmade.control_batch(10, b"\0", b"") + SECOND)
    assert [reason for _, _, reason in bad(finished)] == [CorruptionReason.CONTROL]
    lenient = walk(handmade.control_batch(10, b"\0", b"") + SECOND, decode=False)
    assert good(lenient) == [10, 13]


def test_records_are_shown_to_an_inspector_before_their_batch_is() -> None:
    seen: list[int] = []
    walked = scan(SEGMENT, base_offset=BASE, sealed=True, inspect=lambda header, record: seen.append(record.offset))
    stream = iter(walked)
    next(stream)
    assert seen == [10, 11, 12]
    list(stream)
    assert seen == list(range(10, 19))


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
