"""The kernel for Avro gives what the plain decoder gives: values, failed rows, and their reasons."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from logcore.values.column import BlockDecoder, decode_column
from logcore.values.decoder import ValueDecoder
from logcore.values.formats import decoder_of
from tests.sampling import chance
from tests.unit.logcore.values.avro.test_avro_values import damaged, expected, pairs, random_value, written
from tests.unit.logcore.values.both_ways import ROWS, check_same

PLAIN = (
    "boolean", "int", "long", "float", "double", "bytes", "string", {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"}, {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4},
    {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0},
    {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 3},
)  # fmt: skip
WHOLE = {
    "type": "record", "name": "R",
    "fields": [
        {"name": "i", "type": "int"},
        {"name": "s", "type": ["null", "string"]},
        {"name": "l", "type": ["long", "null"]},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}},
        {"name": "x", "type": ["null", {"type": "fixed", "name": "X", "size": 3}]},
        {"name": "a", "type": {"type": "array", "items": ["null", {"type": "array", "items": "string"}]}},
        {"name": "r", "type": {"type": "array", "items": {"type": "record", "name": "In", "fields": [
            {"name": "d", "type": "double"}, {"name": "b", "type": "boolean"}]}}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "us", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "raw", "type": "bytes"}, {"name": "f", "type": "float"}, {"name": "t", "type": "boolean"},
        {"name": "m", "type": {"type": "map", "values": ["null", "string"]}},
        {"name": "dec", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "u", "type": ["null", "int", "string"]},
    ],
}  # fmt: skip


def of(schema: Any) -> ValueDecoder:
    """The decoder of a schema."""
    return decoder_of("avro", json.dumps(schema))


def random_record(draw: Any) -> dict[str, Any]:
    """A record of types that the kernel knows."""
    number = 0

    def kind(depth: int) -> Any:
        nonlocal number
        number += 1
        name = f"N{number}"
        made: Any = draw.choice(PLAIN)
        match draw.randrange(8 if depth < 3 else 3):
            case 1:
                made = {"type": "enum", "name": name, "symbols": ["A", "B", "C"]}
            case 2:
                made = {"type": "fixed", "name": name, "size": draw.randrange(1, 9)}
            case 3:
                made = {"type": "array", "items": kind(depth + 1)}
            case 4 | 5:
                fields = [{"name": f"f{at}", "type": kind(depth + 1)} for at in range(draw.randrange(1, 5))]
                made = {"type": "record", "name": name, "fields": fields}
            case 6:
                made = {"type": "map", "values": kind(depth + 1)}
            case 7:
                branches = draw.sample(["int", "string", "boolean", "double"], draw.randrange(2, 5))
                branches.insert(draw.randrange(len(branches) + 1), "null")
                return branches if draw.random() < 0.7 else [each for each in branches if each != "null"]
        return draw.choice((made, made, ["null", made], [made, "null"]))

    return {"type": "record", "name": "Top", "fields": [{"name": f"g{at}", "type": kind(0)} for at in range(4)]}


def test_random_values_of_random_schemas_are_the_same_in_both_ways_and_certain() -> None:
    draw = chance("avro blocks")
    for _ in range(max(1, ROWS // 500)):
        schema = random_record(draw)
        parsed = fastavro.parse_schema(schema)
        bodies = [written(parsed, pairs(schema, random_value(schema, draw))) for _ in range(500)]
        assert check_same(of(schema), [*bodies, None]) == 501


def test_the_kernel_gives_what_fastavro_reads() -> None:
    draw = chance("avro blocks and fastavro")
    for _ in range(max(1, ROWS // 1000)):
        schema = random_record(draw)
        parsed, decoder = fastavro.parse_schema(schema), of(schema)
        bodies = [written(parsed, pairs(schema, random_value(schema, draw))) for _ in range(200)]
        column = decode_column(decoder, pa.array(bodies, pa.binary()))
        theirs = [
            expected(schema, pairs(schema, fastavro.schemaless_reader(io.BytesIO(body), parsed))) for body in bodies
        ]
        assert repr(column.values.to_pylist()) == repr(pa.array(theirs, decoder.arrow_type).to_pylist())


def test_damaged_values_are_the_same_in_both_ways() -> None:
    draw = chance("damaged avro blocks")
    refused = 0
    for _ in range(max(1, ROWS // 1000)):
        for schema in (WHOLE, random_record(draw)):
            parsed = fastavro.parse_schema(schema)
            bodies = [damaged(written(parsed, pairs(schema, random_value(schema, draw))), draw) for _ in range(500)]
            refused += 500 - check_same(of(schema), list(bodies))
    assert refused > 0


@pytest.mark.parametrize(
    ("schema", "bodies"),
    [
        ("long", [b"", b"\x80", b"\x02", b"\x02\x02", b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x02", b"\xff" * 10]),
        ("int", [b"\xfe\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x10"]),
        ("boolean", [b"\x00", b"\x01", b"\x02", b""]),
        ("string", [b"\x00", b"\x04a", b"\x01", b"\x04a\xff", b"\x04\xc3\xa9", b"\x04ab"]),
        ("double", [b"12345678", b"1234567", b"123456789"]),
        ("float", [b"1234", b"123", b"\x00\x00\xc0\x7f"]),
        (["null", "long"], [b"\x00", b"\x02\x04", b"\x04", b"\x01", b"\x02"]),
        (["long", "null"], [b"\x02", b"\x00\x04", b"\x00"]),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, [b"\x00", b"\x02", b"\x04", b"\x01"]),
        ({"type": "fixed", "name": "F", "size": 2}, [b"ab", b"a", b"abc"]),
        (
            {"type": "array", "items": "long"},
            [
                b"\x00", b"\x04\x02\x04\x00", b"\x03\x04\x02\x04\x00", b"\x03\x06\x02\x04\x00", b"\x02\x02", b"\x02",
                b"\x04\x02\x04\x02\x06\x00", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\xff" * 9 + b"\x01\x02\x00",
                b"\x01\x00\x00", b"\x02\x02\x00\x00",
            ],
        ),
        (
            {"type": "map", "values": "long"},
            [
                b"\x00", b"\x02\x02a\x04\x00", b"\x04\x02a\x04\x02b\x06\x00", b"\x04\x02a\x04\x02a\x06\x00",
                b"\x02\x02a\x04\x02\x02a\x06\x00", b"\x04\x00\x04\x00\x06\x00", b"\x03\x06\x02a\x04\x02b\x06\x00",
                b"\x03\x0c\x02a\x04\x02b\x06\x00", b"\x01\x06\x02a\x04\x00", b"\x02\x02\xff\x04\x00", b"\x02\x02a",
                b"\xb0\x04" + b"".join(b"\x06%03d\x02" % at for at in range(280)) + b"\x00",
                b"\x80\x04" + b"".join(b"\x06%03d\x02" % at for at in range(256)) + b"\x00",
            ],
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2},
            [
                b"\x00", b"\x02\x00", b"\x02\xff", b"\x02\x80", b"\x04\x00\x80", b"\x04\xff", b"\x01",
                b"\x12\x00" + b"\xff" * 8, b"\x12\xff" + b"\x00" * 8, b"\x12\x01" + b"\x00" * 8,
                *(bytes([32]) + each.to_bytes(16, "big", signed=True) for each in (
                    10**38 - 1, 10**38, -(10**38), 1 - 10**38, 2**127 - 1, -(2**127), 2**64, -(2**64), 0, -1)),
                b"\x22" + b"\x00" * 16 + b"\x07", b"\x22" + b"\xff" * 17, b"\x22\x01" + b"\x00" * 16,
            ],
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0},
            [b"\x02\x63", b"\x02\x64", b"\x02\x9d", b"\x02\x9c"],
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 19, "scale": 0},
            [bytes([18]) + each.to_bytes(9, "big", signed=True) for each in (
                10**19 - 1, 10**19, 1 - 10**19, -(10**19), 2**63, 2**64 - 1, -(2**63))],
        ),
        (
            {"type": "fixed", "name": "D", "size": 3, "logicalType": "decimal", "precision": 6, "scale": 1},
            [b"\x0f\x42\x3f", b"\x0f\x42\x40", b"\xff\xff\xff", b"\x00\x00", b"\x00\x00\x00\x00"],
        ),
        (["null", "long", "string"], [b"\x00", b"\x02\x04", b"\x04\x02a", b"\x06", b"\x01", b"\x04\x04a", b"\x02"]),
        (["long", "null", "string"], [b"\x02", b"\x00\x04", b"\x04\x02a", b"\x06"]),
        (["long", "string"], [b"\x02\x02a", b"\x00\x04", b"\x04", b"\xff" * 9 + b"\x01"]),
        ({"type": "int", "logicalType": "date"}, [b"\x00", b"\xfe\xff\xff\xff\x0f", b"\xc9\xe3\x57"]),
        ({"type": "long", "logicalType": "timestamp-millis"}, [b"\x02", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"]),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_a_value_is_the_same_in_both_ways_beside_others(schema: Any, bodies: list[bytes]) -> None:
    record = {"type": "record", "name": "Top", "fields": [{"name": "v", "type": schema}]}
    check_same(of(record), [*bodies, None])
    before = {"type": "record", "name": "Top", "fields": [
        {"name": "l", "type": {"type": "array", "items": "string"}}, {"name": "v", "type": schema}]}  # fmt: skip
    check_same(of(before), [b"\x02\x02x\x00" + body for body in bodies])


def test_a_body_too_long_and_one_too_short_shift_no_row() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "long"}]}
    bodies = pa.array([b"\x02\x04\x28", b"\x06", b"\x08\x0a"], pa.binary())
    column = decode_column(decoder_of("avro", json.dumps(schema)), bodies)
    assert column.values.to_pylist() == [None, None, {"a": 4, "b": 5}]
    assert [each.row for each in column.failed] == [0, 1]


@pytest.mark.parametrize(
    "kind",
    [
        ["long"],
        {"type": "map", "values": ["string"]},
    ],
    ids=str,
)
def test_types_that_the_kernel_does_not_know_have_the_plain_way_alone(kind: Any) -> None:
    fields = [{"name": "v", "type": "long"}, {"name": "k", "type": {"type": "array", "items": kind}}]
    decoder = decoder_of("avro", json.dumps({"type": "record", "name": "R", "fields": fields}))
    assert isinstance(decoder, BlockDecoder)
    assert decoder.decode_block(pa.array([b"\x02\x00"], pa.binary())) is None
