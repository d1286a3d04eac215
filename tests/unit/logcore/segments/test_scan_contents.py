"""A right checksum does not excuse wrong contents: fields and records of a batch in a walk."""

import struct

import pytest

from logcore.errors import CorruptionReason
from logcore.records.control import ControlType
from logcore.records.record import Limits
from logcore.segments.scanning.scan import End, SegmentScan, Stretch
from tests import handmade
from tests.handmade import cut, patch
from tests.unit.logcore.segments.walked_segments import BASE, FIRST, ROWS, SECOND, SEGMENT, THIRD, bad, good, walk


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
    finished = SegmentScan(big, base_offset=10, sealed=True, limits=Limits(headers_per_record=2))
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
    walked = SegmentScan(
        SEGMENT, base_offset=BASE, sealed=True, inspect=lambda header, record: seen.append(record.offset)
    )
    stream = iter(walked)
    next(stream)
    assert seen == [10, 11, 12]
    list(stream)
    assert seen == list(range(10, 19))
