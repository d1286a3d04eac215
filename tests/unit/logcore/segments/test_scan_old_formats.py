"""The walk over a segment with messages of formats v0 and v1."""

import pytest

from logcore.errors import CorruptionReason
from logcore.segments.scanning.scan import End
from tests import handmade
from tests.handmade import flip
from tests.unit.logcore.segments.walked_segments import OLD, bad, good, repaired, walk

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
