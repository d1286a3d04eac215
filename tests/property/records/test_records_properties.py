"""For all bytes: a result, or exactly our family of errors."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logcore.errors import CorruptRecordError, LogError
from logcore.records.batch import check_header, crc_matches, read_header
from logcore.records.builder import build_batch
from logcore.records.compression import Codec, compress, decompress
from logcore.records.control import control_type, coordinator_epoch
from logcore.records.record import Limits, Record, read_records
from logcore.records.varint import read_varint, read_varlong, write_varint, write_varlong
from tests import handmade
from tests.property.strategies import batch_bytes, injured_batch_bytes, maybe_bytes, rising_records
from tests.sampling import examples

stable = settings(deadline=None, derandomize=True, max_examples=examples(300))
SMALL = Limits(decoded_batch_bytes=1 << 16, headers_per_record=50)
STREAM_STARTS = [b"", b"\x1f\x8b\x08\0\0\0\0\0\0\xff", b"\x82SNAPPY\0\0\0\0\1\0\0\0\1", b"\x04\x22\x4d\x18\x60\x40\x82"]
STREAM_STARTS += [b"\x28\xb5\x2f\xfd\x00\x58", b"\x28\xb5\x2f\xfd\xa4"]


@stable
@given(st.binary(max_size=300), st.integers(0, 20))
def test_any_bytes_are_a_batch_header_or_refused(data: bytes, position: int) -> None:
    try:
        header = read_header(data, position)
    except LogError:
        return
    assert (26, 34, 61)[header.magic] <= header.size <= len(data) - position
    assert crc_matches(data, position, header) in (True, False)


@stable
@given(injured_batch_bytes())
def test_an_injured_batch_gives_records_or_is_refused(data: bytes) -> None:
    try:
        header = read_header(data)
        records = list(read_records(data, 0, header, SMALL))
    except LogError:
        return
    check_header(header)
    assert len(records) == header.record_count
    for record in records:
        assert -(1 << 63) <= record.offset < 1 << 63
        assert -(1 << 63) <= record.timestamp < 1 << 63


@stable
@given(st.sampled_from(list(Codec)), st.sampled_from(STREAM_STARTS), st.binary(max_size=200), st.integers(0, 4096))
def test_any_bytes_are_a_stream_under_the_cap_or_refused(codec: Codec, start: bytes, rest: bytes, cap: int) -> None:
    try:
        plain = decompress(codec, start + rest, cap)
    except CorruptRecordError:
        return
    assert len(plain) <= cap


@stable
@given(st.sampled_from(list(Codec)[1:5]), st.binary(max_size=3000), st.data())
def test_a_changed_stream_gives_bytes_under_the_cap_or_is_refused(
    codec: Codec, plain: bytes, data: st.DataObject
) -> None:
    stream = compress(codec, plain)
    for _ in range(data.draw(st.integers(1, 3))):
        stream = handmade.flip(stream, data.draw(st.integers(0, len(stream) - 1)), data.draw(st.integers(0, 7)))
    stream = handmade.cut(stream, data.draw(st.integers(0, len(stream))))
    try:
        changed = decompress(codec, stream, 4000)
    except CorruptRecordError:
        return
    assert len(changed) <= 4000


@stable
@given(maybe_bytes)
def test_any_key_is_a_control_type_or_refused(key: bytes | None) -> None:
    try:
        kind = control_type(key)
    except CorruptRecordError:
        assert key is None or len(key) < 4 or key[0] >= 0x80
    else:
        assert key is not None
        number = int.from_bytes(key[2:4], "big")
        assert (str(kind) == "UNKNOWN") == (number > 6)


@stable
@given(maybe_bytes)
def test_any_marker_value_has_an_epoch_or_is_refused(value: bytes | None) -> None:
    try:
        epoch = coordinator_epoch(value)
    except CorruptRecordError:
        assert value is None or len(value) < 6 or value[0] >= 0x80
    else:
        assert value is not None
        assert epoch == int.from_bytes(value[2:6], "big", signed=True)


@stable
@given(st.binary(max_size=12), st.integers(0, 12), st.integers(0, 12))
def test_varints_stay_between_position_and_end(data: bytes, position: int, end: int) -> None:
    end = min(end, len(data))
    for reader, longest in ((read_varint, 5), (read_varlong, 10)):
        try:
            _, following = reader(data, position, end)
        except CorruptRecordError:
            continue
        assert position < following <= min(end, position + longest)


@stable
@given(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1))
def test_integers_come_back_and_are_packed_as_by_hand(small: int, large: int) -> None:
    for value, write, read in ((small, write_varint, read_varint), (large, write_varlong, read_varlong)):
        data = write(value)
        assert data == handmade.varint(value)
        assert read(data, 0, len(data)) == (value, len(data))


@stable
@given(rising_records(), st.sampled_from(list(Codec)[:5]), st.integers(0, 5), st.integers(-1, 1 << 30))
def test_what_is_built_is_read_back(rows: list[Record], codec: Codec, more: int, epoch: int) -> None:
    delta = rows[-1].offset - rows[0].offset + more
    data = build_batch(rows, codec=codec, leader_epoch=epoch, last_offset_delta=delta)
    header = read_header(data)
    assert crc_matches(data, 0, header)
    assert (header.base_offset, header.last_offset) == (rows[0].offset, rows[-1].offset + more)
    assert header.max_timestamp == max(row.timestamp for row in rows)
    assert list(read_records(data, 0, header)) == rows


@stable
@given(rising_records())
def test_what_is_built_is_what_is_packed_by_hand(rows: list[Record]) -> None:
    base, time = rows[0].offset, rows[0].timestamp
    assert build_batch(rows) == handmade.batch(
        [
            handmade.record(
                row.offset - base, row.key, row.value, timestamp_delta=row.timestamp - time, headers=row.headers
            )
            for row in rows
        ],
        base_offset=base,
        leader_epoch=-1,
        last_offset_delta=rows[-1].offset - base,
        base_timestamp=time,
        max_timestamp=max(row.timestamp for row in rows),
    )


@stable
@given(batch_bytes(), st.data())
def test_no_single_bit_under_the_checksum_goes_unseen(data: bytes, draw: st.DataObject) -> None:
    position = draw.draw(st.integers(17, len(data) - 1))
    injured = handmade.flip(data, position, draw.draw(st.integers(0, 7)))
    assert crc_matches(data, 0, read_header(data))
    assert not crc_matches(injured, 0, read_header(injured))


@stable
@given(batch_bytes(), st.integers(0, 400))
def test_a_cut_batch_is_never_read(data: bytes, length: int) -> None:
    with pytest.raises(CorruptRecordError):
        read_header(handmade.cut(data, length % len(data)))
