"""`register`: DuckDB, Spark and Unity Catalog have the tables of a lake by name, with the rows that were written."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

import duckdb
import pytest
from deltalake import DeltaTable

from logcore.cli import main
from spark_jobs.engine.session import get_session
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
OF_DECODED = "offset, key, value.id, value.who.name, is_tombstone"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Decoded:
    """Two data files in each table of the topic; the folder's name is a pattern for both engines."""
    root = tmp_path_factory.mktemp("register") / "it's a {lake},[x]*"
    root.mkdir()
    made = Decoded(root, POLICIES)
    (root / "order.json").write_text(json.dumps(SCHEMA))
    for rows in (FIRST, SECOND):
        made.append(*rows)
        made.decode()
    return made


def written(lake: Decoded, file: Path) -> duckdb.DuckDBPyConnection:
    assert main.main(["register", lake.path, "--in", "duckdb", "-o", str(file)]) == 0
    return duckdb.connect(str(file), read_only=True)


def test_duckdb_reads_records_and_fields_of_values(lake: Decoded, tmp_path: Path) -> None:
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
    assert main.main(["register", lake.path, "--in", "duckdb", "-o", str(other)]) == 64
    assert other.read_text() == "mine"
    assert main.main(["register", lake.path, "--in", "duckdb", "-o", str(Path(lake.path) / "lake.duckdb")]) == 64
    assert "Name a file outside of lakes and sources" in capsys.readouterr().err
    assert main.main(["register", lake.path, "--in", "duckdb", "-o", str(tmp_path / "nowhere" / "lake.duckdb")]) == 64
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
    assert main.main(["register", lake.path, "--in", "duckdb", "-o", path]) == 0
    with duckdb.connect(path) as connection:
        connection.execute(own)
    assert main.main(["register", lake.path, "--in", "duckdb", "-o", path]) == 64
    said = capsys.readouterr().err.partition("would be lost: ")[2]
    assert '"mine"' in said or f'"{name}"' in said
    with duckdb.connect(path) as connection:
        connection.execute(undo)  # it is there
    assert main.main(["register", lake.path, "--in", "duckdb", "-o", path]) == 0


@pytest.mark.long
@pytest.mark.spark
def test_spark_has_tables_that_show_rows_of_later_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "order.json").write_text(json.dumps(SCHEMA))
    lake = Decoded(tmp_path, POLICIES)
    lake.append(*FIRST)
    lake.decode()
    assert main.main(["register", lake.path, "--in", "spark", "--schema", "of_lake"]) == 0
    spark: Any = get_session(lake.path)
    for statement in 2 * capsys.readouterr().out.split(";\n"):  # the second time changes nothing
        if statement:
            spark.sql(statement)
    try:
        assert spark.sql("select count(*) as n from of_lake.records").first().n == len(FIRST)
        lake.append(*SECOND)
        lake.decode()
        records = spark.sql("select offset, key, value from of_lake.records order by 1").collect()
        assert [(row[0], *(None if each is None else bytes(each) for each in row[1:])) for row in records] == WRITTEN
        decoded = spark.sql(f"select {OF_DECODED} from of_lake.decoded_orders order by 1").collect()
        assert [tuple(row) for row in decoded] == DECODED
    finally:
        spark.sql("drop schema of_lake cascade")
    assert lake.table().version() >= 0  # a table that is dropped from the catalog stays where it is


class Server(BaseHTTPRequestHandler):
    """The two calls of Unity Catalog that are needed, by its API's description."""

    tables: ClassVar[dict[str, dict[str, Any]]] = {}
    seen: ClassVar[list[str | None]] = []
    broken: ClassVar[tuple[int, bytes] | None] = None

    def do_GET(self) -> None:
        found = self.tables.get(self.path.removeprefix("/api/2.1/unity-catalog/tables/"))
        self.answer(200 if found else 404, found or {"error_code": "NOT_FOUND", "message": "no such table"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body["schema_name"] != "default":
            return self.answer(404, {"error_code": "NOT_FOUND", "message": "no such schema"})
        self.tables[f"{body['catalog_name']}.{body['schema_name']}.{body['name']}"] = body
        return self.answer(200, body)

    def answer(self, code: int, body: dict[str, Any]) -> None:
        self.seen.append(self.headers["Authorization"])
        content = json.dumps(body).encode()
        if self.broken is not None:
            code, content = self.broken
        self.send_response(code)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def catalog() -> Iterator[str]:
    Server.tables, Server.seen, Server.broken = {}, [], None
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def in_unity(lake: Decoded, url: str, *options: str) -> int:
    return main.main(["register", lake.path, "--in", "unity", "--url", url, *options])


def test_unity_catalog_gets_external_tables_with_their_columns(
    lake: Decoded, catalog: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNITY_CATALOG_TOKEN", "secret-of-a-test")
    assert in_unity(lake, catalog) == 0
    assert "decoded_orders: registered" in capsys.readouterr().out
    assert set(Server.seen) == {"Bearer secret-of-a-test"}
    made = Server.tables["unity.default.decoded_orders"]
    assert (made["table_type"], made["data_source_format"]) == ("EXTERNAL", "DELTA")
    assert DeltaTable(unquote(made["storage_location"].removeprefix("file://"))).version() == lake.table().version()
    columns = {each["name"]: each for each in made["columns"]}
    assert [each["position"] for each in made["columns"]] == list(range(len(columns)))
    assert (columns["offset"]["type_text"], columns["offset"]["type_name"]) == ("bigint", "LONG")
    assert columns["value"]["type_text"] == "struct<id:bigint,who:struct<name:string>>"
    assert json.loads(columns["value"]["type_json"])["type"]["type"] == "struct"
    assert in_unity(lake, catalog) == 0
    assert "decoded_orders: already registered" in capsys.readouterr().out


def test_a_table_of_another_place_is_not_replaced(
    lake: Decoded, catalog: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Server.tables["unity.default.records"] = {"storage_location": "s3://elsewhere/records"}
    assert in_unity(lake, catalog) == 3
    assert "unity.default.records exists at s3://elsewhere/records" in capsys.readouterr().err
    assert Server.tables["unity.default.records"] == {"storage_location": "s3://elsewhere/records"}


def test_a_schema_that_is_not_there_is_named(lake: Decoded, catalog: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert in_unity(lake, catalog, "--schema", "nowhere") == 3
    assert "has no schema unity.nowhere" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ((409, b'{"message": "it changed"}'), "409 it changed"),
        ((500, b"<html>"), "500 without a reason"),
        ((200, b"<html>"), "does not answer in JSON"),
        ((200, b"[]"), "another form of JSON"),
    ],
    ids=["conflict", "failure", "no JSON", "a list"],
)
def test_a_catalog_that_fails_is_one_line(
    lake: Decoded, catalog: str, capsys: pytest.CaptureFixture[str], broken: tuple[int, bytes], said: str
) -> None:
    Server.broken = broken
    assert in_unity(lake, catalog) == 3
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_a_catalog_that_is_not_there_is_one_line(lake: Decoded, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert in_unity(lake, f"http://127.0.0.1:{taken.getsockname()[1]}") == 3
    err = capsys.readouterr().err
    assert "does not answer" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "options",
    [
        ("--in", "duckdb"),
        ("--in", "unity"),
        ("--in", "unity", "--url", "file:///etc/passwd"),
        ("--in", "spark", "-o", "file"),
        ("--in", "spark", "--url", "http://localhost"),
        ("--in", "duckdb", "-o", "file", "--schema", "a"),
        ("--in", "trino"),
        (),
    ],
    ids=" ".join,
)
def test_options_that_contradict_are_wrong_usage(lake: Decoded, options: tuple[str, ...]) -> None:
    assert main.main(["register", lake.path, *options]) == 64
