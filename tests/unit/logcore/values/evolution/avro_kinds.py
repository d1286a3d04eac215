"""Avro types with values, and what a value becomes in the column of several schemas: from how it was packed."""

from __future__ import annotations

import io
import json
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa

EXACT = 1 << 53
"""Whole numbers up to this one are exact in a double."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BRANCHES = ("int", "long", "float", "double", "string", "bytes", "array", "map", "boolean")


class TooLarge(Exception):
    """A whole number that the column's double does not hold exactly."""


def packed(kind: Any, raw: Any) -> bytes:
    """The bytes of a raw value: logical types are left out, so that it is written as it is."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, plain(kind), raw)
    return out.getvalue()


def plain(kind: Any) -> Any:
    """A type without logical types."""
    if isinstance(kind, list):
        return [plain(each) for each in kind]
    if not isinstance(kind, dict):
        return kind
    bare = {name: content for name, content in kind.items() if name not in ("logicalType", "precision", "scale")}
    for name in ("items", "values"):
        if name in bare:
            bare[name] = plain(bare[name])
    if bare["type"] == "record":
        bare["fields"] = [each | {"type": plain(each["type"])} for each in bare["fields"]]
    return bare if len(bare) > 1 else bare["type"]


def name_of(kind: Any) -> str:
    """The name of a type in a union."""
    return str(kind.get("name", kind["type"]) if isinstance(kind, dict) else kind)


def random_raw(kind: Any, rng: random.Random, depth: int = 0) -> Any:
    """A value as fastavro writes it without logical types; unions of several types as pairs."""
    if isinstance(kind, list):
        branch = rng.choice(kind)
        several = len([each for each in kind if each != "null"]) > 1
        value = random_raw(branch, rng, depth)
        return (name_of(branch), value) if several and branch != "null" else value
    name = kind["type"] if isinstance(kind, dict) else kind
    logical = kind.get("logicalType", "") if isinstance(kind, dict) else ""
    match name:
        case "null":
            return None
        case "boolean":
            return rng.random() < 0.5
        case "int":
            return rng.randrange(-9000, 90000) if logical else rng.randrange(-(1 << 31), 1 << 31)
        case "long" if logical:
            return rng.randrange(-(10**12), 10**13)
        case "long":
            return rng.randrange(-(1 << 53), 1 << 53) if rng.random() < 0.9 else rng.randrange(EXACT + 1, 1 << 62)
        case "float" | "double":
            return rng.choice((0.0, 1.5, -2.25, 1e10))
        case "bytes" if logical:
            digits = kind["precision"]
            return rng.randrange(-(10**digits) + 1, 10**digits).to_bytes(digits, "big", signed=True)
        case "bytes":
            return rng.randbytes(rng.randrange(5))
        case "string":
            return "".join(rng.choice("aé€\U0001f600") for _ in range(rng.randrange(4)))
        case "enum":
            return rng.choice(kind["symbols"])
        case "fixed":
            return rng.randbytes(kind["size"])
        case "array":
            return [random_raw(kind["items"], rng, depth + 1) for _ in range(rng.randrange(3))]
        case "map":
            return {key: random_raw(kind["values"], rng, depth + 1) for key in "ab"[: rng.randrange(3)]}
        case "record":
            return {each["name"]: random_raw(each["type"], rng, depth) for each in kind["fields"]}
    # A record inside of itself, by its name.
    return {"n": rng.randrange(9), "next": random_raw(["null", kind], rng, depth + 1) if depth < 3 else None}


def shown(kind: Any, raw: Any, column: pa.DataType) -> Any:
    """What a raw value is in a column."""
    if isinstance(kind, list):
        several = len([each for each in kind if each != "null"]) > 1
        if raw is None:
            return None
        name, inner = raw if several else (None, raw)
        kind = next(each for each in kind if (name_of(each) == name if several else each != "null"))
        raw = inner
    if raw is None:
        return None
    name = kind["type"] if isinstance(kind, dict) else kind
    if pa.types.is_struct(column) and _is_union(column):
        names = [column.field(at).name for at in range(column.num_fields)]
        taken = name_of(kind) if name_of(kind) in names else _taking(str(name), names)
        return dict.fromkeys(names) | {taken: shown(kind, raw, column.field(taken).type)}
    match name:
        case "array":
            return [shown(kind["items"], each, column.value_type) for each in raw]
        case "map":
            return [(key, shown(kind["values"], each, column.item_type)) for key, each in raw.items()]
        case "record" if pa.types.is_struct(column):
            types = {each["name"]: each["type"] for each in kind["fields"]}
            fields = [column.field(at) for at in range(column.num_fields)]
            return {each.name: shown(types.get(each.name, "null"), raw.get(each.name), each.type) for each in fields}
        case "record":
            return "{}"
        case "Node":
            return json.dumps(raw, separators=(",", ":"))
    return _scalar(kind, raw, column)


def _scalar(kind: Any, raw: Any, column: pa.DataType) -> Any:
    logical = kind.get("logicalType", "") if isinstance(kind, dict) else ""
    if pa.types.is_floating(column):
        if isinstance(raw, int) and abs(raw) > EXACT:
            raise TooLarge
        return float(raw)
    if pa.types.is_binary(column):
        return raw.encode() if isinstance(raw, str) else raw
    if pa.types.is_date(column):
        return date(1970, 1, 1) + timedelta(days=raw)
    if pa.types.is_timestamp(column):
        return EPOCH + timedelta(microseconds=raw * (1000 if logical == "timestamp-millis" else 1))
    if pa.types.is_decimal(column) and isinstance(raw, int):
        return Decimal(raw)
    if pa.types.is_decimal(column):
        return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-kind["scale"])
    return raw


def _is_union(column: Any) -> bool:
    return any(column.field(at).name in (*BRANCHES, "R", "E", "Node") for at in range(column.num_fields))


def _taking(name: str, names: list[str]) -> str:
    """The type of a union that holds values of another one: the first that is there."""
    wider = {"int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",),
             "string": ("bytes",), "enum": ("string", "bytes"), "fixed": ("bytes",)}  # fmt: skip
    return next(each for each in names if each in wider.get(name, ()))
