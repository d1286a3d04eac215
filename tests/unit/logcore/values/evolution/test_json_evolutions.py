"""JSON Schemas that evolve: what both schemas allow has a column for the values of both, equal to what was written."""

from __future__ import annotations

import itertools
import json
import os
import random
from datetime import UTC, date, datetime
from typing import Any

import jsonschema
import pyarrow as pa
import pytest

from logcore.values.form import JSON, Form, ValueColumn
from tests.unit.logcore.values.evolution.registered import read, refused, writers_of

VARIANTS = int(os.environ.get("LOGLAKE_TEST_EVOLUTIONS", "40"))
SEED = 20261128
TEXT, WHOLE, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
ITEM = {"type": "object", "properties": {"n": WHOLE}}
DAY, MOMENT = "2024-05-17", "2024-05-17T08:30:00Z"
OBJECTS: list[Any] = [{"n": 5}, {"n": 6, "z": "not in the schema"}, {}]
KINDS: dict[str, tuple[Any, list[Any]]] = {
    "string": (TEXT, ["a", "é", '"5"', "null"]),
    "date": ({"type": "string", "format": "date"}, [DAY]),
    "date-time": ({"type": "string", "format": "date-time"}, [MOMENT]),
    "integer": (WHOLE, [0, -5, 1 << 53]),
    "number": (NUMBER, [1.5, 2, -2.25]),
    "boolean": ({"type": "boolean"}, [True, False]),
    "null": ({"type": "null"}, [None]),
    "string or null": ({"type": ["string", "null"]}, ["a", None]),
    "null as a choice": ({"oneOf": [{"type": "null"}, WHOLE]}, [None, 7]),
    "integer or string": ({"type": ["integer", "string"]}, [5, "5", "x"]),
    "integer or string as choices": ({"anyOf": [WHOLE, TEXT]}, [5, "5", "x"]),
    "one of two objects": ({"oneOf": [ITEM, {"type": "object", "properties": {"k": TEXT}}]}, [{"n": 5}, {"k": "x"}]),
    "object": (ITEM, OBJECTS),
    "object with more": ({"type": "object", "properties": {"n": NUMBER, "m": TEXT}}, [{"n": 1.5, "m": "x"}, {"n": 2}]),
    "closed object": (ITEM | {"additionalProperties": False}, [{"n": 5}, {}]),
    "open object": ({"type": "object"}, [{"a": [1, None]}, {}]),
    "map": ({"type": "object", "additionalProperties": WHOLE}, [{"a": 1, "b": 2}, {}]),
    "array": ({"type": "array", "items": WHOLE}, [[], [1, 2]]),
    "array of numbers": ({"type": "array", "items": NUMBER}, [[], [1.5, 2]]),
    "array of anything": ({"type": "array"}, [[], [1, "x", None]]),
    "tuple": ({"type": "array", "items": [WHOLE, TEXT]}, [[1, "x"]]),
    "prefix": ({"type": "array", "prefixItems": [WHOLE, TEXT]}, [[1, "x"]]),
    "anything": ({}, [5, "x", None, [1], {"a": 1}]),
    "also anything": (True, [5, "x"]),
    "nothing": (False, []),
    "symbols": ({"enum": ["A", "B"]}, ["A"]),
    "symbols of two types": ({"enum": ["A", 1]}, ["A", 1]),
    "constant": ({"const": 3}, [3]),
    "all of two objects": ({"allOf": [ITEM, {"properties": {"k": TEXT}}]}, [{"n": 5, "k": "x"}]),
    "all of two types": ({"allOf": [TEXT, WHOLE]}, []),
    "object beside choices": (
        ITEM | {"oneOf": [{"properties": {"k": TEXT}, "required": ["k"]},
                          {"properties": {"l": TEXT}, "required": ["l"]}]},
        [{"n": 5, "k": "x"}, {"l": "y"}],
    ),
    "itself": ({"$ref": "#/$defs/Node"}, [{"n": 1, "next": {"n": 2}}, {"n": 1, "next": {"n": 2, "next": {"n": 3}}}]),
    "condition": ({"type": "object", "if": {"required": ["n"]}, "then": {"required": ["m"]}}, [{"n": 1, "m": 2}]),
    "pattern": ({"type": "object", "patternProperties": {"^a": WHOLE}}, [{"a1": 5}]),
}  # fmt: skip
NODE = {"type": "object", "properties": {"n": WHOLE, "next": {"$ref": "#/$defs/Node"}}}


def document(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "$defs": {"Node": NODE}}


def shown(value: Any, column: ValueColumn | None) -> Any:
    """What a value is in a column, and null where it has none."""
    if value is None or column is None:
        return None
    kind = column.kind
    if pa.types.is_struct(kind):
        return {each.name: shown(value.get(each.name), column.parts.get(each.name)) for each in kind}
    if pa.types.is_list(kind):
        return [shown(each, column.items) for each in value]
    if pa.types.is_map(kind):
        return [(key, shown(each, column.items)) for key, each in value.items()]
    if column.form.mark == JSON:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    if pa.types.is_date(kind):
        return date.fromisoformat(value)
    if pa.types.is_timestamp(kind):
        return datetime.fromisoformat(value).astimezone(UTC)
    return float(value) if pa.types.is_floating(kind) else value


def check(versions: list[dict[str, Any]], rows: list[tuple[int, Any]]) -> None:
    writers = writers_of("json", [json.dumps(each) for each in versions])
    assert refused(writers) == {}
    found = read(writers, [(id, json.dumps(value).encode()) for id, value in rows])
    assert found.failed == {}
    column = ValueColumn(found.kind, writers.form)
    for value, (_, written) in zip(found.values, rows, strict=True):
        assert value == shown(written, column), (versions, written, found.kind)


def test_each_kind_of_schema_is_decoded_as_a_property_and_as_the_document() -> None:
    for schema, values in KINDS.values():
        check([document(x=schema)], [(1, {"x": value}) for value in values])
        if isinstance(schema, dict):
            check([schema | {"$defs": {"Node": NODE}}], [(1, value) for value in values if value is not None])


def is_allowed(old: str, new: str) -> bool:
    """Whether the new schema takes all values of the old one."""
    valid = jsonschema.Draft202012Validator(document(x=KINDS[new][0]))
    return bool(KINDS[old][1]) and all(valid.is_valid({"x": value}) for value in KINDS[old][1])


def test_each_pair_of_schemas_is_decoded_or_refused_with_its_reason_and_what_is_allowed_is_decoded() -> None:
    """The matrix of all promotions."""
    decoded = allowed = 0
    pairs = [(old, new) for old, new in itertools.product(KINDS, KINDS) if "tuple" not in (old, new)]
    for old, new in pairs:
        versions = [document(x=KINDS[each][0]) for each in (old, new)]
        writers = writers_of("json", [json.dumps(each) for each in versions])
        allowed += is_allowed(old, new)
        if refused(writers):
            assert not is_allowed(old, new), (old, new)
            assert "cannot be aligned with the table: value.x: " in refused(writers)[2].detail
            continue
        decoded += 1
        check(versions, [(id, {"x": value}) for id, name in ((1, old), (2, new)) for value in KINDS[name][1]])
    assert (len(pairs), decoded, allowed) == (1089, 847, 196)


def test_a_table_with_text_waits_for_json_text_and_json_text_takes_text() -> None:
    versions = [json.dumps(document(x=KINDS[each][0])) for each in ("string", "integer or string")]
    plain = ValueColumn(pa.struct([("x", pa.string())]))
    assert [(id, each.is_wider) for id, each in refused(writers_of("json", versions, plain)).items()] == [(2, True)]
    marked = ValueColumn(plain.kind, Form(parts={"x": Form(JSON)}))
    writers = writers_of("json", versions, marked)
    assert refused(writers) == {}
    assert read(writers, [(1, b'{"x": "5"}'), (2, b'{"x": 5}')]).values == [{"x": '"5"'}, {"x": "5"}]


CHAINS = [
    ["string", "date", "date-time", "symbols", "string or null"],
    ["integer", "number", "constant", "null as a choice"],
    ["integer", "integer or string", "anything"],
    ["string", "integer or string as choices", "symbols of two types"],
    ["object", "object with more", "closed object", "all of two objects"],
    ["object", "one of two objects", "open object", "map"],
    ["array", "array of numbers", "array of anything", "prefix"],
    ["null", "boolean"],
    ["itself"],
    ["object beside choices", "condition", "pattern"],
]
"""Kinds that evolve into each other."""


@pytest.mark.parametrize("part", range(4))
def test_values_of_generated_evolutions_equal_what_was_written(part: int) -> None:
    rng = random.Random(SEED + part)
    for _ in range(VARIANTS // 4):
        chains = [rng.choice(CHAINS) for _ in range(rng.randrange(1, 5))]
        versions, rows = [], []
        for id in range(1, rng.randrange(3, 6)):
            names = {f"f{at}": rng.choice(chain) for at, chain in enumerate(chains) if rng.random() < 0.8}
            versions.append(document(id=WHOLE, **{name: KINDS[kind][0] for name, kind in names.items()}))
            rows += [
                (id, {"id": at} | {name: rng.choice(KINDS[kind][1]) for name, kind in names.items()}) for at in range(6)
            ]
        rng.shuffle(rows)
        check(versions, rows)
