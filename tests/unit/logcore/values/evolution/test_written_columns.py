"""Columns that many schemas wrote: the fast way equals the plain way, on whole and on damaged bytes."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest

from logcore.values.evolution.topic_writers import SchemaNaming, topic_writers
from logcore.values.evolution.written_column import WrittenColumnDecoder
from logcore.values.form import ValueColumn
from logcore.values.prefix import Framing
from logcore.values.registry.schemas import RegisteredSchema, Schemas
from tests import handmade

ID = {"name": "id", "type": "long"}
FIELDS = ([ID], [ID, {"name": "note", "type": ["null", "string"]}], [{"name": "id", "type": "string"}], [ID])
OTHER = 90


def schemas() -> Schemas:
    texts = [json.dumps({"type": "record", "name": "R", "fields": fields}) for fields in FIELDS]
    found = {(".", at + 1): RegisteredSchema(at + 1, "avro", text) for at, text in enumerate(texts)}
    owners = {name: frozenset(["orders-value"]) for name in found}
    found[".", OTHER] = RegisteredSchema(OTHER, "avro", '"long"')
    owners[".", OTHER] = frozenset(["refunds-value"])
    return Schemas(found, owners, {})


def body(rng: random.Random) -> bytes | None:
    if rng.random() < 0.1:
        return None
    schema = rng.choice([1, 1, 2, 2, 3, 4, 5, OTHER])
    content = handmade.varint(rng.randrange(-(1 << 40), 1 << 40))
    if schema == 2:
        content += b"\x02" + handmade.varint(3) + b"abc" if rng.random() < 0.5 else b"\x00"
    made = b"\x00" + schema.to_bytes(4, "big") + content
    if rng.random() < 0.2:
        at = rng.randrange(len(made))
        made = made[:at] if rng.random() < 0.5 else made[:at] + bytes([rng.randrange(256)]) + made[at + 1 :]
    return made


@pytest.mark.parametrize("framing", [Framing.PREFIX, Framing.HEADER_OR_PREFIX])
def test_the_fast_way_equals_the_plain_way(framing):
    rng = random.Random(20261126)
    writers = topic_writers(schemas(), SchemaNaming("avro", ("orders-value",), framing), "value")
    bodies = [body(rng) for _ in range(2000)]
    headers = pa.array(
        [b"\x00" + rng.choice([1, 2, 5]).to_bytes(4, "big") if rng.random() < 0.1 else None for _ in bodies],
        pa.binary(),
    )
    decoder = WrittenColumnDecoder(writers)
    for start in (0, 7):
        column = pa.array(bodies, pa.binary()).slice(start)
        fast = decoder.decode(column, headers.slice(start))
        plain = decoder.decode(column, headers.slice(start), is_plain=True)
        assert fast.values.to_pylist() == plain.values.to_pylist()
        failures = [
            [
                (each.row, each.schema, each.failure.reason, each.failure.place, each.failure.detail)
                for each in way.failed
            ]
            for way in (fast, plain)
        ]
        assert failures[0] == failures[1]
        reasons = {reason.value for _, _, reason, _, _ in failures[0]}
        assert reasons >= {"UNKNOWN_SCHEMA", "OTHER_SUBJECT", "INCOMPATIBLE_SCHEMA", "TRUNCATED", "NO_PREFIX"}
        failed = {row for row, *_ in failures[0]}
        for row, (raw, value) in enumerate(zip(bodies[start:], fast.values.to_pylist(), strict=True)):
            assert (value is None) == (raw is None or row in failed)


def test_the_same_text_under_two_ids_is_one_schema_and_ids_of_other_subjects_are_known():
    writers = topic_writers(schemas(), SchemaNaming("avro", ("orders-value",), Framing.PREFIX), "value")
    assert writers.known[1] == writers.known[4]
    assert writers.others == {OTHER}
    assert writers.kind == pa.struct([("id", pa.int64()), ("note", pa.string())])
    assert writers.added == ()


def test_a_table_only_grows():
    table = ValueColumn(pa.struct([("gone", pa.string()), ("id", pa.int64())]))
    writers = topic_writers(schemas(), SchemaNaming("avro", ("orders-value",), Framing.PREFIX), "value", table)
    assert writers.kind == pa.struct([("gone", pa.string()), ("id", pa.int64()), ("note", pa.string())])
    assert writers.added == ("+ value.note: string",)
