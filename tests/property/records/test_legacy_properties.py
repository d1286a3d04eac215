"""For all messages of format v0 and v1: what is built is read back; what is injured is seen, read or refused."""

import zlib

from hypothesis import given, settings
from hypothesis import strategies as st

from logcore.errors import CorruptRecordError, LogError
from logcore.records.batch import check_header, crc_matches, read_header
from logcore.records.builder import build_message_set
from logcore.records.compression import Codec
from logcore.records.legacy import unfold
from logcore.records.record import Limits, Oddities, Record, TimestampType, read_records
from tests import handmade
from tests.property.strategies import maybe_bytes
from tests.sampling import examples

stable = settings(deadline=None, derandomize=True, max_examples=examples(300))
SMALL = Limits(decoded_batch_bytes=1 << 16)
OLD_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


@st.composite
def old_records(draw: st.DrawFn) -> list[Record]:
    """One to eight records without headers, with gaps between them."""
    offset, rows = draw(st.integers(0, 1 << 40)), []
    for _ in range(draw(st.integers(1, 8))):
        time = draw(st.integers(-1, 1 << 45))
        rows.append(Record(offset, time, TimestampType.CREATE_TIME, draw(maybe_bytes), draw(maybe_bytes)))
        offset += draw(st.integers(1, 1 << 20))
    return rows


@st.composite
def wrappers(draw: st.DrawFn) -> bytes:
    """A compressed message packed by hand, with anything that is odd and legal inside."""
    magic = draw(st.sampled_from([0, 1]))
    first = draw(st.integers(0, 1 << 40)) if magic == 0 else 0
    gaps = draw(st.lists(st.integers(1, 5), max_size=4))
    offsets = [first + sum(gaps[:count]) for count in range(len(gaps) + 1)]
    inside = [
        handmade.message(
            offset,
            draw(maybe_bytes),
            draw(maybe_bytes),
            magic=draw(st.sampled_from([magic, magic, 0, 1])),
            timestamp=draw(st.integers(-1, 1 << 45)),
            attributes=draw(st.sampled_from([0, 0, 8])),
            crc=draw(st.sampled_from([None, None, 0])),
        )
        for offset in offsets
    ]
    if draw(st.booleans()):
        inside.append(handmade.message(offsets[-1], b"k", b"v", magic=magic)[: draw(st.integers(0, 26))])
    return handmade.wrapper(
        inside,
        offset=offsets[-1] if magic == 0 else offsets[-1] + draw(st.integers(0, 1 << 40)),
        codec=draw(st.sampled_from([handmade.GZIP, handmade.SNAPPY, handmade.LZ4])),
        magic=magic,
        attributes=draw(st.sampled_from([0, 8])),
        timestamp=draw(st.integers(-1, 1 << 45)),
    )


@stable
@given(old_records(), st.sampled_from([0, 1]), st.sampled_from(OLD_CODECS), st.none() | st.integers(0, 1 << 45))
def test_what_is_built_is_read_back(rows: list[Record], magic: int, codec: Codec, append_time: int | None) -> None:
    appended = append_time is not None and magic == 1
    kind = TimestampType.LOG_APPEND_TIME if appended else TimestampType.CREATE_TIME
    data = build_message_set(rows, magic=magic, codec=codec, timestamp_type=kind, append_time=append_time)
    found, position = [], 0
    while position < len(data):
        header = unfold(data, position, read_header(data, position))
        assert crc_matches(data, position, header)
        oddities = Oddities()
        inside = list(read_records(data, position, header, oddities=oddities))
        assert oddities == Oddities()
        assert (header.base_offset, header.last_offset) == (inside[0].offset, inside[-1].offset)
        assert header.record_count == len(inside)
        assert header.max_timestamp == max(record.timestamp for record in inside)
        found += inside
        position += header.size
    if magic == 0:
        expected = [Record(r.offset, -1, TimestampType.NO_TIMESTAMP_TYPE, r.key, r.value) for r in rows]
    else:
        times = [append_time if appended else row.timestamp for row in rows]
        expected = [Record(r.offset, time, kind, r.key, r.value) for r, time in zip(rows, times, strict=True)]
    assert found == expected


@stable
@given(wrappers())
def test_a_wrapper_is_read_folded_or_not_and_its_header_has_its_first_and_last_offset(data: bytes) -> None:
    folded = read_header(data)
    header = unfold(data, 0, folded)
    check_header(header)
    records = list(read_records(data, 0, folded))
    assert list(read_records(data, 0, header)) == records
    assert len(records) == header.record_count
    assert records[0].offset == header.base_offset
    assert records[-1].offset == header.last_offset
    assert header.last_offset in (folded.base_offset, records[-1].offset)
    assert unfold(data, 0, header) == header


@stable
@given(wrappers(), st.data())
def test_an_injured_wrapper_gives_records_or_is_refused(data: bytes, draw: st.DataObject) -> None:
    for _ in range(draw.draw(st.integers(1, 4))):
        position = draw.draw(st.integers(8, len(data) - 1))
        data = handmade.patch(data, position, draw.draw(st.binary(min_size=1, max_size=4)))
    data = handmade.cut(data, draw.draw(st.integers(20, len(data))))
    data = handmade.patch(data, 8, (len(data) - 12).to_bytes(4, "big"))
    data = handmade.fix_message_crc(data)
    try:
        header = unfold(data, 0, read_header(data), SMALL)
        check_header(header)
        records = list(read_records(data, 0, header, SMALL, Oddities()))
    except LogError:
        return
    assert len(records) == header.record_count
    assert sum(len(record.key or b"") + len(record.value or b"") for record in records) <= 1 << 16


@stable
@given(st.sampled_from([0, 1]), st.binary(max_size=60), st.sampled_from([1, 2, 3]))
def test_any_bytes_inside_are_messages_or_refused(magic: int, inside: bytes, codec: int) -> None:
    data = handmade.wrapper([inside], offset=7, magic=magic, codec=codec)
    try:
        header = unfold(data, 0, read_header(data))
    except CorruptRecordError:
        return
    assert header.record_count >= 1


@stable
@given(st.sampled_from([0, 1]), maybe_bytes, maybe_bytes, st.data())
def test_no_single_bit_but_of_the_offset_goes_unseen(
    magic: int, key: bytes | None, value: bytes | None, draw: st.DataObject
) -> None:
    data = handmade.message(5, key, value, magic=magic)
    assert crc_matches(data, 0, read_header(data))
    injured = handmade.flip(data, draw.draw(st.integers(8, len(data) - 1)), draw.draw(st.integers(0, 7)))
    try:
        assert not crc_matches(injured, 0, read_header(injured))
    except CorruptRecordError:
        return


@stable
@given(st.binary(max_size=200))
def test_the_checksum_by_hand_is_that_of_zlib(data: bytes) -> None:
    assert handmade.crc32(data) == zlib.crc32(data)
