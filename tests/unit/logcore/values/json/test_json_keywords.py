"""Keywords of a JSON Schema that hold beside each other, beside `$ref` and in choices."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from logcore.values.decoder import ValueDecoder
from logcore.values.form import JSON
from logcore.values.formats import decoder_of
from logcore.values.undecodable import Reason, Undecodable
from tests.unit.logcore.values.json.registered_schemas import NEW, OLD, TEXT, item, order


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
    "schema",
    [
        {"$ref": "#/$defs/Item", "type": "string"},
        {"$ref": "#/$defs/Item", "items": TEXT},
        {"type": "object", "allOf": [{"type": "array"}]},
        {"allOf": [{"type": "string", "format": "date"}], "type": "string", "format": "date-time"},
        {"allOf": [{"type": ["string", "number"], "$ref": "#/properties/a"}], "type": "string"},
    ],
)
def test_keywords_that_no_value_can_have_together_make_json_text(schema: dict[str, Any]) -> None:
    decoder = decoder_of("json", json.dumps(order(properties={"a": schema}, defs={"Item": item()})))
    assert decoder.arrow_type == pa.struct({"a": pa.string()})
    assert decoder.form.of("a").mark == JSON


def test_an_earlier_draft_takes_nothing_that_is_beside_a_reference() -> None:
    schema = order(draft=OLD, ref="#/definitions/Item", properties={"own": TEXT}, definitions={"Item": item()})
    assert decoder_of("json", json.dumps(schema)).arrow_type == pa.struct({"sku": pa.string()})


def test_the_description_of_a_choice_is_no_comment_of_the_column() -> None:
    choices = [{"const": "A", "description": "One."}, {"const": "B", "description": "Two."}]
    assert decoder_of("json", json.dumps(order(properties={"a": {"oneOf": choices}}))).comments == {}
