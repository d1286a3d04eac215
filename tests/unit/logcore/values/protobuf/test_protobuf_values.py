"""Protobuf values equal those of the library, and bytes that it refuses are refused."""

from __future__ import annotations

import base64
import random
import struct
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from logcore.values.column import decode_column_plainly
from logcore.values.decoder import ValueDecoder
from logcore.values.formats import decoder_of
from logcore.values.invalid_schema import InvalidSchemaError
from logcore.values.undecodable import Reason, Undecodable
from tests.sampling import chance as drawing
from tests.unit.logcore.values.both_ways import ROWS
from tests.unit.logcore.values.protobuf.compiled_schema import library_class, schema_text

ALL_KINDS = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
// An order.
message Order {
  // Who ordered.
  string customer = 1; // By name.
  optional int64 amount = 2;
  enum State { NEW = 0; PAID = 1; LOST = -1; }
  State state = 3;
  repeated int32 counts = 4;
  map<string, Item> items = 5;
  message Item {
    uint32 number = 1;
    oneof what { string name = 2; bytes raw = 3; Place place = 4; }
    message Place { double north = 1; float east = 2; repeated string names = 3; }
  }
  google.protobuf.Timestamp at = 6;
  repeated Item more = 7;
  uint64 u64 = 8; fixed64 f64 = 9; fixed32 f32 = 10; sfixed32 sf32 = 11; sfixed64 sf64 = 12;
  sint32 s32 = 13; sint64 s64 = 14; bool yes = 15; int32 i32 = 16; float small = 17; double large = 18;
  repeated State states = 19;
  repeated sint64 zigzag = 20 [packed = false];
  repeated double doubles = 21;
  map<int32, string> words = 22;
  map<bool, State> flags = 23;
  message Nothing {}
  Nothing nothing = 24;
  optional string maybe = 25;
  repeated bool truths = 536870911;
  Item.Place place = 26;
}
"""
PROTO2 = """
syntax = "proto2";
message Old {
  required int32 id = 1;
  optional string name = 2 [default = "none"];
  enum Color { RED = 1; BLUE = 2; }
  optional Color color = 3;
  repeated Color colors = 4;
  optional group Inner = 5 { optional int32 x = 1; repeated string y = 2; }
  message Many { optional sint32 z = 1; }
  repeated Many many = 6;
  repeated int32 loose = 7;
  enum Size { NONE = 0; S = 1; }
  map<string, Size> by_name = 8;
}
"""
SCHEMAS = {"shop.Order": ALL_KINDS, "Old": PROTO2}
CASES = max(600, ROWS // 20)
"""Damaged values of each schema; there are ten times as many whole ones."""
AT_ONCE = 1000


def expected(message: Any) -> dict[str, Any]:
    """The values of the library's message, in the form that our columns have."""
    return {field.name: _expected_field(message, field) for field in message.DESCRIPTOR.fields}


def _expected_field(message: Any, field: Any) -> Any:
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        of = field.message_type.fields_by_name["value"]
        return [(key, _expected_value(of, value[key])) for key in value]
    if field.is_repeated:
        return [_expected_value(field, each) for each in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _expected_value(field, value)


def _expected_value(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        if field.message_type.full_name == "google.protobuf.Timestamp":
            return value.seconds * 1_000_000 + value.nanos // 1_000
        return expected(value) if field.message_type.fields else "{}"
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return Decimal(value) if field.type in (field.TYPE_UINT64, field.TYPE_FIXED64) else value


def fill(message: Any, chance: random.Random, depth: int = 0) -> None:
    """Give about half of the fields random values."""
    for field in message.DESCRIPTOR.fields:
        if chance.random() < 0.5 and not field.is_required:
            continue
        target = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            kinds = field.message_type.fields_by_name
            for _ in range(chance.randrange(3)):
                key = random_value(kinds["key"], chance)
                if kinds["value"].message_type is not None:
                    fill_message(target[key], chance, depth)
                else:
                    target[key] = random_value(kinds["value"], chance)
        elif field.message_type is not None:
            parts = [target.add() for _ in range(chance.randrange(3))] if field.is_repeated else [target]
            for part in parts:
                part.SetInParent() if not field.is_repeated else None
                fill_message(part, chance, depth)
        elif field.is_repeated:
            target.extend(random_value(field, chance) for _ in range(chance.randrange(4)))
        else:
            setattr(message, field.name, random_value(field, chance))


def fill_message(part: Any, chance: random.Random, depth: int) -> None:
    if part.DESCRIPTOR.full_name == "google.protobuf.Timestamp":
        part.seconds, part.nanos = chance.randrange(-(10**9), 10**10), chance.randrange(10**9)
    elif depth < 4:
        fill(part, chance, depth + 1)


def random_value(field: Any, chance: random.Random) -> Any:
    wide: dict[int, Callable[[], Any]] = {
        field.TYPE_STRING: lambda: "".join(chance.choice("aZ0 é€\U0001f600\0") for _ in range(chance.randrange(9))),
        field.TYPE_BYTES: lambda: chance.randbytes(chance.randrange(9)),
        field.TYPE_BOOL: lambda: chance.random() < 0.5,
        field.TYPE_DOUBLE: lambda: chance.uniform(-1e300, 1e300),
        field.TYPE_FLOAT: lambda: struct.unpack("f", struct.pack("f", chance.uniform(-1e30, 1e30)))[0],
        field.TYPE_ENUM: lambda: chance.choice(list(field.enum_type.values_by_number)),
    }
    if field.type in wide:
        return wide[field.type]()
    unsigned = field.type in (field.TYPE_UINT32, field.TYPE_UINT64, field.TYPE_FIXED32, field.TYPE_FIXED64)
    bits = 64 if field.type in (3, 4, 6, 16, 18) else 32
    bits = chance.randrange(1, bits + 1) if unsigned else chance.randrange(1, bits)
    return chance.getrandbits(bits) * (1 if unsigned else chance.choice((1, -1)))


def in_order(value: Any) -> Any:
    """Maps have no order: sort entries, so that equal maps are equal."""
    if isinstance(value, dict):
        return {name: in_order(inner) for name, inner in value.items()}
    if isinstance(value, list):
        items = [in_order(inner) for inner in value]
        return sorted(items, key=repr) if items and isinstance(items[0], tuple) else items
    if isinstance(value, tuple):
        return tuple(in_order(inner) for inner in value)
    return repr(value) if isinstance(value, float) else value


@pytest.mark.long
@pytest.mark.parametrize("name", SCHEMAS)
def test_random_values_are_those_of_the_library(name: str) -> None:
    chance = drawing("protobuf")
    decoder, message = decoder_of("protobuf", schema_text(SCHEMAS[name])), library_class(SCHEMAS[name], name)
    for _ in range(max(1, CASES * 10 // AT_ONCE)):
        bodies = []
        for _ in range(AT_ONCE):
            made = message()
            fill(made, chance)
            bodies.append(made.SerializeToString())
            assert in_order(decoder.decode(bodies[-1])) == in_order(expected(message.FromString(bodies[-1])))
        column = decode_column_plainly(decoder, pa.array(bodies, pa.binary()))
        assert column.failed == ()
        assert len(column.values) == AT_ONCE


@pytest.mark.parametrize("name", SCHEMAS)
def test_damaged_values_are_refused_or_are_those_of_the_library(name: str) -> None:
    chance = drawing("protobuf")
    decoder, message = decoder_of("protobuf", schema_text(SCHEMAS[name])), library_class(SCHEMAS[name], name)
    refused = 0
    for _ in range(max(3000, CASES)):
        made = message()
        fill(made, chance)
        body = damaged(made.SerializeToString(), chance)
        try:
            theirs = message.FromString(body)
        except DecodeError:
            theirs = None
        ours = decoded(decoder, body)
        if isinstance(ours, Undecodable):
            refused += 1
            assert theirs is None or ours.reason in STRICTER, (ours, body.hex())
        else:
            assert theirs is not None, body.hex()
            # This library drops an entry of a map that has any unknown field; others keep it.
            assert in_order(without_maps(ours)) == in_order(without_maps(expected(theirs))), body.hex()
    assert refused > CASES / 10


STRICTER = (
    Reason.MISSING_FIELD,  # the library reads what lacks a required field, and says it when asked
    Reason.OUT_OF_RANGE,  # a time that is none
    Reason.INVALID_UTF8,  # proto2 has text of any bytes
)


def without_maps(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_maps(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [without_maps(inner) for inner in value if not isinstance(inner, tuple)]
    return value


def decoded(decoder: ValueDecoder, body: bytes) -> object:
    """The value, or why there is none."""
    try:
        return decoder.decode(body)
    except Undecodable as failure:
        return failure


def damaged(body: bytes, chance: random.Random) -> bytes:
    changed = bytearray(body)
    for _ in range(chance.randrange(1, 3)):
        match chance.randrange(4):
            case 0 if changed:
                changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
            case 1:
                del changed[chance.randrange(len(changed) + 1) :]
            case 2:
                changed.insert(chance.randrange(len(changed) + 1), chance.randrange(256))
            case _ if changed:
                at = chance.randrange(len(changed))
                changed[at:at] = changed[at : at + chance.randrange(12)]
    return bytes(changed)


def tag(number: int, wire_type: int) -> bytes:
    return bytes([number << 3 | wire_type])


ITEM = """
syntax = "proto3";
message M { int32 a = 1; string b = 2; repeated fixed32 c = 3; Pair d = 4; }
message Pair { int32 x = 1; int32 y = 2; }
"""


@pytest.mark.parametrize(
    ("body", "reason", "place"),
    [
        (b"\x08", Reason.NOT_PROTOBUF, ""),
        (b"\x08\x80", Reason.NOT_PROTOBUF, ""),
        (b"\x08" + b"\xff" * 10, Reason.NOT_PROTOBUF, ""),
        (tag(2, 2) + b"\x05abcd", Reason.NOT_PROTOBUF, ""),
        (tag(2, 2) + b"\x02a\xff", Reason.INVALID_UTF8, "b.byte 1"),
        (tag(2, 2) + b"\x02a\xff" + tag(2, 2) + b"\x01a", Reason.INVALID_UTF8, ""),
        (tag(3, 2) + b"\x03abc", Reason.NOT_PROTOBUF, ""),
        (b"\x00\x01", Reason.NOT_PROTOBUF, ""),
        (tag(1, 6), Reason.NOT_PROTOBUF, ""),
        (tag(1, 4), Reason.NOT_PROTOBUF, ""),
        (tag(9, 3) + b"\x08\x01", Reason.NOT_PROTOBUF, ""),
        (tag(9, 3) + tag(8, 4), Reason.NOT_PROTOBUF, ""),
        (tag(9, 3) * 200, Reason.NOT_PROTOBUF, ""),
        (tag(4, 2) + b"\x01\x08", Reason.NOT_PROTOBUF, ""),
    ],
)
def test_damage_is_named_with_its_place(body: bytes, reason: Reason, place: str) -> None:
    with pytest.raises(Undecodable) as failure:
        decoder_of("protobuf", schema_text(ITEM)).decode(body)
    assert (failure.value.reason, failure.value.place) == (reason, place)


def test_a_message_in_two_parts_is_merged_and_an_unknown_field_is_skipped() -> None:
    body = tag(4, 2) + b"\x02\x08\x01" + tag(9, 2) + b"\x03abc" + tag(4, 2) + b"\x02\x10\x02" + tag(1, 5) + b"abcd"
    assert decoder_of("protobuf", schema_text(ITEM)).decode(body) == {
        "a": 0, "b": "", "c": [], "d": {"x": 1, "y": 2},
    }  # fmt: skip


def test_an_entry_whose_value_is_no_symbol_of_a_closed_enum_is_left_out() -> None:
    body = b"\x08\x01" + b"\x42\x05\x0a\x01a\x10\x01" + b"\x42\x05\x0a\x01b\x10\x05" + b"\x42\x03\x0a\x01c"
    row = decoder_of("protobuf", schema_text(PROTO2)).decode(body)
    assert isinstance(row, dict)
    assert row["by_name"] == [("a", "S"), ("c", "NONE")]
    theirs = expected(library_class(PROTO2, "Old").FromString(body))
    assert in_order(row["by_name"]) == in_order(theirs["by_name"])


def test_an_entry_that_is_left_out_must_be_whole_too() -> None:
    torn = b"\x08\x01" + b"\x42\x06\x0a\x01b\x10\x05" + b"\x0b"  # a group begins after the symbol
    with pytest.raises(Undecodable) as failure:
        decoder_of("protobuf", schema_text(PROTO2)).decode(torn)
    assert failure.value.reason is Reason.NOT_PROTOBUF
    with pytest.raises(DecodeError):
        library_class(PROTO2, "Old").FromString(torn)


def test_the_last_member_of_a_oneof_counts_alone() -> None:
    schema = 'syntax = "proto3"; message M { oneof w { int32 a = 1; string b = 2; } }'
    body = b"\x08\x05" + b"\x12\x01x"
    decoder = decoder_of("protobuf", schema_text(schema))
    assert decoder.decode(body) == {"a": None, "b": "x"}
    assert decoder.decode(body + b"\x08\x06") == {"a": 6, "b": None}


def test_groups_may_repeat_and_nest() -> None:
    schema = """
    syntax = "proto2";
    message M { repeated group G = 1 { optional int32 a = 2; optional group H = 3 { optional int32 b = 4; } } }
    """
    body = bytes.fromhex("0b 10 05 0c" + "0b 1b 20 07 1c 10 06 0c")
    decoder = decoder_of("protobuf", schema_text(schema))
    assert decoder.decode(body) == {"g": [{"a": 5, "h": None}, {"a": 6, "h": {"b": 7}}]}
    assert decoder.decode(body) == expected(library_class(schema, "M").FromString(body))


def test_columns_and_comments_follow_from_the_schema() -> None:
    decoder = decoder_of("protobuf", schema_text(ALL_KINDS))
    types = {field.name: field.type for field in decoder.arrow_type}
    assert types["customer"] == pa.string()
    assert types["u64"] == pa.decimal128(20, 0)
    assert types["f32"] == pa.int64()
    assert types["at"] == pa.timestamp("us", tz="UTC")
    assert types["state"] == pa.string()
    assert types["nothing"] == pa.string()
    assert types["words"] == pa.map_(pa.int32(), pa.string())
    assert decoder.comments == {"": "An order.", "customer": "Who ordered. By name."}


def test_a_time_is_a_moment_in_utc() -> None:
    schema = (
        'syntax = "proto3"; import "google/protobuf/timestamp.proto"; message M { google.protobuf.Timestamp t = 1; }'
    )
    decoder = decoder_of("protobuf", schema_text(schema))
    column = decode_column_plainly(decoder, pa.array([b"\x0a\x06\x08\x80\xe2\xcf\xaa\x06"], pa.binary()))
    assert column.values.to_pylist() == [{"t": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)}]
    with pytest.raises(Undecodable, match="OUT_OF_RANGE"):
        decoder.decode(b"\x0a\x06\x10\xff\xff\xff\xff\x07")


@pytest.mark.parametrize(
    ("indexes", "fields"), [((0,), ["a"]), ((1,), ["b"]), ((1, 1), ["d"]), ((1, 0, 0), ["e"])], ids=str
)
def test_indexes_choose_the_message(indexes: tuple[int, ...], fields: list[str]) -> None:
    schema = """
    syntax = "proto3";
    message A { int32 a = 1; }
    message B { int32 b = 1; message C { int32 c = 1; message E { int32 e = 1; } } message D { int32 d = 1; } }
    """
    decoder = decoder_of("protobuf", schema_text(schema), message=indexes)
    assert [field.name for field in decoder.arrow_type] == fields


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ('syntax = "proto3"; message M { int32 a = 1; int32 A = 2; }', "differ by case"),
    ],
)
def test_a_schema_without_columns_is_refused(schema: str, said: str) -> None:
    with pytest.raises(InvalidSchemaError, match=said):
        decoder_of("protobuf", schema_text(schema))


@pytest.mark.parametrize("schema", ["", "no base64!", "AAAA", base64.b64encode(b"\x0a\x7f").decode()])
def test_what_is_no_compiled_schema_is_refused(schema: str) -> None:
    with pytest.raises(InvalidSchemaError):
        decoder_of("protobuf", schema)


def test_indexes_without_a_message_are_refused() -> None:
    with pytest.raises(InvalidSchemaError, match="no message at the indexes"):
        decoder_of("protobuf", schema_text(ITEM), message=(7,))


def test_a_registry_gives_one_file_and_the_files_that_it_imports() -> None:
    common = descriptor_pb2.FileDescriptorProto(name="common.proto", package="c", syntax="proto3")
    part = common.message_type.add(name="Part")
    part.field.add(name="n", number=1, type=5, label=1)
    order = descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto3", dependency=["common.proto"])
    order.message_type.add(name="Order").field.add(name="p", number=1, type=11, label=1, type_name=".c.Part")
    text, other = (base64.b64encode(each.SerializeToString()).decode() for each in (order, common))
    assert decoder_of("protobuf", text, {"common.proto": other}).decode(b"\x0a\x02\x08\x07") == {"p": {"n": 7}}
    with pytest.raises(InvalidSchemaError, match=r"couldn't resolve name '\.c\.Part'"):
        decoder_of("protobuf", text)


def test_what_no_value_needs_may_be_missing() -> None:
    order = descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto3", dependency=["gone.proto"])
    message = order.message_type.add(name="Order")
    message.field.add(name="n", number=1, type=5, label=1)
    message.field.add(name="at", number=2, type=11, label=1, type_name=".google.protobuf.Timestamp")
    order.extension.add(name="x", number=50_001, type=5, label=1, extendee=".google.protobuf.FieldOptions")
    order.service.add(name="S").method.add(name="f", input_type=".gone.In", output_type=".gone.Out")
    decoder = decoder_of("protobuf", base64.b64encode(order.SerializeToString()).decode())
    assert decoder.decode(b"\x08\x07\x12\x02\x08\x01") == {"n": 7, "at": 1_000_000}


def test_a_schema_with_its_own_copy_of_a_timestamp_has_timestamps() -> None:
    copy = descriptor_pb2.FileDescriptorProto(name="copy.proto", package="google.protobuf", syntax="proto3")
    copy.message_type.add(name="Timestamp").field.add(name="seconds", number=1, type=3, label=1)
    order = descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto3", dependency=["copy.proto"])
    field = order.message_type.add(name="Order").field.add(name="at", number=1, type=11, label=1)
    field.type_name = ".google.protobuf.Timestamp"
    text, other = (base64.b64encode(each.SerializeToString()).decode() for each in (order, copy))
    decoder = decoder_of("protobuf", text, {"copy.proto": other})
    assert decoder.arrow_type.field("at").type == pa.timestamp("us", tz="UTC")
    assert decoder.decode(b"\x0a\x04\x08\x01\x10\x05") == {"at": 1_000_000}


def test_files_that_import_each_other_are_refused() -> None:
    one, two = (
        descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", dependency=[f"{other}.proto"])
        for name, other in ("xy", "yx")
    )
    files = {each.name: base64.b64encode(each.SerializeToString()).decode() for each in (one, two)}
    with pytest.raises(InvalidSchemaError, match="import each other"):
        decoder_of("protobuf", schema_text(ITEM), files)


def test_fields_may_have_the_names_of_methods() -> None:
    names = ("ListFields", "FromString", "WhichOneof", "class", "DESCRIPTOR")
    fields = "".join(f"int32 {name} = {at};" for at, name in enumerate(names, 1))
    decoder = decoder_of("protobuf", schema_text(f'syntax = "proto3"; message M {{ {fields} M more = 9; }}'))
    assert decoder.decode(b"\x08\x07\x20\x08") == {**dict.fromkeys(names, 0), "ListFields": 7, "class": 8, "more": None}


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_a_field_whose_name_no_column_can_have_is_refused(name: str) -> None:
    order = descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto3")
    order.message_type.add(name="Order").field.add(name=name, number=1, type=5, label=1)
    with pytest.raises(InvalidSchemaError, match="name"):
        decoder_of("protobuf", base64.b64encode(order.SerializeToString()).decode())


def test_damaged_descriptors_are_refused_or_read_and_never_end_in_another_error() -> None:
    chance = drawing("protobuf")
    original = base64.b64decode(schema_text(ALL_KINDS))[-2000:]
    for _ in range(2_000):
        text = base64.b64encode(damaged(original, chance)).decode()
        with suppress(InvalidSchemaError, Undecodable):
            decoder_of("protobuf", text).decode(b"\x08\x01")


def test_a_message_inside_of_itself_is_json_text_and_not_deeper_than_the_limit() -> None:
    schema = """
    syntax = "proto3";
    message M { int64 n = 1; bytes raw = 2; repeated M more = 3; map<bool, M> by = 4; }
    """
    decoder = decoder_of("protobuf", schema_text(schema))
    types = {field.name: field.type for field in decoder.arrow_type}
    assert types["more"] == pa.list_(pa.string())
    assert types["by"] == pa.map_(pa.bool_(), pa.string())
    inner = b"\x08\x02\x12\x01\xff" + b"\x1a\x02\x08\x03" + b"\x22\x06\x08\x01\x12\x02\x08\x04"
    found = decoder.decode(b"\x08\x01\x1a" + bytes([len(inner)]) + inner)
    leaf = '{"n":%d,"raw":"","more":[],"by":{}}'
    text = '{"n":2,"raw":"/w==","more":[' + leaf % 3 + '],"by":{"true":' + leaf % 4 + "}}"
    assert found == {"n": 1, "raw": b"", "more": [text], "by": []}
    body = b""
    for _ in range(101):
        size, prefix = len(body), b""
        while size > 127:
            prefix, size = prefix + bytes([size & 127 | 128]), size >> 7
        body = b"\x1a" + prefix + bytes([size]) + body
    decoder.decode(body[3:])
    with pytest.raises(Undecodable) as failure:
        decoder.decode(b"\x1a" + bytes([len(body) & 127 | 128, len(body) >> 7]) + body)
    assert failure.value.reason is Reason.NOT_PROTOBUF
