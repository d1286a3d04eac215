"""Forms of JSON Schema that generators and Confluent's serializers write: values equal those of its deserializer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.logcore.values.json.registered_schemas import NOT_INCLUDED, OLD, ROOT, TEXT, item, order, values, with_x

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
