"""Avro values equal those of fastavro, and bytes that are not exactly one value are refused."""

from __future__ import annotations

import io
import json
import os
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from logcore.values.column import decode_column_plainly
from logcore.values.decoder import ValueDecoder
from logcore.values.formats import decoder_of
from logcore.values.invalid_schema import InvalidSchemaError
from logcore.values.undecodable import Reason, Undecodable
from tests.sampling import chance

ROWS = int(os.environ.get("LOGLAKE_TEST_VALUES", "10000"))
"""Values of each kind; `make test-long` takes a million."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WHOLE = {
    "type": "record", "name": "shop.Order", "doc": "An order.",
    "fields": [
        {"name": "i", "type": "int", "doc": "Number of  the order."},
        {"name": "l", "type": "long"},
        {"name": "f", "type": "float"},
        {"name": "d", "type": "double"},
        {"name": "b", "type": "boolean"},
        {"name": "s", "type": ["null", "string"]},
        {"name": "raw", "type": "bytes"},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "x", "type": {"type": "fixed", "name": "X", "size": 3}},
        {"name": "a", "type": {"type": "array", "items": ["null", "shop.E"]}},
        {"name": "m", "type": {"type": "map", "values": "X"}},
        {"name": "u", "type": ["null", "long", "string", {"type": "record", "name": "In", "fields": [
            {"name": "z", "type": "int"}]}]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "us", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "dec", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "r", "type": {"type": "array", "items": "In"}},
    ],
}  # fmt: skip
STRICTER = (
    Reason.OUT_OF_RANGE,  # fastavro takes any number as int, date, timestamp or decimal, and any byte as boolean
    Reason.LENGTH,  # and does not compare the size that a block states
    Reason.UNKNOWN_SYMBOL,  # and counts negative numbers of symbols and types from the end
    Reason.VARINT,
    Reason.TRAILING_BYTES,
)


def random_type(draw: random.Random, names: list[int], depth: int = 0) -> Any:
    """A type; named types have names of their own."""
    plain = ["boolean", "int", "long", "float", "double", "bytes", "string"]
    kind = draw.randrange(9 if depth < 3 else 5)
    names[0] += 1
    name = f"N{names[0]}"
    match kind:
        case 0 | 1:
            return draw.choice(plain)
        case 2:
            return draw.choice(
                (
                    {"type": "int", "logicalType": "date"},
                    {"type": "long", "logicalType": "timestamp-millis"},
                    {"type": "long", "logicalType": "timestamp-micros"},
                    {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4},
                )
            )
        case 3:
            return {"type": "enum", "name": name, "symbols": ["A", "B", "C"]}
        case 4:
            return {"type": "fixed", "name": name, "size": draw.randrange(1, 9)}
        case 5:
            return {"type": "array", "items": random_type(draw, names, depth + 1)}
        case 6:
            return {"type": "map", "values": random_type(draw, names, depth + 1)}
        case 7:
            branches = draw.sample(["int", "string", "boolean", "double"], draw.randrange(1, 4))
            return ["null", *branches] if draw.random() < 0.7 else branches
    fields = [
        {"name": f"f{number}", "type": random_type(draw, names, depth + 1)} for number in range(draw.randrange(1, 5))
    ]
    return {"type": "record", "name": name, "fields": fields}


def random_record(draw: random.Random) -> dict[str, Any]:
    names = [0]
    fields = [{"name": f"g{number}", "type": random_type(draw, names)} for number in range(4)]
    return {"type": "record", "name": "Top", "fields": fields}


def random_value(kind: Any, draw: random.Random) -> Any:
    """A value as fastavro writes it."""
    if isinstance(kind, list):
        return random_value(draw.choice(kind), draw)
    if isinstance(kind, dict):
        match kind.get("logicalType") or kind["type"]:
            case "date":
                return date(1970, 1, 1) + timedelta(days=draw.randrange(-9000, 90000))
            case "timestamp-millis":
                return EPOCH + timedelta(milliseconds=draw.randrange(-(10**12), 10**13))
            case "timestamp-micros":
                return EPOCH + timedelta(microseconds=draw.randrange(-(10**15), 10**16))
            case "decimal":
                return Decimal(draw.randrange(-(10 ** kind["precision"]) + 1, 10 ** kind["precision"])).scaleb(
                    -kind["scale"]
                )
            case "enum":
                return draw.choice(kind["symbols"])
            case "fixed":
                return draw.randbytes(kind["size"])
            case "array":
                return [random_value(kind["items"], draw) for _ in range(draw.choice((0, 1, 3)))]
            case "map":
                return {
                    random_value("string", draw): random_value(kind["values"], draw) for _ in range(draw.randrange(3))
                }
            case "record":
                return {each["name"]: random_value(each["type"], draw) for each in kind["fields"]}
        return random_value(kind["type"], draw)
    match kind:
        case "null":
            return None
        case "boolean":
            return draw.random() < 0.5
        case "int":
            return draw.choice((1, -1)) * draw.getrandbits(draw.randrange(1, 32))
        case "long":
            return draw.choice((1, -1)) * draw.getrandbits(draw.randrange(1, 64))
        case "float" | "double":
            return draw.choice((0.0, 1.5, -2.25, 1e10))
        case "bytes":
            return draw.randbytes(draw.randrange(5))
    return "".join(draw.choice("aé€\U0001f600") for _ in range(draw.randrange(5)))


def expected(kind: Any, value: Any) -> Any:
    """fastavro's value in the form that our columns have; unions come as pairs of type and value."""
    if isinstance(kind, list):
        others = [each for each in kind if each != "null"]
        if value is None:
            return None
        if len(others) == 1:
            return expected(others[0], value)
        name, inner = value
        branch = next(each for each in others if name_of(each) == name)
        return dict.fromkeys(map(name_of, others)) | {name: expected(branch, inner)}
    if isinstance(kind, dict):
        match kind["type"]:
            case "array":
                return [expected(kind["items"], each) for each in value]
            case "map":
                return [(key, expected(kind["values"], each)) for key, each in value.items()]
            case "record":
                return {each["name"]: expected(each["type"], value[each["name"]]) for each in kind["fields"]}
    return value


def name_of(kind: Any) -> str:
    return str(kind["name"] if isinstance(kind, dict) and "name" in kind else kind)


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def read(schema: Any, body: bytes) -> tuple[Any, int]:
    """fastavro's value, and the bytes that it left."""
    stream = io.BytesIO(body)
    value = fastavro.schemaless_reader(stream, schema, return_record_name=True, return_record_name_override=False)
    return value, len(body) - stream.tell()


def column_value(decoder: ValueDecoder, body: bytes) -> Any:
    """Our value after its way through Arrow."""
    column = decode_column_plainly(decoder, pa.array([body], pa.binary()))
    assert column.failed == (), column.failed
    return column.values.to_pylist()[0]


def pairs(kind: Any, value: Any) -> Any:
    """A value to write, and what it should become: unions of several types as pairs."""
    if isinstance(kind, list):
        others = [each for each in kind if each != "null"]
        if value is None or len(others) == 1:
            return None if value is None else pairs(others[0], value)
        names = {bool: "boolean", int: "int", str: "string", float: "double"}
        return names[type(value)], value
    if isinstance(kind, dict):
        match kind["type"]:
            case "array":
                return [pairs(kind["items"], each) for each in value]
            case "map":
                return {key: pairs(kind["values"], each) for key, each in value.items()}
            case "record":
                return {each["name"]: pairs(each["type"], value[each["name"]]) for each in kind["fields"]}
    return value


def test_random_values_of_random_schemas_are_those_that_were_written() -> None:
    draw = chance("avro")
    for _ in range(ROWS // 50):
        schema = random_record(draw)
        decoder, parsed = decoder_of("avro", json.dumps(schema)), fastavro.parse_schema(schema)
        for _ in range(50):
            value = random_value(schema, draw)
            body = written(parsed, pairs(schema, value))
            assert column_value(decoder, body) == expected(schema, pairs(schema, value))


def damaged(body: bytes, draw: random.Random) -> bytes:
    changed = bytearray(body)
    for _ in range(draw.randrange(1, 3)):
        at = draw.randrange(len(changed) + 1)
        match draw.randrange(4):
            case 0 if at < len(changed):
                changed[at] ^= 1 << draw.randrange(8)
            case 1:
                del changed[at:]
            case 2:
                changed.insert(at, draw.randrange(256))
            case _:
                changed[at:at] = changed[at : at + draw.randrange(9)]
    return bytes(changed)


def test_damaged_values_are_refused_where_fastavro_refuses_them() -> None:
    draw = chance("damaged avro")
    plain = {"type": "record", "name": "P", "fields": [
        {"name": "a", "type": "long"}, {"name": "b", "type": ["null", "string"]},
        {"name": "c", "type": {"type": "array", "items": "string"}},
        {"name": "d", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "e", "type": {"type": "map", "values": "double"}}, {"name": "f", "type": "float"},
    ]}  # fmt: skip
    decoder, parsed = decoder_of("avro", json.dumps(plain)), fastavro.parse_schema(plain)
    refused = 0
    for _ in range(ROWS):
        body = damaged(written(parsed, random_value(plain, draw)), draw)
        try:
            theirs, left = read(parsed, body)
        except Exception:  # noqa: BLE001 - it raises whatever its parts raise
            theirs, left = None, 0
        ours = decoded(decoder, body)
        if isinstance(ours, Undecodable):
            refused += 1
            assert theirs is None or left or ours.reason in STRICTER, (ours, body.hex())
        else:
            assert theirs is not None, body.hex()
            assert left == 0
            assert repr(ours) == repr(expected(plain, theirs)), body.hex()
    assert refused > ROWS // 10


def decoded(decoder: ValueDecoder, body: bytes) -> object:
    """The value, or why there is none."""
    try:
        return decoder.decode(body)
    except Undecodable as failure:
        return failure


def test_all_types_have_columns_and_comments() -> None:
    decoder = decoder_of("avro", json.dumps(WHOLE))
    types = {field.name: field.type for field in decoder.arrow_type}
    inner = pa.struct([pa.field("z", pa.int32())])
    assert types == {
        "i": pa.int32(), "l": pa.int64(), "f": pa.float32(), "d": pa.float64(), "b": pa.bool_(), "s": pa.string(),
        "raw": pa.binary(), "e": pa.string(), "x": pa.binary(), "a": pa.list_(pa.string()),
        "m": pa.map_(pa.string(), pa.binary()),
        "u": pa.struct([pa.field("long", pa.int64()), pa.field("string", pa.string()), pa.field("shop_In", inner)]),
        "day": pa.date32(), "ms": pa.timestamp("us", tz="UTC"), "us": pa.timestamp("us", tz="UTC"),
        "dec": pa.decimal128(9, 2), "r": pa.list_(inner),
    }  # fmt: skip
    assert decoder.comments == {"": "An order.", "i": "Number of the order."}


BYTES = (
    b"\x02" b"\x04" b"\x00\x00\x80\x3f" + b"\0" * 8 + b"\x01" b"\x02\x04hi" b"\x02\xff" b"\x02" b"abc"
    b"\x03\x06\x02\x02\x00\x00" b"\x02\x02k123\x00" b"\x06\x0a" b"\x02" b"\x02" b"\x00" b"\x04\xff\x9c" b"\x02\x0e\x00"
)  # fmt: skip


def test_every_type_is_read_from_bytes_packed_by_hand() -> None:
    assert column_value(decoder_of("avro", json.dumps(WHOLE)), BYTES) == {
        "i": 1, "l": 2, "f": 1.0, "d": 0.0, "b": True, "s": "hi", "raw": b"\xff", "e": "B", "x": b"abc",
        "a": ["B", None], "m": [("k", b"123")], "u": {"long": None, "string": None, "shop_In": {"z": 5}},
        "day": date(1970, 1, 2), "ms": EPOCH + timedelta(milliseconds=1), "us": None, "dec": Decimal("-1.00"),
        "r": [{"z": 7}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "body", "reason", "place"),
    [
        ("long", b"", Reason.TRUNCATED, "byte 0"),
        ("long", b"\x80", Reason.TRUNCATED, "byte 0"),
        ("long", b"\xff" * 10, Reason.VARINT, "byte 0"),
        ("long", b"\xff" * 9 + b"\x02", Reason.VARINT, "byte 0"),
        ("long", b"\x02\x02", Reason.TRAILING_BYTES, "byte 1"),
        ("int", b"\x80\x80\x80\x80\x10", Reason.OUT_OF_RANGE, "byte 0"),
        ("boolean", b"\x02", Reason.OUT_OF_RANGE, "byte 0"),
        ("string", b"\x04a", Reason.LENGTH, "byte 0"),
        ("string", b"\x01", Reason.LENGTH, "byte 0"),
        ("string", b"\x04a\xff", Reason.INVALID_UTF8, "byte 0"),
        ("double", b"1234567", Reason.TRUNCATED, "byte 0"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", Reason.UNKNOWN_SYMBOL, "byte 0"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x01", Reason.UNKNOWN_SYMBOL, "byte 0"),
        (["null", "long"], b"\x04", Reason.UNKNOWN_SYMBOL, "byte 0"),
        ({"type": "array", "items": "long"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", Reason.LENGTH, "byte 0"),
        ({"type": "array", "items": "long"}, b"\x01\x04\x02\x02\x00", Reason.LENGTH, "byte 0"),
        ({"type": "array", "items": "string"}, b"\x04\x02a\x04b", Reason.LENGTH, "[1].byte 3"),
        ({"type": "map", "values": "long"}, b"\x02\x02a", Reason.TRUNCATED, "{0}.byte 3"),
        ({"type": "int", "logicalType": "date"}, b"\xfe\xff\xff\xff\x0f", Reason.OUT_OF_RANGE, "byte 0"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0},
            b"\x02\x64",
            Reason.OUT_OF_RANGE,
            "byte 0",
        ),
    ],
    ids=str,
)
def test_damage_is_named_with_its_place(schema: Any, body: bytes, reason: Reason, place: str) -> None:
    with pytest.raises(Undecodable) as failure:
        decoder_of("avro", json.dumps(schema)).decode(body)
    assert (failure.value.reason, failure.value.place) == (reason, place)


def test_a_body_too_long_and_one_too_short_are_two_failures_and_shift_no_row() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "long"}]}
    bodies = pa.array([b"\x02\x04\x28", b"\x06", b"\x08\x0a"], pa.binary())
    column = decode_column_plainly(decoder_of("avro", json.dumps(schema)), bodies)
    assert column.values.to_pylist() == [None, None, {"a": 4, "b": 5}]
    assert [(each.row, each.failure.reason) for each in column.failed] == [
        (0, Reason.TRAILING_BYTES),
        (1, Reason.TRUNCATED),
    ]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ('{"type": "record", "name": "R", "fields": [{"name": "r", "type": "Other"}]}', "is not defined"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "A", "type": "int"}]}',
            "case",
        ),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]}',
            "twice",
        ),
        ("[]", "union"),
        ('["int", "int"]', "twice"),
        ('{"type": "fixed", "name": "F", "size": 1000000000000000000000}', "more than 33554432 bytes"),
        (r'{"type": "enum", "name": "E", "symbols": ["A", "\ud800"]}', "surrogate"),
        (r'{"type": "fixed", "name": "F", "namespace": "n\udfff", "size": 1}', "surrogate"),
        ("nothing at all", "no JSON"),
        ("{}", "no name"),
        ("[" * 1000, "no JSON|levels"),
        ('{"type": "array", "items": ' * 200 + '"int"' + "}" * 200, "levels"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_schema_that_cannot_be_used_is_refused(schema: str, said: str) -> None:
    with pytest.raises(InvalidSchemaError, match=said):
        decoder_of("avro", schema)


def test_named_types_may_be_in_referenced_schemas_in_any_order() -> None:
    references = {
        "order": '{"type": "record", "name": "a.Pair", "fields": [{"name": "p", "type": "Part"}]}',
        "part": '{"type": "record", "name": "a.Part", "fields": [{"name": "n", "type": "int"}]}',
    }
    schema = '{"type": "record", "name": "Top", "fields": [{"name": "x", "type": "a.Pair"}]}'
    assert decoder_of("avro", schema, references).decode(b"\x06") == {"x": {"p": {"n": 3}}}


NODE = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}, {"name": "r", "type": ["null", "R"]}]}'


def test_a_record_inside_of_itself_is_json_text_and_not_deeper_than_the_limit() -> None:
    decoder = decoder_of("avro", NODE)
    assert decoder.arrow_type == pa.struct([("n", pa.int32()), ("r", pa.string())])
    assert decoder.decode(b"\x02\x02\x04\x02\x06\x00") == {"n": 1, "r": '{"n":2,"r":{"n":3,"r":null}}'}
    assert decoder.decode(b"\x02\x02" * 100 + b"\x02\x00")["r"].count("{") == 100  # type: ignore[index]
    for levels in (101, 100_000):
        with pytest.raises(Undecodable) as failure:
            decoder.decode(b"\x02\x02" * levels + b"\x02\x00")
        assert failure.value.reason is Reason.TOO_DEEP
    with pytest.raises(Undecodable) as failure:
        decoder.decode(b"\x02\x02\x04\x02")
    assert (failure.value.reason, failure.value.place) == (Reason.TRUNCATED, "r.r.n.byte 4")


def test_a_reference_that_is_read_again_does_not_know_a_record_as_inside_of_itself() -> None:
    fields = '[{"name": "late", "type": "Late"}, {"name": "n", "type": "int"}]'
    references = {
        "a": '{"type": "record", "name": "A", "fields": ' + fields + "}",
        "b": '{"type": "record", "name": "B", "fields": [{"name": "a", "type": "A"}]}',
        "late": '{"type": "fixed", "name": "Late", "size": 1}',
    }
    assert decoder_of("avro", '"B"', references).decode(b"x\x06") == {"a": {"late": b"x", "n": 3}}
