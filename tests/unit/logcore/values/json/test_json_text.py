"""Parts of a JSON value that may have any shape: they are JSON text."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from logcore.values.decoder import ValueDecoder
from logcore.values.form import JSON
from logcore.values.formats import decoder_of
from logcore.values.undecodable import Reason, Undecodable
from tests.unit.logcore.values.json.registered_schemas import NOT_INCLUDED, TEXT, order, values

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


@pytest.mark.parametrize("schema", [{"type": "object"}, {}, True, {"type": "array"}, {"type": "array", "items": {}}])
def test_a_whole_document_of_any_shape_is_json_text(schema: Any) -> None:
    body = b'{ "a": 1.10 }' if schema in ({"type": "object"}, {}, True) else b"[ 1.10 ]"
    decoder = decoder_of("json", json.dumps(schema))
    assert (decoder.arrow_type, decoder.form.mark) == (pa.string(), JSON)
    assert decoder.decode(body) == body.decode().replace(" ", "")
