"""Protobuf schemas that evolve: what its rules allow has a column for both, equal to what the library wrote."""

from __future__ import annotations

import base64
import itertools
import json
import os
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from logcore.values.form import JSON, ValueColumn
from tests.unit.logcore.values.evolution.registered import read, refused, writers_of

VARIANTS = int(os.environ.get("LOGLAKE_TEST_EVOLUTIONS", "40"))
SEED = 20261128
WHOLE = {"int32": (-5, 7), "int64": (-(1 << 40), 3), "uint32": (0, (1 << 32) - 1), "uint64": (0, (1 << 64) - 1)}
SIGNED = {"sint32": (-5, 7), "sint64": (-(1 << 40), 3)}
FIXED = {"fixed32": (5, (1 << 32) - 1), "sfixed32": (-5, 6), "fixed64": (5, (1 << 64) - 1), "sfixed64": (-5, 6)}
OTHERS = {"float": (1.5, -2.25), "double": (1.5, 1e300), "bool": (True, False), "string": ("a", "é"),
          "bytes": (b"a", b"\xff")}  # fmt: skip
SCALARS: dict[str, tuple[Any, ...]] = WHOLE | SIGNED | FIXED | OTHERS
MESSAGES = ("E", "Empty", "Item", "ItemMore", "Node")
KINDS = [*SCALARS, *MESSAGES, "map", *(f"repeated {name}" for name in ("int32", "string", "bytes", "Item", "E"))]
GROUPS = [{*WHOLE, "bool", "E"}, {*SIGNED}, {"string", "bytes", "repeated string", "repeated bytes"},
          {"fixed32", "sfixed32"}, {"fixed64", "sfixed64"}, {"Item", "ItemMore", "Empty"},
          {"Item", "ItemMore", "repeated Item"}, {"repeated int32", "repeated E"}]  # fmt: skip
"""Kinds whose bytes are compatible, as protobuf.dev and registries have it; a message may gain fields."""
_TYPES = descriptor_pb2.FieldDescriptorProto


def schema(kinds: dict[str, str]) -> tuple[str, Any]:
    """A message with a field of each kind: compiled for us, and the library's class."""
    file = descriptor_pb2.FileDescriptorProto(name="m.proto", syntax="proto3", package="p")
    top = file.message_type.add(name="Top")
    file.enum_type.add(name="E").value.extend(
        [descriptor_pb2.EnumValueDescriptorProto(name=name, number=at) for at, name in enumerate("AB")]
    )
    file.message_type.add(name="Empty")
    item, more, node = (file.message_type.add(name=name) for name in ("Item", "ItemMore", "Node"))
    _field(item, "n", 1, "int32")
    _field(more, "n", 1, "int64")
    _field(more, "m", 2, "string")
    _field(node, "n", 1, "int32")
    _field(node, "next", 2, "Node")
    for number, (name, kind) in enumerate(kinds.items(), 1):
        if kind == "map":
            entry = top.nested_type.add(name=f"{name.title()}Entry", options={"map_entry": True})
            _field(entry, "key", 1, "string")
            _field(entry, "value", 2, "int32")
            made = top.field.add(name=name, number=number, label="LABEL_REPEATED", type="TYPE_MESSAGE")
            made.type_name = f".p.Top.{name.title()}Entry"
        else:
            _field(top, name, number, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    text = base64.b64encode(file.SerializeToString()).decode()
    return text, message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Top"))


def _field(message: Any, name: str, number: int, kind: str) -> None:
    many, _, inner = kind.rpartition(" ")
    made = message.field.add(name=name, number=number, label="LABEL_REPEATED" if many else "LABEL_OPTIONAL")
    if inner in SCALARS:
        made.type = _TYPES.Type.Value(f"TYPE_{inner.upper()}")
    else:
        made.type = _TYPES.TYPE_ENUM if inner == "E" else _TYPES.TYPE_MESSAGE
        made.type_name = f".p.{inner}"


def value_of(kind: str, rng: random.Random) -> Any:
    """A value, as the library's constructor takes it; None: the message is absent."""
    many, _, inner = kind.rpartition(" ")
    if many:
        return [value_of(inner, rng) or ({} if inner == "Item" else None) for _ in range(rng.randrange(3))]
    match inner:
        case "map":
            return {key: rng.randrange(9) for key in "ab"[: rng.randrange(3)]}
        case "E":
            return rng.choice(("A", "B"))
        case "Empty":
            return rng.choice(({}, None))
        case "Item":
            return rng.choice(({"n": 5}, {}, None))
        case "ItemMore":
            return rng.choice(({"n": 1 << 40, "m": "x"}, None))
        case "Node":
            return rng.choice(({"n": 1, "next": {"n": 2, "next": {"n": 3}}}, {"n": 1}, None))
    return rng.choice(SCALARS[inner])


DEFAULTS: dict[str, dict[str, str]] = {
    "Item": {"n": "int32"}, "ItemMore": {"n": "int64", "m": "string"}, "Node": {"n": "int32", "next": "Node"},
    "Empty": {},
}  # fmt: skip


def whole(kind: str, value: Any) -> Any:
    """A message with the defaults of its absent fields, as JSON text has it too."""
    if value is None or kind not in DEFAULTS:
        return value
    defaults = {"int32": 0, "int64": 0, "string": ""}
    return {name: whole(of, value.get(name, defaults.get(of))) for name, of in DEFAULTS[kind].items()}


def shown(kind: str, value: Any, column: ValueColumn | None) -> Any:
    """What a value is in a column."""
    many, _, inner = kind.rpartition(" ")
    if column is None:
        return None
    arrow = column.kind
    if pa.types.is_map(arrow):
        return sorted(value.items()) if value else []
    if pa.types.is_list(arrow):
        values = value if many else [] if value is None else [value]
        return [shown(inner, each, column.items) for each in values]
    if value is None:
        return None
    if pa.types.is_struct(arrow):
        parts = whole(inner, value)
        return {
            each.name: shown(
                DEFAULTS[inner].get(each.name, "string"), parts.get(each.name), column.parts.get(each.name)
            )
            for each in arrow
        }
    if column.form.mark == JSON:
        return json.dumps(whole(inner, value), separators=(",", ":"))
    if inner == "Empty":
        return "{}"
    if inner == "E":
        return value if arrow == pa.string() else "AB".index(value)
    if pa.types.is_decimal(arrow):
        return Decimal(int(value))
    if pa.types.is_binary(arrow) and isinstance(value, str):
        return value.encode()
    if pa.types.is_string(arrow) and not isinstance(value, str):
        return str(int(value))
    if pa.types.is_floating(arrow):
        return float(value)
    return int(value) if pa.types.is_integer(arrow) else value


def check(versions: list[dict[str, str]], rng: random.Random, rows: int = 6) -> None:
    made = [schema(each) for each in versions]
    writers = writers_of("protobuf", [text for text, _ in made])
    assert refused(writers) == {}
    written = [
        (id, {name: value_of(kind, rng) for name, kind in kinds.items()})
        for id, kinds in enumerate(versions, 1)
        for _ in range(rows)
    ]
    bodies = [
        (id, made[id - 1][1](**{name: each for name, each in value.items() if each is not None}).SerializeToString())
        for id, value in written
    ]
    found = read(writers, bodies)
    assert found.failed == {}
    column = ValueColumn(found.kind, writers.form)
    for row, (id, value) in zip(found.values, written, strict=True):
        for name, of in row.items():
            kind = versions[id - 1].get(name)
            expected = None if kind is None else shown(kind, value[name], column.parts.get(name))
            assert (sorted(of) if kind == "map" else of) == expected, (versions, name, value, found.kind)


def test_each_type_is_decoded() -> None:
    for kind in KINDS:
        check([{"x": kind}], random.Random(SEED), 20)


def test_each_pair_of_types_is_decoded_or_refused_with_its_reason_and_what_is_allowed_is_decoded() -> None:
    """The matrix of all promotions."""
    decoded = allowed = 0
    for old, new in itertools.product(KINDS, KINDS):
        is_allowed = any({old, new} <= group for group in GROUPS)
        allowed += is_allowed
        writers = writers_of("protobuf", [schema({"x": each})[0] for each in (old, new)])
        if refused(writers):
            assert not is_allowed, (old, new)
            assert "cannot be aligned with the table: value.x" in refused(writers)[2].detail
            continue
        decoded += 1
        check([{"x": old}, {"x": new}], random.Random(SEED))
    pairs = len(KINDS) ** 2
    assert (pairs, decoded, allowed) == (676, 234, 82)


@pytest.mark.parametrize("part", range(4))
def test_values_of_generated_evolutions_equal_what_was_written(part: int) -> None:
    rng = random.Random(SEED + part)
    for _ in range(VARIANTS // 4):
        groups = [sorted(rng.choice([*GROUPS, {"Node"}]))
                  for _ in range(rng.randrange(1, 5))]  # fmt: skip
        versions = [
            {f"f{at}": rng.choice(group) for at, group in enumerate(groups) if rng.random() < 0.8} | {"id": "int64"}
            for _ in range(rng.randrange(2, 5))
        ]
        check(versions, rng)
