"""`loglake decode`: from a policy and a schema file to typed columns that other readers read."""

from __future__ import annotations

import json
import struct
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from logcore.cli import main
from spark_jobs import launch
from spark_jobs.contracts import ExpectationsConfig, JobReport
from spark_jobs.policies.policies_file import read_policies
from tests.in_process import InProcessExecutor
from tests.jobs.decoded_lake import Decoded
from tests.spark.cycle import AS_OF_MS

SCHEMA = {
    "type": "object",
    "description": "an order",
    "properties": {
        "id": {"type": "integer", "description": "number of the order"},
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "price": {"type": ["number", "null"]},
        "paid": {"type": "boolean"},
        "buyer": {"type": "object", "properties": {"name": {"type": "string"}}},
        "items": {
            "type": "array",
            "items": {"type": "object", "properties": {"sku": {"type": "string"}, "n": {"type": "integer"}}},
        },
        "tags": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["id"],
}
WHOLE = {
    "id": 7,
    "day": "2024-05-17",
    "at": "2024-05-17T08:30:00.25+02:00",
    "price": 1.5,
    "paid": True,
    "buyer": {"name": "Zoë"},
    "items": [{"sku": "a", "n": 2}, {"sku": "b", "n": 3}],
    "tags": {"x": "y"},
}
JSON = "topics:\n  orders:\n    decode.key: long\n    decode.value: json\n    decode.value.schema: order.json\n"


@pytest.fixture
def lake(tmp_path: Path) -> Decoded:
    (tmp_path / "order.json").write_text(json.dumps(SCHEMA))
    return Decoded(tmp_path, JSON)


def key(number: int) -> bytes:
    return struct.pack(">q", number)


def run(lake: Decoded, *more: str) -> int:
    return main.main(["decode", lake.path, "--policies", str(lake.policies), *more])


def test_json_with_a_schema_becomes_a_struct_that_duckdb_reads(lake: Decoded, capsys: pytest.CaptureFixture) -> None:
    lake.append((key(1), json.dumps(WHOLE).encode()), (key(2), b'{"id": 8}'), (key(3), None))
    lake.append((key(4), b'{"id": 1.5}'), (b"short", b'{"id": 9}'), (key(5), b"null"), (key(6), b'{"id":1,"id":2}'))
    assert run(lake) == 1
    assert capsys.readouterr().out == (
        "orders: 3 decoded, 4 undecoded, 1 DUPLICATE_KEY, 1 MISSING_FIELD, 1 WRONG_SIZE, 1 WRONG_TYPE, 0 offsets left\n"
    )
    orders = lake.table().to_pyarrow_dataset()
    connection = duckdb.connect().register("orders", orders)
    found = connection.execute(
        "select key, value.id, value.day, value.price, value.buyer.name, value.items[2].n, value.tags['x'],"
        ' is_tombstone from orders order by "offset"'
    ).fetchall()
    assert found == [
        (1, 7, date(2024, 5, 17), 1.5, "Zoë", 3, "y", False),
        (2, 8, None, None, None, None, None, False),
        (3, None, None, None, None, None, None, True),
    ]
    first = lake.rows()[0]["value"]
    assert first["at"] == datetime(2024, 5, 17, 6, 30, 0, 250_000, UTC)
    assert first["items"] == WHOLE["items"]
    bad = {row["offset"]: (row["part"], row["reason"], row["place"], row["value"]) for row in lake.rows("undecoded")}
    assert bad == {
        3: ("value", "WRONG_TYPE", "id", b'{"id": 1.5}'),
        4: ("key", "WRONG_SIZE", "", b'{"id": 9}'),
        5: ("value", "MISSING_FIELD", "", b"null"),
        6: ("value", "DUPLICATE_KEY", "", b'{"id":1,"id":2}'),
    }


def test_descriptions_of_the_schema_are_comments_of_columns(lake: Decoded) -> None:
    lake.append((key(1), b'{"id": 8}'))
    lake.decode()
    value = next(field for field in lake.table().schema().fields if field.name == "value")
    assert value.metadata["comment"].endswith("; an order")
    inner = json.loads(value.type.to_json())["fields"][0]
    assert inner["metadata"]["comment"] == "number of the order"


@pytest.mark.parametrize(
    ("name", "body", "value", "kind"),
    [
        ("string", "zwölf".encode(), "zwölf", pa.string()),
        ("short", b"\xff\xfe", -2, pa.int16()),
        ("integer", b"\x00\x00\x01\x00", 256, pa.int32()),
        ("long", b"\xff" * 8, -1, pa.int64()),
        ("float", struct.pack(">f", 1.5), 1.5, pa.float32()),
        ("double", struct.pack(">d", -2.25), -2.25, pa.float64()),
        ("boolean", b"\x01", True, pa.bool_()),
        ("uuid", b"123E4567-e89b-12d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000", pa.string()),
        ("bytes", b"\xff\x00", b"\xff\x00", pa.binary()),
    ],
)
def test_each_plain_format_has_a_column_of_its_type(
    tmp_path: Path, name: str, body: bytes, value: object, kind
) -> None:
    lake = Decoded(tmp_path, f"topics:\n  orders:\n    decode.value: {name}\n")
    lake.append((b"raw", body), (None, None))
    lake.decode()
    table = lake.table().to_pyarrow_table(columns=["key", "value", "offset"]).sort_by("offset")
    assert table["value"].to_pylist() == [value, None]
    assert table["key"].to_pylist() == [b"raw", None]
    assert table.schema.field("value").type == kind


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "The schema is no JSON text"),
        ('{"type": "text"}', "There is no type text"),
        (None, "can't be read as text"),
    ],
)
def test_a_topic_whose_schema_cannot_be_used_waits_and_says_why(lake: Decoded, text, says, capsys) -> None:
    lake.append((key(1), b'{"id": 8}'))
    schema = lake.policies.with_name("order.json")
    schema.unlink() if text is None else schema.write_text(text)
    assert run(lake) == 1
    said = capsys.readouterr().out
    assert said.startswith("orders: waits: The schema ")
    assert says in said
    assert lake.rows() == []


def test_a_topic_whose_format_lacks_its_schema_waits_and_says_what_to_name(tmp_path: Path, capsys) -> None:
    lake = Decoded(tmp_path, "topics:\n  orders:\n    decode.value: json\n")
    lake.append((b"raw", b'{"id": 8}'))
    assert run(lake) == 1
    said = capsys.readouterr().out
    reason = "decode.value: The format json needs a schema. Name a file or a schema registry. FILE is its path: "
    commands = [f"config set {lake.policies} orders decode.value.schema=FILE", f"decode {lake.path} --topic orders"]
    assert said == f"orders: waits: {reason}`{' && '.join(f'loglake {each}' for each in commands)}` (1 offsets left)\n"
    (tmp_path / "order.json").write_text(json.dumps(SCHEMA))
    for command in commands:
        words = command.replace("FILE", "order.json").split()
        assert main.main([*words, *(["--policies", str(lake.policies)] if words[0] == "decode" else [])]) == 0
    assert [row["key"] for row in lake.rows()] == [b"raw"]


def of_suite(report: JobReport) -> list[dict[str, Any]]:
    return [each for each in report.plan.expectations if each.name.startswith("decoded suite.json")]


@pytest.mark.long
def test_a_suite_of_great_expectations_is_evaluated_on_decoded_columns(lake: Decoded, monkeypatch) -> None:
    monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())
    expectations = [
        {"type": "expect_column_values_to_be_between", "kwargs": {"column": "value.price", "min_value": 0}},
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "value.buyer.name"}},
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "value.nothing"}, "severity": "warning"},
    ]
    lake.policies.with_name("suite.json").write_text(json.dumps({"name": "orders", "expectations": expectations}))
    lake.policies.write_text(f"{JSON}    decode.expectations.suite: suite.json\n")
    lake.append((key(1), json.dumps(WHOLE).encode()), (key(2), json.dumps(WHOLE | {"price": -1}).encode()))
    log = lake.lake.rows("logs")[0]["log"]
    config = ExpectationsConfig(lake.path, "expect", AS_OF_MS, {log: (0, 2)}, read_policies(str(lake.policies)))
    before = of_suite(launch.run(config))
    assert {each.observed for each in before} == {"there was no row"}
    lake.decode()
    results = of_suite(launch.run(config))
    assert [(each.success, each.observed) for each in results] == [
        (False, "1 of 2 rows do not meet it"),
        (True, "0 of 2 rows do not meet it"),
        (False, "it could not be evaluated: does the table have its column?"),
    ]
