"""Forms of JSON Schema that generators and Confluent's serializers write: values equal those of its deserializer."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from logcore.values.column import decode_column_plainly
from logcore.values.decoder import ValueDecoder
from logcore.values.formats import decoder_of
from logcore.values.invalid_schema import InvalidSchemaError
from logcore.values.undecodable import Reason, Undecodable

NOT_INCLUDED = {"type": "null", "title": "Not included"}
TEXT = {"type": "string"}
OLD, NEW = "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"
PREFIX = 5
ROOT = "http://shop.example/root.json"


def order(*, draft: str = NEW, title: str = "Order", **keywords: Any) -> dict[str, Any]:
    return {"$schema": draft, "title": title, "type": "object"} | {
        {"defs": "$defs", "id": "$id", "ref": "$ref"}.get(name, name): content for name, content in keywords.items()
    }


def item(**keywords: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"sku": TEXT}, **keywords}


def with_x(x: dict[str, Any], **keywords: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": {"$ref": "#/definitions/X"}}, "definitions": {"X": x}, **keywords}


def values(
    schema: dict[str, Any], references: dict[str, Any], sent: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What their deserializer reads of their serializer's bytes, and what ours does."""
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    named = []
    for name, each in references.items():
        client.register_schema(name, Schema(json.dumps(each), "JSON"))
        named.append(SchemaReference(name, name, 1))
    known = Schema(json.dumps(schema), "JSON", named)
    serializer = JSONSerializer(known, client, to_dict=lambda value, _: value)
    deserializer = JSONDeserializer(known, schema_registry_client=client)
    context = SerializationContext("orders", MessageField.VALUE)
    bodies = [serializer(value, context) for value in sent]
    decoder = decoder_of("json", known.schema_str, {name: json.dumps(each) for name, each in references.items()})
    column = decode_column_plainly(decoder, pa.array([body[PREFIX:] for body in bodies]))
    assert column.failed == ()
    return [deserializer(body, context) for body in bodies], column.values.to_pylist()


FORMS: dict[str, tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]] = {
    # What Confluent's Java serializer makes of a class: each field of an object type is this.
    "a null with a title": (
        order(draft=OLD, properties={"a": {"oneOf": [NOT_INCLUDED, TEXT]}}, additionalProperties=False),
        {},
        [{"a": None}, {"a": "x"}],
    ),
    "a null with a title or a reference": (
        order(
            draft=OLD,
            properties={"a": {"oneOf": [NOT_INCLUDED, {"$ref": "#/definitions/Item"}]}},
            definitions={"Item": item()},
        ),
        {},
        [{"a": None}, {"a": {"sku": "x"}}],
    ),
    "a null as the only symbol": (
        order(properties={"a": {"anyOf": [{"enum": [None]}, TEXT]}, "b": {"anyOf": [{"const": None}, TEXT]}}),
        {},
        [{"a": None, "b": None}, {"a": "x", "b": "y"}],
    ),
    "choices of one type": (
        order(properties={"a": {"oneOf": [{"const": "A", "title": "One"}, {"const": "B"}, NOT_INCLUDED]}}),
        {},
        [{"a": "A"}, {"a": None}],
    ),
    "choices that only limit": (
        order(properties={"a": TEXT, "b": TEXT}, oneOf=[{"required": ["a"]}, {"required": ["b"]}]),
        {},
        [{"a": "x"}, {"b": "y"}],
    ),
    "allOf of one": (
        order(properties={"a": {"allOf": [{"$ref": "#/$defs/Item"}], "description": "x"}}, defs={"Item": item()}),
        {},
        [{"a": {"sku": "x"}}],
    ),
    "allOf of several": (
        order(
            allOf=[{"$ref": "#/$defs/Item"}, {"properties": {"n": {"type": "integer"}}}, {"required": ["sku"]}],
            properties={"own": TEXT, "sku": TEXT},
            defs={"Item": item(additionalProperties=True)},
        ),
        {},
        [{"sku": "x", "n": 5, "own": "y"}],
    ),
    "allOf of limits": (
        order(properties={"a": {"type": "string", "allOf": [{"minLength": 1}, {"maxLength": 9}]}}),
        {},
        [{"a": "x"}],
    ),
    "properties beside $ref": (
        order(ref="#/$defs/Item", properties={"own": TEXT}, defs={"Item": item()}),
        {},
        [{"sku": "x", "own": "y"}],
    ),
    "properties beside a choice": (
        order(properties={"own": TEXT}, anyOf=[item(), {"type": "null"}]),
        {},
        [{"sku": "x", "own": "y"}],
    ),
    "properties beside choices that fix one of them": (
        order(
            properties={"own": TEXT},
            oneOf=[{"properties": {"kind": {"const": name}}, "required": ["kind"]} for name in ("A", "B")],
        ),
        {},
        [{"kind": "A", "own": "y"}, {"kind": "B", "own": "z"}],
    ),
    "a type and items beside $ref": (
        order(
            properties={"a": {"$ref": "#/$defs/L", "type": "array", "items": {"type": "integer"}}},
            defs={"L": {"type": "array"}},
        ),
        {},
        [{"a": [1, 2]}],
    ),
    "a type beside allOf of one": (
        order(properties={"a": {"type": "object", "allOf": [{"$ref": "#/$defs/Item"}]}}, defs={"Item": item()}),
        {},
        [{"a": {"sku": "x"}}],
    ),
    "keywords without a shape beside $ref": (
        order(
            ref="#/$defs/Item",
            additionalProperties={},
            properties={
                "a": {"type": "object", "$ref": "#/$defs/Item", "items": TEXT},
                "b": {"type": "array", "$ref": "#/$defs/L", "enum": [["x"], ["y"]]},
            },
            defs={"Item": item(), "L": {"type": "array", "items": TEXT}},
        ),
        {},
        [{"sku": "x", "a": {"sku": "y"}, "b": ["y"]}],
    ),
    "free objects beside $ref": (
        order(
            properties={"a": {"type": "object", "$ref": "#/$defs/Item", "additionalProperties": {}}},
            defs={"Item": item()},
        ),
        {},
        [{"a": {"sku": "y"}}],
    ),
    "a null beside allOf of properties": (
        order(properties={"a": {"type": ["object", "null"], "allOf": [{"properties": {"sku": TEXT}}]}}),
        {},
        [{"a": {"sku": "y"}}, {"a": None}],
    ),
    "a number that is one of some": (
        order(
            properties={
                "a": {"type": "number", "oneOf": [{"const": 1}, {"const": 2.5}]},
                "b": {"type": "number", "allOf": [{"enum": [1, 2]}]},
                "c": {"type": ["number", "null"], "anyOf": [{"const": 1}, {"type": "null"}]},
            }
        ),
        {},
        [{"a": 1.0, "b": 2.0, "c": 1.0}, {"a": 2.5, "b": 1.0, "c": None}],
    ),
    "items and additionalProperties without a type": (
        order(
            properties={"a": {"items": {"type": "integer"}}, "b": {"$ref": "#/$defs/L", "items": item()}},
            defs={"L": {"type": "array"}},
        ),
        {},
        [{"a": [1], "b": [{"sku": "x"}]}],
    ),
    "an anchor": (
        order(properties={"a": {"$ref": "#it"}}, defs={"x": item(**{"$anchor": "it"})}),
        {},
        [{"a": {"sku": "x"}}],
    ),
    "an anchor of an earlier draft": (
        order(draft=OLD, properties={"a": {"$ref": "#it"}}, definitions={"x": item(**{"$id": "#it"})}),
        {},
        [{"a": {"sku": "x"}}],
    ),
    "an anchor of another schema": (
        order(properties={"a": {"$ref": "item.json#it"}}),
        {"item.json": order(properties={"a": TEXT}, defs={"x": item(**{"$anchor": "it"})})},
        [{"a": {"sku": "x"}}],
    ),
    "another schema relative to $id": (
        order(id="http://shop.example/order.json", properties={"a": {"$ref": "item.json"}}),
        {"http://shop.example/item.json": item(**{"$id": "http://shop.example/item.json"})},
        [{"a": {"sku": "x"}}],
    ),
    "a schema that names another one relative to itself": (
        order(properties={"a": {"$ref": "http://shop.example/v1/item.json"}}),
        {
            "http://shop.example/v1/item.json": {
                "type": "object",
                "properties": {"sku": {"$ref": "../sku.json#/$defs/s"}},
            },
            "http://shop.example/sku.json": {"$defs": {"s": TEXT}},
        },
        [{"a": {"sku": "x"}}],
    ),
    "its own $id": (
        order(
            id="http://shop.example/order.json",
            properties={"a": {"$ref": "http://shop.example/order.json#/$defs/Item"}},
            defs={"Item": item()},
        ),
        {},
        [{"a": {"sku": "x"}}],
    ),
    "a bundle": (
        order(
            id="http://shop.example/order.json",
            properties={"a": {"$ref": "item.json"}, "b": {"$ref": "item.json#/properties/sku"}},
            defs={
                "Item": {
                    "$id": "item.json",
                    "type": "object",
                    "properties": {"sku": {"$ref": "#/$defs/s"}},
                    "$defs": {"s": TEXT},
                }
            },
        ),
        {},
        [{"a": {"sku": "x"}, "b": "y"}],
    ),
    "two schemas with one $id": (
        order(properties={"a": {"$ref": "a.json"}, "b": {"$ref": "b.json"}}),
        {"a.json": with_x(TEXT, **{"$id": ROOT}), "b.json": with_x({"type": "integer"}, **{"$id": ROOT})},
        [{"a": {"x": "s"}, "b": {"x": 1}}],
    ),
    "names of properties that are keywords": (
        order(
            properties={
                "default": item(**{"$anchor": "it"}),
                "enum": {"$id": "http://shop.example/enum.json", "type": "integer"},
                "a": {"$ref": "#it"},
                "b": {"$ref": "http://shop.example/enum.json"},
                "c": {"$ref": "#const"},
            },
            defs={"const": {"$anchor": "const", "type": "boolean"}},
        ),
        {},
        [{"default": {"sku": "x"}, "enum": 1, "a": {"sku": "y"}, "b": 2, "c": True}],
    ),
    "a pointer with escapes": (
        order(
            properties={"a": {"$ref": "#/$defs/an%20item"}, "b": {"$ref": "#/$defs/a~1b%25"}},
            defs={"an item": item(), "a/b%": TEXT},
        ),
        {},
        [{"a": {"sku": "x"}, "b": "y"}],
    ),
    "a pointer into a list": (
        order(properties={"a": {"$ref": "#/$defs/x/oneOf/1"}}, defs={"x": {"oneOf": [{"type": "null"}, TEXT]}}),
        {},
        [{"a": "x"}],
    ),
    "symbols without a type": (
        order(
            properties={
                "a": {"enum": ["A", "B"]},
                "b": {"const": 3},
                "c": {"enum": [1, 2.5]},
                "d": {"enum": [None, True]},
            }
        ),
        {},
        [{"a": "A", "b": 3, "c": 2.5, "d": None}, {"a": "B", "b": 3, "c": 1, "d": True}],
    ),
    "a required name that is no property": (
        order(properties={"a": TEXT}, required=["a", "b"]),
        {},
        [{"a": "x", "b": 1}],
    ),
    "what must not be": (order(properties={"a": {"type": "string", "not": {"const": ""}}}), {}, [{"a": "x"}]),
}
NO_PROPERTIES = {"a required name that is no property": {"b"}}


@pytest.mark.parametrize("form", FORMS)
def test_values_equal_those_of_the_deserializer(form: str) -> None:
    schema, references, sent = FORMS[form]
    theirs, ours = values(schema, references, sent)
    assert theirs == sent
    columns = ours[0].keys()
    assert ours == [{name: value.get(name) for name in columns} for value in theirs]
    assert columns == {name for value in sent for name in value} - NO_PROPERTIES.get(form, set())


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (order(properties={"a": {"$ref": "#it"}}), "#it leads nowhere"),
        (order(properties={"a": {"$ref": "item.json#it"}}), "#it leads nowhere"),
        (order(properties={"a": {"$ref": "#/$defs/x/oneOf/2"}}, defs={"x": {"oneOf": [TEXT, TEXT]}}), "leads nowhere"),
        (order(properties={"a": {"$ref": "#/$defs/x/oneOf/-1"}}, defs={"x": {"oneOf": [TEXT, TEXT]}}), "leads nowhere"),
        (order(properties={"a": {"$ref": "#/$defs/x/oneOf/01"}}, defs={"x": {"oneOf": [TEXT, TEXT]}}), "leads nowhere"),
        (order(properties={"a": {"$ref": "http://[/x.json"}}), "is unknown"),
        (order(properties={"a": {"allOf": [{"$ref": "#"}]}}), "refers to itself"),
        (order(properties={"a": TEXT, "b": {"allOf": [item(), {"properties": {"sku": {"type": "number"}}}]}}), "b.sku"),
    ],
)
def test_a_reference_or_a_mix_without_an_answer_is_refused(schema: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSchemaError, match=words):
        decoder_of("json", json.dumps(schema), {"item.json": json.dumps(item())})


def kind_of(schema: dict[str, Any], **keywords: Any) -> pa.DataType:
    decoder = decoder_of("json", json.dumps(order(properties={"a": schema}, **keywords)))
    return decoder.arrow_type.field("a").type


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/T", "format": "date-time"},
        {"allOf": [{"type": "string"}], "format": "date-time"},
        {"type": "string", "allOf": [{"format": "date-time"}]},
        {"type": "string", "format": "date-time", "$ref": "#/$defs/T"},
        {"anyOf": [{"type": "string"}, {"type": "null"}], "format": "date-time"},
    ],
)
def test_a_format_beside_what_says_the_type_counts(schema: dict[str, Any]) -> None:
    assert kind_of(schema, defs={"T": TEXT}) == pa.timestamp("us", tz="UTC")
    assert kind_of(schema, defs={"T": TEXT}) != kind_of({"type": "string"})


def test_a_whole_number_is_the_narrower_of_two_types() -> None:
    assert kind_of({"type": "number", "allOf": [{"type": "integer"}]}) == pa.int64()
    assert kind_of({"$ref": "#/$defs/N", "type": "integer"}, defs={"N": {"type": "number"}}) == pa.int64()


@pytest.mark.parametrize(
    "keywords",
    [
        {"properties": {"sku": TEXT}, "allOf": [{"required": ["sku"]}]},
        {"$ref": "#/$defs/Item", "required": ["sku"]},
        {"$ref": "#/$defs/Item", "properties": {"own": TEXT}, "required": ["sku"]},
        {"allOf": [{"$ref": "#/$defs/Item"}, {"properties": {"own": TEXT}, "required": ["sku"]}]},
        {"allOf": [{"$ref": "#/$defs/Item"}, {"$ref": "#/$defs/Required"}]},
        {"anyOf": [item(), {"type": "null"}], "required": ["sku"]},
    ],
)
def test_required_counts_beside_and_inside_of_what_has_the_properties(keywords: dict[str, Any]) -> None:
    schema = {"$schema": NEW, **keywords, "$defs": {"Item": item(), "Required": {"required": ["sku"]}}}
    decoder = decoder_of("json", json.dumps(schema))
    assert decoder.decode(b'{"sku": "x"}') == {name: "x" if name == "sku" else None for name in names_of(decoder)}
    with pytest.raises(Undecodable) as failure:
        decoder.decode(b"{}")
    assert (failure.value.reason, failure.value.place) == (Reason.MISSING_FIELD, "sku")


def names_of(decoder: ValueDecoder) -> list[str]:
    return [field.name for field in decoder.arrow_type]


def test_a_required_name_in_a_choice_does_not_count_for_the_others() -> None:
    schema = order(properties={"a": TEXT, "b": TEXT}, anyOf=[{"required": ["a"]}, {"required": ["b"]}])
    assert decoder_of("json", json.dumps(schema)).decode(b'{"b": "x"}') == {"a": None, "b": "x"}


@pytest.mark.parametrize("keyword", ["oneOf", "anyOf"])
def test_choices_of_an_object_or_an_array_take_nothing_else(keyword: str) -> None:
    either: list[dict[str, Any]] = [{"type": "object"}, {"type": "array"}]
    schema = order(properties={"a": {keyword: either}, "b": {keyword: [*either, {"type": "null"}]}})
    decoder = decoder_of("json", json.dumps(schema))
    assert decoder.decode(b'{"a": {"x": 1}, "b": [1]}') == {"a": '{"x":1}', "b": "[1]"}
    assert decoder.decode(b'{"a": [], "b": null}') == {"a": "[]", "b": None}
    for body, reason, place in (
        (b'{"a": "x"}', Reason.WRONG_TYPE, "a"),
        (b'{"a": null}', Reason.MISSING_FIELD, "a"),
        (b'{"b": 1}', Reason.WRONG_TYPE, "b"),
    ):
        with pytest.raises(Undecodable) as failure:
            decoder.decode(body)
        assert (failure.value.reason, failure.value.place) == (reason, place)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"$ref": "#/$defs/Item", "type": "string"}, "several types"),
        ({"$ref": "#/$defs/Item", "items": TEXT}, "several types"),
        ({"type": "object", "allOf": [{"type": "array"}]}, "several types"),
        ({"allOf": [{"type": "string", "format": "date"}], "type": "string", "format": "date-time"}, "several types"),
        ({"allOf": [{"type": ["string", "number"], "$ref": "#/properties/a"}], "type": "string"}, "refers to itself"),
    ],
)
def test_keywords_that_no_value_can_have_together_are_refused(schema: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSchemaError, match=words):
        kind_of(schema, defs={"Item": item()})


def test_an_earlier_draft_takes_nothing_that_is_beside_a_reference() -> None:
    schema = order(draft=OLD, ref="#/definitions/Item", properties={"own": TEXT}, definitions={"Item": item()})
    assert decoder_of("json", json.dumps(schema)).arrow_type == pa.struct({"sku": pa.string()})


def test_a_part_with_an_id_is_found_by_it_alone_and_not_where_it_is_a_value() -> None:
    schema = order(properties={"a": {"$ref": "item.json"}}, examples=[{"$id": "item.json", "type": "integer"}])
    with pytest.raises(InvalidSchemaError, match=r"item\.json is unknown"):
        decoder_of("json", json.dumps(schema))


def test_each_of_two_parts_with_one_id_is_itself() -> None:
    parts = {"a": with_x(TEXT, **{"$id": "x.json"}), "b": with_x({"type": "integer"}, **{"$id": "x.json"})}
    kinds = decoder_of("json", json.dumps(order(properties=parts))).arrow_type
    assert kinds == pa.struct({"a": pa.struct({"x": pa.string()}), "b": pa.struct({"x": pa.int64()})})


def test_a_schema_may_have_the_id_of_the_one_that_refers_to_it() -> None:
    schema = order(
        id=ROOT,
        properties={"a": {"$ref": "a.json"}, "own": {"$ref": ROOT + "#/definitions/X"}},
        definitions={"X": {"type": "integer"}},
    )
    kinds = decoder_of("json", json.dumps(schema), {"a.json": json.dumps(with_x(TEXT, **{"$id": ROOT}))}).arrow_type
    assert kinds == pa.struct({"a": pa.struct({"x": pa.string()}), "own": pa.int64()})


def test_a_pointer_in_a_part_with_an_id_also_leads_to_the_whole_document() -> None:
    parts = {"a": {"$id": "/properties/a", "type": "array", "items": {"$ref": "#/definitions/X"}}}
    kinds = decoder_of("json", json.dumps(order(draft=OLD, properties=parts, definitions={"X": TEXT}))).arrow_type
    assert kinds == pa.struct({"a": pa.list_(pa.string())})


def test_the_description_of_a_choice_is_no_comment_of_the_column() -> None:
    choices = [{"const": "A", "description": "One."}, {"const": "B", "description": "Two."}]
    assert decoder_of("json", json.dumps(order(properties={"a": {"oneOf": choices}}))).comments == {}


FREE = {
    "object": {"type": "object", "description": "Anything."},
    "nullable": {"oneOf": [NOT_INCLUDED, {"type": "object", "additionalProperties": True}]},
    "either": {"type": ["object", "array", "null"]},
    "any": {},
    "also": True,
    "list": {"type": "array"},
    "items": {"type": "array", "items": {"type": "object", "properties": {"sku": TEXT, "more": {"type": "object"}}}},
    "map": {"type": "object", "additionalProperties": {"type": "array"}},
    "empty": {"type": "object", "properties": {}, "additionalProperties": False},
}
NOTHING = dict.fromkeys(FREE)


def free_decoder() -> ValueDecoder:
    return decoder_of("json", json.dumps(order(properties=FREE)))


def test_parts_of_any_shape_are_json_text_that_equals_the_deserializer_s() -> None:
    sent: list[dict[str, Any]] = [
        {
            "object": {"b": 1, "a": [None, {"Ä\n": 0.5}]},
            "nullable": None,
            "either": [],
            "any": "x",
            "also": False,
            "list": [1, "x"],
            "items": [{"sku": "s", "more": {"a": {}}}, {"sku": "t", "more": {}}],
            "map": {"k": [1], "l": []},
            "empty": {},
        },
        {"nullable": {"a": 1}, "either": {"a": 1}, "any": [{}]},
    ]
    theirs, ours = values(order(properties=FREE), {}, sent)
    assert theirs == sent
    found = [
        {
            name: json.loads(content) if isinstance(content, str) else content
            for name, content in row.items()
            if content is not None or name == "nullable"
        }
        for row in ours
    ]
    for row in found:
        for item_row in row.get("items", []):
            item_row["more"] = json.loads(item_row["more"])
        if "map" in row:
            row["map"] = {key: json.loads(content) for key, content in row["map"]}
    assert found == sent


def test_numbers_in_json_text_stay_exact() -> None:
    body = b'{"any": {"n": [1.10, -0, 1E400, 123456789012345678901234567890], "t": true, "u": "\\u00c4/\\/"}}'
    expected = '{"n":[1.10,0,1E400,123456789012345678901234567890],"t":true,"u":"Ä//"}'
    assert free_decoder().decode(body) == {**NOTHING, "any": expected}


@pytest.mark.parametrize(
    ("body", "reason", "place"),
    [
        (b'{"object": []}', Reason.WRONG_TYPE, "object"),
        (b'{"object": null}', Reason.MISSING_FIELD, "object"),
        (b'{"list": "x"}', Reason.WRONG_TYPE, "list"),
        (b'{"either": 1}', Reason.WRONG_TYPE, "either"),
        (b'{"any": {"a": ["\\ud800"]}}', Reason.INVALID_UTF8, "any"),
        (b'{"any": {"\\ud800": 1}}', Reason.INVALID_UTF8, "any"),
        (b'{"map": {"k": {}}}', Reason.WRONG_TYPE, "map{0}"),
    ],
)
def test_what_is_no_such_value_is_refused_with_its_place(body: bytes, reason: Reason, place: str) -> None:
    with pytest.raises(Undecodable) as failure:
        free_decoder().decode(body)
    assert (failure.value.reason, failure.value.place) == (reason, place)


def test_a_whole_document_of_any_shape_is_refused() -> None:
    for schema in ({"type": "object"}, {}, True, {"type": "array"}, {"type": "array", "items": {}}):
        with pytest.raises(InvalidSchemaError):
            decoder_of("json", json.dumps(schema))
