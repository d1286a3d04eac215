"""`google.protobuf.Struct`, `Value` and `ListValue` become JSON text that equals the library's JSON mapping."""

from __future__ import annotations

import base64
import json
import random
from math import inf, nan
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import json_format, struct_pb2
from google.protobuf.message import DecodeError

from logcore.values.decoder import ValueDecoder
from logcore.values.formats import decoder_of
from logcore.values.undecodable import Reason, Undecodable
from tests.unit.logcore.values.protobuf.compiled_schema import library_class, schema_text

TEXT = """
syntax = "proto3";
package shop;
import "google/protobuf/struct.proto";
message Event {
  google.protobuf.Struct details = 1; // Anything.
  google.protobuf.Value value = 2;
  google.protobuf.ListValue list = 3;
  repeated google.protobuf.Value values = 4;
  map<string, google.protobuf.Struct> named = 5;
  oneof which { google.protobuf.Value left = 6; google.protobuf.Value right = 7; }
  int64 id = 8;
}
"""
DEEPEST = 33
"""Lists in lists that the library reads: each is a message of its own, in a value, in a list."""


@pytest.fixture(scope="module")
def decoder() -> ValueDecoder:
    return decoder_of("protobuf", schema_text(TEXT))


@pytest.fixture(scope="module")
def event() -> Any:
    return library_class(TEXT, "shop.Event")


def mapped(message: Any) -> dict[str, Any]:
    """A message as the library's JSON mapping has it; what is absent is None."""
    found = json_format.MessageToDict(message)
    one = {name: found.get(name) for name in ("details", "list")}
    # The mapping has null for a value that is null, and for one that has no kind.
    values = {name: found.get(name, ...) if message.HasField(name) else ... for name in ("value", "left", "right")}
    return {**one, **values, "values": found.get("values", []), "named": found.get("named", {}), "id": message.id}


def parsed(row: dict[str, Any]) -> dict[str, Any]:
    one = {name: row[name] and json.loads(row[name]) for name in ("details", "list")}
    values = {name: ... if row[name] is None else json.loads(row[name]) for name in ("value", "left", "right")}
    lists = {"values": [json.loads(each) for each in row["values"]]}
    return {**one, **values, **lists, "named": {key: json.loads(each) for key, each in row["named"]}, "id": row["id"]}


def anything(rng: random.Random, depth: int = 0) -> struct_pb2.Value:
    value = struct_pb2.Value()
    kind = rng.randrange(7 if depth < 4 else 5)
    if kind == 1:
        value.null_value = struct_pb2.NULL_VALUE
    elif kind == 2:
        value.number_value = rng.choice([0.0, -0.0, 1.0, -7.0, 0.1, 1e300, 2.0**53, 2.0**53 - 1, 5e-324])
    elif kind == 3:
        value.string_value = rng.choice(["", "x", '\N{GRINNING FACE}\0"\\\n', "Ä" * 50])
    elif kind == 4:
        value.bool_value = rng.random() < 0.5
    elif kind == 5:
        value.struct_value.CopyFrom(a_struct(rng, depth + 1))
    elif kind == 6:
        value.list_value.values.extend(anything(rng, depth + 1) for _ in range(rng.randrange(4)))
    return value  # without a kind in one of seven


def a_struct(rng: random.Random, depth: int = 0) -> struct_pb2.Struct:
    made = struct_pb2.Struct()
    for _ in range(rng.randrange(4)):
        made.fields[rng.choice(["a", "b", "", "Ä.b"])].CopyFrom(anything(rng, depth))
    return made


def a_list(rng: random.Random) -> Any:
    return [rng.choice([None, True, 1.5, "x", [], [None], [[2.0, "Ä"]]]) for _ in range(1 + rng.randrange(3))]


def an_event(rng: random.Random, event: Any) -> Any:
    made = event(id=rng.randrange(5))
    if rng.random() < 0.7:
        made.details.MergeFromString(a_struct(rng).SerializeToString())
    for name in rng.sample(["value", "left", "right"], rng.randrange(4)):
        getattr(made, name).MergeFromString(anything(rng).SerializeToString())
    if rng.random() < 0.5:
        made.list.MergeFromString(b"")
        for _ in range(rng.randrange(3)):
            made.list.values.add().MergeFromString(anything(rng).SerializeToString())
    for _ in range(rng.randrange(3)):
        made.values.add().MergeFromString(anything(rng).SerializeToString())
    for _ in range(rng.randrange(3)):
        made.named[rng.choice("ab")].MergeFromString(a_struct(rng).SerializeToString())
    return made


def test_columns_are_texts_with_their_comments(decoder: ValueDecoder) -> None:
    text = pa.string()
    assert decoder.arrow_type == pa.struct(
        {
            "details": text,
            "value": text,
            "list": text,
            "values": pa.list_(text),
            "named": pa.map_(text, text),
            "left": text,
            "right": text,
            "id": pa.int64(),
        }
    )
    assert decoder.comments["details"] == "Anything."


def test_random_values_equal_the_mapping_of_the_library(decoder: ValueDecoder, event: Any) -> None:
    rng = random.Random(5)
    for _ in range(400):
        message = an_event(rng, event)
        assert parsed(decoder.decode(message.SerializeToString())) == mapped(message)


def test_damaged_bytes_in_several_parts_are_read_as_by_the_library(decoder: ValueDecoder, event: Any) -> None:
    """Without maps: the library drops an entry that has any unknown field; others keep it."""
    rng = random.Random(6)
    read = refused = 0
    for _ in range(1500):
        parts = [json_format.ParseDict({"list": a_list(rng), "values": [a_list(rng)]}, event()) for _ in range(2)]
        body = bytearray(b"".join(part.SerializeToString() for part in parts))
        for _ in range(rng.randrange(3)):
            body[rng.randrange(len(body))] = rng.choice([0, 8, 10, 18, 26, 34, 50, 255, rng.randrange(256)])
        try:
            expected = mapped(event.FromString(bytes(body)))
        except (DecodeError, json_format.SerializeToJsonError):  # the second: a number that JSON does not have
            expected = None
        try:
            ours = decoder.decode(bytes(body))
        except Undecodable:
            refused += 1
            assert expected is None, body.hex()
        else:
            read += 1
            # A member of a oneof is not looked at if another one follows; the library parses it.
            assert expected is None or parsed(ours) == expected, body.hex()
    assert read > 400
    assert refused > 200


def test_whole_numbers_have_no_fraction_where_that_is_exact(decoder: ValueDecoder, event: Any) -> None:
    made = event()
    for number in (1.0, -0.0, 2.0**53 - 1, 2.0**53, 0.5):
        made.list.values.add(number_value=number)
    assert decoder.decode(made.SerializeToString())["list"] == "[1,-0.0,9007199254740991,9007199254740992.0,0.5]"


@pytest.mark.parametrize("number", [nan, inf, -inf])
def test_a_number_that_json_does_not_have_is_refused_with_its_place(
    decoder: ValueDecoder, event: Any, number: float
) -> None:
    made = event()
    made.details["a"] = [1, number]
    with pytest.raises(Undecodable) as failure:
        decoder.decode(made.SerializeToString())
    assert (failure.value.reason, failure.value.place) == (Reason.OUT_OF_RANGE, "details")


def nested(levels: int) -> bytes:
    """`list` with a list in a list, made by hand: the library refuses to parse what it would write itself."""
    content = b""
    for _ in range(levels - 1):
        value = b"\x32" + length(len(content)) + content
        content = b"\x0a" + length(len(value)) + value
    return b"\x1a" + length(len(content)) + content


def length(size: int) -> bytes:
    return bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80, size >> 7])


def test_values_in_as_many_levels_as_the_library_reads_are_read_and_more_are_refused(
    decoder: ValueDecoder, event: Any
) -> None:
    assert decoder.decode(nested(DEEPEST))["list"] == "[" * DEEPEST + "]" * DEEPEST
    for levels in (60, 1000):
        with pytest.raises(DecodeError):
            event.FromString(nested(levels))
        with pytest.raises(Undecodable) as failure:
            decoder.decode(nested(levels))
        assert failure.value.reason == Reason.NOT_PROTOBUF


def test_a_whole_value_may_be_one() -> None:
    schema = base64.b64encode(struct_pb2.DESCRIPTOR.serialized_pb).decode()  # its first message is `Struct`
    decoder = decoder_of("protobuf", schema)
    value = struct_pb2.Struct()
    value["a"] = [None, {"b": True}]
    assert decoder.arrow_type == pa.string()
    assert decoder.decode(value.SerializeToString()) == '{"a":[null,{"b":true}]}'
    assert decoder.decode(b"") == "{}"
