"""Field ids of columns: other engines write and read our tables as they do without, and the tables keep the ids."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import duckdb
import polars
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.types import LongType, StructField, StructType

from spark_jobs.engine.session import get_session
from tests.field_ids import ids_of_file, ids_of_table
from tests.in_process import without_spark
from tests.jobs.decoded_lake import Decoded

pytestmark = pytest.mark.spark

POLICY = "topics:\n  orders:\n    decode.key: string\n    decode.value: json\n    decode.value.schema: order.json\n"
FIRST = {"id": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}}
WIDER = {**FIRST, "items": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}}}
ROWS = ((b"a", b'{"id": 1, "tags": ["x"]}'), (b"b", b'{"id": 2, "tags": [], "items": [{"sku": "s"}]}'))
TABLES = ("records", "decoded/orders", "segments")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Decoded:
    """A lake whose tables have two files, of two runs."""
    path = tmp_path_factory.mktemp("lake")
    (path / "order.json").write_text(json.dumps({"type": "object", "properties": FIRST}))
    made = Decoded(path, POLICY)
    with without_spark():
        for row in ROWS:
            made.append(row)
            made.decode()
    return made


@pytest.fixture
def copied(lake: Decoded, tmp_path: Path, name: str) -> str:
    """A table of the lake that a test may change."""
    return str(shutil.copytree(lake.lake.path / "tables" / name, tmp_path / "table"))


def assert_same(of_file: dict[str, int], of_table: dict[str, int]) -> None:
    """Each part of the file has an id; columns and fields of structs have the one that the table states."""
    assert -1 not in of_file.values()
    named = {at: number for at, number in of_file.items() if not at.endswith((".element", ".key", ".value"))}
    assert {at: of_table[at] for at in named} == named


def read_by_all(uri: str, rows: int) -> None:
    """Every engine reads so many rows."""
    table = DeltaTable(uri)
    spark: Any = get_session()
    assert spark.read.format("delta").load(uri).count() == rows
    assert polars.scan_delta(uri).collect().height == rows
    assert table.to_pyarrow_table().num_rows == rows
    assert duckdb.from_arrow(table.to_pyarrow_dataset()).count("*").fetchall() == [(rows,)]
    assert duckdb.sql(f"SELECT count(*) FROM read_parquet({table.file_uris()})").fetchall() == [(rows,)]


@pytest.mark.parametrize("name", TABLES)
def test_spark_appends_widens_optimizes_and_makes_a_checkpoint_and_the_table_keeps_its_ids(
    copied: str,
) -> None:
    uri = copied
    table = DeltaTable(uri)
    before, rows, first = ids_of_table(table), table.to_pyarrow_table(), table.file_uris()[0]
    assert_same(ids_of_file(first), before)
    spark: Any = get_session()
    spark.read.format("delta").load(uri).limit(1).write.format("delta").mode("append").save(uri)
    spark.sql(f"ALTER TABLE delta.`{uri}` SET TBLPROPERTIES ('delta.checkpointInterval' = '2')")
    spark.sql(f"INSERT INTO delta.`{uri}` SELECT * FROM delta.`{uri}` LIMIT 1")
    assert ids_of_table(DeltaTable(uri)) == before
    spark.sql(f"ALTER TABLE delta.`{uri}` ADD COLUMNS (mine STRING)")
    spark.sql(f"UPDATE delta.`{uri}` SET mine = 'x'")
    spark.sql(f"OPTIMIZE delta.`{uri}`")
    assert [*(Path(uri) / "_delta_log").glob("*.checkpoint*.parquet")]
    assert ids_of_table(DeltaTable(uri)) == before, "the user's column has no id"
    read_by_all(uri, rows.num_rows + 2)


@pytest.mark.parametrize("name", TABLES)
def test_delta_rs_and_polars_append_compact_and_make_a_checkpoint_and_the_table_keeps_its_ids(
    copied: str,
) -> None:
    uri = copied
    table = DeltaTable(uri)
    before, rows = ids_of_table(table), table.to_pyarrow_table()
    write_deltalake(uri, rows, mode="append")
    polars.scan_delta(uri).collect().write_delta(uri, mode="append")
    table = DeltaTable(uri)
    table.optimize.compact()
    table.create_checkpoint()
    assert ids_of_table(DeltaTable(uri)) == before
    read_by_all(uri, 4 * rows.num_rows)


@pytest.mark.parametrize("name", ["records"])
def test_spark_turns_column_mapping_on_and_the_table_keeps_its_ids(copied: str) -> None:
    before = ids_of_table(DeltaTable(copied))
    spark: Any = get_session()
    spark.sql(f"ALTER TABLE delta.`{copied}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    spark.sql(f"ALTER TABLE delta.`{copied}` RENAME COLUMN position TO place")
    fields = json.loads(DeltaTable(copied).schema().to_json())["fields"]
    after = {field["name"]: int(field["metadata"]["loglake.field_id"]) for field in fields}
    top = {column: number for column, number in before.items() if "." not in column}
    assert after == {"place" if column == "position" else column: number for column, number in top.items()}


def test_a_replacement_with_more_fields_keeps_the_ids_of_the_others(lake: Decoded) -> None:
    uri = str(lake.lake.path / "tables" / "decoded" / "orders")
    before = ids_of_table(DeltaTable(uri))
    (lake.policies.parent / "order.json").write_text(json.dumps({"type": "object", "properties": WIDER}))
    with without_spark():
        lake.decode(replace=("orders",))
    table = DeltaTable(uri)
    after = ids_of_table(table)
    assert before.items() <= after.items()
    assert after.keys() - before.keys() == {"value.items", "value.items.element.sku"}
    assert len({*after.values()}) == len(after)
    [path] = table.file_uris()
    assert_same(ids_of_file(path), after)
    read_by_all(uri, 2)
    spark: Any = get_session()
    assert [row[0] for row in spark.sql(f"SELECT value.items.sku FROM delta.`{uri}`").collect()] == [None, ["s"]]


def test_spark_finds_a_column_by_its_id_alone(lake: Decoded) -> None:
    table = DeltaTable(str(lake.lake.path / "tables" / "offset_ledger"))
    number = ids_of_table(table)["end_offset"]
    schema = StructType([StructField("until", LongType(), True, {"parquet.field.id": number})])
    spark: Any = get_session()
    spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
    try:
        rows = spark.read.schema(schema).parquet(*table.file_uris()).collect()
    finally:
        spark.conf.unset("spark.sql.parquet.fieldId.read.enabled")
    assert {row.until for row in rows} == {row["end_offset"] for row in table.to_pyarrow_table().to_pylist()}
