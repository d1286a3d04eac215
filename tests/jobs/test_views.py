"""`views`: DuckDB and Spark read the tables of a lake without Delta and without us, with the rows that were written."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable

from logcore.cli import main
from spark_jobs.machine.session import get_session
from tests.jobs.decoded_lake import Decoded

SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "who": {"type": "object", "properties": {"name": {"type": "string"}}}},
}
POLICIES = 'topics:\n  "*":\n    decode.key: string\n    decode.value: json\n    decode.value.schema: order.json\n'
FIRST = ((b"a", b'{"id": 1, "who": {"name": "Ann"}}'), (b"b", b'{"id": 2}'))
SECOND = ((b"a", None), (None, b"no json"))
WRITTEN = [(at, key, value) for at, (key, value) in enumerate((*FIRST, *SECOND))]
DECODED = [(0, "a", 1, "Ann", False), (1, "b", 2, None, False), (2, "a", None, None, True)]
OF_DECODED = "offset, key, value_id, value_who.name, is_tombstone"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Decoded:
    """Two data files in each table of the topic; the folder's name is a pattern for both engines."""
    root = tmp_path_factory.mktemp("views") / "it's a {lake},[x]*"
    root.mkdir()
    made = Decoded(root, POLICIES)
    (root / "order.json").write_text(json.dumps(SCHEMA))
    for rows in (FIRST, SECOND):
        made.append(*rows)
        made.decode()
    return made


def written(lake: Decoded, file: Path) -> duckdb.DuckDBPyConnection:
    assert main.main(["views", lake.path, "-o", str(file)]) == 0
    return duckdb.connect(str(file), read_only=True)


def test_duckdb_reads_records_and_flattened_values(lake: Decoded, tmp_path: Path) -> None:
    with written(lake, tmp_path / "lake.duckdb") as plain:
        rows = plain.execute("select \"offset\", key, value from records where topic = 'orders' order by 1").fetchall()
        assert rows == WRITTEN
        question = f"select {OF_DECODED.replace('offset', chr(34) + 'offset' + chr(34))} from decoded_orders order by 1"
        assert plain.execute(question).fetchall() == DECODED
        bad = plain.execute('select "offset", reason, value from undecoded_orders').fetchall()
        assert bad == [(3, "SYNTAX", b"no json")]


def test_the_file_lists_its_views_and_their_versions(lake: Decoded, tmp_path: Path) -> None:
    with written(lake, tmp_path / "lake.duckdb") as plain:
        listed = plain.execute("select view_name, table_name, version from loglake_views").fetchall()
        found = plain.execute("select view_name from duckdb_views() where not internal").fetchall()
    assert {name for (name,) in found} == {name for name, _, _ in listed}
    versions = {table: version for _, table, version in listed}
    assert versions["decoded/orders"] == lake.table().version()
    assert versions["records"] == DeltaTable(str(lake.lake.path / "tables" / "records")).version()


def test_running_it_again_shows_newer_rows_and_leaves_no_other_file(tmp_path: Path) -> None:
    lake = Decoded(tmp_path)
    lake.append((b"a", b"one"))
    out = tmp_path / "out"
    out.mkdir()
    with written(lake, out / "lake.duckdb") as before:
        lake.append((b"b", b"two"))
        assert before.execute("select count(*) from records").fetchall() == [(1,)]
    with written(lake, out / "lake.duckdb") as after:
        assert after.execute("select count(*) from records").fetchall() == [(2,)]
    assert [path.name for path in out.iterdir()] == ["lake.duckdb"]


def test_a_file_of_somebody_else_and_a_place_in_the_lake_are_refused(
    lake: Decoded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    assert main.main(["views", lake.path, "-o", str(other)]) == 64
    assert other.read_text() == "mine"
    assert main.main(["views", lake.path, "-o", str(Path(lake.path) / "lake.duckdb")]) == 64
    assert "Name a file outside of lakes and sources" in capsys.readouterr().err
    assert main.main(["views", lake.path, "-o", str(tmp_path / "nowhere" / "lake.duckdb")]) == 64
    assert capsys.readouterr().err == f"error: {tmp_path}/nowhere is no folder: the views can't be written there.\n"


@pytest.mark.parametrize(
    ("own", "name", "undo"),
    [
        ("CREATE TABLE mine AS SELECT 1 AS a", "mine", "DROP TABLE mine"),
        ("CREATE VIEW mine AS SELECT * FROM records", "mine", "DROP VIEW mine"),
        ("CREATE MACRO mine(x) AS x + 1", "mine", "DROP MACRO mine"),
        ("CREATE MACRO mine() AS TABLE SELECT 1", "mine", "DROP MACRO TABLE mine"),
        ("CREATE TYPE mine AS ENUM ('a')", "mine", "DROP TYPE mine"),
        ("CREATE SEQUENCE mine", "mine", "DROP SEQUENCE mine"),
        ("CREATE SCHEMA mine", "mine", "DROP SCHEMA mine"),
        ("CREATE SCHEMA mine; CREATE VIEW mine.records AS SELECT 1", "records", "DROP SCHEMA mine CASCADE"),
        ("CREATE SCHEMA mine; CREATE MACRO mine.header(x) AS x", "header", "DROP SCHEMA mine CASCADE"),
        ("CREATE SCHEMA mine; CREATE TABLE mine.loglake_views(a INT)", "loglake_views", "DROP SCHEMA mine CASCADE"),
        ("CREATE OR REPLACE VIEW records AS SELECT 1 AS mine", "records", "DROP VIEW records"),
    ],
)
def test_what_a_user_added_to_the_file_is_not_lost(
    lake: Decoded, tmp_path: Path, capsys: pytest.CaptureFixture[str], own: str, name: str, undo: str
) -> None:
    path = str(tmp_path / "lake.duckdb")
    assert main.main(["views", lake.path, "-o", path]) == 0
    with duckdb.connect(path) as connection:
        connection.execute(own)
    assert main.main(["views", lake.path, "-o", path]) == 64
    said = capsys.readouterr().err.partition("would be lost: ")[2]
    assert '"mine"' in said or f'"{name}"' in said
    with duckdb.connect(path) as connection:
        connection.execute(undo)  # it is there
    assert main.main(["views", lake.path, "-o", path]) == 0


@pytest.mark.long
@pytest.mark.spark
def test_spark_reads_the_same_rows_from_the_statements(lake: Decoded, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["views", lake.path, "--spark-sql"]) == 0
    statements = capsys.readouterr().out.split(";\n")
    spark = get_session()
    for statement in statements:
        if statement:
            spark.sql(statement)
    records = spark.sql("select offset, key, value from records where topic = 'orders' order by 1").collect()
    assert [(row[0], *(None if each is None else bytes(each) for each in row[1:])) for row in records] == WRITTEN
    decoded = spark.sql(f"select {OF_DECODED} from decoded_orders order by 1").collect()
    assert [tuple(row) for row in decoded] == DECODED
    listed = {row.table_name: row.version for row in spark.sql("select * from loglake_views").collect()}
    assert listed["decoded/orders"] == lake.table().version()
