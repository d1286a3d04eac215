"""Comments of schemas are comments of decoded tables and of their views, in Spark and in DuckDB."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from pyspark.sql.types import ArrayType, DataType, StructType

from logcore.cli.main import main
from spark_jobs.engine.session import get_session
from tests.in_process import without_spark
from tests.jobs.decoded_lake import Decoded

pytestmark = pytest.mark.spark

POLICY = "topics:\n  orders:\n    decode.key: string\n    decode.value: {format}\n    decode.value.schema: {file}\n"
OF_TABLE = "A record of the topic orders whose key and value were decoded."
ORDER, ID, ITEMS, SKU = "An order of the shop", "the order's number; it is \\unique", "what was ordered", "the article"
AVRO = {
    "type": "record",
    "name": "Order",
    "doc": ORDER,
    "fields": [
        {"name": "id", "type": "long", "doc": ID},
        {"name": "paid", "type": "boolean"},
        {
            "name": "items",
            "doc": ITEMS,
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string", "doc": SKU}]},
            },
        },
    ],
}
JSON = {
    "type": "object",
    "description": ORDER,
    "properties": {
        "id": {"type": "integer", "description": ID},
        "paid": {"type": "boolean"},
        "items": {
            "type": "array",
            "description": ITEMS,
            "items": {"type": "object", "properties": {"sku": {"type": "string", "description": SKU}}},
        },
    },
}
PROTOBUF = f"""
syntax = "proto3";
// {ORDER}
message Order {{
  // {ID}
  int64 id = 1;
  bool paid = 2;
  repeated Item items = 3;  // {ITEMS}
  message Item {{
    // {SKU}
    string sku = 1;
  }}
}}
"""
SCHEMAS = {
    "avro": ("order.avsc", json.dumps(AVRO), b"\x0e\x01\x02\x02x\x00"),
    "json": ("order.json", json.dumps(JSON), b'{"id": 7, "paid": true, "items": [{"sku": "x"}]}'),
    "protobuf": ("order.proto", PROTOBUF, b"\x08\x07\x10\x01\x1a\x03\x0a\x01x"),
}
NESTED = {"": ORDER, "id": ID, "items": ITEMS, "items.sku": SKU}


@pytest.fixture(params=SCHEMAS)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Decoded:
    """A lake with one decoded row."""
    file, text, body = SCHEMAS[request.param]
    (tmp_path / file).write_text(text)
    made = Decoded(tmp_path, POLICY.format(format=request.param, file=file))
    with without_spark():
        made.append((b"a", body))
        made.decode()
    assert [row["value"] for row in made.rows()] == [{"id": 7, "paid": True, "items": [{"sku": "x"}]}]
    return made


def comments(kind: DataType, path: str = "") -> Iterator[tuple[str, str]]:
    """Comments of the fields of a type by their path."""
    if isinstance(kind, ArrayType):
        yield from comments(kind.elementType, path)
    if isinstance(kind, StructType):
        for field in kind.fields:
            at = f"{path}.{field.name}".lstrip(".")
            if "comment" in field.metadata:
                yield at, field.metadata["comment"]
            yield from comments(field.dataType, at)


def described(spark: Any, what: str) -> Mapping[str, str | None]:
    """Comments that `DESCRIBE TABLE` shows, by column."""
    return {row.col_name: row.comment for row in spark.sql(f"DESCRIBE TABLE {what}").collect()}


def test_spark_describes_the_table_and_the_value_and_has_the_comment_of_each_field(lake: Decoded) -> None:
    spark: Any = get_session(lake.path)
    uri = str(lake.lake.path / "tables" / "decoded" / "orders")
    columns = described(spark, f"delta.`{uri}`")
    assert columns["value"] == f"decoded value; null for a tombstone; {ORDER}"
    assert columns["offset"] == "offset in the log"
    [detail] = spark.sql(f"DESCRIBE DETAIL delta.`{uri}`").collect()
    assert detail.description == OF_TABLE
    kind = spark.read.format("delta").load(uri).schema["value"].dataType
    assert dict(comments(kind)) == {path: said for path, said in NESTED.items() if path}


def test_duckdb_describes_the_columns_of_the_view(lake: Decoded, tmp_path: Path) -> None:
    assert main(["register", lake.path, "--in", "duckdb", "-o", str(tmp_path / "lake.duckdb")]) == 0
    with duckdb.connect(str(tmp_path / "lake.duckdb"), read_only=True) as connection:
        found = connection.execute(
            "select column_name, comment from duckdb_columns() where table_name = 'decoded_orders'"
        ).fetchall()
        said = dict(found)
        assert said["value"] == f"decoded value; null for a tombstone; {ORDER}"
        assert said["offset"] == "offset in the log"
        view = connection.execute("select comment from duckdb_views() where view_name = 'decoded_orders'").fetchall()
        assert view == [(OF_TABLE,)]


def test_a_replacement_brings_new_comments(tmp_path: Path) -> None:
    file, text, body = SCHEMAS["avro"]
    (tmp_path / file).write_text(text)
    lake = Decoded(tmp_path, POLICY.format(format="avro", file=file))
    with without_spark():
        lake.append((b"a", body))
        lake.decode()
        (tmp_path / file).write_text(text.replace(SKU, "its number"))
        lake.decode(replace=("orders",))
    value = json.loads(DeltaTable(str(lake.lake.path / "tables" / "decoded" / "orders")).schema().to_json())
    assert "its number" in json.dumps(value)
    assert SKU not in json.dumps(value)
