"""A table that cannot be a view is said with the reason. All other views of the lake have their rows."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from deltalake import TableFeatures

from logcore.cli import main
from tests.jobs.decoded_lake import Decoded

ROWS = ((b"a", b"one"), (b"b", b"two"))
COUNT = "select count(*) as n from records"
WAY_OUT = "loglake decode {} --replace orders"


def log_of(lake: Decoded, table: str) -> Path:
    return lake.lake.path / "tables" / table / "_delta_log"


def empty_table_of(lake: Decoded, field: str, *columns: str) -> None:
    """Put a decoded table without rows there, with a field of `value` and more columns, named as given."""
    log = log_of(lake, "decoded/orders")
    commit = log / f"{0:020d}.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            schema = json.loads(line["metaData"]["schemaString"])
            (value,) = (field for field in schema["fields"] if field["name"] == "value")
            value["type"] = {"type": "struct", "fields": [field_named(field)]}
            schema["fields"] += [field_named(name) for name in columns]
            line["metaData"]["schemaString"] = json.dumps(schema)
    for later in log.glob("*.json"):
        later.unlink()
    commit.write_text("\n".join(json.dumps(line) for line in lines if "add" not in line))


def field_named(name: str) -> dict[str, object]:
    return {"name": name, "type": "string", "nullable": True, "metadata": {}}


def a_column_without_a_name(lake: Decoded) -> None:
    empty_table_of(lake, "id", "")


def a_field_with_nul(lake: Decoded) -> None:
    empty_table_of(lake, "a\0b")


def a_log_that_is_no_json(lake: Decoded) -> None:
    for commit in log_of(lake, "decoded/orders").glob("*.json"):
        commit.write_bytes(b"no json")


def a_column_twice(lake: Decoded) -> None:
    for commit in log_of(lake, "decoded/orders").glob("*0.json"):
        commit.write_text(commit.read_text().replace('\\"is_tombstone\\"', '\\"OFFSET\\"'))


def the_feature_of_deletion_vectors(lake: Decoded) -> None:
    lake.table().alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)


def renamed_columns(lake: Decoded) -> None:
    """As Spark enables column mapping without table features."""
    log = log_of(lake, "decoded/orders")
    (created,) = (line["metaData"] for line in map(json.loads, (log / f"{0:020d}.json").open()) if "metaData" in line)
    created["configuration"]["delta.columnMapping.mode"] = "name"
    actions = [{"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, {"metaData": created}]
    (log / f"{lake.table().version() + 1:020d}.json").write_text("\n".join(map(json.dumps, actions)))


HARMS: tuple[Callable[[Decoded], None], ...] = (
    a_column_without_a_name,
    a_field_with_nul,
    a_log_that_is_no_json,
    a_column_twice,
    the_feature_of_deletion_vectors,
    renamed_columns,
)


@pytest.fixture
def lake(tmp_path: Path) -> Decoded:
    made = Decoded(tmp_path)
    made.append(*ROWS)
    made.decode()
    return made


UNREAD = (a_field_with_nul, a_log_that_is_no_json, a_column_twice, renamed_columns)
"""Of these, what `loglake query` does not read either."""


@pytest.fixture(params=UNREAD, ids=lambda harm: harm.__name__)
def unread(request: pytest.FixtureRequest, lake: Decoded) -> Decoded:
    request.param(lake)
    return lake


@pytest.fixture(params=HARMS, ids=lambda harm: harm.__name__)
def harmed(request: pytest.FixtureRequest, lake: Decoded) -> Decoded:
    request.param(lake)
    return lake


def ask(lake: Decoded, *arguments: str) -> int:
    return main.main(["query", lake.path, *arguments])


def test_a_query_that_names_the_view_has_the_reason_as_its_error(
    unread: Decoded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(unread, 'select "offset" from Decoded_orders') == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: Table decoded/orders: ")
    assert WAY_OUT.format(unread.path) in err
    assert err.count("\n") == 1


def test_a_query_of_other_views_has_its_rows_and_no_warning(
    harmed: Decoded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(harmed, COUNT, "--format", "jsonl") == 0
    assert capsys.readouterr() == ('{"n":2}\n', "")


def test_the_list_of_views_has_all_others_and_a_warning(
    unread: Decoded, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert ask(unread) == 3
    out, err = capsys.readouterr()
    names = [line.split()[0] for line in out.splitlines()]
    assert {"records", "logs", "segments", "undecoded_orders"} <= set(names)
    assert "decoded_orders" not in names
    assert err.startswith("warning: There is no view decoded_orders. Table decoded/orders: ")
    assert WAY_OUT.format(unread.path) in err
    assert err.count("\n") == 1
    assert ask(unread, "show tables", "--format", "jsonl") == 0
    out, again = capsys.readouterr()
    assert {json.loads(line)["name"] for line in out.splitlines()} == set(names)
    assert again == err


def test_a_file_of_views_has_all_others_and_the_reason_as_the_error_of_the_view(
    harmed: Decoded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "lake.duckdb"
    assert main.main(["register", harmed.path, "--in", "duckdb", "-o", str(file)]) == 3
    assert capsys.readouterr().err.startswith("warning: The view decoded_orders has no rows. Table decoded/orders: ")
    with duckdb.connect(str(file), read_only=True) as plain:
        assert plain.execute(COUNT).fetchall() == [(2,)]
        assert plain.execute("select count(*) from undecoded_orders").fetchall() == [(0,)]
        with pytest.raises(duckdb.Error, match=r"Table decoded/orders: .*--replace orders"):
            plain.execute("select count(*) from decoded_orders").fetchall()
        problems = plain.execute("select view_name from loglake_views where problem is not null").fetchall()
    assert problems == [("decoded_orders",)]


def test_a_field_without_a_name_is_there(lake: Decoded, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty_table_of(lake, "")
    assert ask(lake, "select count(value) as n from decoded_orders", "--format", "jsonl") == 0
    assert capsys.readouterr() == ('{"n":0}\n', "")
    file = tmp_path / "lake.duckdb"
    assert main.main(["register", lake.path, "--in", "duckdb", "-o", str(file)]) == 0
    with duckdb.connect(str(file), read_only=True) as plain:
        assert plain.execute("select count(value) from decoded_orders").fetchall() == [(0,)]


def test_a_table_that_cannot_be_read_leaves_the_others_in_the_statements_for_spark(
    lake: Decoded, capsys: pytest.CaptureFixture[str]
) -> None:
    a_log_that_is_no_json(lake)
    assert main.main(["register", lake.path, "--in", "spark"]) == 3
    out, err = capsys.readouterr()
    assert err.startswith("warning: The table decoded/orders is left out. Table decoded/orders: ")
    assert WAY_OUT.format(lake.path) in err
    assert "CREATE TABLE IF NOT EXISTS `records` USING delta LOCATION '" in out
    assert "`decoded_orders`" not in out


@pytest.mark.parametrize("harm", ["cut", "garbage", "lost"])
def test_a_harmed_file_of_records_leaves_the_other_views_of_a_file(
    harm: str, lake: Decoded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (lake.lake.path / "tables" / "records").rglob("*.parquet"):
        content = file.read_bytes()
        file.unlink()
        if harm != "lost":
            file.write_bytes(content[: len(content) // 2] if harm == "cut" else b"x" * len(content))
    out = tmp_path / "lake.duckdb"
    assert main.main(["register", lake.path, "--in", "duckdb", "-o", str(out)]) == 3
    assert f"--lake {lake.path} --replace" in capsys.readouterr().err
    with duckdb.connect(str(out), read_only=True) as plain:
        assert plain.execute('select key, value from decoded_orders order by "offset"').fetchall() == [
            ("a", "one"),
            ("b", "two"),
        ]
        with pytest.raises(duckdb.Error, match=r"Table records: .*--replace"):
            plain.execute("select sum(\"offset\") from records where topic = 'orders'").fetchall()


def test_a_lost_file_of_a_decoded_table_is_named(
    lake: Decoded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file,) = (lake.lake.path / "tables" / "decoded" / "orders").glob("*.parquet")
    file.unlink()
    assert main.main(["register", lake.path, "--in", "duckdb", "-o", str(tmp_path / "lake.duckdb")]) == 3
    said = capsys.readouterr().err
    assert f"Table decoded/orders: {file} can't be read" in said
    assert f"Remove its directory, then: `{WAY_OUT.format(lake.path)}" in said


def test_a_harmed_table_of_logs_leaves_the_other_views(
    lake: Decoded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for commit in log_of(lake, "logs").glob("*.json"):
        commit.write_bytes(b"no json")
    assert ask(lake, "select key from decoded_orders order by 1", "--format", "jsonl") == 0
    assert capsys.readouterr().out == '{"key":"a"}\n{"key":"b"}\n'
    assert ask(lake, "select * from logs") == 3
    assert "Table logs: " in capsys.readouterr().err
    file = tmp_path / "lake.duckdb"
    assert main.main(["register", lake.path, "--in", "duckdb", "-o", str(file)]) == 3
    with duckdb.connect(str(file), read_only=True) as plain:
        assert plain.execute("select count(*) from decoded_orders").fetchall() == [(2,)]
