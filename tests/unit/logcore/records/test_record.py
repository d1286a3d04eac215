import gzip

import pytest

from logcore.errors import CorruptionReason, CorruptRecordError
from logcore.records.batch import TimestampType, read_header
from logcore.records.record import DEFAULT_LIMITS, Limits, Record, read_records, record_bytes
from tests import handmade

ROWS = [(b"k1", b"v1"), (None, b""), (b"", None)]


def read(data: bytes, limits: Limits = DEFAULT_LIMITS) -> list[Record]:
    return list(read_records(data, 0, read_header(data), limits))


def refusal(data: bytes, limits: Limits = DEFAULT_LIMITS) -> CorruptionReason:
    with pytest.raises(CorruptRecordError) as caught:
        read(data, limits)
    assert caught.value.position == 0
    assert caught.value.offset == read_header(data).base_offset
    return caught.value.reason


def gzipped(records: list[bytes], **fields: int) -> bytes:
    body = gzip.compress(b"".join(records), mtime=0)
    fields = {"count": len(records), "last_offset_delta": len(records) - 1, "attributes": 1} | fields
    return handmade.batch((), body=body, **fields)


def plain(records: list[bytes], **fields: int) -> bytes:
    return handmade.batch(records, **fields)


BOTH = pytest.mark.parametrize("make", [plain, gzipped], ids=["uncompressed", "compressed"])


def test_kafkas_own_batch_reads_as_it_was_written() -> None:
    data = bytes.fromhex(
        "000000000000000000000045ffffffff02b0db168e00000000000100000000000003e800000000000003edffffffffffffffffffffffff"
        "ffff0000000214000000046b310476310010000a02046b320100"
    )
    create = TimestampType.CREATE_TIME
    assert read(data) == [Record(0, 1000, create, b"k1", b"v1", ()), Record(1, 1005, create, b"k2", None, ())]


def test_with_log_append_time_every_record_has_the_append_time() -> None:
    data = bytes.fromhex(
        "00000000000000000000004400000000026448ca340048000000020000018bcfe56bf20000018bcfe56800ffffffffffffffffffffffff"
        "ffff000000021200e30f0202620231001000e30f0402630100"
    )
    append = TimestampType.LOG_APPEND_TIME
    assert read(data) == [
        Record(1, 1700000000000, append, b"b", b"1", ()),
        Record(2, 1700000000000, append, b"c", None, ()),
    ]


@BOTH
def test_null_and_empty_are_two_things(make) -> None:
    records = [handmade.record(delta, key, value) for delta, (key, value) in enumerate(ROWS)]
    assert [(record.key, record.value) for record in read(make(records))] == ROWS


@BOTH
def test_offsets_and_timestamps_are_relative_to_the_batch(make) -> None:
    records = [handmade.record(0, timestamp_delta=-7), handmade.record(4, timestamp_delta=1 << 40)]
    rows = read(make(records, base_offset=1 << 40, base_timestamp=900, last_offset_delta=9))
    assert [(row.offset, row.timestamp) for row in rows] == [(1 << 40, 893), ((1 << 40) + 4, 900 + (1 << 40))]


def test_sums_wrap_at_64_bits_as_in_java() -> None:
    far = handmade.record(0, timestamp_delta=1)
    assert read(handmade.batch([far], base_timestamp=(1 << 63) - 1))[0].timestamp == -(1 << 63)
    assert read(handmade.batch([handmade.record(-6)], base_offset=5))[0].offset == -1


def test_a_delete_horizon_is_what_deltas_count_from() -> None:
    data = handmade.batch(
        [handmade.record(0, timestamp_delta=-300)], attributes=handmade.DELETE_HORIZON, base_timestamp=1000
    )
    assert read(data)[0].timestamp == 700


@BOTH
def test_record_headers_keep_order_duplicates_nulls_and_bytes(make) -> None:
    headers = [(b"a", b"1"), (b"", b""), (b"a", None), (b"\xff\xfe", b"\x00")]
    assert read(make([handmade.record(0, headers=headers)]))[0].headers == tuple(headers)


@pytest.mark.parametrize("length", [-1, -2, -100, -(1 << 31)])
def test_every_negative_length_is_null_as_in_kafka(length: int) -> None:
    body = bytes(3) + handmade.varint(length) * 2 + handmade.varint(1) + handmade.varint(1) + b"h"
    body += handmade.varint(length)
    record = read(handmade.batch([handmade.varint(len(body)) + body]))[0]
    assert (record.key, record.value, record.headers) == (None, None, ((b"h", None),))


def test_record_attributes_are_not_looked_at() -> None:
    assert read(handmade.batch([handmade.record(0, attributes=0xFF)])) == read(handmade.batch([handmade.record(0)]))


def test_longer_varints_than_needed_are_read() -> None:
    body = b"\0" + handmade.varint(0, padding=9) + handmade.varint(0, padding=4)
    body += handmade.varint(1, padding=2) + b"k" + handmade.varint(-1, padding=1) + handmade.varint(0, padding=4)
    record = read(handmade.batch([handmade.varint(len(body), padding=2) + body]))[0]
    assert (record.offset, record.key, record.value) == (0, b"k", None)


@BOTH
@pytest.mark.parametrize(
    ("count", "reason"),
    [
        (-1, CorruptionReason.COUNT),
        (0, CorruptionReason.TRAILING_BYTES),
        (2, CorruptionReason.TRAILING_BYTES),
        (4, CorruptionReason.COUNT),
        ((1 << 31) - 1, CorruptionReason.COUNT),
    ],
)
def test_a_count_that_is_not_the_number_of_records_is_damage(make, count: int, reason: CorruptionReason) -> None:
    records = [handmade.record(delta, b"some key", b"some value") for delta in range(3)]
    assert len(read(make(records, count=3, last_offset_delta=(1 << 31) - 1))) == 3
    assert refusal(make(records, count=count, last_offset_delta=(1 << 31) - 1)) is reason


@BOTH
def test_a_count_that_the_bytes_cannot_hold_is_refused_before_the_first_record(make) -> None:
    data = make([handmade.record(0), handmade.record(1)], count=3, last_offset_delta=9)
    assert len(handmade.record(0)) == 9  # 18 bytes could hold two of the smallest records, of 7 bytes, not three
    with pytest.raises(CorruptRecordError, match="cannot fit"):
        next(read_records(data, 0, read_header(data)))


@BOTH
def test_bytes_after_the_last_record_are_damage(make) -> None:
    for junk in (b"\0", b"\0" * 40, handmade.record(1)):
        data = make([handmade.record(0), junk], count=1, last_offset_delta=5)
        assert refusal(data) is CorruptionReason.TRAILING_BYTES


def test_records_cut_at_any_byte_are_damage() -> None:
    records = b"".join(
        handmade.record(delta, key, value, headers=[(b"n", b"v"), (b"m", None)])
        for delta, (key, value) in enumerate(ROWS)
    )
    whole = handmade.batch((), body=records, count=3, last_offset_delta=2)
    assert len(read(whole)) == 3
    for length in range(len(records)):
        assert refusal(handmade.batch((), body=records[:length], count=3, last_offset_delta=2)) in {
            CorruptionReason.COUNT,
            CorruptionReason.RECORD_LENGTH,
        }


def test_a_record_cut_at_any_byte_within_its_length_is_damage() -> None:
    content = handmade.record(0, b"key", b"value", headers=[(b"n", b"v"), (b"m", None)])[1:]
    for length in range(len(content)):
        # a record comes first, because the batch's count check would refuse very short batches earlier
        data = handmade.batch([handmade.record(0), handmade.varint(length) + content[:length]], last_offset_delta=9)
        assert refusal(data) in {
            CorruptionReason.TRUNCATED,
            CorruptionReason.RECORD_LENGTH,
            CorruptionReason.RECORD_HEADER,
            CorruptionReason.COUNT,
        }


@BOTH
@pytest.mark.parametrize("length", [-(1 << 31), -1, 0, 6, 8, 1000, (1 << 31) - 1])
def test_a_record_that_is_not_as_long_as_it_says_is_damage(make, length: int) -> None:
    data = make([handmade.record(0, b"k", b"", length=length), handmade.record(1)])
    assert len(handmade.record(0, b"k", b"")) == 8  # so that 7 would be right
    assert refusal(data) in {CorruptionReason.RECORD_LENGTH, CorruptionReason.TRUNCATED}


@pytest.mark.parametrize("field", ["key", "value", "header value"])
@pytest.mark.parametrize("length", [4, 1000, (1 << 31) - 1])
def test_a_length_past_the_records_end_is_damage(field: str, length: int) -> None:
    lie = handmade.varint(length) + b"abc"
    body = bytes(3)
    if field == "key":
        body += lie
    elif field == "value":
        body += handmade.varint(-1) + lie
    else:
        body += handmade.varint(-1) * 2 + handmade.varint(1) + handmade.nullable(b"n") + lie
    data = handmade.batch([handmade.varint(len(body)) + body, handmade.record(1, b"x" * 2000)])
    assert refusal(data) is CorruptionReason.RECORD_LENGTH


@pytest.mark.parametrize("count", [-1, -(1 << 31), 3, 1_000_000, (1 << 31) - 1])
def test_a_header_count_that_cannot_be_is_refused_before_it_is_allocated(count: int) -> None:
    data = handmade.batch([handmade.record(0, headers=[(b"", b""), (b"", None)], header_count=count)])
    assert refusal(data) is CorruptionReason.RECORD_HEADER


def test_a_header_count_one_too_small_leaves_bytes_in_the_record() -> None:
    data = handmade.batch([handmade.record(0, headers=[(b"a", b"b"), (b"c", b"d")], header_count=1)])
    assert refusal(data) is CorruptionReason.RECORD_LENGTH


def test_a_header_without_a_name_is_damage() -> None:
    assert refusal(handmade.batch([handmade.record(0, headers=[(None, b"v")])])) is CorruptionReason.RECORD_HEADER


@pytest.mark.parametrize("varint", [b"\x80" * 5 + b"\0", b"\xff" * 5 + b"\1"])
def test_a_varint_of_six_bytes_is_damage(varint: bytes) -> None:
    body = bytes(2) + varint + bytes(20)
    assert refusal(handmade.batch([handmade.varint(len(body)) + body])) is CorruptionReason.VARINT
    assert refusal(handmade.batch([varint + bytes(20)])) is CorruptionReason.VARINT


def test_limits_are_exact() -> None:
    data = handmade.batch([handmade.record(0, b"k" * 10, b"v" * 10, headers=[(b"a", b"")] * 3)])
    assert len(read(data, Limits(headers_per_record=3))) == 1
    assert refusal(data, Limits(headers_per_record=2)) is CorruptionReason.OUTPUT_CAP
    stream = gzipped([handmade.record(0, b"k" * 10)])
    size = len(handmade.record(0, b"k" * 10))
    assert len(read(stream, Limits(decoded_batch_bytes=size))) == 1
    assert refusal(stream, Limits(decoded_batch_bytes=size - 1)) is CorruptionReason.OUTPUT_CAP


@pytest.mark.slow
@pytest.mark.parametrize("count", [1_000_000, 1_000_001])
def test_a_million_headers_in_one_record_are_read_and_one_more_is_not(count: int) -> None:
    body = bytes(3) + handmade.varint(-1) * 2 + handmade.varint(count) + bytes(2 * count)
    data = handmade.batch((), body=handmade.varint(len(body)) + body, count=1, crc=0)
    if count == 1_000_000:
        assert read(data)[0].headers == ((b"", b""),) * count
    else:
        assert refusal(data) is CorruptionReason.OUTPUT_CAP


def test_a_damaged_stream_names_the_batch() -> None:
    data = handmade.batch((), body=b"no stream", count=1, attributes=4, base_offset=12)
    with pytest.raises(CorruptRecordError, match=r"^position 0, offset 12: zstd: ") as caught:
        read(data)
    assert caught.value.reason is CorruptionReason.CODEC_STREAM


@pytest.mark.parametrize("attributes", range(8))
def test_an_emptied_batch_has_no_stream_whatever_its_codec(attributes: int) -> None:
    data = handmade.empty_batch(10, 4, attributes=attributes)
    if attributes < 5:
        assert read(data) == []
    else:
        assert refusal(data) is CorruptionReason.CODEC


def test_a_batch_inside_a_value_is_a_value() -> None:
    inner = handmade.simple_batch(100, [(b"inner", b"inner")])
    assert [record.value for record in read(handmade.simple_batch(0, [(b"outer", inner)]))] == [inner]


def test_the_record_section_can_be_had_as_it_is() -> None:
    records = [handmade.record(0), handmade.record(1)]
    data = gzipped(records)
    assert record_bytes(data, 0, read_header(data)) == b"".join(records)


def test_records_before_the_damage_are_given_out_first() -> None:
    data = handmade.batch([handmade.record(0), handmade.record(1, length=-5)], last_offset_delta=3)
    reader = read_records(data, 0, read_header(data))
    assert next(reader).offset == 0
    with pytest.raises(CorruptRecordError):
        next(reader)


def test_a_header_of_another_batch_does_not_lead_past_the_buffer() -> None:
    long = handmade.simple_batch(0, [(b"k", b"v" * 500)])
    short = handmade.simple_batch(0, [(b"k", b"v")])
    with pytest.raises(CorruptRecordError) as caught:
        list(read_records(short, 0, read_header(long)))
    assert caught.value.reason is CorruptionReason.TRUNCATED


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True])
def test_a_record_of_100_megabytes_is_read(packed: bool) -> None:
    value = bytes(100_000_000)
    body = bytes(3) + handmade.varint(-1) + handmade.varint(len(value)) + value + b"\0"
    record = handmade.varint(len(body)) + body
    stream = gzip.compress(record, compresslevel=1, mtime=0) if packed else record
    (found,) = read(handmade.batch((), body=stream, count=1, attributes=int(packed), crc=0))
    assert found.value == value
