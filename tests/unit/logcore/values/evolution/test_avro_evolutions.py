"""Avro schemas that evolve: each promotion has a column for the values of both, equal to how they were packed."""

from __future__ import annotations

import io
import itertools
import json
import os
import random
from typing import Any

import fastavro
import pytest

from logcore.values.form import ValueColumn
from tests.unit.logcore.values.evolution.avro_kinds import TooLarge, packed, plain, random_raw, shown
from tests.unit.logcore.values.evolution.registered import read, refused, writers_of

VARIANTS = int(os.environ.get("LOGLAKE_TEST_EVOLUTIONS", "40"))
"""Of each format; 1,000 were seen once."""
SEED = 20261128
INT, LONG = {"name": "n", "type": "int"}, {"name": "m", "type": "long", "default": 0}


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def logical(name: str, kind: str) -> dict[str, Any]:
    return {"type": kind, "logicalType": name}


RECORD = {"type": "record", "name": "R", "fields": [INT]}
NODE = {"type": "record", "name": "Node", "fields": [INT, {"name": "next", "type": ["null", "Node"]}]}
KINDS: dict[str, Any] = {
    "null": "null",
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "bytes",
    "string": "string",
    "date": logical("date", "int"),
    "time of day": logical("time-millis", "int"),
    "timestamp in milliseconds": logical("timestamp-millis", "long"),
    "timestamp in microseconds": logical("timestamp-micros", "long"),
    "decimal(9,3)": decimal(9, 3),
    "decimal(12,4)": decimal(12, 4),
    "enum": {"type": "enum", "name": "E", "symbols": ["A", "B"]},
    "enum with more": {"type": "enum", "name": "E", "symbols": ["A", "B", "C"], "default": "A"},
    "fixed": {"type": "fixed", "name": "F", "size": 3},
    "array of int": {"type": "array", "items": "int"},
    "array of double": {"type": "array", "items": "double"},
    "array of a union": {"type": "array", "items": ["int", "string"]},
    "map of int": {"type": "map", "values": "int"},
    "map of double": {"type": "map", "values": "double"},
    "record": RECORD,
    "record with more": {"type": "record", "name": "R", "fields": [INT, LONG]},
    "record without fields": {"type": "record", "name": "R", "fields": []},
    "record inside of itself": NODE,
    "int or null": ["null", "int"],
    "int or string": ["int", "string"],
    "long, string or null": ["null", "long", "string"],
    "bytes or record": ["bytes", RECORD],
    "null alone": ["null"],
}
REFUSED = {
    "conflict": "cannot be aligned with the table: value.x: ",
}


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Top", "fields": list(fields)}


def allows(writer: Any, reader: Any, body: bytes) -> bool:
    """Whether fastavro reads bytes of one schema with another one. Logical types do not count, as in registries."""
    try:
        fastavro.schemaless_reader(io.BytesIO(body), plain(writer), plain(reader))
    except Exception:  # noqa: BLE001 - it raises errors of many kinds
        return False
    return True


def is_allowed(writer: Any, reader: Any) -> bool:
    rng = random.Random(SEED)
    raws = [random_raw(writer, rng) for _ in range(12)]
    return all(allows(record({"name": "x", "type": writer}), record({"name": "x", "type": reader}),
                      packed(record({"name": "x", "type": writer}), {"x": raw})) for raw in raws)  # fmt: skip


def check(versions: list[dict[str, Any]], rng: random.Random, rows: int = 6) -> int:
    """Decode rows of all versions, and compare them; return how many were compared."""
    writers = writers_of("avro", [json.dumps(each) for each in versions])
    assert refused(writers) == {}
    raws = [(id, random_raw(versions[id - 1], rng)) for id in range(1, len(versions) + 1) for _ in range(rows)]
    rng.shuffle(raws)
    bare = versions == ["bytes"]  # its serializer writes no length
    found = read(writers, [(id, raw if bare else packed(versions[id - 1], raw)) for id, raw in raws])
    for at, (id, raw) in enumerate(raws):
        try:
            expected = shown(versions[id - 1], raw, found.kind)
        except TooLarge:
            assert (found.failed.pop(at), found.values[at]) == ("OUT_OF_RANGE", None)
            continue
        assert found.values[at] == expected, (versions[id - 1], raw, found.kind)
    assert found.failed == {}
    return len(raws)


def pairs() -> list[tuple[str, str]]:
    return list(itertools.product(KINDS, KINDS))


def test_each_type_is_decoded() -> None:
    for kind in KINDS.values():
        check([record({"name": "x", "type": kind})], random.Random(SEED), 20)
        if plain(kind) != "bytes" or kind == "bytes":
            check([kind], random.Random(SEED), 20)


def test_each_pair_of_types_is_decoded_or_refused_with_its_reason_and_no_promotion_is_refused() -> None:
    """The matrix of all promotions."""
    decoded = allowed = 0
    for old, new in pairs():
        versions = [record({"name": "x", "type": KINDS[each]}) for each in (old, new)]
        writers = writers_of("avro", [json.dumps(each) for each in versions])
        is_promotion = is_allowed(KINDS[old], KINDS[new])
        allowed += is_promotion
        if refused(writers):
            assert not is_promotion, (old, new)
            (only,) = refused(writers).values()
            assert REFUSED["conflict"] in only.detail
            continue
        decoded += 1
        check(versions, random.Random(SEED))
    assert (len(pairs()), decoded, allowed) == (961, 461, 110)


@pytest.mark.parametrize(
    ("old", "new"), [("int", "double"), ("decimal(9,3)", "decimal(12,4)"), ("int", "int or string")]
)
def test_a_table_with_the_narrower_column_refuses_until_it_is_written_again(old: str, new: str) -> None:
    versions = [json.dumps(record({"name": "x", "type": KINDS[each]})) for each in (old, new)]
    first = writers_of("avro", versions[:1])
    assert first.kind is not None
    writers = writers_of("avro", versions, ValueColumn(first.kind, first.form))
    assert [(id, each.is_wider) for id, each in refused(writers).items()] == [(2, True)]
    assert writers.kind == first.kind


CHAINS: list[list[str]] = [
    ["int", "long", "float", "double"],
    ["string", "bytes"],
    ["decimal(9,3)", "decimal(12,4)", "bytes"],
    ["date", "int", "long"],
    ["timestamp in milliseconds", "long", "timestamp in microseconds"],
    ["enum", "enum with more"],
    ["int", "int or null", "long, string or null", "int or string"],
    ["array of int", "array of double"],
    ["array of int", "array of a union"],
    ["map of int", "map of double"],
    ["record", "record with more", "record without fields"],
    ["record inside of itself"],
    ["null", "string"],
    ["bytes", "bytes or record"],
    ["record", "bytes or record"],
]
"""Types that evolve into each other."""


def variant(rng: random.Random) -> list[dict[str, Any]]:
    """Versions of a record whose fields evolve, come and go."""
    chains = [rng.choice(CHAINS) for _ in range(rng.randrange(1, 5))]
    versions = []
    for _ in range(rng.randrange(2, 5)):
        used: set[str] = set()
        fields = []
        for at, chain in enumerate(chains):
            name = rng.choice(chain)
            kind = KINDS[name]
            names = {each for each in ("E", "F", "R", "Node") if f'"name": "{each}"' in json.dumps(kind)}
            if rng.random() < 0.8 and not names & used:
                used |= names
                fields.append({"name": f"f{at}", "type": kind})
        versions.append(record(*fields, {"name": "id", "type": "long"}))
    return versions


@pytest.mark.parametrize("part", range(4))
def test_values_of_generated_evolutions_equal_what_was_packed(part: int) -> None:
    rng = random.Random(SEED + part)
    for _ in range(VARIANTS // 4):
        check(variant(rng), rng)
