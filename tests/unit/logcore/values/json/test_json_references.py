"""Where `$ref` of a JSON Schema leads: by pointer, by anchor, by `$id`, to another document."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from logcore.values.formats import decoder_of
from logcore.values.invalid_schema import InvalidSchemaError
from tests.unit.logcore.values.json.registered_schemas import OLD, ROOT, TEXT, item, order, with_x


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (order(properties={"a": {"$ref": "#it"}}), "#it leads nowhere"),
        (order(properties={"a": {"$ref": "item.json#it"}}), "#it leads nowhere"),
        (order(properties={"a": {"$ref": "#/$defs/x/oneOf/2"}}, defs={"x": {"oneOf": [TEXT, TEXT]}}), "leads nowhere"),
        (order(properties={"a": {"$ref": "#/$defs/x/oneOf/-1"}}, defs={"x": {"oneOf": [TEXT, TEXT]}}), "leads nowhere"),
        (order(properties={"a": {"$ref": "#/$defs/x/oneOf/01"}}, defs={"x": {"oneOf": [TEXT, TEXT]}}), "leads nowhere"),
        (order(properties={"a": {"$ref": "http://[/x.json"}}), "is unknown"),
    ],
)
def test_a_reference_or_a_mix_without_an_answer_is_refused(schema: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSchemaError, match=words):
        decoder_of("json", json.dumps(schema), {"item.json": json.dumps(item())})


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
