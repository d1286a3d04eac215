"""The kernel for Protobuf gives what the plain decoder gives: values, failed rows, and their reasons."""

from __future__ import annotations

import tracemalloc
from functools import cache

import pyarrow as pa
import pytest

from logcore.values.column import BlockDecoder, decode_column
from logcore.values.decoder import ValueDecoder
from logcore.values.formats import decoder_of
from tests.sampling import chance
from tests.unit.logcore.values.both_ways import ROWS, check_same
from tests.unit.logcore.values.protobuf.compiled_schema import library_class, schema_text
from tests.unit.logcore.values.protobuf.test_protobuf_values import damaged, expected, fill, in_order

AT_ONCE = 500

OPEN = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order {
  string customer = 1; optional int64 amount = 2;
  enum State { NEW = 0; PAID = 1; LOST = -1; }
  State state = 3; repeated int32 counts = 4;
  message Item {
    uint32 number = 1;
    oneof what { string name = 2; bytes raw = 3; Place place = 4; int32 code = 5; }
    message Place { double north = 1; float east = 2; repeated string names = 3; }
  }
  google.protobuf.Timestamp at = 6; repeated Item more = 7;
  fixed32 f32 = 10; sfixed32 sf32 = 11; sfixed64 sf64 = 12;
  sint32 s32 = 13; sint64 s64 = 14; bool yes = 15; int32 i32 = 16; float small = 17; double large = 18;
  repeated State states = 19; repeated sint64 zigzag = 20 [packed = false]; repeated double doubles = 21;
  optional string maybe = 25; repeated bool truths = 536870911; Item.Place place = 26; optional State other = 27;
  repeated google.protobuf.Timestamp times = 28; repeated bytes raws = 29; repeated fixed32 fixed = 30;
  Item one = 31;
  uint64 u64 = 32; fixed64 f64 = 33; optional uint64 other64 = 34; repeated uint64 u64s = 35;
  repeated fixed64 f64s = 36;
  map<string, Item> items = 37; map<int32, string> words = 38; map<bool, State> flags = 39;
  map<uint64, bytes> wide = 40;
  map<sint64, google.protobuf.Timestamp> moments = 41; map<fixed32, uint64> counted = 42;
  map<string, double> plain = 43;
}
"""
REQUIRED = """
syntax = "proto2";
message Old { required int32 id = 1; optional string name = 2 [default = "none"]; repeated int32 loose = 3;
  map<string, uint64> sizes = 4; }
"""
SCHEMAS = {"shop.Order": OPEN, "Old": REQUIRED}


@cache
def decoder(name: str) -> ValueDecoder:
    return decoder_of("protobuf", schema_text(SCHEMAS[name]))


def random_bodies(name: str, what: str, count: int) -> list[bytes]:
    draw, message = chance(what), library_class(SCHEMAS[name], name)
    bodies = []
    for _ in range(count):
        made = message()
        fill(made, draw)
        bodies.append(made.SerializePartialToString())
    return bodies


@pytest.mark.parametrize("name", SCHEMAS)
def test_random_values_are_the_same_in_both_ways_and_certain(name: str) -> None:
    bodies = random_bodies(name, f"protobuf blocks {name}", ROWS // 2)
    decided = 0
    for at in range(0, len(bodies), AT_ONCE):
        decided += check_same(decoder(name), [*bodies[at : at + AT_ONCE], None])
    assert decided >= len(bodies) // 2


def test_every_whole_value_is_certain() -> None:
    bodies = random_bodies("shop.Order", "certain protobuf blocks", AT_ONCE)
    assert check_same(decoder("shop.Order"), list(bodies)) == AT_ONCE


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_kernel_gives_what_the_library_reads(name: str) -> None:
    message, made = library_class(SCHEMAS[name], name), decoder(name)
    bodies = random_bodies(name, f"protobuf blocks and the library {name}", AT_ONCE)
    bodies = [body for body in bodies if message.FromString(body).IsInitialized()]
    ours = decode_column(made, pa.array(bodies, pa.binary())).values.to_pylist()
    theirs = pa.array([expected(message.FromString(body)) for body in bodies], made.arrow_type).to_pylist()
    assert [in_order(each) for each in ours] == [in_order(each) for each in theirs]
    assert len(ours) > AT_ONCE / 4


@pytest.mark.parametrize("name", SCHEMAS)
def test_damaged_values_are_the_same_in_both_ways(name: str) -> None:
    draw = chance(f"damaged protobuf blocks {name}")
    bodies = [damaged(body, draw) for body in random_bodies(name, f"damaged {name}", ROWS // 2)]
    decided = 0
    for at in range(0, len(bodies), AT_ONCE):
        decided += check_same(decoder(name), list(bodies[at : at + AT_ONCE]))
    assert 0 < decided < len(bodies)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "08",
        "0a",
        "0a0161",
        "0a0261",
        "0a01ff",
        "0a02c3a9",
        "0a0161 0a0162",
        "0a01ff 0a0162",
        "1001",
        "10ffffffffffffffffff01",
        "10ffffffffffffffffff7f",
        "10ffffffffffffffffffff01",
        "1801",
        "1805",
        "18ffffffffffffffffff01",
        "2201 05",
        "2203 058001",
        "2202 0580",
        "2005",
        "2001 2202 0203 2004",
        "3200",
        "320408011001",
        "3204 10ffff03",
        "3206 10ffffffff0f",
        "32020801 32021001",
        "3a00",
        "3a0208 01",
        "3a021201 3a",
        "3a03 120161",
        "3a05 120161 2805",
        "3a05 2805 120161",
        "3a04 2200 2200",
        "3a03 22 01 09",
        "d20100 d20100",
        "d20105 150000803f d20109 09000000000000f03f",
        "fa0103 120161 fa0102 2805",
        "55 01020304",
        "55 010203",
        "5d ffffffff",
        "61 0102030405060708",
        "61 01020304050607",
        "68 ffffffff0f",
        "7802",
        "8001 ffffffff0f",
        "8d01 0000c07f",
        "9201 00",
        "aa01 08 000000000000f03f",
        "aa01 07 00000000000000",
        "a901 000000000000f03f",
        "f8ffffff0f 01",
        "faffffff0f 02 0102",
        "9801 01 9a01 02 0005",
        "c006 05",
        "c206 01 61",
        "c206 05 61",
        "c106 0102030405060708",
        "c506 01020304",
        "c306 c406",
        "c406",
        "800201",
        "8002 ffffffffffffffffff01",
        "8902 ffffffffffffffff",
        "a202 08 ffffffffffffffff",
        "9a02 0a ffffffffffffffffff01",
        "aa02 05 0a0161 1200",
        "aa02 03 0a0161",
        "aa02 02 1200",
        "aa02 00",
        "aa02 05 0a0161 1200 aa02 05 0a0162 1200 aa02 05 0a0161 1200",
        "aa02 05 0a0161 1200 1001 aa02 05 0a0162 1200",
        "aa02 09 0a0161 1202 0801 1200",
        "aa02 08 0a0161 1200 0a0162",
        "aa02 07 0a0161 1200 1801",
        "aa02 05 0a01ff 1200",
        "aa02 06 0a0161 1202 0801",
        "aa02 05 0801 1200",
        "b202 00",
        "b202 05 0801 120161",
        "b202 05 0801 120161 b202 05 0801 120162",
        "b202 05 0800 120161 b202 03 120162",
        "b202 07 0801 0802 120161 b202 05 0802 120162",
        "b202 08 0801 120161 120162",
        "b202 0a 08ffffffff1f 120161 b202 0d 08ffffffffffffffffff01 1200",
        "ba02 04 0802 1001 ba02 04 0801 1002",
        "ba02 02 1005",
        "c202 0b 08ffffffffffffffffff01",
        "ca02 02 0803",
        "ca02 04 0803 1200",
        "ca02 06 0803 1202 0801",
        "d202 07 0d01000000 1005",
        "da02 03 0a0161",
        "da02 0c 0a0161 11000000000000f03f",
        "00 01",
        "f0ffffffff0f 01",
        "f0ffffffff1f 01",
        "808080808000",
        "0c",
        "0f",
    ],
)
def test_a_value_is_the_same_in_both_ways_beside_others(body: str) -> None:
    row = bytes.fromhex(body)
    check_same(
        decoder("shop.Order"), [b"\x22\x02\x07\x08", row, None, b"\x3a\x03\x12\x01x" + row, row + b"\x22\x01\x09"]
    )


@pytest.mark.parametrize("odd", ["é", "€", "😀", "\ufffd", b"\x80", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xff"])
def test_text_of_every_length_with_a_byte_that_is_not_ascii_at_every_place_is_checked(odd: str | bytes) -> None:
    made, content = decoder("shop.Order"), odd.encode() if isinstance(odd, str) else odd
    texts = [b"a" * at + content + b"b" * (size - at) for size in range(28) for at in range(size + 1)]
    bodies = [b"\x0a" + bytes([len(text)]) + text for text in texts]
    assert check_same(made, list(bodies)) == (len(bodies) if isinstance(odd, str) else 0)


def test_blocks_with_longer_lists_than_the_one_before_are_whole() -> None:
    made = decoder_of("protobuf", schema_text(SCHEMAS["shop.Order"]))
    for items in (1, 3, 40, 0, 1000, 2):
        one = b"\x3a\x03\x12\x01x" * items + b"\xd2\x01\x03\x1a\x01y" * (items > 0)
        assert check_same(made, [one] * AT_ONCE) == AT_ONCE


def test_a_small_block_of_long_lists_takes_no_memory_from_the_next_one() -> None:
    """Room for 100,000 items in each of 10,000 rows would be more than 17 GB for each column."""
    made = decoder_of("protobuf", schema_text(SCHEMAS["shop.Order"]))
    one = b"\x3a\x03\x12\x01x"
    assert check_same(made, [one * 100_000]) == 1
    assert isinstance(made, BlockDecoder)
    following = pa.array([one] * 10_000, pa.binary())
    tracemalloc.start()
    try:
        block = made.decode_block(following)
        assert block is not None
        assert len(block.doubts) == 0
        assert tracemalloc.get_traced_memory()[1] < 1 << 28
    finally:
        tracemalloc.stop()


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    draw = chance("protobuf neighbours")
    bodies = [damaged(body, draw) for body in random_bodies("shop.Order", "neighbours", 300)]
    made = decoder("shop.Order")
    together = decode_column(made, pa.array(bodies, pa.binary())).values.to_pylist()
    alone = [decode_column(made, pa.array([body], pa.binary())).values.to_pylist()[0] for body in bodies]
    assert repr(together) == repr(alone)


@pytest.mark.parametrize(
    "field",
    [
        "message Nothing {} Nothing v = 1;",
        "message Nothing {} map<int32, Nothing> v = 1;",
        "message Part { message Nothing {} map<int32, Nothing> m = 1; } repeated Part v = 1;",
    ],
)
def test_fields_that_the_kernel_does_not_know_have_the_plain_way_alone(field: str) -> None:
    made = decoder_of("protobuf", schema_text(f'syntax = "proto3"; message M {{ {field} int32 x = 2; }}'))
    assert isinstance(made, BlockDecoder)
    assert made.decode_block(pa.array([b"\x10\x01"], pa.binary())) is None
