"""`loglake query FOLDER`: tables that Spark wrote, with each feature of Delta, have the rows that Spark reads."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from logcore.cli import main
from spark_jobs.engine.session import get_session

pytestmark = [pytest.mark.spark, pytest.mark.long]

Make = Callable[[Any, str], None]
COLUMNS = "(a BIGINT, b STRING, c STRUCT<d: INT, e: ARRAY<STRING>>)"
ROWS = "SELECT id, concat('v', id), named_struct('d', CAST(id AS INT), 'e', array('x', 'y')) FROM range(0, 20)"


def made(*then: str, properties: str = "", columns: str = COLUMNS, rows: str = ROWS, clause: str = "") -> Make:
    """A table with 20 rows, and what changes it then; `{}` is the table."""

    def make(spark: Any, place: str) -> None:
        table = f"delta.`{place}`"
        of_table = f" TBLPROPERTIES ({properties})" if properties else ""
        spark.sql(f"CREATE TABLE {table} {columns} USING delta {clause}{of_table}")
        spark.sql(f"INSERT INTO {table} {rows}")
        for statement in then:
            spark.sql(statement.format(table))

    return make


def begins_with_checkpoint(spark: Any, place: str) -> None:
    """A table without the commits that its checkpoint sums up, as Delta's cleaning of old commits leaves it."""
    made(
        *["INSERT INTO {} VALUES (100, 'more', NULL)"] * 3,
        properties="'delta.checkpointInterval' = '2'",
    )(spark, place)
    log = Path(place) / "_delta_log"
    newest = max(int(path.name[:20]) for path in log.glob("*.checkpoint.parquet"))
    for version in range(newest):
        (log / f"{version:020d}.json").unlink()
    assert newest >= 2


def overwritten(spark: Any, place: str) -> None:
    """A table whose rows and columns were replaced."""
    made()(spark, place)
    rows = spark.sql("SELECT * FROM VALUES (0.5D, 1), (NULL, 2) AS rows(f, b)")
    rows.write.format("delta").mode("overwrite").option("overwriteSchema", True).save(place)


DELETE = "DELETE FROM {} WHERE a % 3 = 0"
READ: dict[str, Make] = {
    "plain": made(DELETE),
    "partitioned": made(
        columns="(a BIGINT, b STRING, p STRING)",
        rows="SELECT id, concat('v', id), IF(id % 5 = 0, NULL, concat('p ', id % 3, '/x')) FROM range(0, 20)",
        clause="PARTITIONED BY (p)",
    ),
    "deletion vectors": made(DELETE, "DELETE FROM {} WHERE a = 4", properties="'delta.enableDeletionVectors' = 'true'"),
    "deletion vectors after an update": made(
        "UPDATE {} SET b = 'new' WHERE a IN (1, 7)", DELETE, properties="'delta.enableDeletionVectors' = 'true'"
    ),
    "columns mapped by name": made(
        "ALTER TABLE {} RENAME COLUMN b TO renamed",
        "ALTER TABLE {} DROP COLUMN c",
        "ALTER TABLE {} ADD COLUMN b STRING",
        "INSERT INTO {} VALUES (100, 'r', 'b')",
        properties="'delta.columnMapping.mode' = 'name'",
    ),
    "columns mapped by id": made(
        "ALTER TABLE {} RENAME COLUMN b TO renamed", properties="'delta.columnMapping.mode' = 'id'"
    ),
    "mapped columns and deletion vectors": made(
        "ALTER TABLE {} RENAME COLUMN b TO renamed",
        DELETE,
        properties="'delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true'",
    ),
    "row tracking": made(DELETE, properties="'delta.enableRowTracking' = 'true'"),
    "clustering": made("OPTIMIZE {}", DELETE, clause="CLUSTER BY (a)"),
    "a checkpoint": made(*["INSERT INTO {} VALUES (100, 'more', NULL)"] * 11, DELETE),
    "a checkpoint of version 2": made(
        *["INSERT INTO {} VALUES (100, 'more', NULL)"] * 11, DELETE, properties="'delta.checkpointPolicy' = 'v2'"
    ),
    "times without a zone": made(
        columns="(a BIGINT, t TIMESTAMP_NTZ)",
        rows="SELECT id, TIMESTAMP_NTZ '2024-01-31 23:59:59.123456' FROM range(0, 20)",
    ),
    "changes": made(DELETE, properties="'delta.enableChangeDataFeed' = 'true'"),
    "times in commits": made(DELETE, properties="'delta.enableInCommitTimestamps' = 'true'"),
    "a constraint": made("ALTER TABLE {} ADD CONSTRAINT small CHECK (a < 1000)", DELETE),
    "a generated column": made(
        columns="(a BIGINT, g BIGINT GENERATED ALWAYS AS (a * 2))",
        rows="(a) SELECT id FROM range(0, 20)",
    ),
    "a new column": made("ALTER TABLE {} ADD COLUMN f DOUBLE", "INSERT INTO {} VALUES (100, 'r', NULL, 0.5)"),
    "no rows": made("DELETE FROM {}"),
    "other columns after an overwrite": overwritten,
    "partitions that are null or need an escape": made(
        "INSERT INTO {} VALUES (100, '/%20%f', DATE '1970-01-01', X'68656c6c6f')",
        "INSERT INTO {} VALUES (101, NULL, NULL, NULL), (102, 'a=b', DATE '1969-12-31', X'F09F9888')",
        columns="(a BIGINT, p STRING, q DATE, r BINARY)",
        rows="SELECT id, 'ü' || id % 2, DATE '2024-02-29', X'78' FROM range(0, 4)",
        clause="PARTITIONED BY (p, q, r)",
    ),
    "partitions by yes or no, number and time": made(
        "INSERT INTO {} VALUES (100, false, -12.50, TIMESTAMP '1969-12-31 23:59:59.999999Z')",
        columns="(a BIGINT, p BOOLEAN, q DECIMAL(10, 2), r TIMESTAMP)",
        rows="SELECT id, id % 2 = 0, 200.00, TIMESTAMP '1970-01-01 12:30:00Z' FROM range(0, 4)",
        clause="PARTITIONED BY (p, q, r)",
    ),
    "every plain type": made(
        "INSERT INTO {} VALUES (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        columns=(
            "(a BIGINT, i INT, s SMALLINT, t TINYINT, f FLOAT, d DOUBLE, b BOOLEAN, y BINARY, n DECIMAL(5, 3), "
            "o DATE, z TIMESTAMP)"
        ),
        rows=(
            "SELECT id, id, id, id, id / 4, id / 4, id % 2 = 0, CAST(CAST(id AS STRING) AS BINARY), 10 + id, "
            "DATE_ADD(DATE '1970-01-01', CAST(id AS INT)), TIMESTAMP_MILLIS(id * 3600000) FROM range(0, 5)"
        ),
    ),
    "no statistics": made(DELETE, properties="'delta.dataSkippingNumIndexedCols' = '0'"),
    "statistics as columns of a checkpoint": made(
        *["INSERT INTO {} VALUES (100, 'more', NULL)"] * 3,
        properties=(
            "'delta.checkpointInterval' = '2', 'delta.checkpoint.writeStatsAsStruct' = 'true', "
            "'delta.checkpoint.writeStatsAsJson' = 'false'"
        ),
    ),
    "a log that begins with a checkpoint": begins_with_checkpoint,
    "files for Iceberg": made(
        DELETE,
        properties="'delta.enableIcebergCompatV1' = 'true', 'delta.columnMapping.mode' = 'name'",
        columns="(a BIGINT, b STRING)",
        rows="SELECT id, concat('v', id) FROM range(0, 20)",
    ),
}
REFUSED: dict[str, tuple[Make, str]] = {
    "variants": (
        made(columns="(a BIGINT, v VARIANT)", rows="SELECT id, parse_json('{\"x\": 1}') FROM range(0, 3)"),
        "variantType",
    ),
    "wider types": (
        made(
            "ALTER TABLE {} ALTER COLUMN n TYPE INT",
            "INSERT INTO {} VALUES (100, 70000)",
            properties="'delta.enableTypeWidening' = 'true'",
            columns="(a BIGINT, n SMALLINT)",
            rows="SELECT id, CAST(id AS SMALLINT) FROM range(0, 3)",
        ),
        "typeWidening",
    ),
}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return get_session(str(tmp_path_factory.mktemp("lake")))


@pytest.mark.parametrize("name", READ)
def test_the_rows_are_those_that_spark_reads(
    name: str, spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    READ[name](spark, str(tmp_path / "foreign"))
    expected = spark.read.format("delta").load(str(tmp_path / "foreign"))
    moments = {field.name for field in expected.schema if field.dataType.typeName() == "timestamp"}
    rows = [plain(row.asDict(recursive=True), moments) for row in expected.collect()]
    wanted = sorted(json.dumps(row, sort_keys=True) for row in rows)
    assert main.main(["query", str(tmp_path), "select 1 as a from nothing"]) == 64
    capsys.readouterr()
    assert main.main(["query", str(tmp_path), 'select * from "foreign"', "--format", "jsonl"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert sorted(json.dumps(json.loads(line), sort_keys=True) for line in out.splitlines()) == wanted
    assert (len(wanted) == 0) is (name == "no rows")


def plain(row: dict[str, Any], moments: Collection[str]) -> dict[str, Any]:
    """A row of Spark's as `query` writes it. `moments` are the columns with times that have a zone, here UTC."""
    return {name: as_json(value, name in moments) for name, value in row.items()}


def as_json(value: Any, is_moment: bool) -> Any:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return str(value)
    return f"{value.isoformat()}{'Z' * is_moment}" if isinstance(value, date) else value


@pytest.mark.parametrize("name", REFUSED)
def test_a_feature_that_is_not_read_is_named_before_the_first_row(
    name: str, spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, feature = REFUSED[name]
    make(spark, str(tmp_path / "sales"))
    assert main.main(["query", str(tmp_path), "select * from sales", "--format", "jsonl"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert f"it uses {feature}" in err
    assert err.count("\n") == 1


def test_tables_of_one_name_have_the_name_of_their_path(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("Jan", "feb"):
        made()(spark, str(tmp_path / folder / "delta"))
    sql = "select (select count(*) from jan_delta) as jan, (select count(*) from feb_delta) as feb"
    assert main.main(["query", str(tmp_path), sql, "--format", "jsonl"]) == 0
    assert json.loads(capsys.readouterr().out) == {"jan": 20, "feb": 20}
    assert main.main(["query", str(tmp_path / "Jan" / "delta"), "select max(a) from delta", "--format", "csv"]) == 0
    assert capsys.readouterr().out.split() == ["max(a)", "19"]
