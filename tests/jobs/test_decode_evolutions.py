"""`decode` where a column has to become wider: the line has the command, and the command writes the wider column."""

from __future__ import annotations

import json
import shlex
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from logcore.cli import main
from tests.jobs.registered_schemas import Registered, avro, named, text, zigzag

COMMAND = "To write the wider column and all rows again: "


def field(kind: Any) -> str:
    return avro({"name": "x", "type": kind})


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def document(kind: Any) -> str:
    return json.dumps({"type": "object", "properties": {"x": kind}})


NODE = {"type": "record", "name": "Node", "fields": [{"name": "n", "type": "int"}]}
OPEN = NODE | {"fields": [*NODE["fields"], {"name": "next", "type": ["null", "Node"]}]}  # type: ignore[misc]
CASES: dict[str, tuple[str, str, bytes, str, bytes, list[Any]]] = {
    "int to double": ("avro", field("int"), zigzag(7), field("double"), bytes.fromhex("000000000000f83f"), [7.0, 1.5]),
    "decimal": (
        "avro", field(decimal(9, 3)), b"\x02\x05", field(decimal(12, 4)), b"\x02\x05",
        [Decimal("0.0050"), Decimal("0.0005")],
    ),
    "a type to a union": (
        "avro", field("int"), zigzag(7), field(["int", "string"]), b"\x02" + text("a"),
        [{"int": 7, "string": None}, {"int": None, "string": "a"}],
    ),
    "text to bytes": ("avro", field("string"), text("a"), field("bytes"), b"\x02\xff", [b"a", b"\xff"]),
    "a long to a timestamp": (
        "avro", field({"type": "long", "logicalType": "timestamp-millis"}), zigzag(7), field("long"), zigzag(8), [7, 8],
    ),
    "items": (
        "avro", field({"type": "array", "items": "int"}), b"\x02" + zigzag(7) + b"\x00",
        field({"type": "array", "items": ["int", "string"]}), b"\x02\x02" + text("a") + b"\x00",
        [[{"int": 7, "string": None}], [{"int": None, "string": "a"}]],
    ),
    "text to several types": (
        "json", document({"type": "string"}), b'{"x": "5"}', document({"type": ["string", "integer"]}), b'{"x": 5}',
        ['"5"', "5"],
    ),
    "a whole number to a number": (
        "json", document({"type": "integer"}), b'{"x": 5}', document({"type": "number"}), b'{"x": 1.5}', [5.0, 1.5],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_line_has_the_command_that_writes_the_wider_column_and_later_rows_need_none(
    tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    format, old, first, new, second, expected = CASES[case]
    lake = Registered(tmp_path, format)
    of_json = {"schemaType": "JSON"} if format == "json" else {}
    lake.register(1, old, **of_json)
    lake.append((b"a", named(1, first)))
    lake.decode()
    before = lake.rows()
    lake.register(2, new, version=2, **of_json)
    lake.append((b"b", named(2, second)), (b"c", named(1, first)))
    said = str(lake.said())
    assert said.startswith("partition 0 waits at offset 1: value: schema 2 cannot be aligned with the table: value.x")
    assert lake.rows() == before
    words = shlex.split(said.partition(COMMAND)[2].strip("`"))
    assert words == ["loglake", "decode", lake.path, "--replace", "orders"]
    assert main.main([*words[1:], "--policies", str(lake.policies)]) == 0
    assert [row["value"]["x"] for row in lake.rows()] == [*expected, expected[0]]
    lake.append((b"d", named(2, second)), (b"e", named(1, first)))
    assert lake.said() is None
    assert [row["value"]["x"] for row in lake.rows()] == [*expected, expected[0], expected[1], expected[0]]
    assert lake.reasons() == []
    assert main.main(["verify", lake.path]) == 0, capsys.readouterr().out


def test_a_replacement_that_no_column_takes_says_what_to_set(tmp_path: Path) -> None:
    lake = Registered(tmp_path)
    lake.register(1, field("int"))
    lake.register(2, field("string"), version=2)
    lake.append((b"a", named(1, zigzag(7))), (b"b", named(2, text("a"))))
    report: Any = lake.decode(replace=("orders",))
    said = report.plan.topics[0].waits
    assert said.startswith("nothing was replaced: partition 0 waits at offset 1: value: schema 2 cannot be aligned")
    assert said.endswith(
        f"To keep such rows undecoded: `loglake config set {lake.policies} orders on_schema_change=undecoded && "
        f"loglake decode {lake.path} --topic orders`"
    )
    lake.policy("    on_schema_change: undecoded\n")
    assert main.main(["decode", lake.path, "--topic", "orders", "--policies", str(lake.policies)]) == 1
    assert lake.values() == [{"x": 7}]
    assert lake.reasons() == [(1, 2, "INCOMPATIBLE_SCHEMA")]


def test_whole_numbers_beyond_those_of_a_double_are_undecoded_and_the_rest_is_not(tmp_path: Path) -> None:
    lake = Registered(tmp_path)
    lake.register(1, field("long"))
    lake.register(2, field("double"), version=2)
    lake.append(*((b"a", named(1, zigzag(number))) for number in (1 << 53, (1 << 53) + 1, -3)))
    assert lake.said() is None
    assert lake.values() == [{"x": float(1 << 53)}, {"x": -3.0}]
    assert lake.reasons() == [(1, 1, "OUT_OF_RANGE")]


def test_parts_without_columns_are_json_text_and_the_rest_of_the_topic_is_decoded(tmp_path: Path) -> None:
    lake = Registered(tmp_path)
    empty = {"type": "record", "name": "Empty", "fields": []}
    parts = [("id", "int"), ("none", "null"), ("empty", ["null", empty]), ("tree", OPEN)]
    lake.register(1, avro(*({"name": name, "type": kind} for name, kind in parts)))
    inner = zigzag(1) + b"\x02" + zigzag(2) + b"\x02" + zigzag(3) + b"\x00"
    lake.append(
        (b"a", named(1, zigzag(7) + b"\x02" + inner)), (b"b", named(1, zigzag(8) + b"\x00" + zigzag(1) + b"\0"))
    )
    assert lake.said() is None
    assert lake.values() == [
        {"id": 7, "none": None, "empty": "{}", "tree": {"n": 1, "next": '{"n":2,"next":{"n":3,"next":null}}'}},
        {"id": 8, "none": None, "empty": None, "tree": {"n": 1, "next": None}},
    ]
    marks = {each.name: each.metadata.get("loglake.form") for each in lake.table().schema().fields[7].type.fields}
    assert marks == {"id": None, "none": "null", "empty": "empty", "tree": None}
