import mmap
import struct
from pathlib import Path

import pytest

from logcore.errors import CorruptionReason, CorruptRecordError
from logcore.records.batch import check_header, computed_crc, crc_matches, read_header
from logcore.records.compression import Codec
from logcore.records.legacy import unfold
from logcore.records.model import BatchHeader, Oddities, TimestampType
from logcore.records.record import Limits, Record, read_records, record_bytes
from tests import handmade
from tests.handmade import GZIP, LOG_APPEND_TIME, LZ4, SNAPPY

NONE, CREATE, APPEND = TimestampType.NO_TIMESTAMP_TYPE, TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME
V0, V1 = 0, 1

# k1/v1 at offset 5, v1 at timestamp 1000: written by Kafka's own classes.
V0_MESSAGE = bytes.fromhex("00000000000000050000001257e7496e0000000000026b31000000027631")
V1_MESSAGE = bytes.fromhex("00000000000000050000001ab1a6ec76010000000000000003e8000000026b31000000027631")


def read(data: bytes, **options) -> list[Record]:
    return list(read_records(data, 0, read_header(data), **options))


def refusal(data: bytes, **options) -> CorruptionReason:
    with pytest.raises(CorruptRecordError) as caught:
        list(read_records(data, 0, unfold(data, 0, read_header(data)), **options))
    assert caught.value.position == 0
    assert caught.value.offset is not None
    assert caught.value.nearby is None
    return caught.value.reason


def unfolded(data: bytes) -> BatchHeader:
    return unfold(data, 0, read_header(data))


def span(data: bytes) -> tuple[int, int, int]:
    header = unfolded(data)
    check_header(header)
    return header.base_offset, header.last_offset, header.record_count


def offsets(data: bytes) -> list[int]:
    return [record.offset for record in read(data)]


# one message


def test_kafkas_own_messages_are_read_field_by_field() -> None:
    old = read_header(V0_MESSAGE)
    assert old == BatchHeader(5, 18, -1, 0, 0x57E7496E, 0, 0, -1, -1, -1, -1, -1, 1)
    assert (old.size, old.codec, old.timestamp_type, old.next_offset) == (30, Codec.NONE, NONE, 6)
    assert read(V0_MESSAGE) == [Record(5, -1, NONE, b"k1", b"v1")]
    new = read_header(V1_MESSAGE)
    assert new == BatchHeader(5, 26, -1, 1, 0xB1A6EC76, 0, 0, -1, 1000, -1, -1, -1, 1)
    assert (new.size, new.codec, new.timestamp_type, new.next_offset) == (38, Codec.NONE, CREATE, 6)
    assert read(V1_MESSAGE) == [Record(5, 1000, CREATE, b"k1", b"v1")]
    for data, header in ((V0_MESSAGE, old), (V1_MESSAGE, new)):
        assert crc_matches(data, 0, header)
        assert (header.is_transactional, header.is_control, header.delete_horizon_ms) == (False, False, None)
        assert record_bytes(data, 0, header) == data
        assert unfold(data, 0, header) is header


def test_the_hand_packs_what_kafka_packs() -> None:
    assert handmade.message_v0(5, b"k1", b"v1") == V0_MESSAGE
    assert handmade.message_v1(5, 1000, b"k1", b"v1") == V1_MESSAGE


@pytest.mark.parametrize("magic", [V0, V1])
@pytest.mark.parametrize(
    ("key", "value"), [(None, None), (b"", b""), (None, b""), (b"", None), (b"k" * 300, bytes(70000))]
)
def test_null_and_empty_are_different_values(magic: int, key: bytes | None, value: bytes | None) -> None:
    (record,) = read(handmade.message(7, key, value, magic=magic))
    assert (record.offset, record.key, record.value, record.headers) == (7, key, value, ())


@pytest.mark.parametrize("length", [-2, -(1 << 31)])
def test_every_negative_length_is_null(length: int) -> None:
    (record,) = read(handmade.message(0, None, None, key_length=length, value_length=length))
    assert (record.key, record.value) == (None, None)


def test_an_append_time_message_says_so_in_v1_and_cannot_in_v0() -> None:
    (record,) = read(handmade.message(0, timestamp=77, attributes=LOG_APPEND_TIME))
    assert (record.timestamp, record.timestamp_type) == (77, APPEND)
    (record,) = read(handmade.message(0, magic=0, attributes=LOG_APPEND_TIME))
    assert (record.timestamp, record.timestamp_type) == (-1, NONE)


def test_attribute_bits_mean_what_they_mean_in_their_own_format() -> None:
    for magic, known in ((V0, 0x07), (V1, 0x0F)):
        for attributes in range(-128, 128):
            header = read_header(handmade.message(magic=magic, attributes=attributes))
            assert header.unknown_attribute_bits == attributes & 0xFF & ~known
            assert (header.is_control, header.is_transactional, header.delete_horizon_ms) == (False, False, None)
            assert header.codec == attributes & 7
            assert header.is_wrapper == bool(attributes & 7)


@pytest.mark.parametrize("data", [V0_MESSAGE, V1_MESSAGE])
def test_all_flips_outside_of_offset_are_seen(data: bytes) -> None:
    unseen = set()
    for position in range(len(data)):
        for bit in range(8):
            injured = handmade.flip(data, position, bit)
            try:
                if crc_matches(injured, 0, read_header(injured)):
                    unseen.add(position)
            except CorruptRecordError:
                continue
    assert unseen == set(range(8))


@pytest.mark.parametrize("data", [V0_MESSAGE, V1_MESSAGE])
def test_the_other_polynomial_does_not_pass(data: bytes) -> None:
    injured = handmade.patch(data, 12, struct.pack(">I", handmade.crc32c(data[16:])))
    assert not crc_matches(injured, 0, read_header(injured))
    assert computed_crc(injured, 0, read_header(injured)) == handmade.crc32(data[16:])


@pytest.mark.parametrize(("data", "fixed"), [(V0_MESSAGE, 18), (V1_MESSAGE, 26)])
def test_a_message_is_cut_at_every_byte(data: bytes, fixed: int) -> None:
    for length in range(len(data)):
        with pytest.raises(CorruptRecordError) as caught:
            read_header(data[:length])
        assert caught.value.reason is CorruptionReason.TRUNCATED
    assert read_header(data[:fixed], whole=False) == read_header(data)
    with pytest.raises(CorruptRecordError):
        read_header(data[: fixed - 1], whole=False)
    for ask in (computed_crc, crc_matches, lambda *at: list(read_records(*at))):
        with pytest.raises(CorruptRecordError) as caught:
            ask(data[:fixed], 0, read_header(data))
        assert caught.value.reason is CorruptionReason.TRUNCATED


@pytest.mark.parametrize(("magic", "smallest"), [(V0, 14), (V1, 22)])
def test_a_size_below_the_smallest_message_is_no_length(magic: int, smallest: int) -> None:
    for size in (-(1 << 31), -1, 0, 13, smallest - 1):
        with pytest.raises(CorruptRecordError) as caught:
            read_header(handmade.message(magic=magic, size=size) + bytes(40))
        assert caught.value.reason is CorruptionReason.LENGTH
    assert read_header(handmade.message(0, None, None, magic=magic)).batch_length == smallest


@pytest.mark.parametrize("magic", [V0, V1])
@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ({"key_length": 99}, CorruptionReason.RECORD_LENGTH),
        ({"key_length": 0x7FFFFFFF}, CorruptionReason.RECORD_LENGTH),
        ({"value_length": 2}, CorruptionReason.RECORD_LENGTH),
        ({"key_length": 4, "key": b"k"}, CorruptionReason.TRUNCATED),
    ],
)
def test_lengths_that_do_not_fit_the_message_are_damage(magic: int, lie: dict, reason: CorruptionReason) -> None:
    assert refusal(handmade.message(magic=magic, **lie)) is reason


@pytest.mark.parametrize("magic", [V0, V1])
@pytest.mark.parametrize(
    ("lie", "value"), [({"value_length": 0}, b""), ({"value_length": -1}, None), ({"after": b"x"}, b"v")]
)
def test_bytes_after_a_value_are_ignored_as_in_kafka(magic: int, lie: dict, value: bytes | None) -> None:
    assert [record.value for record in read(handmade.message(magic=magic, **lie))] == [value]


@pytest.mark.parametrize("wrap", [bytearray, memoryview])
def test_any_buffer_is_read_anywhere_in_it(wrap) -> None:
    buf = wrap(b"x" * 7 + V1_MESSAGE + handmade.wrapper_v0([6, 7]))
    assert [record.offset for record in read_records(buf, 7, read_header(buf, 7))] == [5]
    header = unfold(buf, 45, read_header(buf, 45))
    assert crc_matches(buf, 45, header)
    assert [record.offset for record in read_records(buf, 45, header)] == [6, 7]


def test_a_mapped_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old.log"
    path.write_bytes(handmade.wrapper_v1([1, 2]))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        header = unfold(mapped, 0, read_header(mapped))
        assert crc_matches(mapped, 0, header)
        assert [record.offset for record in read_records(mapped, 0, header)] == [1, 2]


# wrappers


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_a_v0_wrapper_holds_messages_at_their_own_offsets(codec: int) -> None:
    data = handmade.wrapper_v0([40, 41, 42], codec=codec)
    assert read_header(data).base_offset == 42
    assert span(data) == (40, 42, 3)
    assert read(data) == [Record(offset, -1, NONE, b"k", b"%d" % offset) for offset in (40, 41, 42)]
    assert unfolded(data).codec == codec


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_a_v1_wrapper_holds_messages_counted_from_its_first(codec: int) -> None:
    data = handmade.wrapper_v1([40, 41, 42], codec=codec, timestamps=[9, 7, 8])
    assert read_header(data).base_offset == 42
    assert span(data) == (40, 42, 3)
    assert unfolded(data).max_timestamp == 9
    assert read(data) == [
        Record(offset, time, CREATE, b"k", b"%d" % offset) for offset, time in ((40, 9), (41, 7), (42, 8))
    ]


@pytest.mark.parametrize("make", [handmade.wrapper_v0, handmade.wrapper_v1])
def test_a_wrapper_that_compaction_thinned_has_gaps(make) -> None:
    data = make([40, 43, 44, 50])
    assert span(data) == (40, 50, 4)
    assert offsets(data) == [40, 43, 44, 50]


def test_a_v1_wrapper_whose_first_messages_are_gone_begins_at_the_first_that_is_there() -> None:
    data = handmade.wrapper_v1([43, 50], base=40)
    assert span(data) == (43, 50, 2)
    assert offsets(data) == [43, 50]


@pytest.mark.parametrize("make", [handmade.wrapper_v0, handmade.wrapper_v1])
def test_a_wrapper_may_hold_one_message(make) -> None:
    assert span(make([5])) == (5, 5, 1)
    assert offsets(make([5])) == [5]


def test_a_v1_wrapper_at_offset_0_holds_true_offsets() -> None:
    data = handmade.wrapper_v1([0, 1, 2], offset=0)
    assert span(data) == (0, 2, 3)
    assert offsets(data) == [0, 1, 2]


def test_an_unfolded_header_reads_the_same_and_unfolds_to_itself() -> None:
    for data in (
        handmade.wrapper_v0([40, 43]),
        handmade.wrapper_v1([40, 43]),
        handmade.wrapper_v1([7], base=2),
        handmade.wrapper_v1([0, 1, 2], offset=0),
        handmade.wrapper_v1([3], base=0, offset=0),
    ):
        header = unfolded(data)
        assert unfold(data, 0, header) == header
        assert list(read_records(data, 0, header)) == read(data)
        assert record_bytes(data, 0, header) == record_bytes(data, 0, read_header(data))
        assert crc_matches(data, 0, header)


@pytest.mark.parametrize("converted", [False, True])
def test_the_append_time_of_a_wrapper_counts_for_all_inside(converted: bool) -> None:
    data = handmade.wrapper_append_time([40, 41], 777, converted=converted)
    assert unfolded(data).timestamp_type is APPEND
    assert [(record.timestamp, record.timestamp_type) for record in read(data)] == [(777, APPEND)] * 2


def test_the_attribute_of_a_message_inside_does_not_count() -> None:
    data = handmade.wrapper_v1([40, 41], inner_attributes=LOG_APPEND_TIME)
    assert [(record.timestamp, record.timestamp_type) for record in read(data)] == [(1040, CREATE), (1041, CREATE)]


def test_a_message_of_another_format_inside_keeps_what_its_format_has() -> None:
    inside = [handmade.message_v0(0, b"k", b"0"), handmade.message_v1(1, 55, b"k", b"1")]
    new = handmade.wrapper(inside, offset=41, timestamp=88)
    assert read(new) == [Record(40, -1, NONE, b"k", b"0"), Record(41, 55, CREATE, b"k", b"1")]
    appended = handmade.wrapper(inside, offset=41, timestamp=88, attributes=LOG_APPEND_TIME)
    assert [(record.timestamp, record.timestamp_type) for record in read(appended)] == [(-1, NONE), (88, APPEND)]
    old = handmade.wrapper(inside, offset=1, magic=0)
    assert read(old) == [Record(0, -1, NONE, b"k", b"0"), Record(1, 55, NONE, b"k", b"1")]


@pytest.mark.parametrize("magic", [V0, V1])
def test_the_broken_lz4_checksum_is_forgiven_in_v0_only(magic: int) -> None:
    inside = [handmade.message(0, b"k", b"v", magic=magic)]
    stream = handmade.stored_lz4(b"".join(inside), header=handmade.BROKEN_LZ4_HEADER)
    data = handmade.wrapper(inside, offset=0, codec=LZ4, magic=magic, value=stream)
    if magic == V0:
        assert offsets(data) == [0]
    else:
        assert refusal(data) is CorruptionReason.CODEC_STREAM


@pytest.mark.parametrize("framed", [True, False])
def test_snappy_is_read_framed_in_blocks_of_any_size_and_raw(framed: bool) -> None:
    inside = [handmade.message_v1(offset, 5, b"k", b"x" * 500) for offset in range(9)]
    stream = handmade.stored_snappy(b"".join(inside), block=1024, framed=framed)
    assert offsets(handmade.wrapper(inside, offset=8, codec=SNAPPY, value=stream)) == list(range(9))


@pytest.mark.parametrize("magic", [V0, V1])
def test_a_last_message_inside_that_is_not_whole_is_dropped_and_noted(magic: int) -> None:
    inside = [handmade.message(offset, b"k", b"v", magic=magic) for offset in (0, 1)]
    third = handmade.message(2, b"k", b"v", magic=magic)
    for left in range(len(third)):
        data = handmade.wrapper([*inside, third[:left]], offset=1, magic=magic)
        assert span(data) == (0, 1, 2)
        oddities = Oddities()
        assert [record.offset for record in read(data, oddities=oddities)] == [0, 1]
        assert oddities == Oddities(inner_bytes_left=left)


def test_oddities_inside_are_counted() -> None:
    inside = [
        handmade.message(0, magic=1, crc=0),
        handmade.message(1, magic=1),
        handmade.message(2, magic=0),
        handmade.message(3, magic=0, crc=1),
    ]
    oddities = Oddities()
    read(handmade.wrapper(inside, offset=3), oddities=oddities)
    assert oddities == Oddities(inner_crcs_differ=2, inner_magics_differ=2)
    sound = Oddities()
    read(handmade.wrapper_v1([1, 2]), oddities=sound)
    read(V0_MESSAGE, oddities=sound)
    read(handmade.wrapper_v1([0]), oddities=sound)
    assert sound == Oddities()


@pytest.mark.parametrize("magic", [V0, V1])
def test_an_offset_of_zero_on_a_wrapper_that_reaches_further_is_noted(magic: int) -> None:
    oddities = Oddities()
    inside = [handmade.message(offset, magic=magic) for offset in (5, 6)]
    assert [record.offset for record in read(handmade.wrapper(inside, offset=0, magic=magic), oddities=oddities)] == [
        5,
        6,
    ]
    assert oddities == Oddities(is_wrapper_at_zero=True)


def nested(magic: int, depth: int) -> bytes:
    data = handmade.message(0, magic=magic)
    for _ in range(depth):
        data = handmade.wrapper([data], offset=0, magic=magic)
    return data


@pytest.mark.parametrize("magic", [V0, V1])
def test_wrappers_do_not_nest(magic: int) -> None:
    assert offsets(nested(magic, 1)) == [0]
    for depth in (2, 3):
        assert refusal(nested(magic, depth)) is CorruptionReason.CODEC


@pytest.mark.parametrize("magic", [V0, V1])
@pytest.mark.parametrize("codec", [4, 5, 6, 7])
def test_codecs_that_came_later_are_refused_unread(magic: int, codec: int) -> None:
    data = handmade.wrapper([handmade.message(0, magic=magic)], offset=0, magic=magic, codec=codec, value=b"anything")
    assert refusal(data) is CorruptionReason.CODEC
    with pytest.raises(CorruptRecordError) as caught:
        check_header(read_header(data), 5)
    assert (caught.value.reason, caught.value.position) == (CorruptionReason.CODEC, 5)


@pytest.mark.parametrize("magic", [V0, V1])
@pytest.mark.parametrize(
    ("inside", "reason"),
    [
        (b"", CorruptionReason.COUNT),
        (b"eleven byte", CorruptionReason.COUNT),
        (bytes(12), CorruptionReason.LENGTH),
        (struct.pack(">qi", 0, 13) + bytes(13), CorruptionReason.LENGTH),
        (struct.pack(">qi", 0, -1) + bytes(30), CorruptionReason.LENGTH),
        (handmade.patch(handmade.message_v1(0, 0, None, None), 16, b"\2"), CorruptionReason.MAGIC),
        (handmade.patch(handmade.message_v0(0, None, None), 16, b"\1"), CorruptionReason.LENGTH),
        (handmade.message(0, value_length=9), CorruptionReason.RECORD_LENGTH),
    ],
)
def test_what_is_no_message_set_inside_is_damage(magic: int, inside: bytes, reason: CorruptionReason) -> None:
    assert refusal(handmade.wrapper([inside], offset=0, magic=magic)) is reason


@pytest.mark.parametrize("magic", [V0, V1])
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_a_wrapper_around_nothing_is_damage(magic: int, codec: int) -> None:
    null = handmade.message(3, None, None, magic=magic, attributes=codec)
    assert refusal(null) is CorruptionReason.COUNT
    empty = handmade.message(3, None, b"", magic=magic, attributes=codec)
    assert refusal(empty) is CorruptionReason.CODEC_STREAM


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_a_broken_stream_names_the_message(codec: int) -> None:
    with pytest.raises(CorruptRecordError, match=r"^position 0, offset 9: ") as caught:
        unfolded(handmade.wrapper([], offset=9, codec=codec, value=b"no stream at all"))
    assert caught.value.reason is CorruptionReason.CODEC_STREAM


def test_a_v1_wrapper_below_the_offsets_inside_is_damage() -> None:
    inside = [handmade.message_v1(relative, 5, b"k", b"v") for relative in (0, 1, 2)]
    assert offsets(handmade.wrapper(inside, offset=2)) == [0, 1, 2]
    assert refusal(handmade.wrapper(inside, offset=1)) is CorruptionReason.OFFSET_ORDER


@pytest.mark.parametrize("bit", range(64))
def test_a_v0_wrapper_whose_offset_is_not_that_of_its_last_message_is_damage(bit: int) -> None:
    sound = handmade.wrapper_v0([5, 6, 7])
    assert refusal(handmade.flip(sound, 7 - bit // 8, bit % 8)) is CorruptionReason.OFFSET_ORDER


def test_a_v0_wrapper_at_offset_0_and_one_that_is_not_whole_inside_hold_true_offsets() -> None:
    inside = [handmade.message_v0(offset, b"k", b"v") for offset in (5, 6, 7)]
    assert span(handmade.wrapper(inside, offset=0, magic=0)) == (5, 7, 3)
    cut = [*inside[:2], inside[2][:-1]]
    assert span(handmade.wrapper(cut, offset=7, magic=0)) == (5, 7, 2)
    assert refusal(handmade.wrapper(cut, offset=5, magic=0)) is CorruptionReason.OFFSET_ORDER


def test_a_bomb_in_a_wrapper_stops_at_the_cap() -> None:
    import gzip

    inside = handmade.message_v1(0, 5, b"k", bytes(5_000_000))
    data = handmade.wrapper([], offset=0, value=gzip.compress(inside))
    limit = Limits(decoded_batch_bytes=1 << 20)
    with pytest.raises(CorruptRecordError) as caught:
        unfold(data, 0, read_header(data), limit)
    assert caught.value.reason is CorruptionReason.OUTPUT_CAP
    assert refusal(data, limits=limit) is CorruptionReason.OUTPUT_CAP
    assert len(read(data, limits=Limits(decoded_batch_bytes=len(inside)))) == 1
