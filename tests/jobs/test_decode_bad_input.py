"""Bad input of `decode`, as a whole job: a row with its reason, a right row, or a topic that waits and says why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.jobs.decoded_lake import Decoded
from tests.jobs.registered_schemas import Registered, avro, named, text, zigzag

ID = {"name": "id", "type": "long"}
GOOD = b'{"id": 8}'
ORDER = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "price": {"type": "number"}, "name": {"type": "string"}},
    "required": ["id"],
}
LARGE = 100 << 20


def one_format(tmp_path: Path, name: str, schema: str) -> Decoded:
    """A lake whose topic has one schema in a file."""
    file = {"json": "order.json", "avro": "order.avsc", "protobuf": "order.proto"}[name]
    (tmp_path / file).write_text(schema)
    return Decoded(tmp_path, f"topics:\n  orders:\n    decode.value: {name}\n    decode.value.schema: {file}\n")


@pytest.mark.parametrize(
    ("body", "reason", "place"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "TOO_DEEP", "byte 100"),
        (b'{"id":1,"id":2}', "DUPLICATE_KEY", ""),
        (b'{"id":1,"price":NaN}', "NOT_A_NUMBER", ""),
        (b'{"id":9223372036854775808}', "OUT_OF_RANGE", "id"),
        (b'{"id":1,"name":"\xff"}', "INVALID_UTF8", "byte 16"),
        (b"null", "MISSING_FIELD", ""),
        (b"\x02\x04hi", "SYNTAX", "byte 0"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_bad_json_value_is_an_undecoded_row_and_its_neighbours_are_right(
    tmp_path: Path, body: bytes, reason: str, place: str
) -> None:
    lake = one_format(tmp_path, "json", json.dumps(ORDER))
    lake.append((b"a", GOOD), (b"b", body), (b"c", GOOD))
    lake.decode()
    right = {"id": 8, "price": None, "name": None}
    assert [(row["offset"], row["value"]) for row in lake.rows()] == [(0, right), (2, right)]
    (bad,) = lake.rows("undecoded")
    assert (bad["offset"], bad["reason"], bad["place"], bad["value"]) == (1, reason, place, body)


@pytest.mark.slow
def test_a_string_of_a_hundred_megabytes_is_an_undecoded_row(tmp_path: Path) -> None:
    lake = one_format(tmp_path, "json", json.dumps(ORDER))
    lake.append((b"a", GOOD), (b"b", b'{"id":1,"name":"' + b"x" * LARGE + b'"}'), (b"c", GOOD))
    lake.decode()
    assert [row["offset"] for row in lake.rows()] == [0, 2]
    (bad,) = lake.rows("undecoded")
    assert (bad["offset"], bad["reason"], len(bad["value"])) == (1, "TOO_LARGE", LARGE + 18)


def test_a_body_too_long_and_one_too_short_shift_no_row(tmp_path: Path) -> None:
    lake = one_format(tmp_path, "avro", avro(ID, {"name": "n", "type": "long"}))
    lake.append((b"a", b"\x02\x04\x28"), (b"b", b"\x06"), (b"c", b"\x08\x0a"))
    lake.decode()
    assert [(row["offset"], row["value"]) for row in lake.rows()] == [(2, {"id": 4, "n": 5})]
    assert [(row["offset"], row["reason"]) for row in lake.rows("undecoded")] == [
        (0, "TRAILING_BYTES"),
        (1, "TRUNCATED"),
    ]


def test_an_unknown_symbol_is_an_undecoded_row_and_unions_of_three_and_maps_are_right(tmp_path: Path) -> None:
    fields: list[dict[str, Any]] = [
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "u", "type": ["null", "long", "string"]},
        {"name": "m", "type": {"type": "map", "values": "long"}},
    ]
    lake = one_format(tmp_path, "avro", avro(*fields))
    lake.append(
        (b"a", b"\x02" + b"\x04" + text("x") + b"\x02" + text("k") + zigzag(7) + b"\x00"),
        (b"b", b"\x04" + b"\x00" + b"\x00"),  # symbol 2 of 2
        (b"c", b"\x00" + b"\x06" + b"\x00"),  # branch 3 of 3
        (b"d", b"\x00" + b"\x02" + zigzag(5) + b"\x00"),
    )
    lake.decode()
    assert [row["value"] for row in lake.rows()] == [
        {"e": "B", "u": {"long": None, "string": "x"}, "m": [("k", 7)]},
        {"e": "A", "u": {"long": 5, "string": None}, "m": []},
    ]
    assert [(row["offset"], row["reason"], row["place"]) for row in lake.rows("undecoded")] == [
        (1, "UNKNOWN_SYMBOL", "e.byte 0"),
        (2, "UNKNOWN_SYMBOL", "u.byte 1"),
    ]


CASES = 'syntax = "proto3"; message Order { int64 id = 1; int64 ID = 2 [json_name = "other"]; }'
BY_CASE = {"type": "object", "properties": {"a": {"type": "string"}, "A": {"type": "string"}}}


@pytest.mark.parametrize(
    ("name", "schema", "says"),
    [
        ("protobuf", CASES, "differ by case"),
        ("avro", avro(ID, {"name": "ID", "type": "long"}), "case"),
        ("avro", avro(ID, {"name": "part", "type": "Missing"}), "is not defined"),
        ("json", json.dumps(BY_CASE), "case only"),
        (
            "json",
            json.dumps({"type": "object", "properties": {"id": {"type": "integer"}, "": {"type": "string"}}}),
            "empty",
        ),
        ("json", r'{"type": "object", "properties": {"\ud800": {"type": "integer"}}}', "surrogate"),
    ],
)
def test_a_schema_without_columns_makes_its_topic_wait(tmp_path: Path, name: str, schema: str, says: str) -> None:
    lake = one_format(tmp_path, name, schema)
    lake.append((b"a", b"\x02"))
    topics: Any = lake.decode().plan.topics
    assert says in topics[0].waits
    assert lake.rows() == []


def test_a_schema_whose_texts_no_table_can_hold_is_a_reason_and_its_comments_are_cleaned(tmp_path: Path) -> None:
    lake = Registered(tmp_path)
    lake.register(1, avro(ID | {"doc": "number \ud800 of\0it"}))
    lake.register(2, avro(ID, {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["\ud800"]}}), version=2)
    lake.append((b"k", named(1, zigzag(7))), (b"k", named(2, zigzag(7) + b"\x00")))
    lake.decode()
    assert lake.values() == [{"id": 7}]
    assert lake.reasons() == [(1, 2, "BAD_SCHEMA")]
    id = pa.schema(lake.table().schema().to_arrow()).field("value").type.field(0)
    assert id.metadata[b"comment"] == b"number ? of?it"


def test_values_of_a_schema_with_encrypted_fields_or_without_its_reference_are_undecoded_rows(tmp_path: Path) -> None:
    lake = Registered(tmp_path)
    lake.register(1, avro(ID))
    lake.register(2, avro(ID), version=2, ruleSet={"domainRules": [{"name": "r", "type": "ENCRYPT"}]})
    gone = [{"name": "gone", "subject": "gone", "version": 1}]
    lake.register(3, avro(ID, {"name": "x", "type": "gone"}), version=3, references=gone)
    lake.register(4, avro(ID, {"name": "next", "type": ["null", "Order"]}), version=4)
    lake.append(*((b"k", named(schema, zigzag(7))) for schema in (1, 2, 3, 4)))
    lake.decode()
    assert lake.values() == [{"id": 7, "next": None}]
    assert lake.reasons() == [(1, 2, "ENCRYPTED"), (2, 3, "BAD_SCHEMA"), (3, 4, "TRUNCATED")]


def test_a_topic_whose_decoded_table_was_harmed_waits_and_the_run_ends(tmp_path: Path) -> None:
    lake = one_format(tmp_path, "json", json.dumps(ORDER))
    lake.append((b"a", GOOD))
    lake.decode()
    (commit,) = (lake.lake.path / "tables" / "decoded" / "orders" / "_delta_log").glob("*1.json")
    commit.write_text("{")
    lake.append((b"b", GOOD))
    topics: Any = lake.decode().plan.topics
    assert topics[0].waits


def test_a_nested_array_of_the_schema_is_not_deeper_than_the_limit(tmp_path: Path) -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(20):
        schema = {"type": "array", "items": schema}
    lake = one_format(tmp_path, "json", json.dumps({"type": "object", "properties": {"a": schema}}))
    lake.append((b"a", b'{"a":' + b"[" * 20 + b"1" + b"]" * 20 + b"}"), (b"b", b'{"a":' + b"[" * 100_000 + b"}"))
    lake.decode()
    value = lake.rows()[0]["value"]["a"]
    for _ in range(20):
        (value,) = value
    assert value == 1
    assert [row["reason"] for row in lake.rows("undecoded")] == ["TOO_DEEP"]
