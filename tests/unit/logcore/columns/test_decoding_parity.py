"""Kernels and reference decode the same: every form of batch, every kind of damage, any cut, any flipped bit."""

import struct
import zlib
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from logcore.columns.wanted import EVERYTHING, Place, Wanted
from logcore.records.model import Limits
from tests import handmade
from tests.conftest import Sample
from tests.unit.logcore.columns.both_decoders import BODY, agreed, injured_records, of_body

pytestmark = pytest.mark.slow


def pairs(rows: pa.Table) -> list[tuple[bytes | None, bytes | None]]:
    return list(zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True))


def varied_segment() -> bytes:
    """A small segment with a bit of everything that v2 has."""
    headers = [(b"", None), ("é".encode(), b"x"), (b"trace-id", b""), (b"n" * 70, b"v" * 90)]
    first = handmade.batch(
        [
            handmade.record(0, None, None, timestamp_delta=-1),
            handmade.record(1, b"", b"", timestamp_delta=63, headers=headers[:1]),
            handmade.record(70, b"twelve bytes", b"thirteen byte", timestamp_delta=64, headers=headers),
            handmade.record(9000, b"k" * 64, b"v" * 70, timestamp_delta=10**7),
        ],
        last_offset_delta=9001,
        leader_epoch=-1,
    )
    rows = [(b"a", b"1"), (None, b"2")]
    return (
        first
        + handmade.simple_batch(9002, rows, attributes=handmade.LOG_APPEND_TIME, max_timestamp=-1)
        + handmade.empty_batch(9005, 4)
        + handmade.marker(9010, handmade.COMMIT, producer_id=7)
        + handmade.batch(
            body=handmade.stored_gzip(b"".join(handmade.record(at, b"z", b"%d" % at) for at in range(3))),
            attributes=handmade.GZIP,
            base_offset=9011,
            last_offset_delta=2,
            count=3,
        )
        + handmade.simple_batch(9020, rows, base_timestamp=253_402_300_799_999, leader_epoch=2)
    )


def old_segment() -> bytes:
    """Messages of v0 and v1, alone and wrapped."""
    return (
        handmade.message_v0(0, b"k", None)
        + handmade.message_v0(1, None, b"")
        + handmade.wrapper_v0([2, 3, 7])
        + handmade.message_v1(8, 1000, b"key", b"value")
        + handmade.message(9, attributes=handmade.LOG_APPEND_TIME, timestamp=77)
        + handmade.wrapper_v1([10, 12], codec=handmade.SNAPPY)
        + handmade.wrapper_append_time([13, 14], 5000)
        + handmade.wrapper_v1([15, 16, 17], codec=handmade.LZ4)
    )


# What it takes.


def segments_of(case: Sample) -> Iterator[tuple[int, bytes]]:
    found = sorted(case.logdir.glob("*/*.log"))
    assert found
    for path in found:
        yield int(path.stem), path.read_bytes()


@pytest.mark.parametrize(
    "name", ["codecs-v2-4.3.1", "timestamps-v2-4.4.0", "transactions-4.4.0", "internal-topics-4.4.0"]
)
def test_brokers_segments_are_decoded_without_asking_the_slow_reader(
    sample: Callable[[str], Sample],
    name: str,
) -> None:
    records = 0
    for base, data in segments_of(sample(name)):
        rows, stretches, asked = agreed(data, base_offset=base)
        records += rows.num_rows
        assert (stretches, asked) == ([], 0)
        agreed(data, base_offset=base, wanted=Wanted(control=True, columns=("offset", "key", "headers")))
    assert records > 100


def test_damaged_segments_of_brokers_are_decoded_as_by_the_reference(sample: Callable[[str], Sample]) -> None:
    refused = 0
    for base, data in segments_of(sample("damaged")):
        _, stretches, asked = agreed(data, base_offset=base)
        refused += len(stretches)
        assert asked <= 2 * len(stretches) + 1
    assert refused >= 5


def test_everything_that_v2_has_is_taken() -> None:
    rows, stretches, asked = agreed(varied_segment(), place=Place("orders", 3, "abc.0", "seg", position_base=4096))
    assert (stretches, asked) == ([], 0)
    assert rows["offset"].to_pylist() == [0, 1, 70, 9000, 9002, 9003, 9011, 9012, 9013, 9020, 9021]
    assert rows["timestamp_ms"].to_pylist()[:6] == [999, 1063, 1064, 10_001_000, -1, -1]
    assert rows["leader_epoch"].to_pylist()[:5] == [None] * 4 + [0]
    assert pairs(rows)[:4] == [
        (None, None),
        (b"", b""),
        (b"twelve bytes", b"thirteen byte"),
        (b"k" * 64, b"v" * 70),
    ]
    assert rows["headers"].to_pylist()[:3] == [
        None,
        [{"key": "", "value": None}],
        [
            {"key": "", "value": None},
            {"key": "é", "value": b"x"},
            {"key": "trace-id", "value": b""},
            {"key": "n" * 70, "value": b"v" * 90},
        ],
    ]
    assert rows["position"][0].as_py() == 4096


def test_everything_that_v0_and_v1_have_is_taken() -> None:
    rows, stretches, asked = agreed(old_segment())
    assert (stretches, asked) == ([], 0)
    assert rows["offset"].to_pylist() == [0, 1, 2, 3, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17]
    assert rows["timestampType"].to_pylist() == [-1] * 5 + [0, 1, 0, 0, 1, 1, 0, 0, 0]
    assert rows["timestamp_ms"].to_pylist()[5:11] == [1000, 77, 1010, 1012, 5000, 5000]
    assert pairs(rows)[:3] == [(b"k", None), (None, b""), (b"k", b"2")]


@pytest.mark.parametrize("size", [0, 56, 57, 58, 59, 8180, 8184, 8185, 8186, 8187, 1_048_560, 1_048_568, 1_048_569])
def test_a_record_of_any_length_is_taken(size: int) -> None:
    """Around the sizes where the length takes one more byte."""
    data = handmade.simple_batch(0, [(None, bytes(size + more)) for more in range(4)])
    rows, _, asked = agreed(data)
    assert asked == 0
    assert [len(value) for _, value in pairs(rows)] == [size, size + 1, size + 2, size + 3]


def test_batches_of_very_different_counts_keep_their_order() -> None:
    data, offset = b"", 0
    for index in range(300):
        count = (index * 37) % 11 if index % 50 else 400
        data += handmade.simple_batch(offset, [(b"%d" % at, b"%d" % index) for at in range(count)])
        offset += max(count, 1)
    rows, stretches, asked = agreed(data)
    assert (stretches, asked) == ([], 0)
    assert [value for _, value in pairs(rows)] == sorted((value for _, value in pairs(rows)), key=int)


def test_sets_of_very_different_sizes_keep_their_order() -> None:
    data, offset = b"", 0
    for index in range(150):
        count = (index * 7) % 5 + 1 if index % 40 else 60
        data += handmade.wrapper_v1(range(offset, offset + count))
        offset += count
    rows, stretches, asked = agreed(data)
    assert (stretches, asked) == ([], 0)
    assert rows["offset"].to_pylist() == list(range(offset))


def test_no_batch_at_or_after_the_stop_is_read() -> None:
    batches = [handmade.simple_batch(at, [(b"k", b"v")]) for at in range(4)]
    size = len(batches[0])
    for stop in (1, size, size + 1, 3 * size):
        assert agreed(b"".join(batches), stop=stop)[0].num_rows == -(-stop // size)


def test_an_empty_segment_has_no_rows() -> None:
    assert agreed(b"") == (EVERYTHING.schema.empty_table(), [], 0)


@pytest.mark.parametrize(
    "record",
    [
        handmade.varint(len(BODY), padding=1) + BODY,
        of_body(BODY[:1] + handmade.varint(0, padding=1) + BODY[2:]),
        of_body(BODY[:2] + handmade.varint(0, padding=3) + BODY[3:]),
        of_body(BODY[:3] + handmade.varint(3, padding=1) + BODY[4:]),
        of_body(BODY[:-5] + handmade.varint(1, padding=1) + BODY[-4:]),
        of_body(BODY[:-4] + handmade.varint(1, padding=1) + BODY[-3:]),
        of_body(BODY[:1] + b"\xff" * 9 + b"\x7f" + BODY[2:]),
        of_body(BODY[:3] + b"\x81\x80\x80\x80\x10" + BODY[7:]),
    ],
    ids=[
        "long length",
        "long timestamp",
        "long offset",
        "long key length",
        "long header count",
        "long name length",
        "timestamp beyond 64 bits",
        "key length beyond 32 bits",
    ],
)
def test_an_unusual_good_batch_alone_takes_the_slow_path(record: bytes) -> None:
    plain = [handmade.simple_batch(at, [(b"k", b"v")]) for at in range(4)]
    data = plain[0] + handmade.batch([record], base_offset=1) + plain[2] + plain[3]
    rows, stretches, asked = agreed(data)
    assert (rows.num_rows, stretches, asked) == (4, [], 1)


def test_a_name_that_is_not_utf8_costs_no_row_whatever_is_wanted() -> None:
    data = handmade.batch([handmade.record(0, headers=[(b"\xff", b"c")]), handmade.record(1, headers=[(b"n", b"c")])])
    assert agreed(data)[0].num_rows == 2
    assert agreed(data, wanted=Wanted(visible=((1, 2),)))[0].num_rows == 1
    assert agreed(data, wanted=Wanted(columns=("key", "value")))[0].num_rows == 2


@pytest.mark.parametrize("injury", injured_records())
def test_nothing_of_a_damaged_batch_is_given_out(injury: str) -> None:
    bad = injured_records()[injury]
    before, behind = handmade.simple_batch(0, [(b"a", b"1")]), handmade.simple_batch((1 << 31) - 1, [(b"b", b"2")])
    bad = handmade.patch(bad, 0, struct.pack(">q", 1))
    rows, stretches, _ = agreed(before + bad + behind)
    assert pairs(rows) == [(b"a", b"1"), (b"b", b"2")]
    assert [each.position for each in stretches] == [len(before)]


@pytest.mark.parametrize(
    "bad",
    [
        handmade.message(1, key_length=99),
        handmade.message(1, value_length=4),
        handmade.message(1, crc=5),
        handmade.message(1, attributes=4),
        handmade.wrapper([], offset=1),
        handmade.wrapper([], offset=1, value=b""),
        handmade.wrapper([], offset=1, value=b"no stream"),
        handmade.wrapper([handmade.message(0, size=5)], offset=1),
        handmade.wrapper([handmade.message(0, magic=3)], offset=1),
        handmade.wrapper([handmade.message(0, attributes=1)], offset=1),
        handmade.wrapper([handmade.message(0, key_length=99)], offset=1),
        handmade.wrapper([handmade.message(3)], offset=1),
        handmade.wrapper_v0([0]),
        handmade.wrapper_v1([0]),
        handmade.wrapper([handmade.message(3, magic=0)], offset=1, magic=0),
        handmade.wrapper([handmade.message(1), handmade.message(0)], offset=2),
    ],
)
def test_nothing_of_a_damaged_message_is_given_out(bad: bytes) -> None:
    before, behind = handmade.message(0, b"a", b"1"), handmade.message(5, b"b", b"2")
    rows, stretches, _ = agreed(before + bad + behind)
    assert pairs(rows) == [(b"a", b"1"), (b"b", b"2")]
    assert [each.position for each in stretches] == [len(before)]


def test_what_kafka_reads_of_odd_wrappers_is_read_too() -> None:
    """An inner message of the other version, a last one that is not whole, a wrapper at offset 0."""
    for odd in (
        handmade.wrapper([handmade.message_v1(at, 5, b"k", b"v") for at in range(2)], offset=1, after=b"x"),
        handmade.wrapper([handmade.message(at, b"k", b"v", after=b"x") for at in range(2)], offset=1),
        handmade.wrapper([handmade.message_v0(0, b"k", b"v"), handmade.message_v1(1, 5, b"k", b"w")], offset=1),
        handmade.wrapper([handmade.message_v1(0, 5, b"k", b"v"), handmade.message_v1(1, 5, b"k", b"w")[:-1]], offset=1),
        handmade.wrapper([handmade.message_v1(at, 5, b"k", b"v") for at in range(3)], offset=0),
    ):
        rows, stretches, asked = agreed(odd + handmade.message(3))
        assert rows.num_rows >= 2
        assert (stretches, asked) == ([], 1)


@pytest.mark.parametrize(
    "data",
    [
        handmade.simple_batch(2, [(b"k", b"v")]) + handmade.simple_batch(1, [(b"k", b"v")]),
        handmade.message_v1(2, 1, b"k", b"v")
        + handmade.message_v1(10, 1, b"k", b"v")
        + handmade.wrapper_v1([8, 9, 12]),
        handmade.wrapper_v1([2, 3]) + handmade.wrapper_v1([10, 11]) + handmade.wrapper_v1([8, 9, 14]),
        handmade.simple_batch(9, [(b"k", b"v")]) + handmade.wrapper_v1([8, 9, 14]),
    ],
    ids=["batches", "a wrapper behind a message", "wrappers", "a wrapper behind a batch"],
)
def test_a_batch_whose_offsets_its_successor_claims_is_not_given_out(data: bytes) -> None:
    _, stretches, _ = agreed(data)
    assert len(stretches) == 1


def test_wrappers_with_gaps_between_them_need_no_slow_reader() -> None:
    data = b"".join(handmade.wrapper_v1([at, at + 1]) for at in range(5, 400, 4))
    rows, stretches, asked = agreed(data)
    assert (rows.num_rows, stretches, asked) == (198, [], 0)


def test_offsets_that_the_segment_cannot_hold_are_refused() -> None:
    data = handmade.simple_batch(5, [(b"k", b"v")]) + handmade.simple_batch(9, [(b"k", b"v")] * 2)
    assert len(agreed(data, next_base_offset=10)[1]) == 1
    assert agreed(data, next_base_offset=11)[1:] == ([], 0)
    assert len(agreed(handmade.simple_batch(1 << 31, [(b"k", b"v")]))[1]) == 1
    assert len(agreed(handmade.simple_batch((1 << 63) - 1, [(b"k", b"v")] * 2))[1]) == 1


def test_gzip_that_zlib_refuses_is_refused() -> None:
    """A table of distances that is not complete: a faster library would decode it, and the checksums are right."""
    igzip_lib = pytest.importorskip("isal.igzip_lib", reason="isal has no wheel here: zlib is all there is")
    record = handmade.record(0, b"hello kafka topic partition hello", b"kafka topic partition hell hello")
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15, 8, zlib.Z_HUFFMAN_ONLY)
    body = deflate.compress(record) + deflate.flush()
    found = 0
    for bit in range(8 * 80):
        injured = handmade.flip(body, bit // 8, bit % 8) if bit // 8 < len(body) else body
        stream = bytes.fromhex("1f8b08000000000000ff") + injured + struct.pack("<II", zlib.crc32(record), len(record))
        try:
            if igzip_lib.decompress(injured) != record:
                continue
        except igzip_lib.error:
            continue
        _, stretches, _ = agreed(handmade.batch(body=stream, count=1, attributes=handmade.GZIP))
        found += bool(stretches)
    assert found > 0


def test_a_stream_that_gives_more_than_allowed_is_refused() -> None:
    body = handmade.stored_gzip(handmade.record(0, b"k", bytes(5000)))
    data = handmade.batch(body=body, count=1, attributes=handmade.GZIP)
    assert agreed(data, limits=Limits(decoded_batch_bytes=5100))[1] == []
    assert len(agreed(data, limits=Limits(decoded_batch_bytes=5000))[1]) == 1


@pytest.mark.long
@pytest.mark.parametrize("segment", [varied_segment(), old_segment()], ids=["v2", "v0 and v1"])
def test_a_segment_cut_anywhere_is_decoded_as_by_the_reference(segment: bytes) -> None:
    for length in range(len(segment)):
        agreed(segment[:length], sealed=bool(length % 2))


@pytest.mark.long
@pytest.mark.parametrize("segment", [varied_segment(), old_segment()], ids=["v2", "v0 and v1"])
def test_a_segment_with_any_flipped_bit_is_decoded_as_by_the_reference(segment: bytes) -> None:
    at = 0
    while at < len(segment):
        end = at + handmade.size_of(segment, at)
        for position in range(at, end):
            flipped = handmade.flip(segment, position, position % 8)
            if position % 7 == 0:
                agreed(flipped)
            if flipped[at + 16] == 2 and flipped[at + 8 : at + 12] == segment[at + 8 : at + 12] and end - at >= 61:
                repaired = handmade.fix_crc(flipped[at:end])
            elif flipped[at + 16] < 2:
                repaired = handmade.fix_message_crc(flipped[at:end])
            else:
                continue
            agreed(flipped[:at] + repaired + flipped[end:])
        at = end


# What is wanted.


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted(columns=("value", "offset")),
        Wanted(columns=("topic", "timestampType", "leader_epoch", "header_keys_raw")),
        Wanted(control=True),
        Wanted(visible=()),
        Wanted(visible=((1, 2), (9000, 9003), (9011, 9013))),
        Wanted(visible=((8, 12), (14, 16))),
        Wanted(since=1064),
        Wanted(until=1064),
        Wanted(since=0, until=5000, visible=((0, 9012),)),
        Wanted(since=253_402_300_799_999),
        Wanted(key=b"k"),
        Wanted(key=b""),
        Wanted(key=b"twelve bytes"),
        Wanted(key=b"k" * 64),
        Wanted(key=b"k" * 63 + b"l"),
    ],
)
def test_of_all_records_those_that_are_wanted(wanted: Wanted) -> None:
    for segment in (varied_segment(), old_segment()):
        _, stretches, asked = agreed(segment, wanted=wanted)
        assert (stretches, asked) == ([], 0)


def test_a_batch_that_holds_nothing_wanted_is_not_looked_into() -> None:
    bad = handmade.batch([bytes(9)], base_offset=1)
    data = handmade.simple_batch(0, [(b"k", b"v")]) + bad + handmade.simple_batch(2, [(b"k", b"v")])
    rows, stretches, asked = agreed(data, wanted=Wanted(visible=((0, 1), (2, 3))))
    assert (rows.num_rows, stretches, asked) == (2, [], 0)


def test_the_header_of_a_batch_without_wanted_records_is_checked() -> None:
    data = handmade.simple_batch(0, [(b"k", b"v")] * 3, last_offset_delta=1) + handmade.simple_batch(2, [(b"k", b"v")])
    assert len(agreed(data, wanted=Wanted(visible=((2, 3),)))[1]) == 1


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x00"])
def test_a_control_record_without_a_control_key_is_damage_unless_its_offset_is_not_wanted(key: bytes | None) -> None:
    data = handmade.control_batch(0, key, b"v") + handmade.simple_batch(1, [(b"k", b"v")])
    for wanted in (EVERYTHING, Wanted(control=True)):
        assert len(agreed(data, wanted=wanted)[1]) == 1
    assert agreed(data, wanted=Wanted(visible=((1, 2),)))[1:] == ([], 0)
