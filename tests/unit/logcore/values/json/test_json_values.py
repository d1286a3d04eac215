"""JSON values: expected columns are written by hand, or come from `jsonschema` and the standard library."""

from __future__ import annotations

import json
import random
from datetime import UTC, date, datetime

import jsonschema
import pyarrow as pa
import pytest

from logcore.values.formats import decoder_of
from logcore.values.invalid_schema import InvalidSchemaError
from logcore.values.undecodable import Reason, Undecodable
from tests.unit.logcore.values.both_ways import ROWS

AT_ONCE = 10_000
ORDER = {
    "type": "object",
    "description": "One order",
    "required": ["id", "items"],
    "properties": {
        "id": {"type": "integer", "description": "Number of the order"},
        "price": {"type": ["number", "null"]},
        "name": {"type": "string"},
        "paid": {"oneOf": [{"type": "null"}, {"type": "boolean"}]},
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"sku": {"type": "string"}, "count": {"type": "integer", "description": "Pieces"}},
                "required": ["sku"],
                "additionalProperties": False,
            },
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
    },
}


def failure(schema: object, body: bytes) -> tuple[Reason, str]:
    with pytest.raises(Undecodable) as caught:
        decoder_of("json", json.dumps(schema)).decode(body)
    return caught.value.reason, caught.value.place


def column(schema: object, body: bytes) -> object:
    decoder = decoder_of("json", json.dumps(schema))
    return pa.array([decoder.decode(body)], type=decoder.arrow_type).to_pylist()[0]


def test_an_order_becomes_typed_columns():
    body = (
        b' {"id":9007199254740993,"items":[{"sku":"a","count":1.0},{"sku":"\\ud83d\\ude00"}],"labels":{"k":"v"},'
        b'"price":2,"day":"2024-02-29","at":"2024-02-29T23:30:00.5-01:00","more":[1]}\n'
    )
    assert column(ORDER, body) == {
        "id": 9007199254740993,
        "price": 2.0,
        "name": None,
        "paid": None,
        "items": [{"sku": "a", "count": 1}, {"sku": "\N{GRINNING FACE}", "count": None}],
        "labels": [("k", "v")],
        "day": date(2024, 2, 29),
        "at": datetime(2024, 3, 1, 0, 30, 0, 500000, UTC),
    }


def test_descriptions_are_comments_by_path():
    assert decoder_of("json", json.dumps(ORDER)).comments == {
        "": "One order",
        "id": "Number of the order",
        "items.count": "Pieces",
    }


@pytest.mark.parametrize(
    ("body", "reason", "place"),
    [
        (b"", Reason.SYNTAX, "byte 0"),
        (b"null", Reason.MISSING_FIELD, ""),
        (b'{"id":1,"items":[]}{}', Reason.TRAILING_BYTES, "byte 19"),
        (b'{"id":1,"id":2,"items":[]}', Reason.DUPLICATE_KEY, ""),
        (b'{"id":1,"items":[],"x":{"a":1,"a":1}}', Reason.DUPLICATE_KEY, ""),
        (b'{"id":1,"items":[],"price":NaN}', Reason.NOT_A_NUMBER, ""),
        (b'{"id":1,"items":[],"price":-Infinity}', Reason.NOT_A_NUMBER, ""),
        (b'{"id":1.5,"items":[]}', Reason.WRONG_TYPE, "id"),
        (b'{"id":10000000000000000000000000000.5,"items":[]}', Reason.OUT_OF_RANGE, "id"),
        (b'{"id":9223372036854775808,"items":[]}', Reason.OUT_OF_RANGE, "id"),
        (b'{"id":1e999999999999999999999,"items":[]}', Reason.OUT_OF_RANGE, "id"),
        (b'{"id":1e-999999999,"items":[]}', Reason.WRONG_TYPE, "id"),
        (b'{"id":' + b"9" * 100_000 + b',"items":[]}', Reason.OUT_OF_RANGE, "id"),
        (b'{"id":true,"items":[]}', Reason.WRONG_TYPE, "id"),
        (b'{"id":"1","items":[]}', Reason.WRONG_TYPE, "id"),
        (b'{"id":null,"items":[]}', Reason.MISSING_FIELD, "id"),
        (b'{"items":[]}', Reason.MISSING_FIELD, "id"),
        (b'{"id":1,"items":[],"price":1e999}', Reason.OUT_OF_RANGE, "price"),
        (b'{"id":1,"items":[{"sku":"a"},{"sku":2}]}', Reason.WRONG_TYPE, "items[1].sku"),
        (b'{"id":1,"items":[{"sku":"a","x":2}]}', Reason.UNKNOWN_FIELD, "items[0]"),
        (b'{"id":1,"items":[],"labels":{"a":"b","c":1}}', Reason.WRONG_TYPE, "labels{1}"),
        (b'{"id":1,"items":[],"name":"\\ud800"}', Reason.INVALID_UTF8, "name"),
        (b'{"id":1,"items":[],"name":"\xff"}', Reason.INVALID_UTF8, "byte 27"),
        (b'{"id":1,"items":[],"name":"\xed\xa0\x80"}', Reason.INVALID_UTF8, "byte 27"),
        (b'{"id":1,"items":[],"name":"\x01"}', Reason.SYNTAX, "byte 27"),
        (b'{"id":1,"items":[],"day":"2023-02-29"}', Reason.OUT_OF_RANGE, "day"),
        (b'{"id":1,"items":[],"day":"yesterday"}', Reason.WRONG_TYPE, "day"),
        (b'{"id":1,"items":[],"at":"2024-01-01T00:00:00"}', Reason.WRONG_TYPE, "at"),
        (b'{"id":1,"items":[],"at":"2024-01-01T00:00:60.123456789Z"}', Reason.OUT_OF_RANGE, "at"),
        (b'{"id":1,"items":[],"at":"2024-01-01T00:00:00.Z"}', Reason.WRONG_TYPE, "at"),
        (b'{"id":1,"items":[],"at":"2024-01-01T00:00:00.123456789xZ"}', Reason.WRONG_TYPE, "at"),
        (b'{"id":1,"items":[],"at":"0001-01-01T00:00:00+01:00"}', Reason.OUT_OF_RANGE, "at"),
        (b'{"id":1,"items":[],"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", Reason.TOO_DEEP, "byte 122"),
        (b'{"id":01,"items":[]}', Reason.SYNTAX, "byte 7"),
        (b"\xef\xbb\xbf{}", Reason.SYNTAX, "byte 0"),
    ],
)
def test_what_is_no_order_has_a_reason_and_a_place(body, reason, place):
    assert failure(ORDER, body) == (reason, place)


AT = {"type": "string", "format": "date-time"}


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-05-17T08:30:00.123456789Z", datetime(2024, 5, 17, 8, 30, 0, 123456, UTC)),
        ("2024-05-17T08:30:00.000000999Z", datetime(2024, 5, 17, 8, 30, 0, 0, UTC)),
        ("2024-05-17T08:30:00.1234567+02:00", datetime(2024, 5, 17, 6, 30, 0, 123456, UTC)),
        ("1969-12-31T23:59:59.999999999Z", datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)),
        ("0001-01-01T00:00:00.000000001Z", datetime(1, 1, 1, tzinfo=UTC)),
        ("9999-12-31T23:59:59.999999999Z", datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)),
        ("2024-05-17T08:30:00." + "9" * 5000 + "Z", datetime(2024, 5, 17, 8, 30, 0, 999999, UTC)),
    ],
    ids=lambda value: str(value)[:32],
)
def test_digits_below_microseconds_are_cut_toward_the_earlier_moment(text, moment):
    assert column(AT, json.dumps(text).encode()) == moment


def test_generated_moments_are_those_of_the_standard_library():
    rng = random.Random(21)
    decoder = decoder_of("json", json.dumps(AT))
    texts = []
    for _ in range(ROWS):
        day = f"{rng.randrange(2, 9999):04}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"
        digits = "".join(rng.choice("0123456789") for _ in range(rng.randrange(13)))
        zone = rng.choice(("Z", f"{rng.choice('+-')}{rng.randrange(24):02}:{rng.randrange(60):02}"))
        clock = f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}"
        texts.append(f"{day}T{clock}{'.' if digits else ''}{digits}{zone}")
    found = pa.array([decoder.decode(json.dumps(text).encode()) for text in texts], type=decoder.arrow_type)
    assert found.to_pylist() == [datetime.fromisoformat(text).astimezone(UTC) for text in texts]


def test_a_hundred_levels_that_the_schema_ignores_decode_and_brackets_in_text_are_no_levels():
    start = b'{"id":1,"items":[],"x":'
    assert column(ORDER, start + b"[" * 99 + b"]" * 99 + b"}")["id"] == 1
    assert failure(ORDER, start + b"[" * 100 + b"]" * 100 + b"}")[0] == Reason.TOO_DEEP
    assert column(ORDER, start + b'"\\"' + b"[" * 1000 + b'"}')["id"] == 1


def test_a_value_of_more_than_the_limit_is_refused_before_it_is_parsed():
    assert failure({"type": "string"}, b'"' + b"a" * (32 << 20) + b'"') == (Reason.TOO_LARGE, "")


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("{", "no JSON"),
        ("[]", "JSON object with a type"),
        ({"type": "text"}, "no type text"),
        ({"$ref": "other.json"}, "unknown"),
        ({"type": "object", "properties": {"a": {"type": "string"}, "A": {"type": "string"}}}, "case only"),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "required": [{}]}, "array of names"),
        ({"type": "object", "properties": {"a": {"type": "string"}, "": {"type": "string"}}}, "empty name"),
        ({"type": "object", "properties": {"a\0b": {"type": "string"}}}, "NUL"),
        ({"type": "object", "properties": {"a": {"type": "string"}, "\ud800": {"type": "string"}}}, "surrogate"),
    ],
)
def test_a_schema_without_columns_is_refused_by_name(schema, words):
    with pytest.raises(InvalidSchemaError, match=words):
        decoder_of("json", schema if isinstance(schema, str) else json.dumps(schema))


def test_a_schema_that_doubles_itself_thirty_times_is_refused():
    parts = {f"d{at}": {"type": "object", "properties": {n: {"$ref": f"#/$defs/d{at + 1}"} for n in "xy"}}
             for at in range(30)}  # fmt: skip
    with pytest.raises(InvalidSchemaError, match="too large"):
        decoder_of("json", json.dumps({"$defs": {**parts, "d30": {"type": "string"}}, "$ref": "#/$defs/d0"}))


def test_a_reference_leads_into_another_schema():
    other = '{"definitions":{"money":{"type":"object","properties":{"cents":{"type":"integer"}}}}}'
    decoder = decoder_of("json", '{"$ref":"money.json#/definitions/money"}', {"money.json": other})
    assert decoder.decode(b'{"cents":5}') == {"cents": 5}


def generated_order(rng: random.Random) -> dict[str, object]:
    order: dict[str, object] = {"id": rng.choice([0, 1.0, rng.randrange(-(1 << 63), 1 << 63)])}
    order["items"] = [
        {"sku": rng.choice("abä"), **({"count": rng.randrange(9)} if rng.random() < 0.5 else {})}
        for _ in range(rng.randrange(3))
    ]
    more = {"price": rng.choice([None, 1, rng.random()]), "name": "n" * rng.randrange(4), "paid": None, "extra": [1]}
    more["labels"] = {"k": rng.choice("xy")}
    order.update({name: value for name, value in more.items() if rng.random() < 0.7})
    return order


def expected_of(schema: dict, value: object) -> object:
    """Null for absent properties, as pairs for maps: by the schema, without the code under test."""
    if isinstance(value, dict) and "properties" in schema:
        return {
            name: expected_of(inner, value[name]) if name in value else None
            for name, inner in schema["properties"].items()
        }
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, list):
        return [expected_of(schema["items"], item) for item in value]
    return value


def test_generated_orders_have_the_values_of_the_standard_library():
    rng = random.Random(19)
    decoder = decoder_of("json", json.dumps(ORDER))
    for _ in range(max(1, ROWS // AT_ONCE)):
        orders = [generated_order(rng) for _ in range(AT_ONCE)]
        found = [decoder.decode(json.dumps(order, ensure_ascii=bool(rng.getrandbits(1))).encode()) for order in orders]
        assert pa.array(found, type=decoder.arrow_type).to_pylist() == [expected_of(ORDER, order) for order in orders]


def test_damaged_orders_decode_exactly_where_the_libraries_agree():
    """The standard library accepts NaN, equal keys and half surrogates; all three are looked for here.

    `jsonschema` rounds a number before it looks for a fraction, so the numbers here are small.
    """
    rng = random.Random(20)
    decoder = decoder_of("json", json.dumps(ORDER))
    validator = jsonschema.Draft202012Validator(ORDER)

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError
        return dict(pairs)

    def refuse(name: str) -> None:
        raise ValueError(name)

    decoded, damaged = 0, max(10_000, ROWS // 10)
    for _ in range(damaged):
        body = bytearray(json.dumps({**generated_order(rng), "id": rng.randrange(1000)}).encode())
        for _ in range(rng.randrange(1, 3)):
            at = rng.randrange(len(body))
            body[at : at + rng.randrange(2)] = rng.choice([b"", b'"', b"1", b".", b"n", b"\xff", b"}", b",", b" "])
        try:
            value = json.loads(bytes(body).decode(), object_pairs_hook=unique, parse_constant=refuse)
            validator.validate(value)
            agreed = True
        except (ValueError, jsonschema.ValidationError):
            agreed = False
        try:
            decoder.decode(bytes(body))
            mine = True
        except Undecodable:
            mine = False
        assert mine == agreed, bytes(body)
        decoded += mine
    assert damaged // 10 < decoded < damaged // 10 * 9
